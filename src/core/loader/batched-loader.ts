import DataLoader from "dataloader";
import { ignoreRejection } from "../base/deferred.js";
import { checkOptionsObject } from "../base/errors.js";
import { PER_TURN } from "../tier/tick/long-tick.js";
import { type IdLoad, isArrayLike, OwnCall } from "./batch-call.js";
import type { LoaderMaking, LoaderParts } from "./context-loader.js";
import { batchExistence, givenIds } from "./existence.js";
import { defineLoader } from "./loader-factory.js";
import { type CachedLoader, LOADER, type LoaderOptions, placeOf } from "./loader-options.js";

/** Returns a function from a context to its loader. Throws `CACHED_OPTION_INVALID`. */
export function createLoaderFactory<Id, Value, Context>(
  options: LoaderOptions<Id, Value, Context>,
  parts: LoaderParts,
): (context: Context) => CachedLoader<Id, Value> {
  checkOptionsObject(options, LOADER.caller);
  const { exists } = options;
  return defineLoader<Id, Value, Context>(options, parts, {
    options: { ...options, kind: LOADER },
    ...batchedSource(options, parts),
    identify: parts.identify as ((context: Context) => unknown) | undefined,
    originOf: (id) => id,
    idOf: (id) => id as Id,
    mayExist: exists && batchExistence(exists, `${placeOf(options.name, LOADER)}: \`exists\``, parts),
  }).loaderOf;
}

/** Returns what makes the ids of a tick that a request has to load calls of the batch function. */
function batchedSource<Id, Value, Context>(
  options: LoaderOptions<Id, Value, Context>,
  parts: LoaderParts,
): Pick<LoaderMaking<Id, Value, Context>, "sourceOf" | "uncached"> {
  const { name, batch, cacheKeyFn, maxBatchSize } = options;
  const { contextWatch, isProduction, longTick, tier } = parts;
  type Load = Pick<IdLoad<Id>, "cached" | "reader">;
  // Asynchronous, so that what the function throws at once is rejected with as it is.
  const call = async (
    context: Context,
    loader: CachedLoader<Id, Value>,
    ids: readonly Id[],
    loads: readonly Load[],
  ) => {
    const cached = loads.map((load) => load.cached);
    const readers = loads.flatMap(({ reader }) => reader ?? []);
    const own = new OwnCall(name, cached, parts, context);
    const run = (): unknown => batch.call(loader as never, givenIds(ids, !isProduction), context, own);
    const values = await (cached.includes(undefined) ? tier.loads.bypass(run, context, readers) : run());
    // Each may be a promise that rejects before its turn has come.
    if (Array.isArray(values) || (isArrayLike(values) && values.length === ids.length))
      for (let nth = 0; nth < values.length; nth++) ignoreRejection(values[nth]);
    if (!isArrayLike(values) || values.length !== ids.length) throw wrongBatch(name, ids.length, values);
    // Without holes, of which DataLoader would refuse one at the end, with its own message.
    return Array.from(values) as (Value | Error)[];
  };
  const scheduling = {
    // DataLoader's own schedule would stop with fake timers.
    batchScheduleFn: (dispatch: () => void) => longTick.afterTick(dispatch),
    ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
  };
  return {
    sourceOf(context, loader, { scope }) {
      const watched = { coordinate: name, isPrivate: scope === "PRIVATE" };
      const callBatch = async (loads: readonly IdLoad<Id>[]): Promise<readonly (Value | Error)[]> => {
        const ids = loads.map(({ id }) => id);
        const enclosing = loads.flatMap((load) => load.enclosing ?? []);
        const values = await tier.loads.together(enclosing, () =>
          contextWatch.run(watched, context, () => call(context, loader, ids, loads)),
        );
        // Each of many results is encoded, stored and answers callers.
        return values.length <= PER_TURN ? values : (longTick.inTurns(values) as (Value | Error)[]);
      };
      const newSource = () => new DataLoader<IdLoad<Id>, Value, unknown>(callBatch, { cache: false, ...scheduling });
      const source = newSource();
      // A batch runs in the asynchronous context of its first id.
      let outside: typeof source | undefined;
      return (load) => {
        if (load.enclosing?.isOutside !== true) return source.load(load);
        outside ??= newSource();
        return outside.load(load);
      };
    },
    uncached: (context, loader, cache) =>
      new DataLoader<Id, Value, unknown>(
        (ids) => call(context, loader, ids, new Array<Load>(ids.length).fill(UNCACHED)),
        { name, cache, ...scheduling, ...(cacheKeyFn === undefined ? {} : { cacheKeyFn }) },
      ),
  };
}

const UNCACHED = { cached: undefined };

/** DataLoader's own message would have no name, and would show the ids and the values. */
function wrongBatch(name: string, count: number, values: unknown): TypeError {
  const given = isArrayLike(values)
    ? `${values.length}`
    : values === null
      ? "null"
      : `a value of type ${typeof values}`;
  return new TypeError(
    `${placeOf(name, LOADER)}: expected \`batch\` to return an array of ${count}, with a value or an Error for each id in the order of the ids, got ${given}; return null for an id without a value`,
  );
}
