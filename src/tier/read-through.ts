import type { Clock, Random } from "../clock.js";
import type { Codec } from "../codec/codec.js";
import type { Entry } from "../store/entry.js";
import { isFence, type Nonce, type Reading, type Store } from "../store/store.js";
import type { Channel } from "../telemetry/channel.js";
import type { BypassReason, ReadOutcome } from "../telemetry/events.js";
import { readFailure } from "./failure.js";
import type { Flight } from "./flights.js";
import { isDueEarly, judge, type Verdict } from "./judge.js";
import type { Acquired, Leases } from "./leases.js";
import type { Loaded, Loads } from "./loads.js";
import { openEntry } from "./opening.js";
import { type Answer, type ReadRequest, signatureOf } from "./request.js";
import type { TierSettings } from "./settings.js";
import { TickBatch } from "./tick-batch.js";
import type { Waiting } from "./waiting.js";

/** What one look at the store showed a request. */
interface Sight {
  readonly reading: Reading;
  readonly nonces: readonly Nonce[];
}

/** What a request that has to load or wait knows, and carries from one look to the next. */
interface Pursuit {
  nonces: readonly Nonce[];
  /** A fresh value counts only if granted later than this: one that was found unusable, or due. */
  supersededAt: number;
  /** The stale value to fall back on. */
  rescue: Entry | undefined;
  readonly deadlineAt: number;
  readonly isNested: boolean;
}

/** One step of a pursuit: done, or look once more. */
type Step = { readonly value: unknown } | undefined;

/** What read-through is made of. */
export interface ReadThroughParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly channel: Channel;
  readonly codec: Codec;
  readonly loads: Loads;
  readonly leases: Leases;
  readonly waiting: Waiting;
  readonly settings: TierSettings;
}

/**
 * read → judge → serve | lease → load → fill | wait: the only file that knows the order.
 * All that is asked for in one tick, by whatever request, is one read; all that must be loaded after it is one wish for leases.
 */
export class ReadThrough {
  readonly #parts: ReadThroughParts;
  readonly #reads: TickBatch<ReadRequest, Sight>;
  readonly #tagReads: TickBatch<string, Nonce>;
  readonly #refreshing = new Set<string>();
  #isClosed = false;

