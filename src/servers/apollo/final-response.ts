/** What is decided about a response of Apollo Server when no plugin can change it any more. */
import type {
  BaseContext,
  GraphQLRequestContextWillSendResponse,
  GraphQLResponse,
  HTTPGraphQLRequest,
} from "@apollo/server";
import type { ExecutedResponse } from "../../core/responses/response-execution.js";
import { isUnchanged, type StoredResponse } from "../../core/responses/stored-response.js";
import { type Answered, decideLast, decideWhenSent, type ResponseHeaders } from "../edge/final-headers.js";

export type SentResponse = GraphQLRequestContextWillSendResponse<BaseContext>["response"];

/** Apollo Server has headers by their names in lower case. */
export const headersOf = (
  headers: Pick<GraphQLResponse["http"]["headers"], "get" | "set" | "delete">,
): ResponseHeaders => ({
  get: (name) => headers.get(name.toLowerCase()),
  set: (name, value) => headers.set(name.toLowerCase(), value),
  delete: (name) => headers.delete(name.toLowerCase()),
});

export const hasStatus = ({ status }: { readonly status?: number | undefined }): boolean =>
  status !== undefined && status !== 200;

/**
 * Sends the entity tag of a stored response to those who get what is stored, and nothing that a
 * plugin has made for one caller.
 */
export class StoredEtag {
  /** Whether the client has what is sent. */
  isKnown = false;

  /** `isNamed`: whether the client has the stored response. */
  constructor(
    private readonly stored: StoredResponse,
    private readonly isNamed: boolean,
  ) {}

  /** Can be called again: what was decided before counts no longer. */
  decide({ body, http }: SentResponse, headers: ResponseHeaders): void {
    const { stored, isNamed } = this;
    if (this.isKnown) http.status = 200;
    const isStored = body.kind === "single" && !hasStatus(http) && isUnchanged(body.singleResult, stored);
    this.isKnown = isStored && isNamed;
    if (isStored) headers.set("ETag", stored.etag);
    else if (headers.get("ETag") === stored.etag) headers.delete("ETag");
    // Node.js sends no body with it.
    if (this.isKnown) http.status = 304;
  }
}

interface Decided {
  readonly etag: StoredEtag | undefined;
  /** Undefined: there is no CDN. */
  readonly edge:
    | { readonly context: NonNullable<Answered["context"]>; isChanged(sent: ExecutedResponse): boolean }
    | undefined;
}

/** Decides now, and again with each header that other plugins set, until Apollo Server is done. */
export function decideToTheEnd(
  response: SentResponse,
  { method, headers: asked }: HTTPGraphQLRequest,
  { etag, edge }: Decided,
): void {
  const { http } = response;
  const { headers } = http;
  const request = { method, accept: asked.get("accept") };
  const { get, set } = headers;
  const own = headersOf({
    get: (name) => get.call(headers, name),
    set: (name, value) => set.call(headers, name, value),
    delete: (name) => headers.delete(name),
  });
  const decide = (isLast: boolean): void => {
    const sent = isLast && response.body.kind === "single" ? response.body.singleResult : undefined;
    const isChanged = sent !== undefined && edge?.isChanged(sent) === true;
    if (isLast) etag?.decide(response, own);
    if (edge === undefined) return;
    decideLast(own, { ...request, status: http.status, isChanged, context: edge.context });
  };
  decide(false);
  // Those of a batch are shared.
  if (Object.hasOwn(headers, "set")) return;
  headers.set = (name, value) => {
    set.call(headers, name, value);
    decide(name === TYPE);
    return headers;
  };
  headers.get = (name) => {
    // Otherwise it is set.
    if (name === TYPE && headers.has(TYPE)) decide(true);
    return get.call(headers, name);
  };
  if (edge !== undefined) decideWhenSent(edge.context, request);
}

const TYPE = "content-type";
