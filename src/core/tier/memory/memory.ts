import { isPlainObject } from "../../base/built-in.js";
import type { Cancel, Clock } from "../../base/clock.js";
import { copyPlain } from "../../codec/json-codec.js";
import { type Encoded, type Packing, StoredText } from "../../codec/packing.js";
import type { Subject } from "../../keys/key.js";
import type { Policy } from "../../policy/policy.js";
import type { Entry } from "../../store/entry.js";
import type { OwnFreshness, ResponseHint } from "../../store/entry-layout.js";
import type { Store } from "../../store/store.js";
import { earliestRefreshAt, freshEndOf } from "../entry/freshness.js";
import { type Copies, canBeKept, forget, isRemembered, type KnownKey, type Memos } from "../request/known-key.js";
import { freezePlain } from "../request/value-decoder.js";
import { prepareFor } from "../request/verdict.js";
import type { InvalidationClock } from "../shared/invalidation-clock.js";
import { ValueSize } from "./value-size.js";

/**
 * Keeps fresh values in the memory of this process. Each has the position of its load and its tags,
 * as in the store, and counts as long as nothing that this process knows was invalidated later.
 * What it knows is made current by one read of the head of the invalidation clock, which every read
 * of the store shows: after a read that was sent since an execution began, all values in memory
 * count for that execution, as if they had been read from the store. So nothing outdated is served,
 * and a value costs no trip.
 *
 * With `maxStalenessMs`, values count without that read for as long: a process then asks for the
 * head by itself, and listens to messages.
 */
export class Memory {
  readonly #sizes = new ValueSize();
  readonly #memos: Memos;
  readonly #invalidations: InvalidationClock;
  readonly #maxStalenessMs: number;
  #isPolling = false;
  #idlePolls = 0;
  /** When it last began to poll, or polled. */
  #polledAt = 0;
  #isClosed = false;
  #cancelPoll: Cancel = () => undefined;

  constructor(private readonly parts: MemoryParts) {
    this.#invalidations = parts.invalidations;
    this.#memos = parts.memos;
    this.#maxStalenessMs = parts.settings.maxStalenessMs;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelPoll();
  }

  now(): number {
    return this.parts.clock.now();
  }

