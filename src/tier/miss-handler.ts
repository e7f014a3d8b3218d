import type { Clock } from "../clock.js";
import type { Entry } from "../store/entry.js";
import type { TagVersion } from "../store/store.js";
import type { BypassReason } from "../telemetry/events.js";
import type { DecodedValue } from "./entry-decoder.js";
import type { Freshness } from "./freshness.js";
import type { InFlightLoad } from "./in-flight-loads.js";
import type { Acquired, Leases } from "./leases.js";
import { freshnessOf, isServable, type ReadResult } from "./read-result.js";
import { type ReadRequest, signatureOf } from "./request.js";
import type { Respond } from "./respond.js";
import type { Responder } from "./responder.js";
import type { Watch } from "./waiting.js";

/** What a sharedMiss works with. */
export interface MissHandlerParts {
  readonly clock: Clock;
  readonly leases: Leases;
  readonly responder: Responder;
  /** Looks at the store once more, with all that looks in the same tick. */
  look(request: ReadRequest): Promise<ReadResult>;
}

/** Where a sharedMiss begins. */
export interface Start {
  readonly freshness: Freshness;
  readonly entry: Entry | undefined;
  readonly tagVersions: readonly TagVersion[];
  /** A value counts only if granted later than this: one that was found unusable. 0: any does. */
  readonly supersededAt: number;
  readonly deadlineAt: number;
  readonly isNested: boolean;
}

/**
 * One request that found nothing to serve: it joins a load of its process, wins the lease and loads, or waits for another process, and looks
 * again, until it has a value, an error of the source, or no time left; then it falls back on a stale value, or steps around the cache.
 */
export class MissHandler {
  readonly #request: ReadRequest;
  readonly #parts: MissHandlerParts;
  readonly #watch: Watch;
  readonly #deadlineAt: number;
  readonly #isNested: boolean;
  /** The stale value to fall back on. */
  readonly #fallback: Entry | undefined;
  /** Whether the stale value may be served at once to whoever does not win the lease: `refresh: FOREGROUND`. */
  readonly #mayServeStale: boolean;
  #tagVersions: readonly TagVersion[];
  #supersededAt: number;

  constructor(request: ReadRequest, start: Start, watch: Watch, parts: MissHandlerParts) {
    this.#request = request;
    this.#parts = parts;
    this.#watch = watch;
    this.#deadlineAt = start.deadlineAt;
    this.#isNested = start.isNested;
    this.#mayServeStale = start.freshness === "stale-while-revalidate";
    this.#fallback = this.#mayServeStale || start.freshness === "stale-if-error" ? start.entry : undefined;
    this.#tagVersions = start.tagVersions;
    this.#supersededAt = start.supersededAt;
  }

