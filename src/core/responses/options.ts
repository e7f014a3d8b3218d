import { describeSetting, optionInvalid } from "../base/errors.js";
import { checkOptionNames, type Meanings } from "../base/option-names.js";
import { type Path, parsePath } from "../keys/path.js";
import type { CacheParts } from "../parts.js";

/** Returns a boolean or object option; undefined for false. Throws `CACHED_OPTION_INVALID`. */
export function switchedOptions<Options extends object>(
  given: unknown,
  place: string,
  names: readonly (string & keyof Options)[],
  meanings?: Meanings,
): Options | undefined {
  if (given === undefined || given === false) return undefined;
  if (given !== true && (typeof given !== "object" || given === null || Array.isArray(given)))
    rejectOption(place, "true, false or an object of options", given);
  const options = given === true ? {} : given;
  checkOptionNames(options, place, names, meanings);
  return options as Options;
}

/** Options of the response cache. */
export interface ResponsesOptions {
  /**
   * Who shares a response. `PUBLIC`: all callers, so that a response whose execution reads a
   * property of the context that is neither part of its key nor one of `privacy.sharedContextKeys`
   * is not stored. `PRIVATE`: each identity has its own, unless every field in it says that it is
   * PUBLIC. A response with a PRIVATE part is PRIVATE in any case. Default: the option
   * `defaultScope` of createCache; without that, it is required.
   */
  readonly scope?: "PUBLIC" | "PRIVATE" | undefined;
  /**
   * With the scope PRIVATE: `PUBLIC` says that all callers without an identity get the same.
   * Default: they get no stored responses.
   */
  readonly guests?: "PUBLIC" | undefined;
  /**
   * How long a response is fresh at most, in seconds, whatever its parts and hints say. Default:
   * 86,400, one day.
   */
  readonly maxAge?: number | undefined;
  /**
   * How long a stale response is served after that, in seconds, while one request executes the
   * operation again. Never longer than the parts of the response are served stale. Default: 0.
   */
  readonly staleWhileRevalidate?: number | undefined;
  /**
   * How long after that it is served, in seconds, in place of one with errors of a source in
   * trouble. Default: 0.
   */
  readonly staleIfError?: number | undefined;
  /**
   * What responses depend on besides the operation, its variables and what the keys of cached
   * fields contain, as paths such as `$context.locale`. Default: nothing.
   */
  readonly key?: readonly string[] | undefined;
  /**
   * Returns tags of a response, besides those of what is read. Called when one is stored; if it
   * fails, the response is not stored. Default: none.
   */
  readonly tags?: ((request: ResponseRequest) => readonly string[]) | undefined;
  /**
   * How many operations have stored responses at most, in each process. An operation is stored when
   * it is asked for again. Default: 1,000.
   */
  readonly maxOperations?: number | undefined;
  /** The names of the `extensions` of a response that are stored with it. Default: none. */
  readonly extensions?: readonly string[] | undefined;
}

/** What a response answers. */
export interface ResponseRequest {
  readonly operationName: string | null | undefined;
  /** As the client has sent them. */
  readonly variables: Readonly<Record<string, unknown>>;
  readonly context: unknown;
}

export interface ResolvedResponses {
  readonly scope: "PUBLIC" | "PRIVATE";
  readonly guests: "PUBLIC" | undefined;
  readonly tags: ResponsesOptions["tags"];
  readonly maxOperations: number;
  readonly maxAgeMs: number;
  readonly staleWhileRevalidateMs: number;
  readonly staleIfErrorMs: number;
  readonly keyPaths: readonly Path[];
  readonly extensions: readonly string[];
}

