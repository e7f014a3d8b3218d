import { CachedError, describeSetting } from "../base/errors.js";
import { checkOptionNames, type Meanings } from "../base/option-names.js";
import { type Path, parsePath } from "../keys/path.js";

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

const NAMES = ["maxAge", "staleWhileRevalidate", "staleIfError", "key", "extensions"];
const MAX_AGE_SECONDS = 86_400;
/** What the response caches of Apollo, envelop and Mercurius call them. */
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

/**
 * Returns the options of `caller`, which are true or an object; undefined if responses are not cached.
 * Throws `CACHED_OPTION_INVALID`.
 */
export function resolveResponses(given: unknown, caller: string): ResolvedResponses | undefined {
  if (given === undefined || given === false) return undefined;
  const place = `${caller}: \`responses\``;
  if (given !== true && (typeof given !== "object" || given === null || Array.isArray(given)))
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `${place}: expected true, false or an object of options, got ${describeSetting(given)}`,
    );
  const options: ResponsesOptions = given === true ? {} : (given as ResponsesOptions);
  checkOptionNames(options, place, NAMES, MEANINGS);
  const milliseconds = (name: "maxAge" | "staleWhileRevalidate" | "staleIfError", seconds: number): number => {
    const value = options[name] ?? seconds;
    if (typeof value === "number" && Number.isInteger(value) && value >= (name === "maxAge" ? 1 : 0))
      return value * 1000;
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `${place}.\`${name}\`: expected an integer of at least ${name === "maxAge" ? 1 : 0} (seconds), got ${describeSetting(value)}`,
    );
  };
  return {
    maxAgeMs: milliseconds("maxAge", MAX_AGE_SECONDS),
    staleWhileRevalidateMs: milliseconds("staleWhileRevalidate", 0),
    staleIfErrorMs: milliseconds("staleIfError", 0),
    keyPaths: stringsOf(options.key, `${place}.\`key\``, "paths such as $context.locale").map((text) =>
      contextPathOf(text, `${place}.\`key\``),
    ),
    extensions: stringsOf(options.extensions, `${place}.\`extensions\``, "names of extensions"),
  };
}

function stringsOf(given: unknown, place: string, expected: string): readonly string[] {
  if (given === undefined) return [];
  if (Array.isArray(given) && given.every((one) => typeof one === "string" && one !== "")) return given as string[];
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `${place}: expected an array of ${expected}, got ${describeSetting(given)}`,
  );
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
