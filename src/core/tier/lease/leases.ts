import { AsyncResource } from "node:async_hooks";
import type { Cancel, Clock, Random } from "../../base/clock.js";
import { CachedError } from "../../base/errors.js";
import type { Packing } from "../../codec/packing.js";
import { jittered } from "../../policy/jitter.js";
import { SKIPPED_MARK, TOO_LARGE_MARK, UNSERIALIZABLE_MARK } from "../../store/entry.js";
import type { ClockOrigin, Grant, LeaseTimes, Release, Store, StoreOutcome, StoreRequest } from "../../store/store.js";
import { abandon } from "../../store/store.js";
import type { Channel } from "../../telemetry/channel.js";
import { subjectOf } from "../../telemetry/subject.js";
import { failureAad, writeFailure } from "../entry/failure.js";
import type { InvalidationClock } from "../record/invalidation-clock.js";
import type { SharedSettings } from "../record/shared-settings.js";
import { freshMsOf, isCallersOwn, type Loaded } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import type { TierSettings } from "../request/settings.js";
import { isCurrentAt, prepareFor, UNPREPARED } from "../request/verdict.js";
import { Waiters } from "../request/waiters.js";
import { type ErrorMaxAgeMs, ownErrorMaxAgeMs } from "../source/error-lifetime.js";
import type { LoadLimit } from "../source/load-limit.js";
import type { Loads, RunningLoad } from "../source/loads.js";
import type { PreviousValues } from "../source/previous-values.js";
import { isRefusal } from "../source/source-guard.js";
import { ByteRoom } from "../tick/byte-turns.js";
import { type LongTick, PER_TURN } from "../tick/long-tick.js";
import { TickBatch } from "../tick/tick-batch.js";
import type { WorkUnderWay } from "../tick/work-under-way.js";
import { EntryBuilder, sizeOf } from "./entry-builder.js";
import { type InFlightLoad, InFlightLoads, type Settled } from "./load-sharing.js";
import { encodeInput, type Handover, type RefreshQueue, writeJob } from "./refresh-job.js";

/** A request for the lease on the key of `request`. */
export interface LeaseRequest {
  readonly request: ReadRequest;
  /** See `AcquireRequest.supersededAt`. */
  readonly supersededAt: number;
  /** See `AcquireRequest.endsFreshness`. */
  readonly endsFreshness?: boolean;
  /** Whether the load is a background refresh, which no reader waits for. */
  readonly isRefresh: boolean;
  /** Whether the entry held a value when it was last read. A load that stores nothing leaves it there. */
  readonly hasValue: boolean;
  /** Who waits for the load. Undefined: the load is never aborted, such as that of a refresh. */
  readonly waiters?: Waiters | undefined;
}

/** A lease request that waits for the others of its tick. */
interface QueuedRequest extends LeaseRequest {
  /** The asynchronous context of the caller, in which the load begins: the source may find its session there. */
  readonly context: AsyncResource;
}

/**
 * The settings of the tier, and the queue for refreshes. Without a queue, refreshes run in this
 * process.
 */
export interface LeaseSettings extends TierSettings {
  readonly refreshQueue: RefreshQueue | undefined;
  readonly errorMaxAgeMs: ErrorMaxAgeMs | undefined;
}

/**
 * The result of a lease request: a load of this process, which is the caller's own if
 * `inFlight.request` is its request, or the result from the store.
 */
export type Acquired =
  | { readonly kind: "in-flight"; readonly inFlight: InFlightLoad }
  /**
   * A worker runs the refresh. `isOver` resolves when the queue has it, or, if the queue refused
   * it, when the refresh in this process has ended.
   */
  | { readonly kind: "enqueued"; readonly isOver: Promise<unknown> }
  /** This process runs as many loads of the key as it may. `isOver` resolves when to read again. */
  | { readonly kind: "limited"; readonly isOver: Promise<void> }
  /** A write is in progress: load without a lease, and store nothing. */
  | { readonly kind: "write-in-progress" }
  | Exclude<Grant, { kind: "granted" }>;

