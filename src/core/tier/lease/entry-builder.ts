import type { Clock, Random } from "../../base/clock.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import type { Key } from "../../keys/key.js";
import { jittered } from "../../policy/jitter.js";
import { type Body, type OwnFreshness, writeBody } from "../../store/body.js";
import { freshMsForWaiters } from "../../store/entry.js";
import type { StoreRequest } from "../../store/store.js";
import { ownPolicy, valueTtlMs } from "../entry/freshness.js";
import type { InvalidationClock } from "../record/invalidation-clock.js";
import { freshMsOf, isNegative, type LoadedValue } from "../request/loaded.js";
import { areSameSubjects, subjectsOfLoaded } from "../request/served-report.js";
import type { InFlightLoad } from "./load-sharing.js";

/** Returns how much room a value needs while it is packed and stored, in bytes or characters. */
export const sizeOf = ({ content, settings }: LoadedValue): number =>
  settings?.unchanged === undefined ? (content?.length ?? 0) : 0;

/**
 * Builds the request that stores a loaded value: how long it is fresh, its tags, and whether it may
 * be stored at all.
 */
export class EntryBuilder {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #packing: Packing;
  readonly #invalidations: InvalidationClock;

  constructor(invalidations: InvalidationClock, clock: Clock, random: Random, packing: Packing) {
    this.#invalidations = invalidations;
    this.#clock = clock;
    this.#random = random;
    this.#packing = packing;
  }

  /**
   * `loaded` can be stored: it has content. `room` resolves when it may be packed; undefined: now. Returns undefined if this process knows
   * that one of its tags was invalidated during the load, or is being written: a value from before is not served anyway, by its position, but
   * one that is read during a write can be stored after it.
   */
  async build(
    inFlight: InFlightLoad,
    loaded: LoadedValue,
    room: Promise<void> | undefined,
  ): Promise<StoreRequest | undefined> {
    const { key, policy } = inFlight.request;
    const { value, content, hint, settings, loadMs } = loaded;
    const maxAgeMs = freshMsOf(policy, loaded);
    // At once, like the encoding of the value: its source may go on to change it.
    const subjects = subjectsOfLoaded(inFlight.request.tags, loaded);
    if (room !== undefined) await room;
    const packed = settings?.unchanged?.packed ?? (await this.#packing.pack(content as Encoded));
    const elapsedMs = this.#clock.now() - inFlight.startedAt;
    if (this.#invalidations.stateOf(subjects, inFlight.position) === "changed") return undefined;
    if (this.#invalidations.isWritten({ key, tags: { subjects } }, inFlight.grantedAt + elapsedMs)) return undefined;
    const freshness = keptFreshness(settings?.freshness, maxAgeMs);
    const random = this.#random();
    const keptMs = valueTtlMs(freshness === undefined ? policy : ownPolicy(policy, freshness), maxAgeMs, random);
    const isForWaiters = maxAgeMs === 0 || (keptMs !== undefined && keptMs <= elapsedMs);
    return {
      key: key.name,
      gen: inFlight.gen,
      grantedAt: inFlight.grantedAt,
      loadMs,
      isNegative: isNegative(value),
      freshMs: isForWaiters ? freshMsForWaiters(inFlight.grantedAt) : jittered(maxAgeMs, policy.jitterRatio, random),
      ttlMs: ttlMsOf(isForWaiters ? 0 : keptMs, elapsedMs),
      body: this.#bodyOf(loaded, { subjects, hint, freshness, value: packed }, key),
    };
  }

  /** Returns the bytes of a body. Undefined if the stored value has the same. */
  #bodyOf({ settings }: LoadedValue, body: Body, key: Key): Uint8Array | undefined {
    const kept = settings?.unchanged;
    const isSame =
      kept !== undefined &&
      areSameSubjects(kept.subjects, body.subjects) &&
      JSON.stringify([kept.hint, kept.freshness]) === JSON.stringify([body.hint, body.freshness]);
    return isSame ? undefined : this.#packing.seal(writeBody(body, key), key.name);
  }
}

/** Returns what to keep of what a load has set: its `maxAge` as it applies. */
const keptFreshness = (own: OwnFreshness | undefined, maxAgeMs: number): OwnFreshness | undefined =>
  own?.maxAgeMs === undefined ? own : { ...own, maxAgeMs };

/** How long those who have waited for a load can find its value: longer than until their next poll. */
const FOR_WAITERS_MS = 2_000;

/** Returns how long the store keeps a value: at least until those who wait for it have read it. */
const ttlMsOf = (keptMs: number | undefined, elapsedMs: number): number | undefined =>
  keptMs === undefined ? undefined : Math.max(keptMs, Math.ceil(elapsedMs) + FOR_WAITERS_MS);
