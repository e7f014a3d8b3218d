import type { Cancel, Clock, Random } from "../clock.js";
import type { Packing } from "../codec/packing.js";
import { jittered } from "../policy/jitter.js";
import type {
  Grant,
  LeaseTimes,
  LogPosition,
  Release,
  Store,
  StoreOutcome,
  StoreRequest,
  TagVersion,
} from "../store/store.js";
import { isWriteInProgress } from "../store/store.js";
import type { Channel } from "../telemetry/channel.js";
import { EntryBuilder, MIN_TAG_TTL_MS } from "./entry-builder.js";
import { failureOf, writeFailure } from "./failure.js";
import { type InFlightLoad, InFlightLoads } from "./in-flight-loads.js";
import type { Loaded, Loads } from "./loads.js";
import { type Handover, inputOf, type RefreshQueue, writeJob } from "./refresh-job.js";
import { type ReadRequest, signatureOf } from "./request.js";
import type { TierSettings } from "./settings.js";
import { isRefusal } from "./source-guard.js";
import { TickBatch } from "./tick-batch.js";

/** A request's leaseRequest to load, with what it has seen. */
export interface LeaseRequest {
  readonly request: ReadRequest;
  /** As read for `request.tags.names`. */
  readonly tagVersions: readonly TagVersion[];
  readonly supersededAt: number;
  readonly isRefresh: boolean;
}

/** The tier's settings, and where refreshes go, if not into this process. */
export interface LeaseSettings extends TierSettings {
  readonly refreshQueue: RefreshQueue | undefined;
}

/** What became of a leaseRequest: a inFlight of this process, the requester's own if `inFlight.request` is his; or what the store said. */
export type Acquired =
  | { readonly kind: "in-inFlight"; readonly inFlight: InFlightLoad }
  /** It goes to a worker; resolves once the queue has it, or, had it refused, once the refresh here has ended. */
  | { readonly kind: "enqueued"; readonly isOver: Promise<unknown> }
  | Exclude<Grant, { kind: "granted" }>;

/** A lease, whoever won it. */
type Granted = Pick<Extract<Grant, { kind: "granted" }>, "gen" | "token" | "grantedAt">;

/** The one place where leases are won, kept, and let go: around a load, for all loads of this process together. */
export class Leases {
  readonly inFlightLoads = new InFlightLoads();
  readonly #store: Store;
  readonly #entryBuilder: EntryBuilder;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #channel: Channel;
  readonly #loads: Loads;
  readonly #packing: Packing;
  readonly #settings: LeaseSettings;
  readonly #times: LeaseTimes;
  readonly #held = new Map<string, InFlightLoad>();
  readonly #settling = new Set<Promise<unknown>>();
  readonly #leaseRequests: TickBatch<LeaseRequest, Acquired>;
  readonly #storeRequests: TickBatch<StoreRequest, StoreOutcome>;
  readonly #releases: TickBatch<Release, boolean>;
  #beat: Cancel | undefined;