/** The delay before a failed release is repeated for the first time; it doubles each time. */
const FIRST_RELEASE_RETRY_MS = 100;

/** How long readers load for themselves after a load whose result is its own callers' alone, at least. */
const MIN_SKIP_HOLD_MS = 50;

/** From this number on, leases of one tick last longer by one time budget per 100. */
const MANY_LEASES = 1_000;

/** Values are packed and stored together up to this size, so that the packed ones never take more memory. */
const MAX_STORING_BYTES = 8 * 1024 * 1024;

/** A lease that this process holds: its load runs, or its value is being stored. */
export interface HeldLease {
  readonly coordinate: string;
  readonly digest: string;
  /** On the clock of this process. */
  readonly startedAt: number;
  readonly isRefresh: boolean;
  readonly isStoring: boolean;
  /** The number of callers in this process that wait for it. */
  readonly waiters: number;
}

/** Equal lease requests have the same. */
const idOf = ({ request: { key, tags }, supersededAt, endsFreshness = false }: LeaseRequest): string =>
  !tags.isOwn && supersededAt === 0 && !endsFreshness
    ? key.name
    : [key.name, supersededAt, endsFreshness, ...(tags.isOwn ? tags.subjects : [])].join("\n");

/** A lease, granted to this process or handed over by another. */
type GrantedLease = Pick<Extract<Grant, { kind: "granted" }>, "gen" | "token" | "grantedAt" | "position">;

/** Returns the result of a load for readers, who wait until it is stored as well, unless the load takes too long. */
async function whenSettled({ limited, completed }: RunningLoad, settled: Promise<unknown>): Promise<Loaded> {
  const loaded = await limited;
  if (loaded === (await Promise.race([completed, undefined]))) await settled;
  return loaded;
}

/** What the leases of a process work with. */
export interface LeasesParts {
  readonly store: Store;
  readonly sharedSettings: SharedSettings;
  readonly invalidations: InvalidationClock;
  readonly clock: Clock;
  readonly random: Random;
  readonly channel: Channel;
  readonly loads: Loads;
  readonly limit: LoadLimit;
  readonly packing: Packing;
  readonly previousValues: PreviousValues;
  readonly longTick: LongTick;
  readonly underWay: WorkUnderWay;
  readonly settings: LeaseSettings;
  /** See `Store.acquire`. */
  readonly holder: () => string;
}

/**
 * Acquires, renews and releases the leases of all loads of this process, and stores what they load.
 */
export class Leases {
  readonly inFlightLoads = new InFlightLoads();
  readonly #taggedByLoads = new Set<string>();
  readonly #store: Store;
  readonly #sharedSettings: SharedSettings;
  readonly #invalidations: InvalidationClock;
  readonly #entryBuilder: EntryBuilder;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #channel: Channel;
  readonly #loads: Loads;
  readonly #limit: LoadLimit;
  readonly #packing: Packing;
  readonly #room = new ByteRoom(MAX_STORING_BYTES);
  readonly #previousValues: PreviousValues;
  readonly #longTick: LongTick;
  readonly #settings: LeaseSettings;
  readonly #times: LeaseTimes;
  readonly #holder: () => string;
  /** The loads whose leases are renewed, by token. */
  readonly #leased = new Map<string, InFlightLoad>();
  /** The loads whose value is being stored, which ends their lease. */
  readonly #storing = new Set<InFlightLoad>();
  /** Has the lease requests, and the loads that are not yet stored or released. */
  readonly #underWay: WorkUnderWay;
  readonly #leaseRequests: TickBatch<QueuedRequest, Acquired>;
  readonly #storeRequests: TickBatch<StoreRequest, StoreOutcome>;
  readonly #releases: TickBatch<Release, boolean>;
  /** The number of jobs that the queue for refreshes has not taken yet. */
  #enqueuing = 0;
  #renewTimer: Cancel | undefined;
  #isRenewing = false;
  #isClosed = false;

