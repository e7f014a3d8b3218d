import DataLoader from "dataloader";
import { InertControl, type ResultControl } from "../tier/request/result-control.js";
import { type CallSignals, type EnclosingLoad, Waiters } from "../tier/request/waiters.js";
import { type LongTick, PER_TURN } from "../tier/tick/long-tick.js";
import { givenIds } from "./existence.js";
import type { BatchCall, CachedLoader, LoaderOptions } from "./loader-options.js";

/** A load through the cache: who waits for it, and the control of its result. */
interface CachedLoad {
  readonly waiters: Waiters;
  readonly result: ResultControl;
}

export interface IdLoad<Id> {
  readonly id: Id;
  readonly cached: CachedLoad | undefined;
  readonly enclosing: EnclosingLoad | undefined;
  /** For DataLoader's message about a batch function that returns too few values. */
  toString(): string;
}

/** Calls the batch function of a loader for one context: all ids of a tick in one call. */
export interface BatchSource<Id, Value, Context> {
  readonly options: Pick<LoaderOptions<Id, Value, Context>, "name" | "batch" | "maxBatchSize">;
  readonly context: Context;
  /** The `this` of the batch function. */
  readonly loader: CachedLoader<Id, Value>;
  readonly longTick: LongTick;
  readonly isProduction: boolean;
  signals(): CallSignals | undefined;
  /** Runs a call as a part of several loads. */
  together<T>(loads: readonly EnclosingLoad[], work: () => T): T;
}

export function createBatchSource<Id, Value, Context>(
  source: BatchSource<Id, Value, Context>,
): DataLoader<IdLoad<Id>, Value, unknown> {
  const { options, longTick } = source;
  const { name, batch, maxBatchSize } = options;
  return new DataLoader<IdLoad<Id>, Value, unknown>(
    (loads) => {
      const ids = loads.map(({ id }) => id);
      const given = givenIds(ids, !source.isProduction);
      const call = batchCall(
        name,
        loads.map(({ cached }) => cached),
        source,
      );
      const enclosing = loads.flatMap(({ enclosing }) => enclosing ?? []);
      const results = source.together(enclosing, () => batch.call(source.loader as never, given, source.context, call));
      if (typeof (results as { then?: unknown } | undefined)?.then !== "function") return results;
      return results.then((values) => {
        if (!isArrayLike(values) || values.length !== ids.length) return values;
        // Each of many results is encoded, stored and answers callers.
        return values.length <= PER_TURN ? values : (longTick.inTurns(Array.from(values)) as (Value | Error)[]);
      });
    },
    {
      cache: false,
      batchScheduleFn: (dispatch) => longTick.afterTick(dispatch),
      ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    },
  );
}

/** Returns what belongs to a call for `loads`, each undefined for a load without the cache. */
export function batchCall(
  coordinate: string,
  loads: readonly (CachedLoad | undefined)[],
  { signals }: { signals(): CallSignals | undefined },
): BatchCall {
  let signal: AbortSignal | undefined;
  let results: readonly ResultControl[] | undefined;
  const requestSignal = (): AbortSignal => signals()?.request[0] ?? new AbortController().signal;
  return {
    get results() {
      results ??= loads.map((load) => load?.result ?? new InertControl(coordinate));
      return results;
    },
    // Asked for by the batch function, so none of the loads has ended yet.
    get signal() {
      signal ??= signalOf(loads, requestSignal);
      return signal;
    },
  };
}

/** Loads without the cache are waited for by their request alone. */
function signalOf(loads: readonly (CachedLoad | undefined)[], requestSignal: () => AbortSignal): AbortSignal {
  const cached = loads.filter((load) => load !== undefined);
  if (cached.length === 0) return requestSignal();
  const joined = new Waiters();
  for (const { waiters } of cached) joined.addAll(waiters);
  if (cached.length === loads.length) return joined.signal;
  const controller = new AbortController();
  // No listener before then: it would remain at the signal until the request has ended.
  joined.onGone(() => {
    const signal = requestSignal();
    const abort = (): void => controller.abort(joined.signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
  return controller.signal;
}

/** What DataLoader accepts: an array, or an object that has as many members as its length says. */
export const isArrayLike = (value: unknown): value is ArrayLike<unknown> =>
  typeof value === "object" && value !== null && typeof (value as { length?: unknown }).length === "number";
