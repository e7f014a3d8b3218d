/** What is to be invalidated, by names in the store. */
export interface Names {
  readonly keys: readonly string[];
  readonly tags: readonly string[];
}

/** Beyond this many names the oldest are given up; their entries end by their ttl. */
const MAX_KEPT = 10_000;

/**
 * What this process has invalidated and the store has not confirmed. Until it has, this process reads nothing of it from the store: an old value
 * may still be there. Each name is kept once, however often it was invalidated.
 */
export class UnconfirmedInvalidations {
  /** Each with the count of the call that kept it last. */
  readonly #keys = new Map<string, number>();
  readonly #tags = new Map<string, number>();
  #count = 0;

  get size(): number {
    return this.#keys.size + this.#tags.size;
  }

  keep({ keys, tags }: Names): void {
    this.#count++;
    for (const [kept, names] of [
      [this.#keys, keys],
      [this.#tags, tags],
    ] as const)
      for (const name of names) {
        kept.delete(name);
        kept.set(name, this.#count);
        const [oldest] = kept.keys();
        if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
      }
  }

  /** Whether an entry at `key` under `tags` may be one that should be gone. */
  has(key: string | undefined, tags: readonly string[]): boolean {
    if (this.size === 0) return false;
    return (key !== undefined && this.#keys.has(key)) || tags.some((tag) => this.#tags.has(tag));
  }

  /** All names, and what to call once the store has confirmed them: it forgets those that were not kept again meanwhile. */
  all(): Names & { forget(): void } {
    const keys = [...this.#keys.keys()];
    const tags = [...this.#tags.keys()];
    const upTo = this.#count;
    const forget = (): void => {
      for (const key of keys) if ((this.#keys.get(key) ?? upTo) <= upTo) this.#keys.delete(key);
      for (const tag of tags) if ((this.#tags.get(tag) ?? upTo) <= upTo) this.#tags.delete(tag);
    };
    return { keys, tags, forget };
  }
}
