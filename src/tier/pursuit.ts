import type { Clock } from "../clock.js";
import type { Entry } from "../store/entry.js";
import type { Nonce } from "../store/store.js";
import type { BypassReason } from "../telemetry/events.js";
import type { Ending } from "./ending.js";
import type { Flight } from "./flights.js";
import type { Verdict } from "./judge.js";
import type { Acquired, Leases } from "./leases.js";
import type { OpenedValue } from "./opening.js";
import { type ReadRequest, signatureOf } from "./request.js";
import type { Serving } from "./serving.js";
import { isServable, type Sight, verdictOf } from "./sight.js";
import type { Watch } from "./waiting.js";

/** What a pursuit works with. */
export interface PursuitParts {
  readonly clock: Clock;
  readonly leases: Leases;
  readonly serving: Serving;
  /** Looks at the store once more, with all that looks in the same tick. */
  look(request: ReadRequest): Promise<Sight>;
}

/** Where a pursuit begins. */
export interface Start {
  readonly verdict: Verdict;
  readonly entry: Entry | undefined;
  readonly nonces: readonly Nonce[];
  /** A value counts only if granted later than this: one that was found unusable. 0: any does. */
  readonly supersededAt: number;
  readonly deadlineAt: number;
  readonly isNested: boolean;
}

/**
 * One request that found nothing to serve: it joins a load of its process, wins the lease and loads, or waits for another process, and looks
 * again, until it has a value, an error of the source, or no time left; then it falls back on a stale value, or steps around the cache.
 */
export class Pursuit {
  readonly #request: ReadRequest;
  readonly #parts: PursuitParts;
  readonly #watch: Watch;
  readonly #deadlineAt: number;
  readonly #isNested: boolean;
  /** The stale value to fall back on. */
  readonly #rescue: Entry | undefined;
  /** Whether the stale value may be served at once to whoever does not win the lease: `refresh: FOREGROUND`. */
  readonly #mayServeStale: boolean;
  #nonces: readonly Nonce[];
  #supersededAt: number;

  constructor(request: ReadRequest, start: Start, watch: Watch, parts: PursuitParts) {
    this.#request = request;
    this.#parts = parts;
    this.#watch = watch;
    this.#deadlineAt = start.deadlineAt;
    this.#isNested = start.isNested;
    this.#mayServeStale = start.verdict === "stale-while-revalidate";
    this.#rescue = this.#mayServeStale || start.verdict === "stale-if-error" ? start.entry : undefined;
    this.#nonces = start.nonces;
    this.#supersededAt = start.supersededAt;
  }