/** What the response caches of Apollo, envelop and Mercurius call the options. */
const MEANINGS: Meanings = {
  ttl: "`maxAge`, in seconds",
  ttlpertype: "`@cacheControl(maxAge:)` on the type",
  ttlperschemacoordinate: "`@cacheControl(maxAge:)` on the field",
  session: '`scope: "PRIVATE"`, with `identify` of createCache',
  sessionid: '`scope: "PRIVATE"`, with `identify` of createCache',
  extracachekeydata: "`key`, with paths such as $context.locale",
  generatecachekey: "`key`, with paths such as $context.locale",
  shouldreadfromcache: '`cache.override(context, "REFRESH")`',
  shouldwritetocache: '`cache.override(context, "BYPASS")`',
  enabled: '`cache.override(context, "BYPASS")`',
  swr: "`staleWhileRevalidate`",
};

export function rejectOption(place: string, expected: string, got: unknown): never {
  throw optionInvalid(`${place}: expected ${expected}, got ${describeSetting(got)}`);
}

const NAMES = [
  "scope",
  "guests",
  "maxAge",
  "staleWhileRevalidate",
  "staleIfError",
  "key",
  "tags",
  "maxOperations",
  "extensions",
] as const;

/** Undefined if responses are not cached. Throws `CACHED_OPTION_INVALID`. */
export function resolveResponses(
  given: unknown,
  place: string,
  { defaults, identify }: Pick<CacheParts, "defaults" | "identify">,
): ResolvedResponses | undefined {
  const options = switchedOptions<ResponsesOptions>(given, place, NAMES, MEANINGS);
  if (options === undefined) return undefined;
  const { guests, tags, maxOperations = 1_000, scope = defaults.scope } = options;
  const reject = (name: keyof ResponsesOptions, expected: string, got: unknown): never =>
    rejectOption(`${place}.\`${name}\``, expected, got);
  if (scope !== "PUBLIC" && scope !== "PRIVATE")
    return reject(
      "scope",
      "PUBLIC if a response depends on nothing but the operation, its variables and `key`, or PRIVATE if on who asks",
      scope,
    );
  if (scope === "PRIVATE" && identify === undefined)
    reject("scope", "PUBLIC, or PRIVATE with createCache({ identify })", scope);
  if (guests !== undefined && (guests !== "PUBLIC" || scope !== "PRIVATE"))
    reject("guests", "PUBLIC or undefined, with the scope PRIVATE", guests);
  if (tags !== undefined && typeof tags !== "function")
    reject("tags", "a function of a request that returns an array of tags", tags);
  if (!Number.isInteger(maxOperations) || maxOperations < 1)
    reject("maxOperations", "an integer of at least 1", maxOperations);
  const milliseconds = (name: "maxAge" | "staleWhileRevalidate" | "staleIfError", seconds: number): number => {
    const value = options[name] ?? seconds;
    const least = name === "maxAge" ? 1 : 0;
    if (!Number.isInteger(value) || value < least) reject(name, `an integer of at least ${least} (seconds)`, value);
    return value * 1000;
  };
  const strings = (name: "key" | "extensions", expected: string): readonly string[] => {
    const list: unknown = options[name] === undefined ? [] : options[name];
    const isList = Array.isArray(list) && list.every((one) => typeof one === "string" && one !== "");
    return isList ? list : reject(name, `an array of ${expected}`, list);
  };
  return {
    scope,
    guests,
    tags,
    maxOperations,
    maxAgeMs: milliseconds("maxAge", 86_400),
    staleWhileRevalidateMs: milliseconds("staleWhileRevalidate", 0),
    staleIfErrorMs: milliseconds("staleIfError", 0),
    keyPaths: strings("key", "paths such as $context.locale").map((text) => contextPathOf(text, `${place}.\`key\``)),
    extensions: strings("extensions", "names of extensions"),
  };
}

/** Parses a path into the context. Throws `CACHED_OPTION_INVALID`. */
export function contextPathOf(text: string, place: string): Path {
  const path = parsePath(text);
  if (path !== undefined && path.root === "context" && path.steps.length > 0 && !path.steps.includes("[]")) return path;
  throw optionInvalid(
    `${place}: expected paths into the context such as $context.locale, got ${JSON.stringify(text)}; variables are part of the key anyway`,
  );
}