  constructor(parts: ReadThroughParts) {
    this.#parts = parts;
    const idOf = ({ key, tags }: ReadRequest): string => [key.name, ...tags.names].join("\n");
    this.#reads = new TickBatch(parts.clock, (requests) => this.#look(requests), idOf);
    this.#tagReads = new TickBatch(
      parts.clock,
      (tags) => parts.store.read([], tags).then(({ nonces }) => nonces),
      (tag) => tag,
    );
  }

  /**
   * Answers in the order and length of `requests`, once the store has been read, one round trip; what has to be loaded is pending.
   * Never rejects; a pending answer rejects with the load's own error only.
   */
  async readMany(requests: readonly ReadRequest[]): Promise<readonly Answer[]> {
    const held = this.#parts.loads.held();
    const sights = await Promise.all(
      requests.map((request) => (this.#isClosed || held.has(request.key.name) ? undefined : this.#reads.add(request))),
    );
    return requests.map((request, index) => {
      const sight = sights[index];
      return sight === undefined
        ? pending(this.#bypass(request, this.#isClosed ? "CLOSED" : "NESTED"))
        : this.#answer(request, sight);
    });
  }

  /** From here on everything is bypassed. */
  close(): void {
    this.#isClosed = true;
  }

  async #look(requests: readonly ReadRequest[]): Promise<readonly Sight[]> {
    const keys = [...new Set(requests.map(({ key }) => key.name))];
    const tags = [...new Set(requests.flatMap((request) => request.tags.names))];
    const { readings, nonces } = await this.#parts.store.read(keys, tags);
    const readingOf = new Map(keys.map((key, index) => [key, readings[index] as Reading]));
    const nonceOf = new Map(tags.map((tag, index) => [tag, nonces[index]]));
    return requests.map((request) => ({
      reading: readingOf.get(request.key.name) as Reading,
      nonces: request.tags.names.map((tag) => nonceOf.get(tag)),
    }));
  }

  #answer(request: ReadRequest, { reading, nonces }: Sight): Answer {
    if (reading.kind === "failed") return pending(this.#bypass(request, "STORE_UNAVAILABLE"));
    const { entry, now } = reading;
    const verdict = this.#judge(request, entry, nonces, now);
    if (entry === undefined || !isServable(verdict)) return pending(this.#pursue(request, verdict, entry, nonces, 0));
    const opened = openEntry(entry, request.key, this.#parts.codec, this.#parts.channel);
    if (opened.kind === "collision") return pending(this.#bypass(request, "KEY_COLLISION"));
    if (opened.kind === "corrupt") return pending(this.#pursue(request, "absent", undefined, nonces, entry.grantedAt));
    if (verdict === "stale-while-revalidate" && request.policy.refresh === "FOREGROUND")
      return pending(this.#pursue(request, verdict, entry, nonces, 0));
    if (opened.resultTags.length === 0) return { kind: "settled", value: this.#serveEntry(request, verdict, entry, now, nonces, opened.value) };
    return pending(
      this.#areCurrent(opened.resultTags).then((areCurrent) =>
        areCurrent
          ? this.#serveEntry(request, verdict, entry, now, nonces, opened.value)
          : this.#pursue(request, "absent", undefined, nonces, entry.grantedAt),
      ),
    );
  }

  #judge(request: ReadRequest, entry: Entry | undefined, nonces: readonly Nonce[], now: number): Verdict {
    if (nonces.some((nonce) => nonce !== undefined && isFence(nonce))) return "fenced";
    const signature = signatureOf(request.tags, nonces);
    return signature === undefined && entry?.state !== "fenced" ? "absent" : judge(entry, request.policy, now, signature ?? "");
  }

  #serveEntry(request: ReadRequest, verdict: Verdict, entry: Entry, now: number, nonces: readonly Nonce[], value: unknown): unknown {
    const isDue = verdict === "fresh" && isDueEarly(entry, request.policy, now, this.#parts.random());
    if (verdict === "stale-while-revalidate" || isDue) this.#refresh(request, entry, now, nonces);
    const outcome = verdict === "fresh" ? "hit" : verdict === "rescued" ? "rescued" : "stale";
    this.#served(request, outcome, verdict === "fresh" ? entry.freshUntilAt - now : 0, now - entry.grantedAt);
    return value;
  }

  async #areCurrent(resultTags: readonly { readonly name: string; readonly nonce: string }[]): Promise<boolean> {
    const nonces = await Promise.all(resultTags.map(({ name }) => this.#tagReads.add(name).catch(() => undefined)));
    return resultTags.every(({ nonce }, index) => nonces[index] === nonce);
  }

  /** One refresh a key and process at a time, and none while another process holds the lease. Detached: nobody waits for it. */
  #refresh(request: ReadRequest, entry: Entry, now: number, nonces: readonly Nonce[]): void {
    const { name } = request.key;
    if (entry.untilAt > now || this.#refreshing.has(name) || this.#isClosed) return;
    this.#refreshing.add(name);
    void this.#parts.leases
      .acquire({ request, nonces, supersededAt: entry.grantedAt, isRefresh: true })
      .then((acquired) => (acquired.kind === "flight" ? acquired.flight.isKept : false))
      .catch(() => false)
      .finally(() => this.#refreshing.delete(name));
  }

  /** Loads the value or waits for it, as long as the request may wait. Rejects with a load's error only. */
  async #pursue(
    request: ReadRequest,
    verdict: Verdict,
    entry: Entry | undefined,
    nonces: readonly Nonce[],
    supersededAt: number,
  ): Promise<unknown> {
    const { clock, loads, settings, leases } = this.#parts;
    const isNested = loads.held().size > 0;
    const rescue = verdict === "stale-if-error" || verdict === "stale-while-revalidate" ? entry : undefined;
    const deadlineAt = clock.now() + (isNested ? settings.nestedWaitMs : settings.waitMs);
    const pursuit: Pursuit = { nonces, supersededAt, rescue, deadlineAt, isNested };
    let joinable = this.#flightOf(request, entry, nonces);
    for (let round = 0; ; round++) {
      if (joinable === undefined && verdict === "fenced") return this.#bypass(request, "FENCED");
      const acquired: Acquired =
        joinable === undefined
          ? await leases.acquire({ request, nonces: pursuit.nonces, supersededAt: pursuit.supersededAt, isRefresh: false })
          : { kind: "flight", flight: joinable };
      const step = await this.#step(request, acquired, pursuit, round);
      if (step !== undefined) return step.value;
      if (clock.now() >= deadlineAt) return this.#giveUp(request, pursuit);
      const sight = await this.#reads.add(request);
      if (sight.reading.kind === "failed") return this.#rescue(request, pursuit, () => this.#bypass(request, "STORE_UNAVAILABLE"));
      pursuit.nonces = sight.nonces;
      verdict = this.#judge(request, sight.reading.entry, sight.nonces, sight.reading.now);
      joinable = this.#flightOf(request, sight.reading.entry, sight.nonces);
      const found = await this.#take(request, sight.reading.entry, verdict, pursuit, "coalesced");
      if (found !== undefined) return found.value;
    }
  }

  async #step(request: ReadRequest, acquired: Acquired, pursuit: Pursuit, round: number): Promise<Step> {
    switch (acquired.kind) {
      case "flight":
        return this.#board(request, acquired.flight, pursuit);
      case "value":
        return this.#take(request, acquired.entry, "fresh", pursuit, round === 0 ? "hit" : "coalesced", acquired.now);
      case "busy":
        return this.#waitForOther(request, acquired.remainingMs, pursuit, round);
      case "failed":
        return { value: await this.#rescue(request, pursuit, () => this.#fail(request, readFailure(acquired.body))) };
      case "pass":
        return { value: await this.#bypass(request, "VALUE_UNSERIALIZABLE") };
      case "fenced":
        return { value: await this.#bypass(request, "FENCED") };
      case "foreign":
        return { value: await this.#bypass(request, "KEY_COLLISION") };
      case "late":
      case "unavailable":
        return { value: await this.#rescue(request, pursuit, () => this.#bypass(request, "STORE_UNAVAILABLE")) };
    }
  }

  /** Takes a flight's result. Whoever won the lease may have it in any case; who joined, only if no tag of the result was invalidated meanwhile. */
  async #board(request: ReadRequest, flight: Flight, pursuit: Pursuit): Promise<Step> {
    const isOwn = flight.request === request;
    if (!isOwn && pursuit.rescue !== undefined && request.policy.refresh === "FOREGROUND" && flight.request.policy.refresh === "FOREGROUND")
      return { value: await this.#rescue(request, pursuit, () => Promise.resolve(undefined), "stale") };
    const loaded = isOwn ? await flight.loaded : await this.#within(flight.loaded, pursuit);
    if (loaded === undefined) return undefined;
    const outcome = isOwn ? "filled" : "coalesced";
    if (loaded.kind === "failed") return { value: await this.#rescue(request, pursuit, () => this.#fail(request, loaded.error, outcome)) };
    if (!isOwn && request.tags.namesOf !== undefined && (await this.#within(flight.isKept, pursuit)) !== true) return undefined;
    return { value: this.#serveLoaded(request, loaded, outcome) };
  }

  async #waitForOther(request: ReadRequest, remainingMs: number, pursuit: Pursuit, round: number): Promise<Step> {
    // With FOREGROUND only the one who won the lease waits for the new value.
    if (pursuit.rescue !== undefined && request.policy.refresh === "FOREGROUND" && pursuit.rescue.state === "value" && round === 0)
      return { value: await this.#rescue(request, pursuit, () => Promise.resolve(undefined), "stale") };
    const { clock, waiting } = this.#parts;
    const woken = await waiting.wait(request.key.name, round, Math.min(remainingMs + 1, pursuit.deadlineAt - clock.now()));
    if (woken.kind === "look" || woken.entry === undefined) return undefined;
    const { entry } = woken;
    if (entry.signature !== signatureOf(request.tags, pursuit.nonces)) return undefined;
    return this.#take(request, entry, entry.state === "value" ? "fresh" : entry.state, pursuit, "coalesced");
  }

  /** Takes what an entry holds if it ends the pursuit: a value that may be served, or a shared failure. */
  async #take(
    request: ReadRequest,
    entry: Entry | undefined,
    verdict: Verdict,
    pursuit: Pursuit,
    outcome: "hit" | "coalesced",
    now: number | undefined = undefined,
  ): Promise<Step> {
    if (entry === undefined) return undefined;
    if (verdict === "failed") return { value: await this.#rescue(request, pursuit, () => this.#fail(request, readFailure(entry.body))) };
    if (!isServable(verdict) || entry.grantedAt <= pursuit.supersededAt) return undefined;
    const opened = openEntry(entry, request.key, this.#parts.codec, this.#parts.channel);
    if (opened.kind === "collision") return { value: await this.#bypass(request, "KEY_COLLISION") };
    if (opened.kind === "corrupt" || !(await this.#areCurrent(opened.resultTags))) {
      pursuit.supersededAt = entry.grantedAt;
      return undefined;
    }
    const freshForMs = verdict === "fresh" ? entry.freshUntilAt - (now ?? entry.grantedAt + entry.loadMs) : 0;
    this.#served(request, outcome, freshForMs, now === undefined ? entry.loadMs : now - entry.grantedAt);
    return { value: opened.value };
  }

  #flightOf(request: ReadRequest, entry: Entry | undefined, nonces: readonly Nonce[]): Flight | undefined {
    const signature = signatureOf(request.tags, nonces);
    if (entry === undefined || entry.gen === "" || signature === undefined || entry.signature !== signature) return undefined;
    return this.#parts.leases.flights.find(entry.gen, signature);
  }

  #giveUp(request: ReadRequest, pursuit: Pursuit): Promise<unknown> {
    return this.#rescue(request, pursuit, () => this.#bypass(request, pursuit.isNested ? "NESTED" : "WAIT_EXPIRED"));
  }

  /** The stale value if there is one to fall back on, and `otherwise` if not. */
  async #rescue(
    request: ReadRequest,
    pursuit: Pursuit,
    otherwise: () => Promise<unknown>,
    outcome: "rescued" | "stale" = "rescued",
  ): Promise<unknown> {
    const { rescue } = pursuit;
    const opened = rescue === undefined ? undefined : openEntry(rescue, request.key, this.#parts.codec, this.#parts.channel);
    if (opened?.kind !== "value" || !(await this.#areCurrent(opened.resultTags))) return otherwise();
    this.#served(request, outcome, 0, rescue === undefined ? 0 : rescue.loadMs);
    return opened.value;
  }

  /** The cache steps aside: the source is asked without a lease, and nothing is stored. */
  async #bypass(request: ReadRequest, reason: BypassReason): Promise<unknown> {
    const { loads, leases, channel } = this.#parts;
    const { name, coordinate, digest } = request.key;
    channel.publish({ name: "resolver.bypassed", coordinate, digest, reason });
    request.onServed?.({ outcome: "bypassed", isPrivate: request.policy.scope === "PRIVATE", reason });
    const begin = (): Promise<Loaded> => loads.run(request, false).forReaders;
    // Where nothing can be said about what an entry held, a load is shared by nobody.
    const isShared = reason === "STORE_UNAVAILABLE" || reason === "WAIT_EXPIRED";
    const loaded = await (isShared ? leases.flights.shared(name, begin).loaded : begin());
    return this.#valueOf(loaded);
  }

  #serveLoaded(request: ReadRequest, loaded: Loaded, outcome: "filled" | "coalesced"): unknown {
    this.#served(request, outcome, Math.max(0, request.policy.maxAgeMs - loaded.loadMs), loaded.loadMs);
    return this.#valueOf(loaded);
  }

  #valueOf(loaded: Loaded): unknown {
    if (loaded.kind === "failed") throw loaded.error;
    return loaded.text === undefined ? loaded.value : this.#parts.codec.decode(loaded.text);
  }

  #fail(request: ReadRequest, error: unknown, outcome: "filled" | "coalesced" = "coalesced"): Promise<never> {
    this.#served(request, outcome, 0, 0);
    return Promise.reject(error as Error);
  }

  async #within<T>(promise: Promise<T>, pursuit: Pursuit): Promise<T | undefined> {
    const { clock } = this.#parts;
    let cancel = (): void => undefined;
    const over = new Promise<undefined>((resolve) => {
      cancel = clock.after(Math.max(0, pursuit.deadlineAt - clock.now()), () => resolve(undefined));
    });
    return Promise.race([promise, over]).finally(() => cancel());
  }

  #served(request: ReadRequest, outcome: Exclude<ReadOutcome, "bypassed">, freshForMs: number, ageMs: number): void {
    const { coordinate, digest } = request.key;
    this.#parts.channel.publish({ name: "entry.served", coordinate, digest, outcome });
    const isPrivate = request.policy.scope === "PRIVATE";
    request.onServed?.({ outcome, isPrivate, freshForMs: Math.max(0, freshForMs), ageMs: Math.max(0, ageMs) });
  }
}

const pending = (promise: Promise<unknown>): Answer => {
  // Whoever asked takes the rejection; until he does, it must not count as unhandled.
  promise.catch(() => undefined);
  return { kind: "pending", promise };
};

const isServable = (verdict: Verdict): boolean => verdict === "fresh" || verdict === "stale-while-revalidate" || verdict === "rescued";
