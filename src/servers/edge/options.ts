import type { CacheParts } from "../../core/parts.js";
import { contextPathOf, rejectOption, switchedOptions } from "../../core/responses/options.js";

/** Undefined if responses are not for CDNs. Throws `CACHED_OPTION_INVALID`. */
export function resolveEdge(
  given: unknown,
  caller: string,
  { identify }: Pick<CacheParts, "identify">,
): ResolvedEdge | undefined {
  const place = `${caller}: \`edge\``;
  const options = switchedOptions<EdgeOptions>(given, place, NAMES);
  if (options === undefined) return undefined;
  const reject = (name: keyof EdgeOptions, expected: string, got: unknown): never =>
    rejectOption(`${place}.\`${name}\``, expected, got);
  const integer = (name: "maxTagBytes" | "maxTags" | "clientMaxAge", fallback: number, least: number): number => {
    const value = options[name] ?? fallback;
    return Number.isInteger(value) && value >= least ? value : reject(name, `an integer of at least ${least}`, value);
  };
  const headers = (name: "identityHeader" | "contextHeaders" | "vary", value: unknown): readonly string[] =>
    Array.isArray(value) && value.every((one) => typeof one === "string" && HEADER.test(one))
      ? value
      : reject(name, "names of request headers", value);
  const { contextHeaders = {}, vary = [] } = options;
  const names = options.tagHeaders ?? (["Cache-Tag", "Surrogate-Key"] as const);
  const isKnown = (name: TagHeader): boolean => TAG_HEADERS.includes(name);
  if (!(Array.isArray(names) as boolean) || names.length === 0 || !names.every(isKnown))
    reject("tagHeaders", `some of ${TAG_HEADERS.join(", ")}`, names);
  const { identityHeader = identify === undefined ? undefined : "Authorization" } = options;
  if (typeof contextHeaders !== "object" || contextHeaders === null)
    reject("contextHeaders", "an object of paths and headers", contextHeaders);
  for (const path of Object.keys(contextHeaders)) contextPathOf(path, `${place}.\`contextHeaders\``);
  return {
    tagHeaders: names.map((name) => ({ name, separator: SEPARATORS[name] })),
    maxTagBytes: integer("maxTagBytes", 4_096, 1),
    maxTags: integer("maxTags", 1_000, 1),
    clientMaxAge: integer("clientMaxAge", 0, 0),
    contextPaths: new Set(Object.keys(contextHeaders)),
    vary: [
      ...new Set([
        "Accept",
        ...headers("identityHeader", identityHeader === undefined ? [] : [identityHeader]),
        ...headers("contextHeaders", Object.values(contextHeaders)),
        ...headers("vary", vary),
      ]),
    ],
  };
}

/** What separates the tags in each header that can have them. */
const SEPARATORS = { "Cache-Tag": ",", "Surrogate-Key": " ", "Edge-Cache-Tag": ",", xkey: " " } as const;

export const TAG_HEADERS = Object.keys(SEPARATORS) as readonly TagHeader[];

/**
 * A header that CDNs read tags from: `Cache-Tag` of Cloudflare, `Surrogate-Key` of Fastly,
 * `Edge-Cache-Tag` of Akamai, `xkey` of Varnish.
 */
export type TagHeader = keyof typeof SEPARATORS;

/** Options for responses that a CDN keeps. */
export interface EdgeOptions {
  /** The headers that name the tags of a response. Default: `Cache-Tag` and `Surrogate-Key`. */
  readonly tagHeaders?: readonly TagHeader[] | undefined;
  /** The most bytes of each of these headers. A response with more is `private`. Default: 4,096. */
  readonly maxTagBytes?: number | undefined;
  /** The most tags of a response. One with more is `private`. Default: 1,000. */
  readonly maxTags?: number | undefined;
  /** How long clients may keep a response, in seconds: nothing purges them. Default: 0. */
  readonly clientMaxAge?: number | undefined;
  /**
   * The request header that says who is asking. Part of `Vary`, so that those who are signed in do
   * not get the responses of others. Default: `Authorization` if the cache has `identify`,
   * otherwise none.
   */
  readonly identityHeader?: string | undefined;
  /**
   * The request header that decides a value of the context that is part of keys, such as `{
   * "$context.locale": "Accept-Language" }`. Responses with other such values are `private`.
   * Default: none.
   */
  readonly contextHeaders?: Readonly<Record<string, string>> | undefined;
  /** Further request headers for `Vary`, such as `Origin`. Default: none. */
  readonly vary?: readonly string[] | undefined;
}

export interface ResolvedEdge {
  readonly tagHeaders: readonly { readonly name: TagHeader; readonly separator: string }[];
  readonly maxTagBytes: number;
  readonly maxTags: number;
  readonly clientMaxAge: number;
  readonly contextPaths: ReadonlySet<string>;
  /** The request headers that decide what is sent, and who may keep it. */
  readonly vary: readonly string[];
}

const NAMES = [
  "tagHeaders",
  "maxTagBytes",
  "maxTags",
  "clientMaxAge",
  "identityHeader",
  "contextHeaders",
  "vary",
] as const;
const HEADER = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;
