import { CachedError, describeSetting } from "../base/errors.js";
import { checkOptionNames, type Meanings } from "../base/option-names.js";
import { type Path, parsePath } from "../keys/path.js";

/** Returns an option that is true, false or an object of options; undefined for false. Throws `CACHED_OPTION_INVALID`. */
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
  /** How long a response is fresh at most, in seconds, whatever its parts and hints say. Default: 86,400, one day. */
  readonly maxAge?: number | undefined;
  /**
   * How long a stale response is served after that, in seconds, while one request executes the operation again. Never
   * longer than the parts of the response are served stale. Default: 0.
   */
  readonly staleWhileRevalidate?: number | undefined;
  /** How long after that it is served, in seconds, in place of one with errors of a source in trouble. Default: 0. */
  readonly staleIfError?: number | undefined;
  /**
   * What responses depend on besides the operation, its variables and what the keys of cached fields contain, as paths
   * such as `$context.locale`. Default: nothing.
   */
  readonly key?: readonly string[] | undefined;
  /** The names of the `extensions` of a response that are stored with it. Default: none. */
  readonly extensions?: readonly string[] | undefined;
}

/** The options with all defaults. Durations are milliseconds. */
export interface ResolvedResponses {
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
  session: "`identify` of createCache",
  sessionid: "`identify` of createCache",
  extracachekeydata: "`key`, with paths such as $context.locale",
  generatecachekey: "`key`, with paths such as $context.locale",
  shouldreadfromcache: '`cache.override(context, "REFRESH")`',
  shouldwritetocache: '`cache.override(context, "BYPASS")`',
  enabled: '`cache.override(context, "BYPASS")`',
  swr: "`staleWhileRevalidate`",
};

/** Throws `CACHED_OPTION_INVALID` for a setting at `place`. */
export function rejectOption(place: string, expected: string, got: unknown): never {
  throw new CachedError("CACHED_OPTION_INVALID", `${place}: expected ${expected}, got ${describeSetting(got)}`);
}

/** Returns the option `responses` of `caller`; undefined if responses are not cached. Throws `CACHED_OPTION_INVALID`. */
export function resolveResponses(given: unknown, caller: string): ResolvedResponses | undefined {
  const place = `${caller}: \`responses\``;
  const names = ["maxAge", "staleWhileRevalidate", "staleIfError", "key", "extensions"] as const;
  const options = switchedOptions<ResponsesOptions>(given, place, names, MEANINGS);
  if (options === undefined) return undefined;
  const milliseconds = (name: "maxAge" | "staleWhileRevalidate" | "staleIfError", seconds: number): number => {
    const value = options[name] ?? seconds;
    const least = name === "maxAge" ? 1 : 0;
    return Number.isInteger(value) && value >= least
      ? value * 1000
      : rejectOption(`${place}.\`${name}\``, `an integer of at least ${least} (seconds)`, value);
  };
  const strings = (name: "key" | "extensions", expected: string): readonly string[] => {
    const list: unknown = options[name] === undefined ? [] : options[name];
    return Array.isArray(list) && list.every((one) => typeof one === "string" && one !== "")
      ? list
      : rejectOption(`${place}.\`${name}\``, `an array of ${expected}`, list);
  };
  return {
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
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `${place}: expected paths into the context such as $context.locale, got ${JSON.stringify(text)}; variables are part of the key anyway`,
  );
}
