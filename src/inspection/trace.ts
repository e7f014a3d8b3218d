import { CachedError, describeSetting } from "../errors.js";
import type { CacheParts } from "../parts.js";
import type { ReadReport } from "../tier/request.js";
import { isAllowed } from "./access.js";

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

/** Whether the `extensions` of a request, which may be anything, request a trace. */
export const isTraceRequested = (extensions: unknown): boolean =>
  typeof extensions === "object" && extensions !== null && (extensions as { cached?: unknown }).cached === true;

export function noteReport(trace: Trace, coordinate: string, report: ReadReport): void {
  const outcome = report.outcome === "bypassed" ? `bypassed(${report.reason})` : report.outcome;
  trace[coordinate] ??= {};
  const outcomes = trace[coordinate];
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
}

/** Starts to record what the cached fields and loaders of one execution do. */
export function beginTrace(parts: CacheParts, context: object): Trace {
  const trace: Trace = {};
  parts.scopes.observe(context, { onRead: (coordinate, report) => noteReport(trace, coordinate, report) });
  return trace;
}

/** Returns the response's extensions with the trace added; undefined if `allow` denies it. Never rejects. */
export async function tracedExtensions<Context>(
  extensions: Readonly<Record<string, unknown>> | undefined,
  trace: Trace,
  { allow }: TraceOptions<Context>,
  context: Context,
): Promise<Record<string, unknown> | undefined> {
  if (allow === undefined || !(await isAllowed(allow, context))) return undefined;
  return { ...extensions, cached: trace };
}
