import type { Cancel, Clock, Random } from "../clock.js";
import type { Content } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { jittered } from "../policy/jitter.js";
import type { Policy } from "../policy/policy.js";
import { writeBody } from "../store/body.js";
import type { Fill, FillOutcome, Grant, LeaseTimes, Nonce, RecordMark, Release, Store } from "../store/store.js";
import { isFence } from "../store/store.js";
import type { Channel } from "../telemetry/channel.js";
import { failureOf, writeFailure } from "./failure.js";
import { type Flight, Flights } from "./flights.js";
import type { Loaded, Loads } from "./loads.js";
import { type ReadRequest, signatureOf } from "./request.js";
import type { TierSettings } from "./settings.js";
import { TickBatch } from "./tick-batch.js";

/** A request's wish to load, with what it has seen. */
export interface Wish {
  readonly request: ReadRequest;
  /** As read for `request.tags.names`. */
  readonly nonces: readonly Nonce[];
  readonly supersededAt: number;
  readonly isRefresh: boolean;
}

/** What became of a wish: a flight of this process, the wisher's own if `flight.request` is his; or what the store said. */
export type Acquired = { readonly kind: "flight"; readonly flight: Flight } | Exclude<Grant, { kind: "granted" }>;

/** Only tags that nobody loads under for this long are forgotten. */
const MIN_TAG_TTL_MS = 7 * 24 * 3_600_000;

/** The one place where leases are won, kept, and let go: around a load, for all loads of this process together. */
export class Leases {
  readonly flights = new Flights();
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #channel: Channel;
  readonly #loads: Loads;
  readonly #packing: Packing;
  readonly #settings: TierSettings;
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
    settings: TierSettings,
  ) {
    this.#store = store;
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
      if (grant.kind === "granted") return { kind: "flight", flight: this.#fly(wish, grant, mark) };
      const flight = grant.kind === "busy" ? this.flights.find(grant.gen) : undefined;
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

  #fly(wish: Wish, grant: Extract<Grant, { kind: "granted" }>, mark: RecordMark | undefined): Flight {
    const { request, isRefresh } = wish;
    const running = this.#loads.run(request, isRefresh);
    const { gen, token, grantedAt } = grant;
    const startedAt = this.#clock.now();
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
      if (loaded.kind === "failed")
        await this.#release(flight, "failed", this.#failureMs(), this.#sealedFailure(flight, loaded.error));
      else if (loaded.content === undefined) await this.#release(flight, "pass", this.#settings.failureMs);
      else {
        const fill = await this.#fillOf(flight, loaded.value, loaded.content, loaded.loadMs, mark);
        if (fill === undefined) await this.#release(flight, "abandoned", 0);
        else isStored = (await this.#fills.add(fill)) === "stored";
        this.#channel.publish({ name: "fill.finished", coordinate, digest, isStored });
      }
    } catch {
      // The store is away: it tells so itself, and the lease runs out.
    }
    this.#held.delete(flight.token);
    return isStored;
  }

  /**
   * Undefined where one of its tags was invalidated during the load, or that cannot be known. Of tags known before the load, the signature in
   * the entry is what keeps an outdated value from being served; looking once more only keeps it from being stored.
   */
  async #fillOf(
    flight: Flight,
    value: unknown,
    content: Content,
    loadMs: number,
    mark: RecordMark | undefined,
  ): Promise<Fill | undefined> {
    const { key, policy, tags } = flight.request;
    const packed = await this.#packing.pack(content);
    const late = [...new Set(tags.namesOf?.(value) ?? [])];
    const all = [...tags.names, ...late];
    const nonces = all.length === 0 ? [] : await this.#store.ensureTags(all, this.#tagTtlMs(policy));
    if (tags.names.some((_, index) => nonces[index] !== flight.nonces[index]) || nonces.some(isFence)) return undefined;
    if (late.length > 0) {
      // Nonces first, then the record: an invalidation writes them the other way round, so it cannot slip between.
      const isOverdue = this.#clock.now() - flight.startedAt >= this.#settings.loadTimeoutMs;
      if (mark === undefined || isOverdue || !(await this.#store.isUntouchedSince(mark, late))) return undefined;
    }
    const resultTags = late.map((name, index) => ({ name, nonce: nonces[tags.names.length + index] as string }));
    const isNegative = value === null || value === undefined || (Array.isArray(value) && value.length === 0);
    const maxAgeMs = isNegative ? policy.negativeMaxAgeMs : policy.maxAgeMs;
    return {
      key: key.name,
      gen: flight.gen,
      grantedAt: flight.grantedAt,
      loadMs,
      isNegative,
      freshMs: jittered(maxAgeMs, policy.jitterRatio, this.#random()),
      ttlMs: policy.neverExpires
        ? undefined
        : maxAgeMs + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs),
      body: this.#packing.seal(writeBody({ echo: key.echo, resultTags, value: packed }), key.name),
    };
  }

  #sealedFailure({ request }: Flight, error: unknown): Uint8Array {
    return this.#packing.seal(writeFailure(error), failureOf(request.key));
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

  /** A tag's nonce outlives every entry under it, so that they do not all become outdated with it. */
  #tagTtlMs(policy: Policy): number {
    return Math.max(
      MIN_TAG_TTL_MS,
      2 * (policy.maxAgeMs + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs)),
    );
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
