import { types } from "node:util";
import { type Clock, MAX_TIMER_MS, type Random } from "../../base/clock.js";
import { ignoreRejection } from "../../base/deferred.js";
import { CachedError, describeSetting } from "../../base/errors.js";
import { Unstorable } from "../../codec/codec.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import type { Subject } from "../../keys/key.js";
import { jittered } from "../../policy/policy.js";
import { freshMsForWaiters, SKIPPED_MARK, UNSERIALIZABLE_MARK } from "../../store/entry.js";
import { type Body, type OwnFreshness, writeBody } from "../../store/entry-layout.js";
import { ABANDONED, type LeaseEnd, type Store, type StoreOutcome, type StoreRequest } from "../../store/store.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import { valueAad } from "../entry/entry-decoder.js";
import { type Failures, failureAad } from "../entry/failure.js";
import { ownPolicy, valueTtlMs } from "../entry/freshness.js";
import type { Memory } from "../memory/memory.js";
import { type FailedLoad, freshMsOf, isNegative, type Loaded, type LoadedValue, REFUSALS } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import { subjectsOfLoaded } from "../request/served-report.js";
import type { TierSettings } from "../request/settings.js";
import type { InvalidationClock } from "../shared/invalidation-clock.js";
import type { Modes } from "../shared/modes.js";
import type { Loads } from "../source/loads.js";
import { isRefusal } from "../source/sources.js";
import { TickBatch } from "../tick/tick-batch.js";
import type { HeldLeases, InFlightLoad } from "./held-leases.js";

/** Stores what loads under a lease return, or says how the lease ends. */
export class Settlement {
  readonly #room = new ByteRoom();
  readonly #storeRequests: TickBatch<StoreRequest, StoreOutcome>;

  constructor(
    private readonly parts: SettlementParts,
    private readonly held: HeldLeases,
  ) {
    this.#storeRequests = new TickBatch(parts.clock, (requests) => parts.store.storeValues(requests));
  }

  /** Stores the value, or releases the lease. Returns whether it is stored. Never rejects. */
  async settle(inFlight: InFlightLoad, loaded: Loaded): Promise<boolean> {
    let isStored = false;
    try {
      const end = this.#endOf(inFlight, loaded);
      if (end === undefined) isStored = await this.#store(inFlight, loaded as LoadedValue);
      else await this.held.release(inFlight, end);
    } catch (error) {
      // The store failed, which it reports itself, or the value could not be packed or tagged.
      // Releases the lease, so that other processes do not wait for it to expire.
      const isUnusable = error instanceof CachedError && error.code === "CACHED_KEY_UNUSABLE";
      if (isUnusable) this.#reportRefused(inFlight.request, error);
      await this.held.release(inFlight, isUnusable ? this.#unkept(inFlight, loaded.loadMs) : ABANDONED);
    }
    this.held.remove(inFlight);
    inFlight.end();
    return isStored;
  }

  /** Returns how the lease ends. Undefined: with the value, which can be stored. */
  #endOf(inFlight: InFlightLoad, loaded: Loaded): LeaseEnd | undefined {
    const { request, isRefresh } = inFlight;
    const { modes, loads, packing, settings } = this.parts;
    const { refusal, loadMs } = loaded;
    if (loaded.isCallersOwn) {
      // If loads fail for most callers, all load now. Not after a refresh: its value is served on.
      if (isRefresh || !loads.callerErrors.isUnshared(request.key)) return ABANDONED;
      return { outcome: "uncacheable", holdMs: this.holdMsOf(loadMs), body: UNSERIALIZABLE_MARK };
    }
    const refused = refusal === undefined ? undefined : REFUSALS[refusal].lease;
    if (refused === "abandoned" || modes.isOff(request.key.coordinate)) return ABANDONED;
    if (loaded.kind === "failed") {
      if (refused !== undefined) return this.#unkept(inFlight, loadMs);
      if (isRefusal(loaded.error)) return ABANDONED;
      // What nobody may be served would stay in the place of the failure, and all would load.
      const mayStay = loaded.isSourceFailure && inFlight.hasValue;
      return {
        outcome: mayStay ? "failed" : "gone",
        holdMs: this.#errorMaxAgeMs(request, loaded.error),
        body: packing.seal(this.#describe(loaded, request), failureAad(request.key)),
      };
    }
    const mark = refused ?? (loaded.content === undefined ? UNSERIALIZABLE_MARK : undefined);
    if (mark === "unkept" || (mark === undefined && loaded.settings?.isSkipped === true))
      return this.#unkept(inFlight, loadMs);
    return mark && { outcome: "uncacheable", holdMs: settings.errorBackoffMs, body: mark };
  }

  /** Describes an error. Reports one of which other processes cannot get an exact copy. */
  #describe({ error, forOthers = { error } }: FailedLoad, request: ReadRequest): Uint8Array {
    const { failures, store } = this.parts;
    return failures.write(forOthers, request.key, (cause) => {
      if (store.isShared !== false) this.#reportRefused(request, unshared(request.key.coordinate, cause));
    });
  }

