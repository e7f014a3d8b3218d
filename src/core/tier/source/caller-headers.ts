import { types } from "node:util";
import { attempt } from "../../base/built-in.js";

/**
 * Returns what others get of an error that a load has thrown: the error itself, or a copy without
 * the headers that belong to the caller of the load, such as `set-cookie`. Null if it has such
 * headers and cannot be copied.
 */
export const errorForOthers = (error: unknown): { readonly error: unknown } | null =>
  attempt(() => ({ error: withoutCallerHeaders(error, 0) })) ?? null;

/** Where errors keep headers, or what has some: fetch, axios, got, Boom, GraphQL clients. */
const PLACES = ["headers", "rawHeaders", "response", "output", "extensions", "http", "originalError", "cause"] as const;
const MAX_DEPTH = 5;
const OF_CALLER =
  /^(?:set-)?cookie2?$|authori[sz]ation|authentication-info|(?:auth|access|refresh|session|[cx]srf)-?(?:token|id|key)|api-?key/i;

function withoutCallerHeaders(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return value;
  const changes: [string, unknown][] = [];
  for (const name of PLACES) {
    const part = (value as Readonly<Record<string, unknown>>)[name];
    const kept = /headers/i.test(name) ? sharedHeaders(part) : withoutCallerHeaders(part, depth + 1);
    if (kept === part) continue;
    // What a getter returns can be replaced, but a response of fetch works with its own state only.
    if (!Object.hasOwn(value, name)) throw new TypeError("expected headers in a property");
    changes.push([name, kept]);
  }
  if (changes.length === 0) return value;
  const copy = Object.create(Object.getPrototypeOf(value) as object, Object.getOwnPropertyDescriptors(value)) as object;
  for (const [name, part] of changes)
    Object.defineProperty(copy, name, { value: part, enumerable: true, configurable: true, writable: true });
  return copy;
}

/** Returns headers, in any form, without those of a caller; the same object if it has none. */
function sharedHeaders(headers: unknown): unknown {
  if (typeof headers !== "object" || headers === null) return headers;
  const isFlat = Array.isArray(headers) && typeof headers[0] === "string";
  const entries: readonly [string, unknown][] = isFlat
    ? headers.flatMap((name: string, at): [string, unknown][] => (at % 2 === 0 ? [[name, headers[at + 1]]] : []))
    : Symbol.iterator in headers
      ? [...(headers as Iterable<[string, unknown]>)]
      : Object.entries(headers);
  const kept = entries.filter(([name]) => !OF_CALLER.test(name));
  if (kept.length === entries.length) return headers;
  if (headers instanceof Headers) return new Headers(kept as [string, string][]);
  if (types.isMap(headers)) return new Map(kept);
  return isFlat ? kept.flat() : Array.isArray(headers) ? kept : Object.fromEntries(kept);
}
