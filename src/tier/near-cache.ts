import { LRUCache } from "lru-cache";
import type { Clock, Random } from "../clock.js";
import type { ResponseHint } from "../store/body.js";
import type { Entry } from "../store/entry.js";
import type { ChangeListener } from "../store/store.js";
import type { DecodedValue } from "./entry-decoder.js";
import { isDueEarly } from "./freshness.js";
import type { ReadRequest } from "./request.js";
import type { Names } from "./unconfirmed-invalidations.js";

/** The bounds of the near cache. */
export interface NearCacheSettings {
  /** Bytes of stored values, as the store has them. */
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** Whether objects and lists are frozen, so that who changes a shared one is found out. */
  readonly isFrozen: boolean;
}

/** A value in this process's memory, with what decides how long it counts. */
interface NearEntry {
  readonly value: unknown;
  readonly hint: ResponseHint | undefined;
  readonly entry: Entry;
  /** The store's clock minus this process's, as it was when the entry was read. */
  readonly offsetMs: number;
  readonly rule: string;
  readonly tags: readonly string[];
}

/** A fresh value, how long it stays so, and how old it is. */
export interface NearValue {
  readonly value: unknown;
  readonly hint: ResponseHint | undefined;
  readonly freshForMs: number;
  readonly ageMs: number;
}

/** So many changes are remembered, to tell whether one came while a read was on its way. */
const MAX_CHANGES = 10_000;
const OVERHEAD_BYTES = 300;

/**
 * Fresh values in this process's memory, for as long as the store tells of every change. What is heard to have changed is dropped, a change of a
 * tag drops everything under it, and when changes may have been missed everything is dropped. So a value is older than the store's by no more than a
 * message takes, or, should the connection be gone without a word, two seconds.
 */
export class NearCache implements ChangeListener {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #isFrozen: boolean;
  readonly #byKey: LRUCache<string, NearEntry>;
  readonly #keysOf = new Map<string, Set<string>>();
  /** What has changed lately, each with its place in the order of changes. */
  readonly #changes = new Map<string, number>();
  #count = 0;
  /** Reads that began before this change are not kept. */
  #barrier = 0;
  #isLive = false;

  constructor(clock: Clock, random: Random, { maxBytes, maxEntries, isFrozen }: NearCacheSettings) {
    this.#clock = clock;
    this.#random = random;
    this.#isFrozen = isFrozen;
    this.#byKey = new LRUCache({
      max: maxEntries,
      maxSize: maxBytes,
      sizeCalculation: ({ entry }, key) => OVERHEAD_BYTES + key.length + entry.body.byteLength,
      dispose: ({ tags }, key) => this.#unlink(key, tags),
    });
  }

  /** The place of the last change: a read that begins now and is to be kept names it. */
  get mark(): number {
    return this.#count;
  }

  /** The fresh value of a request, and how long it stays so; undefined where there is none. */
  get({ key, policy, tags }: ReadRequest): NearValue | undefined {
    const near = this.#byKey.get(key.name);
    if (near === undefined || near.rule !== tags.rule) return undefined;
    const { value, hint, entry, offsetMs } = near;
    const now = this.#clock.now() + offsetMs;
    const freshForMs = Math.min(entry.freshUntilAt - now, entry.grantedAt + policy.maxAgeMs - now);
    if (freshForMs <= 0 || isDueEarly(entry, policy, now, this.#random)) return undefined;
    return { value, hint, freshForMs, ageMs: now - entry.grantedAt };
  }

  /** Keeps what a read that began at `mark` has found fresh at the store's `now`, unless something of it has changed since. */
  put(
    request: ReadRequest,
    entry: Entry,
    { value, hint, resultTags }: Omit<DecodedValue, "kind">,
    now: number,
    mark: number,
  ): void {
    const { name } = request.key;
    const tags = [...request.tags.names, ...resultTags.map((tag) => tag.name)];
    if (!this.#isLive || mark < this.#barrier) return;
    if ([name, ...tags].some((changed) => (this.#changes.get(changed) ?? 0) > mark)) return;
    if (this.#isFrozen) freeze(value);
    const near = { value, hint, entry, offsetMs: now - this.#clock.now(), rule: request.tags.rule, tags };
    this.#byKey.set(name, near);
    if (this.#byKey.peek(name) !== near) return;
    for (const tag of tags) {
      const keys = this.#keysOf.get(tag) ?? new Set();
      this.#keysOf.set(tag, keys.add(name));
    }
  }

  /** What this process has invalidated itself need not be heard of. */
  drop({ keys, tags }: Names): void {
    for (const name of [...keys, ...tags]) this.changed(name);
  }

  changed(name: string | undefined): void {
    this.#count++;
    if (name === undefined) {
      this.#clear();
      return;
    }
    this.#changes.delete(name);
    this.#changes.set(name, this.#count);
    if (this.#changes.size > MAX_CHANGES) {
      const [oldest] = this.#changes;
      if (oldest !== undefined) {
        this.#changes.delete(oldest[0]);
        this.#barrier = oldest[1];
      }
    }
    this.#byKey.delete(name);
    for (const key of this.#keysOf.get(name) ?? []) this.#byKey.delete(key);
  }

  began(): void {
    this.#isLive = true;
    this.#clear();
  }

  lost(): void {
    this.#isLive = false;
    this.#clear();
  }

  #clear(): void {
    this.#count++;
    this.#barrier = this.#count;
    this.#changes.clear();
    this.#byKey.clear();
    this.#keysOf.clear();
  }

  #unlink(key: string, tags: readonly string[]): void {
    for (const tag of tags) {
      const keys = this.#keysOf.get(tag);
      keys?.delete(key);
      if (keys?.size === 0) this.#keysOf.delete(tag);
    }
  }
}

/** Objects and lists, through and through. What freezing does not make unchangeable, such as a Map, is left alone. */
function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!Array.isArray(value) && prototype !== Object.prototype && prototype !== null) return;
  Object.freeze(value);
  for (const member of Object.values(value)) freeze(member);
}
