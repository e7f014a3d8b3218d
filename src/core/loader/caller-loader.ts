import type { CachedLoader } from "./context-loader.js";
import type { Identity } from "./identity.js";

/** The identities that have a loader of their own in one context. The oldest is forgotten first. */
const MAX_IDENTITIES = 1_000;

/**
 * The loader of one context for whoever asks: each identity has one of its own. Requests of several callers can have one
 * context object, and what one caller has read, or the batch that its source is asked for, must not become that of
 * another.
 */
export class CallerLoader<Id, Value> implements CachedLoader<Id, Value> {
  readonly name: string;
  readonly #identity: () => Identity | undefined;
  readonly #create: (loader: CachedLoader<Id, Value>, identity: Identity | undefined) => CachedLoader<Id, Value>;
  readonly #loaders = new Map<Identity | undefined, CachedLoader<Id, Value>>();

  /** `identity` returns that of the caller. `create` makes its loader; the user's functions get this one as `this`. */
  constructor(
    name: string,
    identity: () => Identity | undefined,
    create: (loader: CachedLoader<Id, Value>, identity: Identity | undefined) => CachedLoader<Id, Value>,
  ) {
    this.name = name;
    this.#identity = identity;
    this.#create = create;
  }

  #own(): CachedLoader<Id, Value> {
    const identity = this.#identity();
    const known = this.#loaders.get(identity);
    if (known !== undefined) return known;
    const loader = this.#create(this, identity);
    this.#loaders.set(identity, loader);
    if (this.#loaders.size > MAX_IDENTITIES) {
      const [oldest] = this.#loaders.keys();
      this.#loaders.delete(oldest);
    }
    return loader;
  }

  load(id: Id): Promise<Value> {
    return this.#own().load(id);
  }

  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]> {
    return this.#own().loadMany(ids);
  }

  clear(id: Id): this {
    this.#own().clear(id);
    return this;
  }

  clearAll(): this {
    this.#own().clearAll();
    return this;
  }

  prime(id: Id, value: Value | PromiseLike<Value> | Error): this {
    this.#own().prime(id, value);
    return this;
  }
}
