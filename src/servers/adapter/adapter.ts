/** What the adapters have in common: their options, traces and headers. */
import type { GraphQLSchema } from "graphql";
import { optionInvalid } from "../../core/base/errors.js";
import { getOrMake } from "../../core/base/multimap.js";
import { checkServed } from "../../core/directive/compile/served-schema.js";
import { type CacheHandle, type CacheParts, partsOf } from "../../core/parts.js";
import { OperationPlanner } from "../../core/responses/operation-plan.js";
import { resolveResponses } from "../../core/responses/options.js";
import { ResponseCache } from "../../core/responses/response-cache.js";
import type { ExecutedResponse, ResponseAge } from "../../core/responses/response-execution.js";
import {
  checkTraceOptions,
  mistakeInTrace,
  type TraceMistake,
  type TraceOptions,
  TraceRecorder,
} from "../../tools/inspection/trace.js";
import { Edge, type EdgeResponse } from "../edge/edge.js";
import type { ResponseHeaders } from "../edge/final-headers.js";
import { resolveEdge } from "../edge/options.js";

/** The options of an adapter besides `allow`, as far as a server can have them. */
interface AdapterOptions {
  readonly responses?: unknown;
  readonly edge?: unknown;
}

export interface Adapter {
  readonly parts: CacheParts;
  readonly responses: ResponseCache | undefined;
  readonly edge: Edge | undefined;
  /** Checks a schema and prepares for it. Throws `CACHED_SCHEMA_INVALID`. */
  check(schema: GraphQLSchema): void;
  /**
   * Throws `CACHED_OPTION_INVALID` if the server that `server` stands for has another adapter of
   * the cache: each would take what is read for that of the other.
   */
  join(server: object): void;
}

/** By what stands for a server. */
const ADAPTED = new WeakMap<object, WeakSet<CacheParts>>();

/**
 * Checks the arguments of an adapter with the options `names`. `usesPolicies`: policies decide how
 * long responses are kept. Throws `CACHED_OPTION_INVALID`.
 */
export function openAdapter<Context>(
  cache: CacheHandle<never>,
  options: TraceOptions<Context> & AdapterOptions,
  caller: string,
  names: readonly (keyof AdapterOptions)[],
  usesPolicies: boolean,
): Adapter {
  const parts = partsOf(cache, caller);
  checkTraceOptions(options, caller, names);
  const stored = resolveResponses(options.responses, `${caller}: \`responses\``, parts);
  const planner = new OperationPlanner(parts);
  const responses = stored && new ResponseCache(parts, planner, stored, usesPolicies);
  const forEdge = resolveEdge(options.edge, caller, parts);
  const edge = forEdge && new Edge(parts, planner, forEdge);
  return {
    parts,
    responses,
    edge,
    check(schema) {
      checkServed(schema, parts, caller);
      responses?.prepare(schema);
      edge?.checkPurge(caller);
    },
    join(server) {
      const adapted = getOrMake(ADAPTED, server, () => new WeakSet());
      if (adapted.has(parts))
        throw optionInvalid(
          `${caller}: expected one call for each server and cache, got a second one, which would keep the first from noting what is read; pass all options to one`,
        );
      adapted.add(parts);
    },
  };
}

export type RequestedTrace = TraceRecorder | TraceMistake;

/** Begins a trace, without overrides. `requested`: see `requestedTrace`. */
export function traceOf(parts: CacheParts, context: object, requested: unknown): RequestedTrace | undefined {
  if (requested === undefined) return undefined;
  if (requested !== true) return mistakeInTrace(requested, []);
  const recorder = new TraceRecorder();
  parts.requestStates.observe(context, recorder);
  return recorder;
}

/** Whether an `If-None-Match` names an entity tag, or any. */
export const namesEtag = (header: string | null | undefined, etag: string): boolean =>
  header?.split(",").some((one) => ["*", etag, etag.slice(2)].includes(one.trim())) === true;

/** Adds headers for CDNs that the server has not set. `sent`: undefined if nothing was executed. */
export async function addEdgeHeaders(
  headers: ResponseHeaders,
  atEdge: EdgeResponse,
  sent: ExecutedResponse | undefined,
): Promise<void> {
  const age = sent && atEdge.ageOf(sent);
  await setEdgeHeaders(
    headers,
    atEdge,
    () => age,
    (before) => before == null,
  );
}

/** Sets the headers for CDNs where `isReplaced` accepts what is there, and adds to `Vary`. */
export async function setEdgeHeaders(
  headers: ResponseHeaders,
  atEdge: EdgeResponse,
  age: () => ResponseAge | undefined,
  isReplaced: (before: unknown) => boolean,
): Promise<void> {
  const { Vary, ...others } = await atEdge.headers(age);
  const vary = headers.get("Vary");
  if (Vary !== undefined) headers.set("Vary", vary == null || vary === "" ? Vary : `${String(vary)}, ${Vary}`);
  for (const [name, value] of Object.entries(others)) if (isReplaced(headers.get(name))) headers.set(name, value);
}