  /** Never rejects: what the source throws is in the respond. */
  async run({ freshness: first, entry }: Start): Promise<Respond> {
    const { clock, leases, look } = this.#parts;
    let freshness: Freshness = first;
    let inFlight = this.#inFlightLoadOn(entry);
    for (let round = 0; ; round++) {
      if (freshness === "write-in-progress") return this.#bypass("WRITE_IN_PROGRESS");
      const leaseRequest = {
        request: this.#request,
        tagVersions: this.#tagVersions,
        supersededAt: this.#supersededAt,
        isRefresh: false,
      };
      const acquired =
        inFlight === undefined ? await leases.acquire(leaseRequest) : ({ kind: "in-inFlight", inFlight } as const);
      const respond = await this.#step(acquired, round);
      if (respond !== undefined) return respond;
      if (clock.now() >= this.#deadlineAt)
        return this.#fallBack(this.#bypass(this.#isNested ? "NESTED" : "WAIT_TIMEOUT"), "stale");
      const readResult = await look(this.#request);
      const seen = freshnessOf(this.#request, readResult);
      if (seen === undefined || readResult.reading.kind === "failed")
        return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"));
      freshness = seen;
      this.#tagVersions = readResult.tagVersions;
      const found = await this.#take(readResult.reading.entry, freshness, "coalesced");
      if (found !== undefined) return found;
      inFlight = this.#inFlightLoadOn(readResult.reading.entry);
    }
  }

  /** Undefined: look once more. */
  async #step(acquired: Acquired, round: number): Promise<Respond | undefined> {
    switch (acquired.kind) {
      case "in-inFlight":
        return this.#join(acquired.inFlight);
      case "value":
        return this.#take(acquired.entry, "fresh", round === 0 ? "hit" : "coalesced", acquired.now);
      case "busy":
        return this.#wait(acquired.remainingMs, round);
      case "enqueued":
        return this.#wait(Number.POSITIVE_INFINITY, round);
      case "failed":
        return this.#failedElsewhere(acquired.body);
      case "uncacheable":
        return this.#bypass("UNCACHEABLE");
      case "write-in-progress":
        return this.#bypass("WRITE_IN_PROGRESS");
      case "unknown-format":
        return this.#bypass("KEY_COLLISION");
      case "expired":
      case "unavailable":
        return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"));
    }
  }

  /** Takes a inFlight's result. Whoever won the lease may have it in any case; who joined, only if no tag of the result was invalidated meanwhile. */
  async #join(inFlight: InFlightLoad): Promise<Respond | undefined> {
    const { responder } = this.#parts;
    const isOwn = inFlight.request === this.#request;
    if (!isOwn && this.#mayServeStale) return this.#serveStale();
    // Who has nothing to fall back on waits for his own load to its end.
    const waitsToTheEnd = isOwn && this.#fallback === undefined;
    const loaded = waitsToTheEnd ? await inFlight.loaded : await this.#inTime(inFlight.loaded);
    if (loaded === undefined) return undefined;
    const outcomeOf = (request: ReadRequest) => (request === inFlight.request ? "loaded" : "coalesced");
    if (loaded.kind === "failed")
      return this.#fallBack((request) => responder.failed(request, loaded.error, outcomeOf(request)));
    if (!isOwn && this.#request.tags.namesOf !== undefined && (await this.#inTime(inFlight.stored)) !== true)
      return undefined;
    return (request) => responder.loaded(request, loaded, outcomeOf(request));
  }

  async #wait(remainingMs: number, round: number): Promise<Respond | undefined> {
    if (this.#mayServeStale) return this.#serveStale();
    const woken = await this.#watch.wait(round, Math.min(remainingMs + 1, this.#deadlineAt - this.#parts.clock.now()));
    if (woken.kind === "look" || woken.entry === undefined) return undefined;
    const { entry } = woken;
    if (entry.signature !== signatureOf(this.#request.tags, this.#tagVersions)) return undefined;
    return this.#take(entry, entry.state === "value" ? "fresh" : entry.state, "coalesced");
  }

  /** Takes what an entry holds if that ends the sharedMiss: a value that may be served, or a shared failure. */
  async #take(
    entry: Entry | undefined,
    freshness: Freshness,
    outcome: "hit" | "coalesced",
    now?: number,
  ): Promise<Respond | undefined> {
    const { responder } = this.#parts;
    if (entry === undefined) return undefined;
    if (freshness === "failed") return this.#failedElsewhere(entry.body);
    if (!isServable(freshness) || entry.grantedAt <= this.#supersededAt) return undefined;
    const decoded = responder.open(this.#request, entry);
    if (decoded.kind === "collision") return this.#bypass("KEY_COLLISION");
    if (decoded.kind === "corrupt" || !(await responder.areCurrent(decoded.resultTags))) {
      this.#supersededAt = entry.grantedAt;
      return undefined;
    }
    // A message does not say what the store's time is: the entry was filled just now, so its age is its load's.
    const at = now ?? entry.grantedAt + entry.loadMs;
    const freshForMs = freshness === "fresh" ? entry.freshUntilAt - at : 0;
    return this.#giving(entry, decoded, outcome, freshForMs, at - entry.grantedAt);
  }

  /** The load of this process that the store has just shown to be the current one. */
  #inFlightLoadOn(entry: Entry | undefined): InFlightLoad | undefined {
    const signature = signatureOf(this.#request.tags, this.#tagVersions);
    if (entry === undefined || entry.gen === "" || signature === undefined || entry.signature !== signature)
      return undefined;
    return this.#parts.leases.inFlightLoads.find(entry.gen, this.#request.key);
  }

  #serveStale(): Promise<Respond> {
    return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"), "stale");
  }

  #failedElsewhere(description: Uint8Array): Promise<Respond> {
    return this.#fallBack((request) => this.#parts.responder.failedElsewhere(request, description));
  }

  #bypass(reason: BypassReason): Respond {
    return (request) => this.#parts.responder.bypass(request, reason);
  }

  /** The stale value if there is one to fall back on, and `otherwise` if not. */
  async #fallBack(otherwise: Respond, outcome: "staleIfError" | "stale" = "staleIfError"): Promise<Respond> {
    const { responder } = this.#parts;
    if (this.#fallback === undefined) return otherwise;
    const decoded = responder.open(this.#request, this.#fallback);
    if (decoded.kind !== "value" || !(await responder.areCurrent(decoded.resultTags))) return otherwise;
    return this.#giving(this.#fallback, decoded, outcome, 0, 0);
  }

  /** Gives what was decoded to the first who asks, and to the others what is decoded for each of them. */
  #giving(
    entry: Entry,
    decoded: DecodedValue,
    outcome: "hit" | "coalesced" | "staleIfError" | "stale",
    freshForMs: number,
    ageMs: number,
  ): Respond {
    const { responder } = this.#parts;
    let first: DecodedValue | undefined = decoded;
    return (request) => {
      const own = first ?? responder.open(request, entry);
      first = undefined;
      if (own.kind !== "value") return responder.bypass(request, "KEY_COLLISION");
      responder.served(request, outcome, freshForMs, ageMs, own.hint);
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
