/** A map with any number of different values of a key. Keys without values take no memory. */
export class Multimap<Key, Value> {
  readonly #sets = new Map<Key, Set<Value>>();

  has(key: Key): boolean {
    return this.#sets.has(key);
  }

  get(key: Key): readonly Value[] {
    return [...(this.#sets.get(key) ?? [])];
  }

  /** All values of all keys, those of one key together. */
  groups(): readonly (readonly Value[])[] {
    return [...this.#sets.values()].map((values) => [...values]);
  }

  add(key: Key, value: Value): void {
    getOrMake(this.#sets, key, () => new Set()).add(value);
  }

  delete(key: Key, value: Value): void {
    const values = this.#sets.get(key);
    values?.delete(value);
    if (values?.size === 0) this.#sets.delete(key);
  }
}

/**
 * A map of what is under way. It lets go of a value at once: V8 keeps the entries that a Map had
 * before it grew or shrank, and all that they refer to, until its next full garbage collection.
 */
export class Registry<Key, Value> {
  readonly #holders = new Map<Key, { value: Value | undefined }>();

  get size(): number {
    return this.#holders.size;
  }

  get(key: Key): Value | undefined {
    return this.#holders.get(key)?.value;
  }

  set(key: Key, value: Value): void {
    this.delete(key);
    this.#holders.set(key, { value });
  }

  delete(key: Key): boolean {
    const holder = this.#holders.get(key);
    if (holder !== undefined) holder.value = undefined;
    return this.#holders.delete(key);
  }

  values(): Value[] {
    return [...this.#holders.values()].map(({ value }) => value as Value);
  }
}

/** Returns what a map has for a key, and makes it where the map has nothing. */
export function getOrMake<Key, Value>(
  map: { get(key: Key): Value | undefined; set(key: Key, value: NoInfer<Value>): unknown },
  key: Key,
  make: () => Value,
): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

export function groupBy<Item, Group>(
  items: readonly Item[],
  groupOf: (item: Item) => Group,
): ReadonlyMap<Group, readonly number[]> {
  const groups = new Map<Group, number[]>();
  for (const [index, item] of items.entries()) getOrMake(groups, groupOf(item), () => []).push(index);
  return groups;
}
