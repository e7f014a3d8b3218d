import { getOrMake } from "../base/multimap.js";
import type { EnclosingLoad } from "../tier/request/waiters.js";

/**
 * What the loads of a request have read. What a load reads becomes part of what is stored, so it
 * must not be older than the load, as what the request remembers may be, nor another caller's. So a
 * load gets what it has read itself, or what any load of the request has read since it began. What
 * is primed is as old as its load, and as private: it is for that load, and those around it.
 */
export class MemoInLoads<Value> {
  readonly entries = new Map<unknown, Entry<Value>>();

  /** `isOwn`: whether no other load has read it. What others have read is theirs to change. */
  get(key: unknown, load: EnclosingLoad): { readonly value: Value; readonly isOwn: boolean } | undefined {
    const entry = this.entries.get(key);
    if (entry === undefined) return undefined;
    const own = entry.own.get(load);
    if (own !== undefined) return { value: own, isOwn: true };
    if (entry.starts >= load.start) return { value: entry.last, isOwn: false };
    return entry.primed?.by.has(load) === true ? { value: entry.primed.value, isOwn: true } : undefined;
  }

  /** `starts`: `Loads.starts` when it was asked for. Default: it is for this load alone. */
  set(key: unknown, value: Value, load: EnclosingLoad, starts = ALONE): void {
    const entry = getOrMake(this.entries, key, () => ({ own: new WeakMap(), last: value, starts, primed: undefined }));
    entry.own.set(load, value);
    if (starts < entry.starts) return;
    entry.last = value;
    entry.starts = starts;
  }

  prime(key: unknown, value: Value, by: EnclosingLoad): void {
    this.set(key, value, by);
    (this.entries.get(key) as Entry<Value>).primed = { value, by };
  }
}

interface Entry<Value> {
  readonly own: WeakMap<EnclosingLoad, Value>;
  /** What was read last, in whichever load; not the copies of others. */
  last: Value;
  starts: number;
  primed: { readonly value: Value; readonly by: EnclosingLoad } | undefined;
}

/** Earlier than all loads. */
const ALONE = -1;