  constructor(
    store: Store,
    clock: Clock,
    random: Random,
    channel: Channel,
    loads: Loads,
    packing: Packing,
    settings: LeaseSettings,
  ) {
    this.#store = store;
    this.#entryBuilder = new EntryBuilder(store, clock, random, packing, settings.loadTimeoutMs);
    this.#clock = clock;
    this.#random = random;
    this.#channel = channel;
    this.#loads = loads;
    this.#packing = packing;
    this.#settings = settings;
    const { leaseMs, storeTimeoutMs } = settings;
    // A process that is busy hears an answer later than its budget says, and takes it all the same.
    this.#times = { leaseMs, graceMs: 2 * leaseMs, patienceMs: 5 * storeTimeoutMs };
    this.#leaseRequests = new TickBatch(
      clock,
      (leaseRequests) => this.#acquire(leaseRequests),
      ({ request, tagVersions, supersededAt }) =>
        [request.key.name, supersededAt, request.tags.rule, ...tagVersions].join("\n"),
    );
    this.#storeRequests = new TickBatch(clock, (storeRequests) => store.storeValues(storeRequests));
    this.#releases = new TickBatch(clock, (releases) => store.release(releases));
  }

  /** All leaseRequests of one tick go in one trip, and the loads they win begin together, in one tick. Never rejects. */
  acquire(leaseRequest: LeaseRequest): Promise<Acquired> {
    return this.#leaseRequests.add(leaseRequest);
  }

  /**
   * Loads what another process has won the lease for. Answers whether it was stored: false also where the lease is lost, and then nothing is
   * loaded. Never rejects.
   */
  async adopt(request: ReadRequest, lease: Handover): Promise<boolean> {
    const { name } = request.key;
    const { readings } = await this.#store.read([name], []);
    const [reading] = readings;
    if (reading?.kind !== "read" || reading.entry?.gen !== lease.gen) return false;
    const [isHeld] = await this.#store.renew([{ key: name, token: lease.token }], this.#times);
    if (isHeld !== true) return false;
    const leaseRequest = { request, tagVersions: lease.tagVersions, supersededAt: 0, isRefresh: true };
    // The load counts as begun when the lease was granted, also for how long it may take.
    const startedAt = this.#clock.now() - (reading.now - lease.grantedAt);
    return this.#startLoad(leaseRequest, lease, lease.logPosition, startedAt).stored;
  }

  /** Waits until every load under way has been stored or given up, `atMostMs` at most. */
  async drain(atMostMs: number): Promise<void> {
    const until = new Promise<void>((resolve) => this.#clock.after(atMostMs, resolve));
    while (this.#settling.size > 0) {
      const isOver = await Promise.race([until.then(() => true), Promise.allSettled(this.#settling).then(() => false)]);
      if (isOver) return;
    }
  }

  /** Lets go of all leases, so that other processes need not wait for them to run out. */
  async close(): Promise<void> {
    this.#beat?.();
    const releases = [...this.#held.values()].map((inFlight) => this.#release(inFlight, "abandoned", 0));
    this.#held.clear();
    await Promise.all(releases);
  }

  async #acquire(leaseRequests: readonly LeaseRequest[]): Promise<readonly Acquired[]> {
    const ready = await this.#withVersions(leaseRequests);
    const open = ready.filter(({ tagVersions }) =>
      tagVersions.every((version) => version !== undefined && !isWriteInProgress(version)),
    );
    const needsLogPosition = open.some(({ request }) => request.tags.namesOf !== undefined);
    const requests = open.map(({ request, tagVersions, supersededAt }) => ({
      key: request.key.name,
      signature: signatureOf(request.tags, tagVersions) as string,
      supersededAt,
    }));
    // The logPosition must be older than the loads, so both answers are awaited before any load begins.
    const [grants, logPosition] = await Promise.all([
      requests.length === 0 ? [] : this.#store.acquire(requests, this.#times),
      needsLogPosition ? this.#store.readLogPosition(this.#settings.loadTimeoutMs).catch(() => undefined) : undefined,
    ]);
    const grantOf = new Map(open.map((leaseRequest, index) => [leaseRequest, grants[index] as Grant]));
    return ready.map((leaseRequest): Acquired => {
      const grant = grantOf.get(leaseRequest);
      if (grant === undefined) {
        const isWriting = leaseRequest.tagVersions.some(
          (version) => version !== undefined && isWriteInProgress(version),
        );
        return isWriting
          ? { kind: "write-in-progress" }
          : { kind: "unavailable", error: new Error("the tags' tagVersions could not be read") };
      }
      if (grant.kind === "granted")
        return this.#enqueue(leaseRequest, grant, logPosition) ?? this.#begin(leaseRequest, grant, logPosition);
      const inFlight = grant.kind === "busy" ? this.inFlightLoads.find(grant.gen, leaseRequest.request.key) : undefined;
      return inFlight === undefined ? grant : { kind: "in-inFlight", inFlight };
    });
  }

  /** Tags that were never used, or evicted, get their tagVersions before the leaseRequest is made: one trip more, once for a tag. */
  async #withVersions(leaseRequests: readonly LeaseRequest[]): Promise<readonly LeaseRequest[]> {
    const lacking = new Set(
      leaseRequests
        .filter(({ tagVersions }) => tagVersions.includes(undefined))
        .flatMap(({ request }) => request.tags.names),
    );
    if (lacking.size === 0) return leaseRequests;
    const names = [...lacking];
    const made = await this.#store.ensureTags(names, MIN_TAG_TTL_MS).catch((): string[] => []);
    const found = new Map(made.map((version, index) => [names[index], version]));
    return leaseRequests.map((leaseRequest) => {
      if (!leaseRequest.tagVersions.includes(undefined)) return leaseRequest;
      return { ...leaseRequest, tagVersions: leaseRequest.request.tags.names.map((name) => found.get(name)) };
    });
  }

  #begin(leaseRequest: LeaseRequest, grant: Granted, logPosition: LogPosition | undefined): Acquired {
    return { kind: "in-inFlight", inFlight: this.#startLoad(leaseRequest, grant, logPosition) };
  }

  /** A refresh goes to the queue, if there is one and the request can be made elsewhere. The lease goes along, so it is not renewed here. */
  #enqueue(leaseRequest: LeaseRequest, grant: Granted, logPosition: LogPosition | undefined): Acquired | undefined {
    const { refreshQueue } = this.#settings;
    if (refreshQueue === undefined || !leaseRequest.isRefresh) return undefined;
    const { request, tagVersions } = leaseRequest;
    const input = inputOf(request, this.#packing);
    if (input === undefined) return undefined;
    const { coordinate, digest } = request.key;
    const lease = { ...grant, tagVersions, logPosition };
    const hand = async (): Promise<unknown> => refreshQueue(await writeJob(request, input, lease, this.#packing));
    const isOver = hand().then(
      () => this.#channel.publish({ name: "refresh.enqueued", coordinate, digest }),
      (error: unknown) => {
        this.#channel.publish({ name: "refresh.rejected", coordinate, digest, error });
        return this.#startLoad(leaseRequest, grant, logPosition).stored;
      },
    );
    return { kind: "enqueued", isOver };
  }

  #startLoad(
    leaseRequest: LeaseRequest,
    grant: Granted,
    logPosition: LogPosition | undefined,
    startedAt: number = this.#clock.now(),
  ): InFlightLoad {
    const { request, isRefresh } = leaseRequest;
    const running = this.#loads.run(request, isRefresh);
    const { gen, token, grantedAt } = grant;
    const stored = running.inTheEnd.then((loaded) => this.#settle(inFlight, loaded, logPosition));
    const inFlight: InFlightLoad = {
      request,
      tagVersions: leaseRequest.tagVersions,
      gen,
      token,
      grantedAt,
      startedAt,
      loaded: running.forReaders,
      stored,
    };
    this.inFlightLoads.add(inFlight);
    this.#held.set(token, inFlight);
    this.#settling.add(stored);
    void stored.finally(() => {
      this.#settling.delete(stored);
      this.inFlightLoads.remove(inFlight);
    });
    this.#beat ??= this.#clock.after(this.#times.leaseMs / 3, () => this.#renew());
    return inFlight;
  }

  /** Stores what was loaded, or lets the lease go. Answers whether it was stored. Never rejects. */
  async #settle(inFlight: InFlightLoad, loaded: Loaded, logPosition: LogPosition | undefined): Promise<boolean> {
    const { coordinate, digest } = inFlight.request.key;
    let isStored = false;
    try {
      if (loaded.kind === "failed" && isRefusal(loaded.error)) await this.#release(inFlight, "abandoned", 0);
      else if (loaded.kind === "failed")
        await this.#release(inFlight, "failed", this.#errorBackoffMs(), this.#sealedFailure(inFlight, loaded.error));
      else if (loaded.content === undefined)
        await this.#release(inFlight, "uncacheable", this.#settings.errorBackoffMs);
      else {
        const request = await this.#entryBuilder.build(inFlight, { ...loaded, content: loaded.content }, logPosition);
        if (request === undefined) await this.#release(inFlight, "abandoned", 0);
        else isStored = (await this.#storeRequests.add(request)) === "stored";
        this.#channel.publish({ name: "write.finished", coordinate, digest, isStored });
      }
    } catch {
      // The store is away and tells so itself, or the value could not be packed: others need not wait for the lease to run out.
      await this.#release(inFlight, "abandoned", 0);
    }
    this.#held.delete(inFlight.token);
    return isStored;
  }

  #sealedFailure({ request }: InFlightLoad, error: unknown): Uint8Array {
    return this.#packing.seal(writeFailure(error, request.key), failureOf(request.key));
  }

  async #release(
    inFlight: InFlightLoad,
    outcome: Release["outcome"],
    holdMs: number,
    body: Uint8Array = new Uint8Array(),
  ): Promise<void> {
    this.#held.delete(inFlight.token);
    await this.#releases
      .add({ key: inFlight.request.key.name, token: inFlight.token, outcome, holdMs, body })
      .catch(() => false);
  }

  #errorBackoffMs(): number {
    return jittered(this.#settings.errorBackoffMs, 0.5, this.#random());
  }

  #renew(): void {
    this.#beat = undefined;
    const now = this.#clock.now();
    for (const [token, inFlight] of this.#held)
      if (now - inFlight.startedAt >= this.#settings.loadTimeoutMs) this.#held.delete(token);
    const held = [...this.#held.values()];
    if (held.length === 0) return;
    this.#beat = this.#clock.after(this.#times.leaseMs / 3, () => this.#renew());
    const holds = held.map(({ request, token }) => ({ key: request.key.name, token }));
    void this.#store.renew(holds, this.#times).then(
      (answers) => {
        for (const [index, isHeld] of answers.entries()) {
          const inFlight = held[index] as InFlightLoad;
          if (isHeld || !this.#held.delete(inFlight.token)) continue;
          const { coordinate, digest } = inFlight.request.key;
          this.#channel.publish({ name: "lease.lost", coordinate, digest });
        }
      },
      () => undefined,
    );
  }
}
