/** The keys and tags of an invalidation, by their names in the store. */
export interface Names {
  readonly keys: readonly string[];
  readonly tags: readonly string[];
}

/**
 * Limit for keys and for tags. Beyond it the oldest are dropped, and their entries last until their
 * ttl.
 */
const MAX_NAMES = 10_000;

/**
 * The invalidations of this process that the store has not confirmed. Until it has, this process
 * does not read their entries from the store, which may still hold old values. Each name is held
 * once, however often it was invalidated.
 */
export class UnconfirmedInvalidations {
  /** Each name with the number of the `add` call that added it last. */
  readonly #keys = new Map<string, number>();
  readonly #tags = new Map<string, number>();
  #addCount = 0;
  #doubt: Promise<void> | undefined;

  /**
   * Resolves when it is known again which invalidations are unconfirmed. Undefined if it is known
   * now; otherwise nothing may be read from the store before.
   */
  get doubt(): Promise<void> | undefined {
    return this.#doubt;
  }

  /** Lets readers wait for `decided`, which must not reject, and for those passed before. */
  waitFor(decided: Promise<void>): void {
    const doubt = Promise.all([this.#doubt, decided]).then(() => {
      if (this.#doubt === doubt) this.#doubt = undefined;
    });
    this.#doubt = doubt;
  }

  get size(): number {
    return this.#keys.size + this.#tags.size;
  }

  add({ keys, tags }: Names): void {
    this.#addCount++;
    for (const [pending, names] of [
      [this.#keys, keys],
      [this.#tags, tags],
    ] as const)
      for (const name of names) {
        pending.delete(name);
        pending.set(name, this.#addCount);
        const [oldest] = pending.keys();
        if (pending.size > MAX_NAMES && oldest !== undefined) pending.delete(oldest);
      }
  }

  /** Returns whether an entry at `key` or under one of `tags` may be one that should be gone. */
  has(key: string | undefined, tags: readonly string[]): boolean {
    if (this.size === 0) return false;
    return (key !== undefined && this.#keys.has(key)) || tags.some((tag) => this.#tags.has(tag));
  }

  /**
   * Returns all names. Call `confirm` when the store has confirmed them: it removes those that were
   * not added again in the meantime.
   */
  snapshot(): Names & { confirm(): void } {
    const keys = [...this.#keys.keys()];
    const tags = [...this.#tags.keys()];
    const upTo = this.#addCount;
    const confirm = (): void => {
      for (const key of keys) if ((this.#keys.get(key) ?? upTo) <= upTo) this.#keys.delete(key);
      for (const tag of tags) if ((this.#tags.get(tag) ?? upTo) <= upTo) this.#tags.delete(tag);
    };
    return { keys, tags, confirm };
  }
}