  constructor(parts: LeasesParts) {
    const { store, clock, random, packing, longTick, settings } = parts;
    this.#store = store;
    this.#sharedSettings = parts.sharedSettings;
    this.#invalidations = parts.invalidations;
    this.#entryBuilder = new EntryBuilder(parts.invalidations, clock, random, packing);
    this.#clock = clock;
    this.#random = random;
    this.#channel = parts.channel;
    this.#loads = parts.loads;
    this.#limit = parts.limit;
    this.#packing = packing;
    this.#previousValues = parts.previousValues;
    this.#longTick = longTick;
    this.#underWay = parts.underWay;
    this.#settings = settings;
    this.#holder = parts.holder;
    const { leaseMs, storeTimeoutMs } = settings;
    // Longer than `acquire` of the FailOpenStore waits: five budgets for many keys, and up to three
    // times as long in a busy process.
    this.#times = { leaseMs, graceMs: 2 * leaseMs, patienceMs: 20 * storeTimeoutMs };
    this.#leaseRequests = new TickBatch<QueuedRequest, Acquired>(
      longTick,
      (leaseRequests) => this.#acquire(leaseRequests),
      idOf,
      longTick,
    );
    this.#storeRequests = new TickBatch(clock, (storeRequests) => store.storeValues(storeRequests));
    this.#releases = new TickBatch(clock, (releases) => store.release(releases));
  }

  /**
   * Requests the lease. All requests of one tick share a round trip, and the loads that they win
   * begin in the same tick. Never rejects.
   */
  acquire(leaseRequest: LeaseRequest): Promise<Acquired> {
    const context = new AsyncResource("graphql-cached.load");
    return this.#underWay.add(this.#leaseRequests.add({ ...leaseRequest, context }));
  }

  /**
   * Runs the load for a lease that another process has won. Returns whether the value was stored.
   * If the lease is lost, or the mode is off, returns false without loading. Never rejects.
   */
  async adopt(request: ReadRequest, lease: Handover): Promise<boolean> {
    const { name } = request.key;
    const read = await this.#store.read([name]);
    const [reading] = read.readings;
    if (reading?.kind !== "read" || reading.entry?.gen !== lease.gen) return false;
    // An invalidation by tag, or of the whole field, does not end the lease: its value would not be served.
    const parts = { sharedSettings: this.#sharedSettings, invalidations: this.#invalidations };
    if (!(await prepareFor(read, parts))) return false;
    if (!isCurrentAt(request, reading.entry, reading.entry.leasePosition ?? 0, parts)) return false;
    if (this.#sharedSettings.modes.of(request.key.coordinate) === "off") {
      // Its worker may end when this call has.
      await this.#tryRelease(abandon({ key: name, token: lease.token }));
      return false;
    }
    const [isHeld] = await this.#store.renew([{ key: name, token: lease.token }], this.#times);
    if (isHeld !== true) return false;
    const leaseRequest = { request, supersededAt: 0, isRefresh: true, hasValue: true };
    // The load counts from the grant of the lease, also for its time limit.
    const startedAt = this.#clock.now() - (reading.now - lease.grantedAt);
    const queued = { ...leaseRequest, context: new AsyncResource("graphql-cached.load") };
    const { isStored } = await this.#startLoad(queued, lease, startedAt).settled;
    return isStored;
  }

  /** Notes that an entry of a coordinate has more tags than its requests know of. */
  noteTagsOfLoads(coordinate: string): void {
    this.#taggedByLoads.add(coordinate);
  }

  /** Returns whether loads of a coordinate, in any process, were seen to add tags to their results. */
  isTaggedByLoads(coordinate: string): boolean {
    return this.#taggedByLoads.size > 0 && this.#taggedByLoads.has(coordinate);
  }

  /** The number of refresh jobs that `refreshQueue` has not taken yet. */
  get enqueuing(): number {
    return this.#enqueuing;
  }

  /** The number of leases that this process holds. */
  get size(): number {
    return this.#leased.size;
  }

  /** The leases that this process holds, oldest first, at most `max`. */
  held(max: number): HeldLease[] {
    const held: HeldLease[] = [];
    for (const inFlight of this.#leased.values()) {
      if (held.length >= max) break;
      const { request, startedAt, isRefresh, waiters } = inFlight;
      const { coordinate, digest } = request.key;
      // Nobody was waiting when a refresh began.
      const count = Math.max(0, waiters.count - (isRefresh ? 1 : 0));
      held.push({ coordinate, digest, startedAt, isRefresh, isStoring: this.#storing.has(inFlight), waiters: count });
    }
    return held;
  }

  /** Releases all leases, so that other processes do not wait for them to expire. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#renewTimer?.();
    const releases = [...this.#leased.values()].map((inFlight) => this.#release(inFlight, "abandoned", 0));
    this.#leased.clear();
    await Promise.all(releases);
  }

  async #acquire(leaseRequests: readonly QueuedRequest[]): Promise<readonly Acquired[]> {
    const isLimited = leaseRequests.map(({ request }) => this.#limit.isReached(request.key.name));
    if (!isLimited.includes(true)) return this.#acquireAll(leaseRequests);
    const acquired = await this.#acquireAll(leaseRequests.filter((_, index) => !isLimited[index]));
    let next = 0;
    return leaseRequests.map(({ request }, index) =>
      isLimited[index] ? this.#limited(request) : (acquired[next++] as Acquired),
    );
  }

  #limited({ key }: ReadRequest): Acquired {
    return { kind: "limited", isOver: this.#limit.untilChanged(key.name) };
  }

  async #acquireAll(leaseRequests: readonly QueuedRequest[]): Promise<readonly Acquired[]> {
    // A caller that has not read the store, such as one that sets a value.
    if (this.#invalidations.origin === undefined) await this.#invalidations.start();
    // As known when the request is sent: whatever was invalidated before is before these loads.
    const { origin } = this.#invalidations;
    const grantable = leaseRequests.filter(({ request }) => origin !== undefined && !this.#isWritten(request));
    const requests = grantable.map(({ request, supersededAt, endsFreshness = false }) => ({
      key: request.key.name,
      oldestPosition: this.#invalidations.oldestOf(request),
      supersededAt,
      endsFreshness,
    }));
    const requestedAt = this.#clock.now();
    const times = this.#timesFor(requests.length);
    const grants =
      requests.length === 0 ? [] : await this.#store.acquire(requests, times, origin as ClockOrigin, this.#holder());
    // Perhaps by the end of the epoch: then the next request is one of the new epoch.
    if (grants.some(({ kind }) => kind === "expired")) await this.#invalidations.follow();
    let next = 0;
    const acquiredBy = (leaseRequest: QueuedRequest): Acquired => {
      const grant = grantable[next] === leaseRequest ? (grants[next++] as Grant) : undefined;
      if (grant === undefined)
        return this.#isWritten(leaseRequest.request)
          ? { kind: "write-in-progress" }
          : { kind: "unavailable", error: new Error(UNPREPARED) };
      if (grant.kind === "granted") return this.#enqueue(leaseRequest, grant) ?? this.#begin(leaseRequest, grant);
      const inFlight = grant.kind === "busy" ? this.inFlightLoads.find(grant.gen, leaseRequest.request.key) : undefined;
      return inFlight === undefined ? grant : { kind: "in-flight", inFlight };
    };
    const acquired =
      leaseRequests.length <= PER_TURN
        ? leaseRequests.map(acquiredBy)
        : await this.#longTick.map(leaseRequests, acquiredBy);
    // A tick with thousands of keys takes many batches, and the leases of the first may already be due.
    if (this.#clock.now() - requestedAt >= this.#times.leaseMs / 3) this.#renew();
    return acquired;
  }

  /** Whether the entry of a request, or one of its tags, is being written, as far as this process knows. */
  #isWritten(request: ReadRequest): boolean {
    return this.#invalidations.isWritten(request, this.#invalidations.storeNow);
  }

  #begin(leaseRequest: QueuedRequest, grant: GrantedLease): Acquired {
    const { name } = leaseRequest.request.key;
    if (this.#limit.isReached(name)) {
      // Loads have begun since the lease was requested.
      void this.#tryRelease(abandon({ key: name, token: grant.token }));
      return this.#limited(leaseRequest.request);
    }
    return { kind: "in-flight", inFlight: this.#startLoad(leaseRequest, grant) };
  }

  /**
   * Hands a refresh to the queue, if there is one and another process can make the request. The
   * lease is handed over with it, so it is not renewed here.
   */
  #enqueue(leaseRequest: QueuedRequest, grant: GrantedLease): Acquired | undefined {
    const { refreshQueue } = this.#settings;
    if (refreshQueue === undefined || !leaseRequest.isRefresh) return undefined;
    const { request } = leaseRequest;
    const input = encodeInput(request, this.#packing);
    if (input === undefined) return undefined;
    const { coordinate, digest } = request.key;
    const enqueue = async (): Promise<unknown> => refreshQueue(await writeJob(request, input, grant, this.#packing));
    this.#enqueuing++;
    const isOver = enqueue().then(
      () => {
        this.#enqueuing--;
        this.#channel.publish({ name: "refresh.enqueued", coordinate, digest });
      },
      (error: unknown) => {
        this.#enqueuing--;
        this.#channel.publish({ name: "refresh.rejected", coordinate, digest, error });
        return this.#startLoad(leaseRequest, grant).settled;
      },
    );
    return { kind: "enqueued", isOver: this.#underWay.add(isOver) };
  }

  #startLoad(leaseRequest: QueuedRequest, grant: GrantedLease, startedAt: number = this.#clock.now()): InFlightLoad {
    const { request, isRefresh, hasValue, waiters = Waiters.of(undefined), context } = leaseRequest;
    const { gen, token, grantedAt, position } = grant;
    if (request.trace !== undefined) request.trace.gen = gen;
    const running = context.runInAsyncScope(() =>
      this.#loads.run(request, {
        isRefresh,
        waiters,
        lingerMs: this.#settings.abandonedLoadMs,
        readPrevious: () => this.#previousValues.read(request, gen),
        // No reader joins the load any more: they wait for its lease to end, and take it over.
        onTimeout: () => this.inFlightLoads.remove(inFlight),
      }),
    );
    this.#limit.add(request.key.name, running.completed);
    // In the context of its request: tags may be derived from its value by functions of the user.
    const settled = context.runInAsyncScope(() => running.completed.then((loaded) => this.#settle(inFlight, loaded)));
    const inFlight: InFlightLoad = {
      request,
      position,
      gen,
      token,
      grantedAt,
      startedAt,
      isRefresh,
      waiters: running.waiters,
      loaded: this.#settings.storeBeforeResponse === true ? whenSettled(running, settled) : running.limited,
      settled,
      hasValue,
    };
    this.inFlightLoads.add(inFlight);
    this.#leased.set(token, inFlight);
    void this.#underWay.add(settled).then(() => this.inFlightLoads.remove(inFlight));
    this.#renewLater(this.#times.leaseMs / 3);
    return inFlight;
  }

  /** Stores the loaded value, or releases the lease. Never rejects. */
  async #settle(inFlight: InFlightLoad, loaded: Loaded): Promise<Settled> {
    const { coordinate } = inFlight.request.key;
    let isStored = false;
    let storedBytes = 0;
    if (loaded.kind === "loaded" && (loaded.settings?.tags.length ?? 0) > 0) this.#taggedByLoads.add(coordinate);
    try {
      const isRefused = loaded.kind === "failed" && loaded.refusal === undefined && isRefusal(loaded.error);
      const isOutgrown = loaded.refusal === "outgrown-key";
      const isOwn = loaded.kind === "failed" ? loaded.refusal !== undefined : loaded.refusal === "invalid";
      if (isCallersOwn(loaded)) await this.#handOn(inFlight, loaded.loadMs);
      else if (isRefused || isOutgrown || this.#sharedSettings.modes.of(coordinate) === "off")
        await this.#release(inFlight, "abandoned", 0);
      else if (isOwn) await this.#releaseUnkept(inFlight, loaded.loadMs);
      else if (loaded.kind === "failed")
        await this.#release(
          inFlight,
          loaded.isSourceFailure ? "failed" : "gone",
          this.#errorMaxAgeMs(inFlight.request, loaded.error),
          this.#sealFailure(inFlight, loaded.error),
        );
      else if (loaded.refusal !== undefined || loaded.content === undefined) {
        const mark = loaded.refusal === "too-large" ? TOO_LARGE_MARK : UNSERIALIZABLE_MARK;
        await this.#release(inFlight, "uncacheable", this.#settings.errorBackoffMs, mark);
      } else if (loaded.settings?.isSkipped === true) await this.#releaseUnkept(inFlight, loaded.loadMs);
      else {
        const room = this.#room.enter(sizeOf(loaded));
        try {
          const request = await this.#entryBuilder.build(inFlight, loaded, room);
          if (request === undefined) await this.#release(inFlight, "abandoned", 0);
          else {
            this.#storing.add(inFlight);
            const outcome = await this.#storeRequests.add(request);
            isStored = outcome === "stored" && request.grantedAt + request.freshMs >= 0;
            if (outcome === "stored" && !isStored && freshMsOf(inFlight.request.policy, loaded) > 0)
              this.#reportOutlived(inFlight, loaded.loadMs);
            if (isStored) storedBytes = request.body?.byteLength ?? 0;
            // The store may not have received the value, or cannot take it.
            if (outcome === "unavailable") await this.#release(inFlight, "abandoned", 0);
          }
        } finally {
          this.#room.leave(sizeOf(loaded));
        }
        this.#channel.publish({ name: "write.finished", ...subjectOf(inFlight.request.key), isStored, storedBytes });
      }
    } catch (error) {
      // The store failed, which it reports itself, or the value could not be packed or tagged. Releases the
      // lease, so that other processes do not wait for it to expire.
      if (error instanceof CachedError && error.code === "CACHED_KEY_UNUSABLE") {
        this.#channel.publish({ name: "value.refused", ...subjectOf(inFlight.request.key), error });
        await this.#releaseUnkept(inFlight, loaded.loadMs);
      } else await this.#release(inFlight, "abandoned", 0);
    }
    this.#storing.delete(inFlight);
    this.#leased.delete(inFlight.token);
    return { isStored };
  }

  /**
   * Gives the lease up after a load whose result belongs to its own callers: it was skipped, or GraphQL would refuse it. If a stored value stays, readers are served it or load next. Otherwise those who
   * wait in other processes load at once, rather than one after the other, since their results may not be kept either.
   */
  async #releaseUnkept(inFlight: InFlightLoad, loadMs: number): Promise<void> {
    if (inFlight.hasValue) return this.#release(inFlight, "abandoned", 0);
    return this.#release(inFlight, "uncacheable", this.holdMsOf(loadMs), SKIPPED_MARK);
  }

  /**
   * Gives the lease up after a failure that concerns one caller only, for the next caller to load.
   * If the loads fail for most callers, all of them load now, rather than one after the other. Not
   * after a refresh: its stale value is served on.
   */
  async #handOn(inFlight: InFlightLoad, loadMs: number): Promise<void> {
    if (inFlight.isRefresh || !this.#loads.isUnshared(inFlight.request)) await this.#release(inFlight, "abandoned", 0);
    else await this.#release(inFlight, "uncacheable", this.holdMsOf(loadMs), UNSERIALIZABLE_MARK);
  }

  /** Returns for how long readers load for themselves after a load whose result is its own callers' alone. */
  holdMsOf(loadMs: number): number {
    return Math.min(Math.max(loadMs, MIN_SKIP_HOLD_MS), this.#settings.errorBackoffMs);
  }

  /** The value has outlived its policy before it was stored, so that every reader loads. */
  #reportOutlived({ request: { key } }: InFlightLoad, loadMs: number): void {
    const { coordinate } = key;
    const error = new CachedError(
      "CACHED_VALUE_EXPIRED",
      `\`${coordinate}\`: the value is not cached: expected a load that takes less than \`maxAge\`, from whose start the age counts, got one of ${Math.round(loadMs)} ms; raise \`maxAge\`, set \`staleWhileRevalidate\`, or speed up the source`,
      { coordinate },
    );
    this.#channel.publish({ name: "value.refused", ...subjectOf(key), error });
  }

  #sealFailure({ request }: InFlightLoad, error: unknown): Uint8Array {
    return this.#packing.seal(writeFailure(error, request.key), failureAad(request.key));
  }

  async #release(
    inFlight: InFlightLoad,
    outcome: Release["outcome"],
    holdMs: number,
    body: Uint8Array = new Uint8Array(),
  ): Promise<void> {
    this.#leased.delete(inFlight.token);
    const release = { key: inFlight.request.key.name, token: inFlight.token, outcome, holdMs, body };
    if (!(await this.#tryRelease(release))) this.#releaseLater(release, FIRST_RELEASE_RETRY_MS);
  }

  /** Returns whether the lease was held and has been released. */
  #tryRelease(release: Release): Promise<boolean> {
    return this.#releases.add(release).catch(() => false);
  }

  /**
   * Repeats a release until the lease has ended by itself: the store may not have received it, and
   * others wait for the lease. A lease that is not held any more is not affected.
   */
  #releaseLater(release: Release, delayMs: number): void {
    if (delayMs >= this.#times.leaseMs || this.#isClosed) return;
    this.#clock.after(delayMs, () => {
      if (this.#isClosed) return;
      void this.#tryRelease(release).then((isReleased) => {
        if (!isReleased) this.#releaseLater(release, 2 * delayMs);
      });
    });
  }

  /** Returns for how long later callers get the error of a load. */
  #errorMaxAgeMs({ key, policy }: ReadRequest, error: unknown): number {
    const { errorMaxAgeMs, errorBackoffMs } = this.#settings;
    const ownMs = ownErrorMaxAgeMs(errorMaxAgeMs, error, key, this.#channel);
    return jittered(ownMs ?? errorBackoffMs, ownMs === undefined ? 0.5 : policy.jitterRatio, this.#random());
  }

  /**
   * Returns the times of `count` leases. Thousands of them are requested, renewed and used in many
   * batches, one after the other; the leases of the first batches have to last until the last one has
   * ended.
   */
  #timesFor(count: number): LeaseTimes {
    if (count < MANY_LEASES) return this.#times;
    const { storeTimeoutMs } = this.#settings;
    return { ...this.#times, leaseMs: this.#times.leaseMs + Math.ceil((count / 100) * storeTimeoutMs) };
  }

  /** Arranges for the next renewal. Renewals of thousands of leases take time and never overlap. */
  #renewLater(delayMs: number): void {
    if (!this.#isRenewing && !this.#isClosed) this.#renewTimer ??= this.#clock.after(delayMs, () => this.#renew());
  }

  /**
   * Renews all leases. A load that exceeds its time limit keeps running, but its lease is left to
   * expire.
   */
  #renew(): void {
    this.#renewTimer?.();
    this.#renewTimer = undefined;
    const now = this.#clock.now();
    for (const [token, inFlight] of this.#leased)
      if (now - inFlight.startedAt >= this.#settings.loadTimeoutMs) this.#leased.delete(token);
    const leased = [...this.#leased.values()];
    if (leased.length === 0 || this.#isRenewing) return;
    this.#isRenewing = true;
    const holds = leased.map(({ request, token }) => ({ key: request.key.name, token }));
    void this.#store
      .renew(holds, this.#timesFor(holds.length))
      .then(
        (results) => {
          for (const [index, isHeld] of results.entries()) {
            const inFlight = leased[index] as InFlightLoad;
            if (isHeld || !this.#leased.delete(inFlight.token) || this.#storing.has(inFlight)) continue;
            this.#channel.publish({ name: "lease.lost", ...subjectOf(inFlight.request.key) });
          }
        },
        () => undefined,
      )
      .then(() => {
        this.#isRenewing = false;
        if (this.#leased.size > 0) this.#renewLater(Math.max(0, this.#times.leaseMs / 3 - (this.#clock.now() - now)));
      });
  }
}
