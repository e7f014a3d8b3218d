import { describeSetting, optionInvalid } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { type Observer, OVERRIDES } from "../../core/loader/request-states.js";
import type { ReadReport } from "../../core/tier/request/request.js";
import { isAllowed } from "./access.js";

/** Throws `CACHED_OPTION_INVALID` unless these are options of an adapter, which has `others`. */
export function checkTraceOptions(options: unknown, caller: string, others: readonly string[] = []): void {
  const allow = (options as { allow?: unknown } | null | undefined)?.allow;
  const isObject = typeof options === "object" && options !== null;
  if (!isObject || (allow !== undefined && typeof allow !== "function")) {
    const got = isObject ? `\`allow\` as ${describeSetting(allow)}` : describeSetting(options);
    throw optionInvalid(`${caller}: expected the options { allow: (context) => boolean }, got ${got}`);
  }
  checkOptionNames(options, caller, ["allow", ...others]);
}

/** Returns `extensions.cached` of a request. False and null request nothing. */
export function requestedTrace(extensions: unknown): unknown {
  const requested = typeof extensions === "object" ? (extensions as { cached?: unknown } | null)?.cached : undefined;
  return requested === false || requested === null ? undefined : requested;
}

const OR = new Intl.ListFormat("en-GB", { type: "disjunction" });

/** `overrides`: the values other than true, which override the cache. */
export function mistakeInTrace(requested: unknown, overrides: readonly string[]): TraceMistake {
  const known = OR.format(["true", ...overrides.map((one) => JSON.stringify(one))]);
  const remedy = OVERRIDES.some((one) => one === requested)
    ? "; this server cannot override the cache by request, call cache.override(context, …)"
    : "";
  return { error: `extensions.cached: expected ${known}, got ${describeSetting(requested)}${remedy}` };
}

export class TraceRecorder implements Observer {
  /** Without a prototype: loaders may be called `constructor`. */
  readonly trace: Trace = Object.create(null);

  onRead(coordinate: string, report: ReadReport): void {
    const outcome = report.outcome === "bypassed" ? `bypassed(${report.reason})` : report.outcome;
    this.trace[coordinate] ??= {};
    const outcomes = this.trace[coordinate];
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
}

/** Adds the trace, or what is wrong, to the extensions. Undefined if `allow` denies it. */
export async function tracedExtensions<Context>(
  extensions: Readonly<Record<string, unknown>> | undefined,
  trace: TraceRecorder | TraceMistake,
  { allow }: TraceOptions<Context>,
  context: Context,
): Promise<Record<string, unknown> | undefined> {
  if (allow === undefined || !(await isAllowed(allow, context))) return undefined;
  return { ...extensions, cached: trace instanceof TraceRecorder ? trace.trace : trace };
}

/** Options of every server adapter. */
export interface TraceOptions<Context> {
  /**
   * Decides which callers may send `extensions: { cached: true }` to get `extensions.cached` in the
   * response. Default: no caller may.
   */
  readonly allow?: ((context: Context) => boolean | PromiseLike<boolean>) | undefined;
}

/** What each field and loader of a response did: outcome → count. A bypass includes its reason. */
export type Trace = Record<string, Record<string, number>>;

/** What is wrong with the `extensions.cached` of a request; it takes the place of the trace. */
export interface TraceMistake {
  readonly error: string;
}
