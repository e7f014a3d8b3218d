import DataLoader from "dataloader";
import { PER_TURN } from "../tier/tick/long-tick.js";
import { batchCall, type IdLoad, isArrayLike, type Source } from "./batch-call.js";
import type { LoaderMaking, LoaderParts } from "./context-requests.js";
import { givenIds } from "./given-ids.js";
import type { CachedLoader, LoaderOptions } from "./loader-options.js";

/** Returns what makes the ids of a tick that a request has to load calls of the batch function. */
export function batchedSource<Id, Value, Context>(
  { name, batch, maxBatchSize }: LoaderOptions<Id, Value, Context>,
  { contextWatch, isProduction, longTick, requestStates, signals, tier }: LoaderParts,
): LoaderMaking<Id, Value, Context>["sourceOf"] {
  return (context, loader, { scope }): Source<Id, Value> => {
    const watched = { coordinate: name, isPrivate: scope === "PRIVATE" };
    const callBatch = (loads: readonly IdLoad<Id>[]): PromiseLike<ArrayLike<Value | Error>> => {
      const ids = loads.map(({ id }) => id);
      const given = givenIds(ids, !isProduction);
      const call = batchCall(
        name,
        loads.map(({ cached }) => cached),
        () => signals.of(name, requestStates.contextOf(context)),
      );
      const enclosing = loads.flatMap((load) => load.enclosing ?? []);
      const results = tier.loads.together(enclosing, () =>
        contextWatch.run(watched, context, () => batch.call(loader as never, given, context, call)),
      );
      if (typeof (results as { then?: unknown } | undefined)?.then !== "function") return results;
      return results.then((values) => {
        if (!isArrayLike(values) || values.length !== ids.length) return values;
        // Each of many results is encoded, stored and answers callers.
        return values.length <= PER_TURN ? values : (longTick.inTurns(Array.from(values)) as (Value | Error)[]);
      });
    };
    const source = new DataLoader<IdLoad<Id>, Value, unknown>(callBatch, {
      cache: false,
      batchScheduleFn: (dispatch) => longTick.afterTick(dispatch),
      ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    });
    return (load) => source.load(load);
  };
}

/** Returns what makes the loaders of a policy with `maxAge: 0`: plain DataLoaders. */
export function uncachedLoader<Id, Value, Context>(
  options: LoaderOptions<Id, Value, Context>,
  { requestStates, longTick, isProduction, signals }: LoaderParts,
): LoaderMaking<Id, Value, Context>["uncached"] {
  return (context, loader, caller, { scope }) => {
    const { name, batch, cacheKeyFn, maxBatchSize } = options;
    const isPrivate = scope === "PRIVATE";
    // Nothing tells a PRIVATE value of an unknown caller from that of the next one.
    const cache = isPrivate && caller === undefined ? false : (options.cache ?? true);
    const signalsOf = () => signals.of(name, requestStates.contextOf(context));
    const plain = new DataLoader<Id, Value, unknown>(
      (ids) => {
        const call = batchCall(name, new Array<undefined>(ids.length).fill(undefined), signalsOf);
        return batch.call(loader as never, givenIds(ids, !isProduction), context, call);
      },
      {
        name,
        cache,
        // DataLoader's own schedule would stop with fake timers.
        batchScheduleFn: (dispatch) => longTick.afterTick(dispatch),
        ...(cacheKeyFn === undefined ? {} : { cacheKeyFn }),
        ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
      },
    );
    const read = plain.load.bind(plain);
    plain.load = (id) => {
      requestStates.observerOf(context)?.collector?.addUncached(name, isPrivate);
      return read(id);
    };
    // DataLoader declares that its name can be null. This one has a name.
    return plain as CachedLoader<Id, Value>;
  };
}
