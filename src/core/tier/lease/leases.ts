import { outsideOfRequests } from "../../base/clock.js";
import { Registry } from "../../base/multimap.js";
import type { Key } from "../../keys/key.js";
import type { AcquireRequest, ClockOrigin, Grant } from "../../store/store.js";
import { subjectOf } from "../../telemetry/channel.js";
import type { Loaded } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import { isCurrentAt, prepareFor, UNPREPARED } from "../request/verdict.js";
import { Waiters } from "../request/waiters.js";
import type { RunningLoad } from "../source/loads.js";
import type { LongTick } from "../tick/long-tick.js";
import { TickBatch } from "../tick/tick-batch.js";
import type { WorkUnderWay } from "../tick/work-under-way.js";
import { HeldLeases, type InFlightLoad, type Lease, type LeaseRequest, type QueuedRequest } from "./held-leases.js";
import type { LoadSharing } from "./load-sharing.js";
import { type RefreshQueue, writeJob } from "./refresh-job.js";
import { Settlement, type SettlementParts } from "./settlement.js";

/** Acquires the leases of this process, and runs the loads. */
export class Leases {
  readonly held: HeldLeases;
  readonly settlement: Settlement;
  readonly #leaseRequests: TickBatch<QueuedRequest, Grant | Acquired>;
  /** What is requested in this tick, by `idOf`. */
  #ofTick = new Map<string, Promise<Acquired>>();
  /** The loads that readers can join, by lease chain. */
  readonly #inFlight = new Registry<string, InFlightLoad>();
  /** The coordinates whose loads, in any process, were seen to add tags to their results. */
  readonly taggedByLoads = new Set<string>();

  constructor(private readonly parts: LeasesParts) {
    const { longTick } = parts;
    this.held = new HeldLeases(parts);
    this.settlement = new Settlement(parts, this.held);
    this.#leaseRequests = new TickBatch(longTick, (requests) => this.#acquire(requests), longTick);
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
    const queued = { ...leaseRequest, askedAt: this.parts.clock.now() };
    const { underWay } = this.parts;
    underWay.begin();
    const acquired = this.#leaseRequests.addThen(queued, (answer) => {
      underWay.end();
      return this.#use(queued, answer);
    });
    this.#ofTick.set(id, acquired);
    return acquired;
  }

  /** Runs the load for another process's lease. Returns whether it was stored. Never rejects. */
  async adopt(request: ReadRequest, lease: Lease): Promise<boolean> {
    const { store, modes, clock } = this.parts;
    const { name, coordinate } = request.key;
    const readAt = clock.now();
    const read = await store.read([name]);
    const [reading] = read.readings;
    if (reading?.kind !== "read" || reading.entry?.gen !== lease.gen) return false;
    // An invalidation by tag, or of the whole field, does not end the lease.
    if (!(await prepareFor(read, this.parts))) return false;
    if (!isCurrentAt(request, reading.entry, reading.entry.leasePosition ?? 0, this.parts)) return false;
    const { token } = lease;
    if (modes.isOff(coordinate)) {
      // Its worker may end when this call has.
      await this.held.release({ request, token });
      return false;
    }
    const [isHeld] = await store.renew([{ key: name, token }], this.held.timesFor(1));
    if (isHeld !== true) return false;
    // The load counts from the grant of the lease, also for its time limit and its age in memory.
    const grantedAt = readAt - (reading.now - lease.grantedAt);
    const queued = { request, supersededAt: 0, isRefresh: true, hasValue: true, askedAt: grantedAt };
    return this.#startLoad(queued, lease, grantedAt).settled;
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

  async #acquire(queued: readonly QueuedRequest[]): Promise<readonly (Grant | Acquired)[]> {
    const { invalidations, store, holder } = this.parts;
    this.#ofTick = new Map();
    // A caller that has not read the store, such as one that sets a value.
    if (invalidations.origin === undefined) await invalidations.follow();
    // As known when the request is sent: whatever was invalidated before is before these loads.
    const { origin } = invalidations;
    const refusals = queued.map(({ request }) => this.#refusalOf(request, origin));
    const requests = queued.flatMap(({ request, supersededAt, endsFreshness = false }, nth): AcquireRequest[] => {
      if (refusals[nth] !== undefined) return [];
      return [{ key: request.key.name, oldestPosition: invalidations.oldestOf(request), supersededAt, endsFreshness }];
    });
    const times = this.held.timesFor(requests.length);
    const grants = requests.length === 0 ? [] : await store.acquire(requests, times, origin as ClockOrigin, holder());
    // Perhaps by the end of the epoch: then the next request is one of the new epoch.
    if (grants.some(({ kind }) => kind === "expired")) await invalidations.follow();
    let granted = 0;
    return refusals.map((refusal) => refusal ?? (grants[granted++] as Grant));
  }

  /** Returns why no lease is requested. Undefined: one is. */
  #refusalOf(request: ReadRequest, origin: ClockOrigin | undefined): Acquired | undefined {
    const { invalidations, sharing } = this.parts;
    const { name } = request.key;
    if (sharing.isReached(name)) return { kind: "limited", isOver: sharing.untilChanged(name) };
    if (invalidations.isWritten(request, invalidations.storeNow)) return { kind: "write-in-progress" };
    return origin === undefined ? { kind: "unavailable", error: new Error(UNPREPARED) } : undefined;
  }

  #use(queued: QueuedRequest, grant: Grant | Acquired): Acquired {
    const { sharing } = this.parts;
    const { request, isRefresh } = queued;
    const { key } = request;
    if (grant.kind === "busy") {
      const inFlight = this.inFlightLoad(grant.gen, key);
      return inFlight === undefined ? grant : { kind: "in-flight", inFlight };
    }
    if (grant.kind !== "granted") return grant;
    const enqueued = isRefresh ? this.#enqueue(queued, grant) : undefined;
    if (enqueued !== undefined) return enqueued;
    if (!sharing.isReached(key.name)) return { kind: "in-flight", inFlight: this.#startLoad(queued, grant) };
    // Loads have begun since the lease was requested.
    void this.held.release({ request, token: grant.token });
    return { kind: "limited", isOver: sharing.untilChanged(key.name) };
  }

  /** Hands a refresh, with its lease, to the queue, if another process can make the request. */
  #enqueue(queued: QueuedRequest, lease: Lease): Acquired | undefined {
    const { channel, clock, loads, packing, underWay, settings } = this.parts;
    const { refreshQueue } = settings;
    const { request } = queued;
    // A worker could not tell that the source is of one caller.
    if (refreshQueue === undefined || loads.privateValues.originOf(request) !== undefined) return undefined;
    const job = writeJob(request, lease, packing);
    if (job === undefined) return undefined;
    const grantedAt = clock.now();
    const enqueue = async (): Promise<unknown> => {
      try {
        await refreshQueue(await job);
        return channel.publish({ name: "refresh.enqueued", ...subjectOf(request.key) });
      } catch (error) {
        channel.publish({ name: "refresh.rejected", ...subjectOf(request.key), error });
        return this.#startLoad(queued, lease, grantedAt).settled;
      }
    };
    return { kind: "enqueued", isOver: underWay.add(enqueue()) };
  }

  /** Starts a load. The refresh of a PUBLIC value must not depend on who has found it stale. */
  #startLoad(queued: QueuedRequest, lease: Lease, startedAt: number = this.parts.clock.now()): InFlightLoad {
    const isOutside = queued.isRefresh && queued.request.policy.scope === "PUBLIC";
    const load = (): InFlightLoad => this.#load(queued, lease, startedAt, isOutside);
    return isOutside ? outsideOfRequests.runInAsyncScope(load) : load();
  }

  #load(queued: QueuedRequest, lease: Lease, startedAt: number, isOutside: boolean): InFlightLoad {
    const { loads, sharing, underWay, settings } = this.parts;
    const { request, isRefresh } = queued;
    const { gen } = lease;
    if (request.trace !== undefined) request.trace.gen = gen;
    const endJoining = (): void => {
      if (this.#inFlight.get(gen) === inFlight) this.#inFlight.delete(gen);
    };
    const running = loads.run(request, {
      isRefresh,
      isOutside,
      waiters: queued.waiters ?? Waiters.of(undefined),
      lingerMs: settings.abandonedLoadMs,
      // Later readers wait for the lease to end, and take it over.
      onTimeout: endJoining,
    });
    const endSharing = sharing.add(request.key.name);
    underWay.begin();
    const settled = running.completed.then((loaded) => {
      endSharing();
      const hasOwnTags = loaded.kind === "loaded" && (loaded.settings?.tags.length ?? 0) > 0;
      if (hasOwnTags) this.taggedByLoads.add(request.key.coordinate);
      return this.settlement.settle(inFlight, loaded);
    });
    const end = (): void => {
      // Those who have read its lease read again, and do not join it any more.
      endJoining();
      underWay.end();
    };
    const loaded = settings.storeBeforeResponse === true ? whenSettled(running, settled) : running.limited;
    const { waiters } = running;
    const inFlight: InFlightLoad = { ...queued, ...lease, startedAt, waiters, loaded, settled, end, isStoring: false };
    this.#inFlight.set(gen, inFlight);
    this.held.add(inFlight);
    return inFlight;
  }
}

