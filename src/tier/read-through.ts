import type { Clock, Random } from "../clock.js";
import type { Entry } from "../store/entry.js";
import type { Store, TagVersion } from "../store/store.js";
import type { BypassReason } from "../telemetry/events.js";
import type { DecodedValue } from "./entry-decoder.js";
import { type Freshness, isDueEarly } from "./freshness.js";
import type { Leases } from "./leases.js";
import type { Loads } from "./loads.js";
import { MissHandler, type MissHandlerParts } from "./miss-handler.js";
import type { NearCache } from "./near-cache.js";
import { freshnessOf, isServable, type ReadResult } from "./read-result.js";
import type { ReadRequest } from "./request.js";
import type { Respond } from "./respond.js";
import type { Responder } from "./responder.js";
import type { TierSettings } from "./settings.js";
import { TickReads } from "./tick-reads.js";
import type { UnconfirmedInvalidations } from "./unconfirmed-invalidations.js";
import type { Waiting } from "./waiting.js";

/** What read-through is made of. */
export interface ReadThroughParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly loads: Loads;
  readonly leases: Leases;
  readonly responder: Responder;
  readonly waiting: Waiting;
  readonly kept: UnconfirmedInvalidations;
  readonly near: NearCache | undefined;
  readonly settings: TierSettings;
}

/**
 * read → evaluateFreshness → serve | lease → load → fill | wait: the one place where a read begins.
 * All that is asked for in one tick, by whatever request, is one read; all that must be loaded after it is one leaseRequest for leases.
 */
export class ReadThrough {
  readonly #parts: ReadThroughParts;
  readonly #missHandlerParts: MissHandlerParts;
  readonly #reads: TickReads;
  readonly #refreshing = new Set<string>();
  #isClosed = false;

  constructor(parts: ReadThroughParts) {
    this.#parts = parts;
    this.#reads = new TickReads(parts.store, parts.clock, () => parts.near?.mark ?? 0);
    const { clock, leases, responder } = parts;
    this.#missHandlerParts = {
      clock,
      leases,
      responder,
      look: async (request) => (await this.#reads.look([request]))[0] as ReadResult,
    };
  }

