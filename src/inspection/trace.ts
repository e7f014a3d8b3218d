import type { HasParts } from "../parts.js";
import { PARTS } from "../parts.js";
import type { ReadReport } from "../tier/request.js";
import { isAllowed } from "./resolvers.js";

/** What a server plugin may be told. */
export interface TraceOptions<Context> {
  /** Who gets `extensions.cached`, if he asks with `extensions: { cached: true }` in the request. Not said: nobody. */
  readonly allow?: (context: Context) => boolean | PromiseLike<boolean>;
}

/** What each cached field of a response did: coordinate → outcome → how many times. A bypass is written with its reason. */
export type Trace = Record<string, Record<string, number>>;

/** Whether a request's `extensions`, which may be anything, ask for the trace of its fields. */
export const isTraceAsked = (extensions: unknown): boolean =>
  typeof extensions === "object" && extensions !== null && (extensions as { cached?: unknown }).cached === true;

export function noteReport(trace: Trace, coordinate: string, served: ReadReport): void {
  const outcome = served.outcome === "bypassed" ? `bypassed(${served.reason})` : served.outcome;
  trace[coordinate] ??= {};
  const outcomes = trace[coordinate];
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
}

/** Begins to note what the cached fields of one execution do, for servers that have no use for it but the trace. */
export function beginTrace(cache: HasParts, context: object): Trace {
  const trace: Trace = {};
  cache[PARTS].scopes.observe(context, (coordinate, served) => noteReport(trace, coordinate, served));
  return trace;
}

/** A response's extensions with the trace among them; undefined where `allow` does not admit the one who asked. Never rejects. */
export async function tracedExtensions<Context>(
  extensions: Readonly<Record<string, unknown>> | undefined,
  trace: Trace,
  { allow }: TraceOptions<Context>,
  context: Context,
): Promise<Record<string, unknown> | undefined> {
  if (allow === undefined || !(await isAllowed(allow, context))) return undefined;
  return { ...extensions, cached: trace };
}
