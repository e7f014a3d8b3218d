/** The number of names after which the memo starts anew. */
const MAX_NAMES = 10_000;

/**
 * Remembers what is computed from recent names, such as the node that holds a name: the cache asks
 * for it, and then the store again.
 */
export class NameMemo<Value> {
  readonly #compute: (name: string) => Value;
  readonly #known = new Map<string, Value>();

  constructor(compute: (name: string) => Value) {
    this.#compute = compute;
  }

  of(name: string): Value {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const value = this.#compute(name);
    if (this.#known.size >= MAX_NAMES) this.#known.clear();
    this.#known.set(name, value);
    return value;
  }
}