/** A load of this process, the caller's own if it has its request, or what the store says. */
export type Acquired =
  | { readonly kind: "in-flight"; readonly inFlight: InFlightLoad }
  /** A worker refreshes. `isOver`: when the queue has it, or when this process has refreshed. */
  | { readonly kind: "enqueued"; readonly isOver: Promise<unknown> }
  /** This process runs as many loads of the key as it may. `isOver` resolves when to read again. */
  | { readonly kind: "limited"; readonly isOver: Promise<void> }
  /** A write is in progress: load without a lease, and store nothing. */
  | { readonly kind: "write-in-progress" }
  | Exclude<Grant, { kind: "granted" }>;

/** Equal lease requests have the same. */
const idOf = ({ request: { key, tags }, supersededAt, endsFreshness = false }: LeaseRequest): string =>
  [key.name, supersededAt, endsFreshness, ...(tags.isOwn ? tags.subjects : [])].join("\n");

/** Waits until the result of a load is stored as well, unless the load takes too long. */
async function whenSettled({ limited, completed }: RunningLoad, settled: Promise<unknown>): Promise<Loaded> {
  const loaded = await limited;
  if (loaded === (await Promise.race([completed, undefined]))) await settled;
  return loaded;
}

interface LeasesParts extends SettlementParts {
  readonly sharing: LoadSharing;
  readonly longTick: LongTick;
  /** Has the lease requests, and the loads that are not yet stored or released. */
  readonly underWay: WorkUnderWay;
  /** Without a queue, refreshes run in this process. */
  readonly settings: SettlementParts["settings"] & { readonly refreshQueue: RefreshQueue | undefined };
  /** See `Store.acquire`. */
  readonly holder: () => string;
}