  /** Never rejects: what the source throws is in the ending. */
  async run({ verdict: first, entry }: Start): Promise<Ending> {
    const { clock, leases, look } = this.#parts;
    let verdict: Verdict = first;
    let flight = this.#flightOn(entry);
    for (let round = 0; ; round++) {
      if (verdict === "fenced") return this.#bypass("FENCED");
      const wish = { request: this.#request, nonces: this.#nonces, supersededAt: this.#supersededAt, isRefresh: false };
      const acquired = flight === undefined ? await leases.acquire(wish) : ({ kind: "flight", flight } as const);
      const ending = await this.#step(acquired, round);
      if (ending !== undefined) return ending;
      if (clock.now() >= this.#deadlineAt)
        return this.#fallBack(this.#bypass(this.#isNested ? "NESTED" : "WAIT_EXPIRED"), "stale");
      const sight = await look(this.#request);
      const seen = verdictOf(this.#request, sight);
      if (seen === undefined || sight.reading.kind === "failed")
        return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"));
      verdict = seen;
      this.#nonces = sight.nonces;
      const found = await this.#take(sight.reading.entry, verdict, "coalesced");
      if (found !== undefined) return found;
      flight = this.#flightOn(sight.reading.entry);
    }
  }

  /** Undefined: look once more. */
  async #step(acquired: Acquired, round: number): Promise<Ending | undefined> {
    switch (acquired.kind) {
      case "flight":
        return this.#board(acquired.flight);
      case "value":
        return this.#take(acquired.entry, "fresh", round === 0 ? "hit" : "coalesced", acquired.now);
      case "busy":
        return this.#wait(acquired.remainingMs, round);
      case "handed":
        return this.#wait(Number.POSITIVE_INFINITY, round);
      case "failed":
        return this.#failedElsewhere(acquired.body);
      case "pass":
        return this.#bypass("VALUE_UNSERIALIZABLE");
      case "fenced":
        return this.#bypass("FENCED");
      case "foreign":
        return this.#bypass("KEY_COLLISION");
      case "late":
      case "unavailable":
        return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"));
    }
  }

  /** Takes a flight's result. Whoever won the lease may have it in any case; who joined, only if no tag of the result was invalidated meanwhile. */
  async #board(flight: Flight): Promise<Ending | undefined> {
    const { serving } = this.#parts;
    const isOwn = flight.request === this.#request;
    if (!isOwn && this.#mayServeStale) return this.#serveStale();
    // Who has nothing to fall back on waits for his own load to its end.
    const waitsToTheEnd = isOwn && this.#rescue === undefined;
    const loaded = waitsToTheEnd ? await flight.loaded : await this.#inTime(flight.loaded);
    if (loaded === undefined) return undefined;
    const outcomeOf = (request: ReadRequest) => (request === flight.request ? "filled" : "coalesced");
    if (loaded.kind === "failed")
      return this.#fallBack((request) => serving.failed(request, loaded.error, outcomeOf(request)));
    if (!isOwn && this.#request.tags.namesOf !== undefined && (await this.#inTime(flight.isKept)) !== true)
      return undefined;
    return (request) => serving.loaded(request, loaded, outcomeOf(request));
  }

  async #wait(remainingMs: number, round: number): Promise<Ending | undefined> {
    if (this.#mayServeStale) return this.#serveStale();
    const woken = await this.#watch.wait(round, Math.min(remainingMs + 1, this.#deadlineAt - this.#parts.clock.now()));
    if (woken.kind === "look" || woken.entry === undefined) return undefined;
    const { entry } = woken;
    if (entry.signature !== signatureOf(this.#request.tags, this.#nonces)) return undefined;
    return this.#take(entry, entry.state === "value" ? "fresh" : entry.state, "coalesced");
  }

  /** Takes what an entry holds if that ends the pursuit: a value that may be served, or a shared failure. */
  async #take(
    entry: Entry | undefined,
    verdict: Verdict,
    outcome: "hit" | "coalesced",
    now?: number,
  ): Promise<Ending | undefined> {
    const { serving } = this.#parts;
    if (entry === undefined) return undefined;
    if (verdict === "failed") return this.#failedElsewhere(entry.body);
    if (!isServable(verdict) || entry.grantedAt <= this.#supersededAt) return undefined;
    const opened = serving.open(this.#request, entry);
    if (opened.kind === "collision") return this.#bypass("KEY_COLLISION");
    if (opened.kind === "corrupt" || !(await serving.areCurrent(opened.resultTags))) {
      this.#supersededAt = entry.grantedAt;
      return undefined;
    }
    // A message does not say what the store's time is: the entry was filled just now, so its age is its load's.
    const at = now ?? entry.grantedAt + entry.loadMs;
    const freshForMs = verdict === "fresh" ? entry.freshUntilAt - at : 0;
    return this.#giving(entry, opened, outcome, freshForMs, at - entry.grantedAt);
  }

  /** The load of this process that the store has just shown to be the current one. */
  #flightOn(entry: Entry | undefined): Flight | undefined {
    const signature = signatureOf(this.#request.tags, this.#nonces);
    if (entry === undefined || entry.gen === "" || signature === undefined || entry.signature !== signature)
      return undefined;
    return this.#parts.leases.flights.find(entry.gen, this.#request.key);
  }

  #serveStale(): Promise<Ending> {
    return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"), "stale");
  }

  #failedElsewhere(description: Uint8Array): Promise<Ending> {
    return this.#fallBack((request) => this.#parts.serving.failedElsewhere(request, description));
  }

  #bypass(reason: BypassReason): Ending {
    return (request) => this.#parts.serving.bypass(request, reason);
  }

  /** The stale value if there is one to fall back on, and `otherwise` if not. */
  async #fallBack(otherwise: Ending, outcome: "rescued" | "stale" = "rescued"): Promise<Ending> {
    const { serving } = this.#parts;
    if (this.#rescue === undefined) return otherwise;
    const opened = serving.open(this.#request, this.#rescue);
    if (opened.kind !== "value" || !(await serving.areCurrent(opened.resultTags))) return otherwise;
    return this.#giving(this.#rescue, opened, outcome, 0, 0);
  }

  /** Gives what was opened to the first who asks, and to the others what is opened for each of them. */
  #giving(
    entry: Entry,
    opened: OpenedValue,
    outcome: "hit" | "coalesced" | "rescued" | "stale",
    freshForMs: number,
    ageMs: number,
  ): Ending {
    const { serving } = this.#parts;
    let first: OpenedValue | undefined = opened;
    return (request) => {
      const own = first ?? serving.open(request, entry);
      first = undefined;
      if (own.kind !== "value") return serving.bypass(request, "KEY_COLLISION");
      serving.served(request, outcome, freshForMs, ageMs, own.hint);
      return own.value;
    };
  }

  /** Undefined where the deadline comes first. */
  async #inTime<T>(promise: Promise<T>): Promise<T | undefined> {
    const { clock } = this.#parts;
    let cancel = (): void => undefined;
    const over = new Promise<undefined>((resolve) => {
      cancel = clock.after(Math.max(0, this.#deadlineAt - clock.now()), () => resolve(undefined));
    });
    return Promise.race([promise, over]).finally(() => cancel());
  }
}
