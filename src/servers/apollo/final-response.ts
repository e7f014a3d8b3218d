/** What is decided about a response of Apollo Server when no plugin can change it any more. */
import type {
  BaseContext,
  GraphQLRequestContextWillSendResponse,
  GraphQLResponse,
  HTTPGraphQLRequest,
} from "@apollo/server";
import type { ExecutedResponse } from "../../core/responses/response-execution.js";
import { hasData, type StoredResponse, type StoredResult } from "../../core/responses/stored-response.js";
import { type Answered, decideLast, decideWhenSent, type ResponseHeaders } from "../edge/final-headers.js";
import { isUnreadData, setNull } from "./stringify-result.js";

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

export type DecideEtag = (response: SentResponse, headers: ResponseHeaders) => void;

/** Sends the tag to those who get what is stored, unchanged. `isKnown`: the client has it. */
export function storedEtag(stored: StoredResponse, result: StoredResult, isKnown: boolean): DecideEtag {
  const { data } = result;
  const names = Object.keys(result);
  return ({ body, http }, headers) => {
    if (body.kind !== "single" || hasStatus(http)) return;
    const { singleResult } = body;
    if (Object.keys(singleResult).some((name) => !names.includes(name))) return;
    const isStored = singleResult.data === data && isUnreadData(data);
    if (!isStored && !hasData(singleResult, stored.dataText)) return;
    headers.set("ETag", stored.etag);
    if (!isKnown) return;
    http.status = 304;
    // Node.js sends no body with it.
    setNull(data, true);
  };
}

interface Decided {
  readonly etag: DecideEtag | undefined;
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
    // Later: then the data may be sent as null.
    if (isLast) etag?.(response, own);
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
