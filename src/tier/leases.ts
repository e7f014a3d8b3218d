import type { Cancel, Clock, Random } from "../clock.js";
import type { Packing } from "../codec/packing.js";
import { jittered } from "../policy/jitter.js";
import type { Fill, FillOutcome, Grant, LeaseTimes, Nonce, RecordMark, Release, Store } from "../store/store.js";
import { isFence } from "../store/store.js";
import type { Channel } from "../telemetry/channel.js";
import { failureOf, writeFailure } from "./failure.js";
import { FillMaker, MIN_TAG_TTL_MS } from "./fill-maker.js";
import { type Flight, Flights } from "./flights.js";
import type { Loaded, Loads } from "./loads.js";
import { type Handover, inputOf, type RefreshQueue, writeJob } from "./refresh-job.js";
import { type ReadRequest, signatureOf } from "./request.js";
import type { TierSettings } from "./settings.js";
import { isRefusal } from "./source-guard.js";
import { TickBatch } from "./tick-batch.js";

/** A request's wish to load, with what it has seen. */
export interface Wish {
  readonly request: ReadRequest;
  /** As read for `request.tags.names`. */
  readonly nonces: readonly Nonce[];
  readonly supersededAt: number;
  readonly isRefresh: boolean;
}

/** The tier's settings, and where refreshes go, if not into this process. */
export interface LeaseSettings extends TierSettings {
  readonly refreshQueue: RefreshQueue | undefined;
}

/** What became of a wish: a flight of this process, the wisher's own if `flight.request` is his; or what the store said. */
export type Acquired =
  | { readonly kind: "flight"; readonly flight: Flight }
  /** It goes to a worker; resolves once the queue has it, or, had it refused, once the refresh here has ended. */
  | { readonly kind: "handed"; readonly isOver: Promise<unknown> }
  | Exclude<Grant, { kind: "granted" }>;

/** A lease, whoever won it. */
type Granted = Pick<Extract<Grant, { kind: "granted" }>, "gen" | "token" | "grantedAt">;