  /**
   * Answers in the order and length of `requests`, once the store has been read, one round trip; what has to be loaded is pending.
   * Never rejects; a pending answer rejects with an error of the source only.
   */
  async readMany(requests: readonly ReadRequest[]): Promise<readonly unknown[]> {
    const { kept, loads, responder } = this.#parts;
    const isForced = requests.some((request) => request.isForced === true);
    if (!this.#isClosed && !isForced && kept.size === 0 && loads.held().size === 0) {
      const readResults = await this.#reads.look(requests);
      return requests.map((request, index) => this.#answer(request, readResults[index] as ReadResult));
    }
    const reasons = requests.map((request) => this.#whyNotRead(request));
    const isRead = (request: ReadRequest, index: number): boolean =>
      reasons[index] === undefined && request.isForced !== true;
    const readResults = await this.#reads.look(requests.filter(isRead));
    let read = 0;
    return requests.map((request, index) => {
      if (isRead(request, index)) return this.#answer(request, readResults[read++] as ReadResult);
      const reason = reasons[index];
      return pending(reason === undefined ? this.#force(request) : responder.bypass(request, reason));
    });
  }

  /** What is stored goes on being served to others, but no load that began before counts for this one. */
  async #force(request: ReadRequest): Promise<unknown> {
    const { store, responder } = this.#parts;
    this.#parts.near?.changed(request.key.name);
    const isOutdated = await store.softInvalidate([request.key.name]).then(
      () => true,
      () => false,
    );
    const [readResult] = await this.#reads.look([request]);
    if (!isOutdated || readResult?.reading.kind !== "read") return responder.bypass(request, "STORE_UNAVAILABLE");
    const { entry } = readResult.reading;
    const freshness = freshnessOf(request, readResult) === "write-in-progress" ? "write-in-progress" : "absent";
    return (await this.#resolveMiss(request, freshness, undefined, readResult.tagVersions, entry?.grantedAt ?? 0))(
      request,
    );
  }

  /** What keeps a request from being read in the store at all. */
  #whyNotRead({ key, tags }: ReadRequest): BypassReason | undefined {
    if (this.#isClosed) return "CLOSED";
    if (this.#parts.loads.held().has(key.name)) return "NESTED";
    return this.#parts.kept.has(key.name, tags.names) ? "STORE_UNAVAILABLE" : undefined;
  }

  get hasNear(): boolean {
    return this.#parts.near !== undefined;
  }

  /** The value of a request that is kept in this process, at once and without a promise; undefined where it has to be read. */
  near(request: ReadRequest): { readonly value: unknown } | undefined {
    const { near, responder } = this.#parts;
    if (near === undefined || request.isForced === true || this.#whyNotRead(request) !== undefined) return undefined;
    const found = near.get(request);
    if (found !== undefined) responder.served(request, "hit", found.freshForMs, found.ageMs, found.hint);
    return found;
  }

  /** The fresh value of a request, read with all others of the tick; undefined where there is none, and then nothing is loaded. */
  async peek(request: ReadRequest): Promise<unknown> {
    if (this.#whyNotRead(request) !== undefined) return undefined;
    const [readResult] = (await this.#reads.look([request])) as [ReadResult];
    if (freshnessOf(request, readResult) !== "fresh" || readResult.reading.kind === "failed") return undefined;
    const { entry, now } = readResult.reading as { entry: Entry; now: number };
    const decoded = this.#parts.responder.open(request, entry);
    if (decoded.kind !== "value" || decoded.resultTags.length > 0) return undefined;
    this.#parts.responder.served(request, "hit", entry.freshUntilAt - now, now - entry.grantedAt);
    return decoded.value;
  }

  /** From here on everything is bypassed. */
  close(): void {
    this.#isClosed = true;
  }

  #answer(request: ReadRequest, readResult: ReadResult): unknown {
    const { responder } = this.#parts;
    const { reading } = readResult;
    const freshness = freshnessOf(request, readResult);
    if (freshness === undefined || reading.kind === "failed")
      return pending(responder.bypass(request, "STORE_UNAVAILABLE"));
    const { entry, now } = reading;
    const waitsForNew = freshness === "stale-while-revalidate" && request.policy.refresh === "FOREGROUND";
    if (entry === undefined || !isServable(freshness) || waitsForNew)
      return pending(this.#shareMiss(request, readResult, freshness));
    const decoded = responder.open(request, entry);
    if (decoded.kind === "collision") return pending(responder.bypass(request, "KEY_COLLISION"));
    if (decoded.kind === "corrupt") return pending(this.#reload(request, readResult, entry));
    if (decoded.resultTags.length > 0)
      return pending(this.#serveIfCurrent(request, readResult, freshness, entry, now, decoded));
    const value = this.#serve(request, readResult, freshness, entry, now, decoded);
    // Whoever takes answers for a DataLoader would take an Error for a failure.
    return value instanceof Error ? Promise.resolve(value) : value;
  }

  async #serveIfCurrent(
    request: ReadRequest,
    readResult: ReadResult,
    freshness: Freshness,
    entry: Entry,
    now: number,
    decoded: DecodedValue,
  ): Promise<unknown> {
    if (!(await this.#parts.responder.areCurrent(decoded.resultTags))) return this.#reload(request, readResult, entry);
    return this.#serve(request, readResult, freshness, entry, now, decoded);
  }

  /** What is there cannot be used, and nothing as old. */
  async #reload(request: ReadRequest, { tagVersions }: ReadResult, entry: Entry): Promise<unknown> {
    return (await this.#resolveMiss(request, "absent", undefined, tagVersions, entry.grantedAt))(request);
  }

  /**
   * Those who have seen the same in one tick set out together: one leaseRequest, one watch, one wait, and a value of his own for each. A reader inside a load
   * has a deadline of his own, and who waits for a refresh while others are served the stale value is alone.
   */
  async #shareMiss(request: ReadRequest, readResult: ReadResult, freshness: Freshness): Promise<unknown> {
    const { loads, responder } = this.#parts;
    const entry = readResult.reading.kind === "read" ? readResult.reading.entry : undefined;
    const begin = async (): Promise<Respond> => {
      if (freshness === "absent" && (await request.mayExist?.()) === false) return (one) => responder.nothing(one);
      return this.#resolveMiss(request, freshness, entry, readResult.tagVersions, 0);
    };
    if (freshness === "stale-while-revalidate" || loads.held().size > 0) return (await begin())(request);
    readResult.sharedMiss ??= begin();
    return (await readResult.sharedMiss)(request);
  }

  #serve(
    request: ReadRequest,
    readResult: ReadResult,
    freshness: Freshness,
    entry: Entry,
    now: number,
    { value, resultTags, hint }: DecodedValue,
  ): unknown {
    const { near, random, responder } = this.#parts;
    const isFresh = freshness === "fresh";
    const isDue = isFresh && isDueEarly(entry, request.policy, now, random);
    if (freshness === "stale-while-revalidate" || isDue) this.#refresh(request, entry, now, readResult.tagVersions);
    const outcome = isFresh ? "hit" : freshness === "stale-backoff" ? "staleIfError" : "stale";
    responder.served(request, outcome, isFresh ? entry.freshUntilAt - now : 0, now - entry.grantedAt, hint);
    if (isFresh) near?.put(request, entry, { value, hint, resultTags }, now, readResult.mark);
    return value;
  }

  /** One refresh a key and process at a time, and none while another process holds the lease. Detached: nobody waits for it. */
  #refresh(request: ReadRequest, entry: Entry, now: number, tagVersions: readonly TagVersion[]): void {
    const { name } = request.key;
    if (entry.untilAt > now || this.#refreshing.has(name) || this.#isClosed) return;
    this.#refreshing.add(name);
    void this.#parts.leases
      .acquire({ request, tagVersions, supersededAt: entry.grantedAt, isRefresh: true })
      .then((acquired): unknown => {
        if (acquired.kind === "in-inFlight") return acquired.inFlight.stored;
        return acquired.kind === "enqueued" ? acquired.isOver : undefined;
      })
      .catch(() => false)
      .finally(() => this.#refreshing.delete(name));
  }

  async #resolveMiss(
    request: ReadRequest,
    freshness: Freshness,
    entry: Entry | undefined,
    tagVersions: readonly TagVersion[],
    supersededAt: number,
  ): Promise<Respond> {
    const { clock, loads, settings, waiting } = this.#parts;
    const isNested = loads.held().size > 0;
    const hasStale = freshness === "stale-while-revalidate" || freshness === "stale-if-error";
    const leaseWaitMs = isNested ? settings.nestedWaitMs : settings.leaseWaitMs;
    const deadlineAt =
      clock.now() + Math.min(leaseWaitMs, hasStale ? (settings.softTimeoutMs ?? leaseWaitMs) : leaseWaitMs);
    const start = { freshness, entry, tagVersions, supersededAt, deadlineAt, isNested };
    const watch = waiting.watch(request.key.name);
    try {
      return await new MissHandler(request, start, watch, this.#missHandlerParts).run(start);
    } finally {
      watch.end();
    }
  }
}

function pending(promise: Promise<unknown>): Promise<unknown> {
  // Whoever asked takes the rejection; until he does, it must not count as unhandled.
  promise.catch(() => undefined);
  return promise;
}