  /**
   * Returns how a lease ends after a load whose result belongs to its own callers: it was skipped,
   * or GraphQL would refuse it. If a stored value stays, readers are served it or load next.
   * Otherwise those who wait in other processes load at once, rather than one after the other,
   * since their results may not be kept either.
   */
  #unkept({ hasValue }: InFlightLoad, loadMs: number): LeaseEnd {
    return hasValue ? ABANDONED : { outcome: "uncacheable", holdMs: this.holdMsOf(loadMs), body: SKIPPED_MARK };
  }

  /** For how long readers load for themselves after a load whose result is its callers' alone. */
  holdMsOf(loadMs: number): number {
    return Math.min(Math.max(loadMs, MIN_SKIP_HOLD_MS), this.parts.settings.errorBackoffMs);
  }

  /** Returns whether the value is stored, and fresh. Rejects if it cannot be packed or tagged. */
  async #store(inFlight: InFlightLoad, loaded: LoadedValue): Promise<boolean> {
    const { key, tags, policy } = inFlight.request;
    const content = loaded.content as Encoded;
    let isStored = false;
    let storedBytes = 0;
    // At once, like the encoding of the value: its source may go on to change it.
    const subjects = subjectsOfLoaded(tags, loaded);
    // In bytes or characters.
    const room = this.#room.enter(content.length);
    try {
      if (room !== undefined) await room;
      const packing = this.parts.packing.pack(content);
      const packed = types.isPromise(packing) ? await packing : packing;
      const request = this.#requestFor(inFlight, loaded, subjects, packed);
      if (request !== undefined) inFlight.isStoring = true;
      const outcome = request && (await this.#storeRequests.add(request));
      if (request !== undefined && outcome === "stored") {
        isStored = request.grantedAt + request.freshMs >= 0;
        if (isStored) {
          this.#keep(inFlight, loaded, request.freshMs, subjects);
          storedBytes = request.body.byteLength;
        } else if (freshMsOf(policy, loaded) > 0)
          this.#reportRefused(inFlight.request, outlived(key.coordinate, loaded.loadMs));
      }
      // The store may not have received the value, or cannot take it.
      if (request === undefined || outcome === "unavailable") await this.held.release(inFlight);
    } finally {
      this.#room.leave(content.length);
    }
    this.parts.channel.publish({ name: "write.finished", ...subjectOf(key), isStored, storedBytes });
    return isStored;
  }

  /** Keeps in memory what the store has confirmed. */
  #keep(inFlight: InFlightLoad, loaded: LoadedValue, freshMs: number, subjects: readonly Subject[]): void {
    const { memory, packing } = this.parts;
    const { request, grantedAt, position, askedAt } = inFlight;
    const { known, policy } = request;
    const { content, hint, loadMs } = loaded;
    if (memory === undefined || known === undefined || content === undefined) return;
    const entry = { grantedAt, loadMs, position, freshUntilAt: grantedAt + freshMs };
    try {
      const value = packing.decode(content);
      const own = loaded.settings?.freshness;
      memory.put(known, policy, { entry, value, content, subjects, hint, own, readAt: askedAt, now: grantedAt });
    } catch {
      // A codec of the user: the next read reports it.
    }
  }

  /**
   * Returns the request that stores a value. Undefined if this process knows that one of its tags
   * was invalidated during the load, or is being written: a value from before is not served anyway,
   * by its position, but one that is read during a write can be stored after it.
   */
  #requestFor(
    inFlight: InFlightLoad,
    loaded: LoadedValue,
    subjects: readonly Subject[],
    packed: Buffer,
  ): StoreRequest | undefined {
    const { clock, random: randomNow, invalidations, packing } = this.parts;
    const { gen, grantedAt, startedAt, position } = inFlight;
    const { key, policy } = inFlight.request;
    const { value, hint, settings, loadMs } = loaded;
    const maxAgeMs = freshMsOf(policy, loaded);
    const elapsedMs = clock.now() - startedAt;
    if (invalidations.stateOf(subjects, position) === "changed") return undefined;
    if (invalidations.isWritten({ key, tags: { subjects } }, grantedAt + elapsedMs)) return undefined;
    const own: OwnFreshness | undefined = settings?.freshness;
    // Also of null, or by a hint: after a failed refresh, nothing else says when it became stale.
    const isOwn = own?.maxAgeMs !== undefined || maxAgeMs < policy.maxAgeMs;
    const freshness = isOwn ? { ...own, maxAgeMs } : own;
    const body: Body = { subjects, hint, freshness, value: packed };
    const random = randomNow();
    const keptMs = valueTtlMs(freshness === undefined ? policy : ownPolicy(policy, freshness), maxAgeMs, random);
    const isForWaiters = maxAgeMs === 0 || (keptMs !== undefined && keptMs <= elapsedMs);
    const ttlMs = isForWaiters ? 0 : keptMs;
    return {
      key: key.name,
      gen,
      grantedAt,
      loadMs,
      isNegative: isNegative(value),
      freshMs: isForWaiters ? freshMsForWaiters(grantedAt) : jittered(maxAgeMs, policy.jitterRatio, random),
      // At least until those who wait for the value have read it.
      ttlMs: ttlMs === undefined ? undefined : Math.max(ttlMs, Math.ceil(elapsedMs) + FOR_WAITERS_MS),
      body: packing.seal(writeBody(body, key), valueAad(key, inFlight)),
    };
  }

  /** How long the error of a load is shared. A mistake in the option does not replace the error. */
  #errorMaxAgeMs({ key, policy }: ReadRequest, error: unknown): number {
    const { channel, settings, random } = this.parts;
    const { errorMaxAgeMs, errorBackoffMs } = settings;
    const { coordinate, kind } = key;
    const report = (problem: string, cause?: unknown): void => {
      const mistake = new CachedError(
        "CACHED_OPTION_INVALID",
        `createCache: \`loads.errorMaxAgeMs\`: expected a number from 0 to ${MAX_TIMER_MS} (milliseconds) or undefined, ${problem}; until then errors of \`${coordinate}\` are shared for \`loads.errorBackoffMs\``,
        cause === undefined ? { coordinate } : { coordinate, cause },
      );
      channel.publish({ name: "lifetime.refused", ...subjectOf(key), error: mistake });
    };
    // The error of one field in a response says nothing of the others.
    if (kind !== "response")
      try {
        const given: unknown = typeof errorMaxAgeMs === "function" ? errorMaxAgeMs(error, coordinate) : errorMaxAgeMs;
        if (typeof given === "number" && given >= 0 && given <= MAX_TIMER_MS)
          return jittered(given, policy.jitterRatio, random());
        ignoreRejection(given);
        if (given !== undefined && given !== null) report(`got ${describeSetting(given)}`);
      } catch (thrown) {
        report("it threw an exception, the cause of this error", thrown);
      }
    return jittered(errorBackoffMs, 0.5, random());
  }

  #reportRefused({ key }: ReadRequest, error: CachedError): void {
    this.parts.channel.publish({ name: "value.refused", ...subjectOf(key), error });
  }
}

