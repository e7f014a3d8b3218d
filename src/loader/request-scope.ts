import type { Execution } from "../graphql-version.js";
import type { ResponseHint } from "../store/body.js";
import type { Reads } from "../tier/reads.js";
import type { ReadReport } from "../tier/request.js";
import { FieldLoader } from "./field-loader.js";
import { setHidden } from "./hidden-property.js";

/**
 * Receives how the reads of a request were served, by fields and loaders alike. Server plugins turn
 * this into cache hints and extensions.
 */
export interface Observer {
  /** `coordinate`: the field, or the name of the loader. `info`: that of the field; undefined for a loader. */
  onRead(coordinate: string, served: ReadReport, info: unknown): void;
  /** Receives the hint of a load that a field shares although it did not read the value itself. */
  onHint?(hint: ResponseHint, info: unknown): void;
}

/**
 * A per-request override. BYPASS: neither read nor store. REFRESH: load every value now, and store
 * it.
 */
export type Override = (typeof OVERRIDES)[number];

export const OVERRIDES = ["BYPASS", "REFRESH"] as const;

/**
 * The state of each request: field loader, observer and override. Held weakly, so it lives as long
 * as the request. A field loader belongs to one execution rather than to a context object: contexts
 * can be shared between requests, and a loader that outlived its request would return values that
 * have been invalidated since.
 */
export class RequestScopes {
  readonly #tier: Reads;
  /** Field loaders by the owner of the execution, and by owner and signal of those that have a signal. */
  readonly #ofOwners = new WeakMap<object, FieldLoader>();
  readonly #ofSignals = new WeakMap<object, WeakMap<object, FieldLoader>>();
  /** The observers of contexts that cannot be extended. Undefined until the first, so that reads skip the lookup. */
  #observers: WeakMap<object, Observer> | undefined;
  /** Undefined until the first override, so that reads skip the lookup. */
  #overrides: WeakMap<object, Override> | undefined;

  constructor(tier: Reads) {
    this.#tier = tier;
  }

  /** Returns the loader of one execution. */
  loader({ owner, signal }: Execution): FieldLoader {
    if (signal === undefined) return this.#loaderOf(owner, this.#ofOwners);
    let ofSignals = this.#ofSignals.get(owner);
    if (ofSignals === undefined) {
      ofSignals = new WeakMap();
      this.#ofSignals.set(owner, ofSignals);
    }
    return this.#loaderOf(signal, ofSignals);
  }

  #loaderOf(holder: object, loaders: WeakMap<object, FieldLoader>): FieldLoader {
    let loader = loaders.get(holder);
    if (loader === undefined) {
      loader = new FieldLoader(this.#tier);
      loaders.set(holder, loader);
    }
    return loader;
  }

  /** Applies `override` to all further reads with this context. */
  override(context: object, override: Override): void {
    this.#overrides ??= new WeakMap();
    this.#overrides.set(context, override);
  }

  overrideOf(context: unknown): Override | undefined {
    if (this.#overrides === undefined || typeof context !== "object" || context === null) return undefined;
    return this.#overrides.get(context);
  }

  observe(context: object, observer: Observer): void {
    if (Object.isExtensible(context)) setHidden(context, OBSERVED, { context, observer });
    else {
      this.#observers ??= new WeakMap();
      this.#observers.set(context, observer);
    }
  }

  observer(context: unknown): Observer | undefined {
    if (typeof context !== "object" || context === null) return undefined;
    const observed = (context as Holder)[OBSERVED];
    return observed?.context === context ? observed.observer : this.#observers?.get(context);
  }
}

/**
 * The observer is stored on the context itself, because a WeakMap with one entry per request is
 * costly for the garbage collector. A context that inherits from it has the symbol as well, so the
 * entry names the context it belongs to.
 */
const OBSERVED: unique symbol = Symbol("graphql-cached.observer");

interface Holder {
  [OBSERVED]?: { readonly context: object; readonly observer: Observer };
}
