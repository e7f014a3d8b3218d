import type { Subject } from "../../keys/key.js";
import type { Policy } from "../../policy/policy.js";
import type { ResponseHint } from "../../store/entry-layout.js";

/**
 * The entries of the near cache by key, within bounds. A hit only marks its entry as used. If there is no
 * room, the search for an entry to drop goes on where the last one has ended, from the oldest to the
 * newest, and passes over those that were used since it last came by.
 *
 * Source: Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024.
 */
export class NearEntries {
  readonly #maxBytes: number;
  readonly #maxEntries: number;
  readonly #byKey = new Map<string, NearEntry>();
  /** A Map can be changed while it is iterated: the iterator then skips what was deleted and reaches what was added. */
  #search = this.#byKey.entries();
  #bytes = 0;

  constructor({ maxBytes, maxEntries }: { readonly maxBytes: number; readonly maxEntries: number }) {
    this.#maxBytes = maxBytes;
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#byKey.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): NearEntry | undefined {
    return this.#byKey.get(key);
  }

  /** Returns false if the entry is too large to be kept. */
  set(key: string, entry: NearEntry): boolean {
    this.delete(key);
    const bytes = bytesOf(key, entry);
    if (bytes > this.#maxBytes) return false;
    while (this.#byKey.size >= this.#maxEntries || this.#bytes + bytes > this.#maxBytes) this.#dropOne();
    this.#byKey.set(key, entry);
    this.#bytes += bytes;
    return true;
  }

  delete(key: string): void {
    const entry = this.#byKey.get(key);
    if (entry === undefined) return;
    this.#byKey.delete(key);
    this.#bytes -= bytesOf(key, entry);
    drop(entry);
  }

  #dropOne(): void {
    for (let passedOver = 0; ; passedOver++) {
      const [key, entry] = this.#next();
      if (!entry.isUsed || passedOver === MAX_PASSED_OVER) {
        this.delete(key);
        return;
      }
      entry.isUsed = false;
    }
  }

  #next(): [string, NearEntry] {
    const { done, value } = this.#search.next();
    if (done !== true) return value;
    this.#search = this.#byKey.entries();
    return this.#search.next().value as [string, NearEntry];
  }
}

/** A value in the memory of this process. */
export interface NearValue {
  /** Shared by all readers, unless there is `decode`. */
  readonly value: unknown;
  /** Makes a value for one reader. Undefined if all share `value`. */
  readonly decode?: (() => unknown) | undefined;
  readonly hint: ResponseHint | undefined;
  /** All tags of the value. */
  readonly subjects: readonly Subject[];
  /** A promise of the value, which all readers get. Undefined until the first that needs one. */
  promise: Promise<unknown> | undefined;
  /** The last check that the value has passed, which further hits do not repeat. Undefined: none. */
  passed: unknown;
}

/**
 * A value, with the data that decides how long it is fresh. Keeps no reference to the bytes that the store
 * has sent.
 */
export interface NearEntry extends NearValue {
  value: unknown;
  decode?: (() => unknown) | undefined;
  readonly freshUntilAt: number;
  readonly grantedAt: number;
  readonly loadMs: number;
  /** The size of the value, as encoded in the store. */
  readonly bytes: number;
  /** About how much memory the value and its tags take. */
  readonly memoryBytes: number;
  /** The store's clock minus the clock of this process, when the entry was read. */
  readonly offsetMs: number;
  /** When the read was sent, on the clock of this process. A whole number, see `certainUntilAt`. */
  readonly readAt: number;
  /** That of the request that has read it. */
  readonly policy: Policy;
  /**
   * Until when it is fresh by `policy` and not due for an early refresh, on the clock of this process. A
   * whole number, since V8 keeps others outside of the object.
   */
  readonly certainUntilAt: number;
  readonly epoch: string;
  readonly position: number;
  /** See `InvalidationClock.changes`: up to which of them its tags were last compared. */
  comparedAt: number;
  /** Whether it was served since the last search for an entry to drop. */
  isUsed: boolean;
  /** Set when it is dropped: names that have found it may still refer to it. */
  isDropped: boolean;
}

/** Measured memory of one entry besides its key, value and tags, once it was served: `bench/near-sizes.ts`. */
const OVERHEAD_BYTES = 400;
/** How many used entries a search passes over at most, so that it does not stall the event loop. */
const MAX_PASSED_OVER = 100;

/** Releases the value: names that have found the entry can outlive it. */
function drop(entry: NearEntry): void {
  entry.isDropped = true;
  entry.value = undefined;
  entry.decode = undefined;
  entry.promise = undefined;
}

const bytesOf = (key: string, { memoryBytes }: NearEntry): number => OVERHEAD_BYTES + key.length + memoryBytes;
