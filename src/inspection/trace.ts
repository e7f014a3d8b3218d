import { CachedError, describeSetting } from "../errors.js";
import { OVERRIDES } from "../loader/request-scope.js";
import type { CacheParts } from "../parts.js";
import type { ReadReport } from "../tier/request.js";
import { isAllowed } from "./access.js";
import type { ResponseSummary } from "./response-headers.js";

/** Options of every server adapter. */
export interface TraceOptions<Context> {
  /**
   * Decides which callers may send `extensions: { cached: true }` to get `extensions.cached` in the
   * response. Default: no caller may.
   */
  readonly allow?: ((context: Context) => boolean | PromiseLike<boolean>) | undefined;
}

/** What the cached fields and loaders of a response did: coordinate → outcome → count. A bypass includes its reason. */
export type Trace = Record<string, Record<string, number>>;

/** What is wrong with the `extensions.cached` of a request; it takes the place of the trace. */
export interface TraceMistake {
  readonly error: string;
}

/** Throws `CACHED_OPTION_INVALID` unless `options` are the options of an adapter; the message names `caller`. */
export function checkTraceOptions(options: unknown, caller: string): void {
  const allow = (options as { allow?: unknown } | null | undefined)?.allow;
  if (typeof options === "object" && options !== null && (allow === undefined || typeof allow === "function")) return;
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `${caller}: expected the options { allow: (context) => boolean }, got ${
      typeof options === "object" && options !== null
        ? `\`allow\` as ${describeSetting(allow)}`
        : describeSetting(options)
    }`,
  );
}

/** Returns `extensions.cached` of a request, whose extensions may be anything. False and null request nothing. */
export function requestedTrace(extensions: unknown): unknown {
  const requested = typeof extensions === "object" ? (extensions as { cached?: unknown } | null)?.cached : undefined;
  return requested === false || requested === null ? undefined : requested;
}

const OR = new Intl.ListFormat("en-GB", { type: "disjunction" });

/** Returns the mistake in a requested trace other than true. `overrides`: the values that override the cache. */
export function mistakeInTrace(requested: unknown, overrides: readonly string[]): TraceMistake {
  const known = OR.format(["true", ...overrides.map((one) => JSON.stringify(one))]);
  const remedy = OVERRIDES.some((one) => one === requested)
    ? "; this server cannot override the cache by request, call cache.override(context, …)"
    : "";
  return { error: `extensions.cached: expected ${known}, got ${describeSetting(requested)}${remedy}` };
}

export function noteReport(trace: Trace, coordinate: string, report: ReadReport): void {
  const outcome = report.outcome === "bypassed" ? `bypassed(${report.reason})` : report.outcome;
  trace[coordinate] ??= {};
  const outcomes = trace[coordinate];
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
}

/** Starts to record what the cached fields and loaders of one execution do, also in `summary`. */
export function beginTrace(parts: CacheParts, context: object, summary?: ResponseSummary): Trace {
  const trace: Trace = {};
  parts.scopes.observe(context, {
    onRead(coordinate, report) {
      noteReport(trace, coordinate, report);
      summary?.add(coordinate, report);
    },
  });
  return trace;
}

/** Returns the response's extensions with the trace, or what is wrong, added; undefined if `allow` denies it. Never rejects. */
export async function tracedExtensions<Context>(
  extensions: Readonly<Record<string, unknown>> | undefined,
  trace: Trace | TraceMistake,
  { allow }: TraceOptions<Context>,
  context: Context,
): Promise<Record<string, unknown> | undefined> {
  if (allow === undefined || !(await isAllowed(allow, context))) return undefined;
  return { ...extensions, cached: trace };
}