/** Lets values of `MAX_STORING_BYTES` together be worked on at a time; one alone in any case. */
class ByteRoom {
  #bytes = 0;
  readonly #waiting: { readonly bytes: number; readonly enter: () => void }[] = [];

  /** Resolves when there is room for `bytes`, which `leave` makes free. Undefined: there is. */
  enter(bytes: number): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#hasRoomFor(bytes)) {
      this.#bytes += bytes;
      return undefined;
    }
    return new Promise((enter) => this.#waiting.push({ bytes, enter }));
  }

  leave(bytes: number): void {
    this.#bytes -= bytes;
    this.#admit();
  }

  #hasRoomFor(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= MAX_STORING_BYTES;
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#hasRoomFor(next.bytes)) return;
      this.#waiting.shift();
      this.#bytes += next.bytes;
      next.enter();
    }
  }
}

/** See `holdMsOf`. */
const MIN_SKIP_HOLD_MS = 50;

/** What packed values take of memory at most. */
const MAX_STORING_BYTES = 8 * 1024 * 1024;

/** Longer than until the next poll of those who wait for the load. */
const FOR_WAITERS_MS = 2_000;

/** The option that says for how long an error is shared. */
export type ErrorMaxAgeMs = number | ((error: unknown, coordinate: string) => number | undefined);

export interface SettlementParts {
  readonly store: Store;
  readonly modes: Modes;
  readonly invalidations: InvalidationClock;
  readonly clock: Clock;
  readonly random: Random;
  readonly channel: Channel;
  readonly loads: Loads;
  readonly packing: Packing;
  readonly failures: Failures;
  readonly memory: Memory | undefined;
  readonly settings: TierSettings & { readonly errorMaxAgeMs: ErrorMaxAgeMs | undefined };
}

const outlived = (coordinate: string, loadMs: number): CachedError =>
  new CachedError(
    "CACHED_VALUE_EXPIRED",
    `\`${coordinate}\`: the value is not cached: expected a load that takes less than \`maxAge\`, from whose start the age counts, got one of ${Math.round(loadMs)} ms; raise \`maxAge\`, set \`staleWhileRevalidate\`, or speed up the source`,
    { coordinate },
  );

function unshared(coordinate: string, cause: unknown): CachedError {
  const got =
    cause instanceof Unstorable
      ? cause.message.replace("`result", "`error")
      : "one that is too large, or has a type that throws";
  const mistake = `\`${coordinate}\`: the error of a load is not shared with other processes, which load for themselves: expected an error of plain data, got ${got}; declare its class in createCache({ types })`;
  return new CachedError("CACHED_ERROR_UNSHARED", mistake, { coordinate, cause });
}