/** The one place where leases are won, kept, and let go: around a load, for all loads of this process together. */
export class Leases {
  readonly flights = new Flights();
  readonly #store: Store;
  readonly #fillMaker: FillMaker;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #channel: Channel;
  readonly #loads: Loads;
  readonly #packing: Packing;
  readonly #settings: LeaseSettings;
  readonly #times: LeaseTimes;
  readonly #held = new Map<string, Flight>();
  readonly #settling = new Set<Promise<unknown>>();
  readonly #wishes: TickBatch<Wish, Acquired>;
  readonly #fills: TickBatch<Fill, FillOutcome>;
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
    this.#fillMaker = new FillMaker(store, clock, random, packing, settings.loadTimeoutMs);
    this.#clock = clock;
    this.#random = random;
    this.#channel = channel;
    this.#loads = loads;
    this.#packing = packing;
    this.#settings = settings;
    const { leaseMs, storeTimeoutMs } = settings;
    // A process that is busy hears an answer later than its budget says, and takes it all the same.
    this.#times = { leaseMs, graceMs: 2 * leaseMs, patienceMs: 5 * storeTimeoutMs };
    this.#wishes = new TickBatch(
      clock,
      (wishes) => this.#acquire(wishes),
      ({ request, nonces, supersededAt }) => [request.key.name, supersededAt, request.tags.rule, ...nonces].join("\n"),
    );
    this.#fills = new TickBatch(clock, (fills) => store.fill(fills));
    this.#releases = new TickBatch(clock, (releases) => store.release(releases));
  }

  /** All wishes of one tick go in one trip, and the loads they win begin together, in one tick. Never rejects. */
  acquire(wish: Wish): Promise<Acquired> {
    return this.#wishes.add(wish);
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
    const wish = { request, nonces: lease.nonces, supersededAt: 0, isRefresh: true };
    // The load counts as begun when the lease was granted, also for how long it may take.
    const startedAt = this.#clock.now() - (reading.now - lease.grantedAt);
    return this.#fly(wish, lease, lease.mark, startedAt).isKept;
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
    const releases = [...this.#held.values()].map((flight) => this.#release(flight, "abandoned", 0));
    this.#held.clear();
    await Promise.all(releases);
  }

  async #acquire(wishes: readonly Wish[]): Promise<readonly Acquired[]> {
    const ready = await this.#withNonces(wishes);
    const open = ready.filter(({ nonces }) => nonces.every((nonce) => nonce !== undefined && !isFence(nonce)));
    const needsMark = open.some(({ request }) => request.tags.namesOf !== undefined);
    const requests = open.map(({ request, nonces, supersededAt }) => ({
      key: request.key.name,
      signature: signatureOf(request.tags, nonces) as string,
      supersededAt,
    }));
    // The mark must be older than the loads, so both answers are awaited before any load begins.
    const [grants, mark] = await Promise.all([
      requests.length === 0 ? [] : this.#store.acquire(requests, this.#times),
      needsMark ? this.#store.markRecord(this.#settings.loadTimeoutMs).catch(() => undefined) : undefined,
    ]);
    const grantOf = new Map(open.map((wish, index) => [wish, grants[index] as Grant]));
    return ready.map((wish): Acquired => {
      const grant = grantOf.get(wish);
      if (grant === undefined) {
        const isFenced = wish.nonces.some((nonce) => nonce !== undefined && isFence(nonce));
        return isFenced
          ? { kind: "fenced" }
          : { kind: "unavailable", error: new Error("the tags' nonces could not be read") };
      }
      if (grant.kind === "granted") return this.#handOver(wish, grant, mark) ?? this.#begin(wish, grant, mark);
      const flight = grant.kind === "busy" ? this.flights.find(grant.gen, wish.request.key) : undefined;
      return flight === undefined ? grant : { kind: "flight", flight };
    });
  }

  /** Tags that were never used, or evicted, get their nonces before the wish is made: one trip more, once for a tag. */
  async #withNonces(wishes: readonly Wish[]): Promise<readonly Wish[]> {
    const lacking = new Set(
      wishes.filter(({ nonces }) => nonces.includes(undefined)).flatMap(({ request }) => request.tags.names),
    );
    if (lacking.size === 0) return wishes;
    const names = [...lacking];
    const made = await this.#store.ensureTags(names, MIN_TAG_TTL_MS).catch((): string[] => []);
    const found = new Map(made.map((nonce, index) => [names[index], nonce]));
    return wishes.map((wish) => {
      if (!wish.nonces.includes(undefined)) return wish;
      return { ...wish, nonces: wish.request.tags.names.map((name) => found.get(name)) };
    });
  }

  #begin(wish: Wish, grant: Granted, mark: RecordMark | undefined): Acquired {
    return { kind: "flight", flight: this.#fly(wish, grant, mark) };
  }

  /** A refresh goes to the queue, if there is one and the request can be made elsewhere. The lease goes along, so it is not renewed here. */
  #handOver(wish: Wish, grant: Granted, mark: RecordMark | undefined): Acquired | undefined {
    const { refreshQueue } = this.#settings;
    if (refreshQueue === undefined || !wish.isRefresh) return undefined;
    const { request, nonces } = wish;
    const input = inputOf(request, this.#packing);
    if (input === undefined) return undefined;
    const { coordinate, digest } = request.key;
    const lease = { ...grant, nonces, mark };
    const hand = async (): Promise<unknown> => refreshQueue(await writeJob(request, input, lease, this.#packing));
    const isOver = hand().then(
      () => this.#channel.publish({ name: "refresh.handed", coordinate, digest }),
      (error: unknown) => {
        this.#channel.publish({ name: "refresh.returned", coordinate, digest, error });
        return this.#fly(wish, grant, mark).isKept;
      },
    );
    return { kind: "handed", isOver };
  }

  #fly(wish: Wish, grant: Granted, mark: RecordMark | undefined, startedAt: number = this.#clock.now()): Flight {
    const { request, isRefresh } = wish;
    const running = this.#loads.run(request, isRefresh);
    const { gen, token, grantedAt } = grant;
    const isKept = running.inTheEnd.then((loaded) => this.#settle(flight, loaded, mark));
    const flight: Flight = {
      request,
      nonces: wish.nonces,
      gen,
      token,
      grantedAt,
      startedAt,
      loaded: running.forReaders,
      isKept,
    };
    this.flights.add(flight);
    this.#held.set(token, flight);
    this.#settling.add(isKept);
    void isKept.finally(() => {
      this.#settling.delete(isKept);
      this.flights.remove(flight);
    });
    this.#beat ??= this.#clock.after(this.#times.leaseMs / 3, () => this.#renew());
    return flight;
  }

  /** Stores what was loaded, or lets the lease go. Answers whether it was stored. Never rejects. */
  async #settle(flight: Flight, loaded: Loaded, mark: RecordMark | undefined): Promise<boolean> {
    const { coordinate, digest } = flight.request.key;
    let isStored = false;
    try {
      if (loaded.kind === "failed" && isRefusal(loaded.error)) await this.#release(flight, "abandoned", 0);
      else if (loaded.kind === "failed")
        await this.#release(flight, "failed", this.#failureMs(), this.#sealedFailure(flight, loaded.error));
      else if (loaded.content === undefined) await this.#release(flight, "pass", this.#settings.failureMs);
      else {
        const fill = await this.#fillMaker.make(flight, { ...loaded, content: loaded.content }, mark);
        if (fill === undefined) await this.#release(flight, "abandoned", 0);
        else isStored = (await this.#fills.add(fill)) === "stored";
        this.#channel.publish({ name: "fill.finished", coordinate, digest, isStored });
      }
    } catch {
      // The store is away and tells so itself, or the value could not be packed: others need not wait for the lease to run out.
      await this.#release(flight, "abandoned", 0);
    }
    this.#held.delete(flight.token);
    return isStored;
  }

  #sealedFailure({ request }: Flight, error: unknown): Uint8Array {
    return this.#packing.seal(writeFailure(error, request.key), failureOf(request.key));
  }

  async #release(
    flight: Flight,
    outcome: Release["outcome"],
    holdMs: number,
    body: Uint8Array = new Uint8Array(),
  ): Promise<void> {
    this.#held.delete(flight.token);
    await this.#releases
      .add({ key: flight.request.key.name, token: flight.token, outcome, holdMs, body })
      .catch(() => false);
  }

  #failureMs(): number {
    return jittered(this.#settings.failureMs, 0.5, this.#random());
  }

  #renew(): void {
    this.#beat = undefined;
    const now = this.#clock.now();
    for (const [token, flight] of this.#held)
      if (now - flight.startedAt >= this.#settings.loadTimeoutMs) this.#held.delete(token);
    const held = [...this.#held.values()];
    if (held.length === 0) return;
    this.#beat = this.#clock.after(this.#times.leaseMs / 3, () => this.#renew());
    const holds = held.map(({ request, token }) => ({ key: request.key.name, token }));
    void this.#store.renew(holds, this.#times).then(
      (answers) => {
        for (const [index, isHeld] of answers.entries()) {
          const flight = held[index] as Flight;
          if (isHeld || !this.#held.delete(flight.token)) continue;
          const { coordinate, digest } = flight.request.key;
          this.#channel.publish({ name: "lease.lost", coordinate, digest });
        }
      },
      () => undefined,
    );
  }
}
