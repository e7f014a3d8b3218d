import { outsideOfRequests } from "../../base/clock.js";
import type { Key } from "../../keys/key.js";
import { type AcquireRequest, abandon, type ClockOrigin, type Grant } from "../../store/store.js";
import type { Loaded } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import { isCurrentAt, prepareFor, UNPREPARED } from "../request/verdict.js";
import { Waiters } from "../request/waiters.js";
import type { RunningLoad } from "../source/loads.js";
import type { LongTick } from "../tick/long-tick.js";
import { TickBatch } from "../tick/tick-batch.js";
import type { WorkUnderWay } from "../tick/work-under-way.js";
import { HeldLeases } from "./held-leases.js";
import type { InFlightLoad, LoadLimit } from "./load-sharing.js";
import { encodeInput, type Handover, type RefreshQueue, writeJob } from "./refresh-job.js";
import { Settlement, type SettlementParts } from "./settlement.js";

/** Acquires the leases of all loads of this process, and runs the loads. */
export class Leases {
  readonly #parts: LeasesParts;
  /** The leases that this process holds. */
  readonly held: HeldLeases;
  readonly settlement: Settlement;
  readonly #leaseRequests: TickBatch<QueuedRequest, Grant | Acquired>;
  /** What is requested in this tick, by `idOf`. */
  readonly #ofTick = new Map<string, Promise<Acquired>>();
  /** The loads that readers can join, by lease chain. */
  readonly #inFlight = new Map<string, InFlightLoad>();
  readonly #taggedByLoads = new Set<string>();
  /** The number of refresh jobs that `refreshQueue` has not taken yet. */
  enqueuing = 0;

  constructor(parts: LeasesParts) {
    const { store, clock, channel, longTick, settings } = parts;
    this.#parts = parts;
    this.held = new HeldLeases(store, clock, channel, settings);
    this.settlement = new Settlement(parts, this.held);
    const acquire = (requests: readonly QueuedRequest[]): Promise<readonly (Grant | Acquired)[]> => {
      this.#ofTick.clear();
      return this.#acquire(requests);
    };
    this.#leaseRequests = new TickBatch(longTick, acquire, longTick);
  }

  /**
   * Requests the lease. All requests of one tick share a round trip, equal ones a request, and
   * their loads begin in one tick, each in the asynchronous context of its caller, where its source
   * may find a session. Never rejects.
   */
  acquire(leaseRequest: LeaseRequest): Promise<Acquired> {
    const id = idOf(leaseRequest);
    const same = this.#ofTick.get(id);
    if (same !== undefined) return same;
    const queued = { ...leaseRequest, askedAt: this.#parts.clock.now() };
    const acquired = this.#parts.underWay.add(
      this.#leaseRequests.addThen(queued, (answer) => this.#use(queued, answer)),
    );
    this.#ofTick.set(id, acquired);
    return acquired;
  }