  get status(): MemoryStatus {
    const { asOf } = this.#invalidations;
    const confirmedAt = asOf === Number.NEGATIVE_INFINITY ? undefined : asOf;
    return { bytes: this.#memos.bytes, maxBytes: this.parts.settings.maxBytes, confirmedAt };
  }

  /** Whether values count without a question, as what is known is not older than allowed. */
  get isLive(): boolean {
    return this.#maxStalenessMs > 0 && this.parts.clock.now() - this.#invalidations.asOf < this.#maxStalenessMs;
  }

  /** Returns whether a value counts for who began before read `since`. Forgets invalidated ones. */
  serves(known: KnownKey, since: number): boolean {
    const { until } = known;
    if (until === 0) return false;
    const invalidations = this.#invalidations;
    const now = this.parts.clock.now();
    if (this.#maxStalenessMs > 0) this.#keepPolling();
    const age = now - invalidations.asOf;
    if (age >= (invalidations.confirmedRead >= since ? MAX_AGE_MS : this.#maxStalenessMs)) return false;
    if (now >= until) {
      this.drop(known);
      return false;
    }
    if (known.comparedAt !== invalidations.changes && !this.isCurrent(known)) return false;
    return known.copies !== "decoded" || this.#decode(known);
  }

  /** For one reader, who may change the value unless the policy is `readOnly`. */
  take(known: KnownKey): unknown {
    switch (known.copies) {
      case "shared":
        return known.value;
      case "flat":
        return { ...(known.value as object) };
      case "plain":
        return copyPlain(known.value);
      default: {
        const { value } = known;
        known.value = undefined;
        return value;
      }
    }
  }

  /** Decodes a value for the reader who is about to take it. A codec of the user may throw. */
  #decode(known: KnownKey): boolean {
    try {
      known.value = known.kept?.decode?.();
      return true;
    } catch {
      this.drop(known);
      return false;
    }
  }

  /** Compares a value with the invalidations known by now, and forgets it if it is outdated. */
  isCurrent(known: KnownKey): boolean {
    const { kept, key } = known;
    const invalidations = this.#invalidations;
    const isCurrent =
      kept !== undefined &&
      kept.readAt > invalidations.restartedAt &&
      invalidations.isUntouched(kept.position, key, kept.subjects);
    if (isCurrent) known.comparedAt = invalidations.changes;
    else this.drop(known);
    return isCurrent;
  }

  /** Keeps a fresh value. Returns whether it keeps the object itself: its reader needs a copy. */
  put(known: KnownKey, policy: Policy, { entry, value, content, subjects, hint, own, readAt, now }: Shown): boolean {
    if (!canBeKept(known)) return false;
    // The store read its clock after `readAt`, so a value never expires later here than there.
    const offsetMs = now - readAt;
    const freshUntilAt = freshEndOf(entry, policy, own) - offsetMs;
    const until = Math.floor(Math.min(freshUntilAt, earliestRefreshAt(entry, policy) - offsetMs));
    if (until <= readAt) return false;
    this.drop(known);
    const { packing, settings } = this.parts;
    const copies = copiesOf(value, content, policy, packing);
    const decode = copies === "decoded" ? decoderOf(content, packing) : undefined;
    const valueBytes = decode === undefined ? this.#sizes.of(value, content.length) : content.length;
    const bytes = KEPT_BYTES + 8 * subjects.length + valueBytes;
    if (bytes > settings.maxBytes / MIN_ENTRIES) return false;
    known.copies = copies;
    known.value = decode === undefined ? value : undefined;
    known.comparedAt = -1;
    known.until = Math.max(1, until);
    const { position } = entry;
    const grantedAt = entry.grantedAt - offsetMs;
    known.kept = { position, subjects, readAt, freshUntilAt, grantedAt, hint, bytes, decode, passed: undefined };
    this.#memos.grow(bytes, known.row);
    if (this.#maxStalenessMs > 0) this.#keepPolling();
    // There may have been no room for it.
    return decode === undefined && known.kept !== undefined;
  }

  drop(known: KnownKey): void {
    const { kept } = known;
    if (kept !== undefined && isRemembered(known)) this.#memos.grow(-kept.bytes, known.row);
    forget(known);
  }

  /** Called with every value that is asked for, or stored. */
  #keepPolling(): void {
    this.#idlePolls = 0;
    if (this.#isPolling) return;
    this.#isPolling = true;
    this.#polledAt = this.parts.clock.now();
    this.#pollLater();
  }

  #pollLater(): void {
    if (this.#isClosed) return;
    const waitMs = Math.max(0, this.#pollDueAt - this.parts.clock.now());
    this.#cancelPoll = this.parts.clock.after(waitMs, () => void this.#pollIfDue());
  }

  async #pollIfDue(): Promise<void> {
    this.#idlePolls++;
    if (this.#idlePolls > MAX_IDLE_POLLS) {
      this.#isPolling = false;
      return;
    }
    // A read may have confirmed something meanwhile.
    if (this.parts.clock.now() >= this.#pollDueAt) await this.#poll();
    this.#pollLater();
  }

  get #pollDueAt(): number {
    return Math.max(this.#invalidations.asOf, this.#polledAt) + Math.min(POLL_MS, this.#maxStalenessMs / 2);
  }

  /** Confirms what this process knows by a read of nothing but the head. Never rejects. */
  async #poll(): Promise<void> {
    const { store, invalidations } = this.parts;
    const sentAt = this.parts.clock.now();
    this.#polledAt = sentAt;
    if (await prepareFor(await store.read([]), this.parts)) invalidations.confirm(sentAt);
  }

  /** Of a message. Without `maxStalenessMs`, the next read asks for what is new. */
  hear(head: Buffer | undefined): void {
    if (this.#isClosed || !this.isLive) return;
    void (head === undefined ? this.#poll() : this.#invalidations.hear(head));
  }
}

function copiesOf(value: unknown, content: Encoded, { readOnly }: Policy, packing: Packing): Copies {
  if ((typeof value !== "object" || value === null) && typeof value !== "function") return "shared";
  if (value instanceof StoredText) return "shared";
  if (readOnly === true) {
    freezePlain(value);
    return "shared";
  }
  if (packing.copierOf(content) === undefined) return "decoded";
  return isFlat(value) ? "flat" : "plain";
}

/** Keeps nothing of the store's reply. */
function decoderOf(given: Encoded, packing: Packing): () => unknown {
  const content = given instanceof Uint8Array ? Buffer.from(given) : given;
  return () => packing.decode(content);
}

const isFlat = (value: object): boolean =>
  isPlainObject(value) && Object.values(value).every((member) => typeof member !== "object" || member === null);

interface Shown {
  readonly entry: Pick<Entry, "freshUntilAt" | "grantedAt" | "loadMs" | "position">;
  readonly value: unknown;
  readonly content: Encoded;
  readonly subjects: readonly Subject[];
  readonly hint: ResponseHint | undefined;
  /** Undefined: its lifetime is that of the policy. */
  readonly own: OwnFreshness | undefined;
  /** When what has shown the value was sent, on the clock of this process. */
  readonly readAt: number;
  /** The store's time then. */
  readonly now: number;
}

export interface MemoryStatus {
  readonly bytes: number;
  readonly maxBytes: number;
  /** When this process last confirmed that it knows all invalidations, on its own clock. */
  readonly confirmedAt: number | undefined;
}

interface MemoryParts {
  readonly clock: Clock;
  readonly store: Pick<Store, "read">;
  readonly invalidations: InvalidationClock;
  readonly packing: Packing;
  readonly memos: Memos;
  readonly settings: {
    /** Maximum memory of all values and their keys, as estimated. */
    readonly maxBytes: number;
    /** For how long values count without a read of the clock's head. 0: never. */
    readonly maxStalenessMs: number;
  };
}

const KEPT_BYTES = 140;
/** How many values of the largest size fit. */
const MIN_ENTRIES = 8;
/** How long values count for an execution after a read: a bound, should two be taken for one. */
const MAX_AGE_MS = 2_000;
/** How often a process asks for the head by itself, while values are asked for. */
const POLL_MS = 500;
/** After how many times in a row that nobody has asked for a value it stops. */
const MAX_IDLE_POLLS = 20;
