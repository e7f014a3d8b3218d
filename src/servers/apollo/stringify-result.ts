import type { GraphQLResponse } from "@apollo/server";
import { asJob } from "../../core/base/clock.js";
import { getOrMake } from "../../core/base/multimap.js";
import {
  type StoredResponse,
  type StoredResult,
  stringifyWith,
  unreadResultOf,
} from "../../core/responses/stored-response.js";

/**
 * The option `stringifyResult` of `new ApolloServer`. Sends the stored text of a response that
 * `cachedPlugin` has served and that no plugin has read, without parsing it, and stringifies all
 * other results as Apollo Server does by default.
 */
export function stringifyResult(result: { readonly data?: unknown }): string {
  const text = SERVED.get(result.data as object)?.(result);
  return `${text ?? JSON.stringify(result)}\n`;
}

/**
 * By the data of a stored response, or what stands for it: returns a result with it as JSON, if
 * nobody has read it. Called by `stringifyResult`.
 */
const SERVED = new WeakMap<object, (result: object) => string | undefined>();

/** By `http`. */
const SENDING = new WeakMap<object, () => boolean>();

type Http = GraphQLResponse["http"];

/** `isKnown`: whether the client turned out to have it, so that no body is sent. */
export type ServedResults = (response: StoredResponse, http: Http, isKnown: () => boolean) => StoredResult;

/**
 * Returns what makes the results of stored responses that are sent over HTTP: their data is parsed
 * for a plugin that reads it, and for Apollo Server only if it has another stringifier.
 */
export function servedResults(): ServedResults {
  let isStringifierInUse = false;
  return (response, http, isKnown) => {
    const isSending = getOrMake(SENDING, http, () => watchSending(http));
    const unparsed = (): object | null | undefined => {
      if (!isSending()) return undefined;
      if (isKnown()) return null;
      if (isStringifierInUse) return instead;
      SERVED.set(response.data, () => {
        isStringifierInUse = true;
        return undefined;
      });
      return undefined;
    };
    const instead = { toJSON: () => response.data };
    SERVED.set(instead, (result) => stringifyWith(response.dataText, result));
    return unreadResultOf(response, unparsed);
  };
}

/**
 * Tells whether Apollo Server is about to stringify the result of a request. When all plugins are
 * done, it asks for the content type, copies `http` and reads the result, without a pause. The
 * requests of a batch have one `http`.
 */
function watchSending(http: Http): () => boolean {
  const { headers } = http;
  const { get } = headers;
  let step: "asked" | "copied" | undefined;
  const reach = (next: typeof step): undefined => {
    step = next;
    asJob(() => {
      step = undefined;
    });
  };
  headers.get = (name) => {
    if (name === "content-type") reach("asked");
    return get.call(headers, name);
  };
  // Read by whoever copies all properties.
  const noteCopy = (): undefined => (step === "asked" ? reach("copied") : undefined);
  Object.defineProperty(http, COPIED, { get: noteCopy, enumerable: true, configurable: true });
  return () => step === "copied";
}

const COPIED = Symbol("graphql-cached.copied");
