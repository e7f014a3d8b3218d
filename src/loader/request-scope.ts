import type { ReadThrough } from "../tier/read-through.js";
import type { ReadReport } from "../tier/request.js";
import { RequestLoader } from "./request-loader.js";

/** Hears how each cached field of a request was served: what a server plugin makes hints and extensions of. */
export type Observer = (coordinate: string, served: ReadReport, info: unknown) => void;

/** What a request wants of the cache. BYPASS: nothing, neither to read nor to store. REFRESH: values that are loaded now, and stored. */
export type Override = "BYPASS" | "REFRESH";

/**
 * What lives as long as a request, held weakly by it.
 * A loader belongs to one execution and not to a context object: contexts get shared between requests, and a loader that outlived its request
 * would serve what has been invalidated since.
 */
export class RequestScopes {
  readonly #tier: ReadThrough;
  readonly #loaders = new WeakMap<object, RequestLoader>();
  readonly #observers = new WeakMap<object, Observer>();
  /** Undefined until somebody overrides anything: then nobody has to look. */
  #overrides: WeakMap<object, Override> | undefined;

  constructor(tier: ReadThrough) {
    this.#tier = tier;
  }

  /** The loader of one execution; `execution` is an object that lives as long, such as its variable values. */
  loader(execution: object): RequestLoader {
    let loader = this.#loaders.get(execution);
    if (loader === undefined) {
      loader = new RequestLoader(this.#tier);
      this.#loaders.set(execution, loader);
    }
    return loader;
  }

  /** From now on, for all that is read with this context. */
  override(context: object, override: Override): void {
    this.#overrides ??= new WeakMap();
    this.#overrides.set(context, override);
  }

  overrideOf(context: unknown): Override | undefined {
    if (this.#overrides === undefined || typeof context !== "object" || context === null) return undefined;
    return this.#overrides.get(context);
  }

  observe(context: object, observer: Observer): void {
    const holder = context as Holder;
    if (Object.isExtensible(context)) holder[OBSERVED] = { of: context, by: observer };
    else this.#observers.set(context, observer);
  }

  observer(context: unknown): Observer | undefined {
    if (typeof context !== "object" || context === null) return undefined;
    const observed = (context as Holder)[OBSERVED];
    return observed?.of === context ? observed.by : this.#observers.get(context);
  }
}

/** The observer rests on the context itself: a WeakMap of contexts, one for each request, keeps the garbage collector busy. A copy brings it along, so it says whose it is. */
const OBSERVED: unique symbol = Symbol("graphql-cached.observer");

interface Holder {
  [OBSERVED]?: { readonly of: object; readonly by: Observer };
}