  /**
   * Runs the load for a lease that another process has won. Returns whether the value was stored.
   * If the lease is lost, or the mode is off, returns false without loading. Never rejects.
   */
  async adopt(request: ReadRequest, lease: Handover): Promise<boolean> {
    const { store, modes, clock } = this.#parts;
    const { name, coordinate } = request.key;
    const read = await store.read([name]);
    const [reading] = read.readings;
    if (reading?.kind !== "read" || reading.entry?.gen !== lease.gen) return false;
    // An invalidation by tag, or of the whole field, does not end the lease: its value would not be
    // served.
    if (!(await prepareFor(read, this.#parts))) return false;
    if (!isCurrentAt(request, reading.entry, reading.entry.leasePosition ?? 0, this.#parts)) return false;
    const hold = { key: name, token: lease.token };
    if (modes.isOff(coordinate)) {
      // Its worker may end when this call has.
      await this.held.tryRelease(abandon(hold));
      return false;
    }
    const [isHeld] = await store.renew([hold], this.held.timesFor(1));
    if (isHeld !== true) return false;
    // The load counts from the grant of the lease, also for its time limit.
    const startedAt = clock.now() - (reading.now - lease.grantedAt);
    const queued = { request, supersededAt: 0, isRefresh: true, hasValue: true, askedAt: clock.now() };
    const { isStored } = await this.#startLoad(queued, lease, startedAt).settled;
    return isStored;
  }

  /**
   * Returns the load that holds the lease chain `gen`, which the store has just shown to the
   * reader: so it began after the last invalidation before that (P3). The key is compared as well:
   * if a client mixes up replies, a reader must not join the load of another key.
   */
  inFlightLoad(gen: string, key: Key): InFlightLoad | undefined {
    const inFlight = this.#inFlight.get(gen);
    return inFlight?.request.key.input === key.input ? inFlight : undefined;
  }

  /** Notes that an entry of a coordinate has more tags than its requests know of. */
  noteTagsOfLoads(coordinate: string): void {
    this.#taggedByLoads.add(coordinate);
  }

  /**
   * Returns whether loads of a coordinate, in any process, were seen to add tags to their results.
   */
  isTaggedByLoads(coordinate: string): boolean {
    return this.#taggedByLoads.has(coordinate);
  }

  async #acquire(queued: readonly QueuedRequest[]): Promise<readonly (Grant | Acquired)[]> {
    const { invalidations, store, holder } = this.#parts;
    // A caller that has not read the store, such as one that sets a value.
    if (invalidations.origin === undefined) await invalidations.start();
    // As known when the request is sent: whatever was invalidated before is before these loads.
    const { origin } = invalidations;
    const refusals: (Acquired | undefined)[] = [];
    const requests: AcquireRequest[] = [];
    for (const { request, supersededAt, endsFreshness = false } of queued) {
      const refusal = this.#refusalOf(request, origin);
      refusals.push(refusal);
      if (refusal !== undefined) continue;
      const oldestPosition = invalidations.oldestOf(request);
      requests.push({ key: request.key.name, oldestPosition, supersededAt, endsFreshness });
    }
    const times = this.held.timesFor(requests.length);
    const grants = requests.length === 0 ? [] : await store.acquire(requests, times, origin as ClockOrigin, holder());
    // Perhaps by the end of the epoch: then the next request is one of the new epoch.
    if (grants.some(({ kind }) => kind === "expired")) await invalidations.follow();
    let granted = 0;
    return refusals.map((refusal) => refusal ?? (grants[granted++] as Grant));
  }

  /** Returns why no lease is requested. Undefined: one is. */
  #refusalOf(request: ReadRequest, origin: ClockOrigin | undefined): Acquired | undefined {
    const { invalidations, limit } = this.#parts;
    const { name } = request.key;
    if (limit.isReached(name)) return { kind: "limited", isOver: limit.untilChanged(name) };
    if (invalidations.isWritten(request, invalidations.storeNow)) return { kind: "write-in-progress" };
    return origin === undefined ? { kind: "unavailable", error: new Error(UNPREPARED) } : undefined;
  }

  #use(queued: QueuedRequest, grant: Grant | Acquired): Acquired {
    const { limit } = this.#parts;
    const { request, isRefresh } = queued;
    const { key } = request;
    if (grant.kind === "busy") {
      const inFlight = this.inFlightLoad(grant.gen, key);
      return inFlight === undefined ? grant : { kind: "in-flight", inFlight };
    }
    if (grant.kind !== "granted") return grant;
    const enqueued = isRefresh ? this.#enqueue(queued, grant) : undefined;
    if (enqueued !== undefined) return enqueued;
    if (!limit.isReached(key.name)) return { kind: "in-flight", inFlight: this.#startLoad(queued, grant) };
    // Loads have begun since the lease was requested.
    void this.held.tryRelease(abandon({ key: key.name, token: grant.token }));
    return { kind: "limited", isOver: limit.untilChanged(key.name) };
  }

  /**
   * Hands a refresh to the queue, if there is one and another process can make the request. The
   * lease is handed over with it, so it is not renewed here.
   */
  #enqueue(queued: QueuedRequest, grant: Handover): Acquired | undefined {
    const { channel, loads, packing, underWay, settings } = this.#parts;
    const { refreshQueue } = settings;
    const { request } = queued;
    // A worker could not tell that the source is of one caller.
    const isAnyones = refreshQueue !== undefined && loads.privateValues.originOf(request) === undefined;
    const input = isAnyones ? encodeInput(request, packing) : undefined;
    if (input === undefined) return undefined;
    const { coordinate, digest } = request.key;
    const enqueue = async (): Promise<unknown> => {
      try {
        await refreshQueue?.(await writeJob(request, input, grant, packing));
        channel.publish({ name: "refresh.enqueued", coordinate, digest });
        return undefined;
      } catch (error) {
        channel.publish({ name: "refresh.rejected", coordinate, digest, error });
        return this.#startLoad(queued, grant).settled;
      } finally {
        this.enqueuing--;
      }
    };
    this.enqueuing++;
    return { kind: "enqueued", isOver: underWay.add(enqueue()) };
  }

  /** Starts a load. The refresh of a PUBLIC value must not depend on who has found it stale. */
  #startLoad(queued: QueuedRequest, lease: Handover, startedAt: number = this.#parts.clock.now()): InFlightLoad {
    const { request, isRefresh } = queued;
    const isAnyones = isRefresh && request.policy.scope === "PUBLIC";
    const load = (): InFlightLoad => this.#load(queued, lease, startedAt);
    return isAnyones ? outsideOfRequests.runInAsyncScope(load) : load();
  }

  #load(queued: QueuedRequest, lease: Handover, startedAt: number): InFlightLoad {
    const { loads, limit, underWay, settings } = this.#parts;
    const { request, isRefresh, hasValue, askedAt, waiters = Waiters.of(undefined) } = queued;
    const { gen, token, grantedAt, position } = lease;
    if (request.trace !== undefined) request.trace.gen = gen;
    const endJoining = (): void => {
      if (this.#inFlight.get(gen) === inFlight) this.#inFlight.delete(gen);
    };
    const running = loads.run(request, {
      isRefresh,
      waiters,
      lingerMs: settings.abandonedLoadMs,
      // Later readers wait for the lease to end, and take it over.
      onTimeout: endJoining,
    });
    limit.add(request.key.name, running.completed);
    const settled = running.completed.then(async (loaded) => {
      const hasOwnTags = loaded.kind === "loaded" && (loaded.settings?.tags.length ?? 0) > 0;
      if (hasOwnTags) this.#taggedByLoads.add(request.key.coordinate);
      const end = await this.settlement.settle(inFlight, loaded);
      // Those who have read its lease read again, and do not join it any more.
      endJoining();
      return end;
    });
    const inFlight: InFlightLoad = {
      request,
      position,
      gen,
      token,
      grantedAt,
      startedAt,
      askedAt,
      isRefresh,
      waiters: running.waiters,
      loaded: settings.storeBeforeResponse === true ? whenSettled(running, settled) : running.limited,
      settled,
      hasValue,
      isStoring: false,
    };
    this.#inFlight.set(gen, inFlight);
    this.held.add(inFlight);
    void underWay.add(settled);
    return inFlight;
  }
}

/** A request for the lease on the key of `request`. */
export interface LeaseRequest {
  readonly request: ReadRequest;
  /** See `AcquireRequest.supersededAt`. */
  readonly supersededAt: number;
  /** See `AcquireRequest.endsFreshness`. */
  readonly endsFreshness?: boolean;
  /** Whether the load is a background refresh, which no reader waits for. */
  readonly isRefresh: boolean;
  /**
   * Whether the entry held a value that may be served, if only when the source fails. A load that
   * stores nothing leaves it there.
   */
  readonly hasValue: boolean;
  /** Who waits for the load. Undefined: the load is never aborted, such as that of a refresh. */
  readonly waiters?: Waiters | undefined;
}

/** A lease request that waits for the others of its tick. */
interface QueuedRequest extends LeaseRequest {
  /** When it was made, on the clock of this process. */
  readonly askedAt: number;
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

/** Equal lease requests have the same. */
const idOf = ({ request: { key, tags }, supersededAt, endsFreshness = false }: LeaseRequest): string =>
  !tags.isOwn && supersededAt === 0 && !endsFreshness
    ? key.name
    : [key.name, supersededAt, endsFreshness, ...(tags.isOwn ? tags.subjects : [])].join("\n");

/**
 * Returns the result of a load for readers who wait until it is stored as well, unless the load
 * takes too long.
 */
async function whenSettled({ limited, completed }: RunningLoad, settled: Promise<unknown>): Promise<Loaded> {
  const loaded = await limited;
  if (loaded === (await Promise.race([completed, undefined]))) await settled;
  return loaded;
}

/** What the leases of a process work with. */
export interface LeasesParts extends SettlementParts {
  readonly limit: LoadLimit;
  readonly longTick: LongTick;
  /** Has the lease requests, and the loads that are not yet stored or released. */
  readonly underWay: WorkUnderWay;
  /** Without a queue, refreshes run in this process. */
  readonly settings: SettlementParts["settings"] & { readonly refreshQueue: RefreshQueue | undefined };
  /** See `Store.acquire`. */
  readonly holder: () => string;
}
