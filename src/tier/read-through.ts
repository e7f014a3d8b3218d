import type { Clock, Random } from "../clock.js";
import type { Entry } from "../store/entry.js";
import type { Nonce, Store } from "../store/store.js";
import type { BypassReason } from "../telemetry/events.js";
import type { Ending } from "./ending.js";
import { isDueEarly, type Verdict } from "./judge.js";
import type { KeptNames } from "./kept-names.js";
import type { Leases } from "./leases.js";
import type { Loads } from "./loads.js";
import type { NearCache } from "./near-cache.js";
import type { OpenedValue } from "./opening.js";
import { Pursuit, type PursuitParts } from "./pursuit.js";
import type { ReadRequest } from "./request.js";
import type { Serving } from "./serving.js";
import type { TierSettings } from "./settings.js";
import { isServable, type Sight, verdictOf } from "./sight.js";
import { TickReads } from "./tick-reads.js";
import type { Waiting } from "./waiting.js";

/** What read-through is made of. */
export interface ReadThroughParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly loads: Loads;
  readonly leases: Leases;
  readonly serving: Serving;
  readonly waiting: Waiting;
  readonly kept: KeptNames;
  readonly near: NearCache | undefined;
  readonly settings: TierSettings;
}

/**
 * read → judge → serve | lease → load → fill | wait: the one place where a read begins.
 * All that is asked for in one tick, by whatever request, is one read; all that must be loaded after it is one wish for leases.
 */
export class ReadThrough {
  readonly #parts: ReadThroughParts;
  readonly #pursuitParts: PursuitParts;
  readonly #reads: TickReads;
  readonly #refreshing = new Set<string>();
  #isClosed = false;

  constructor(parts: ReadThroughParts) {
    this.#parts = parts;
    this.#reads = new TickReads(parts.store, parts.clock, () => parts.near?.mark ?? 0);
    const { clock, leases, serving } = parts;
    this.#pursuitParts = {
      clock,
      leases,
      serving,
      look: async (request) => (await this.#reads.look([request]))[0] as Sight,
    };
  }

  /**
   * Answers in the order and length of `requests`, once the store has been read, one round trip; what has to be loaded is pending.
   * Never rejects; a pending answer rejects with an error of the source only.
   */
  async readMany(requests: readonly ReadRequest[]): Promise<readonly unknown[]> {
    const { kept, loads, serving } = this.#parts;
    const isForced = requests.some((request) => request.isForced === true);
    if (!this.#isClosed && !isForced && kept.size === 0 && loads.held().size === 0) {
      const sights = await this.#reads.look(requests);
      return requests.map((request, index) => this.#answer(request, sights[index] as Sight));
    }
    const reasons = requests.map((request) => this.#whyNotRead(request));
    const isRead = (request: ReadRequest, index: number): boolean =>
      reasons[index] === undefined && request.isForced !== true;
    const sights = await this.#reads.look(requests.filter(isRead));
    let read = 0;
    return requests.map((request, index) => {
      if (isRead(request, index)) return this.#answer(request, sights[read++] as Sight);
      const reason = reasons[index];
      return pending(reason === undefined ? this.#force(request) : serving.bypass(request, reason));
    });
  }

  /** What is stored goes on being served to others, but no load that began before counts for this one. */
  async #force(request: ReadRequest): Promise<unknown> {
    const { store, serving } = this.#parts;
    this.#parts.near?.changed(request.key.name);
    const isOutdated = await store.softInvalidate([request.key.name]).then(
      () => true,
      () => false,
    );
    const [sight] = await this.#reads.look([request]);
    if (!isOutdated || sight?.reading.kind !== "read") return serving.bypass(request, "STORE_UNAVAILABLE");
    const { entry } = sight.reading;
    const verdict = verdictOf(request, sight) === "fenced" ? "fenced" : "absent";
    return (await this.#pursue(request, verdict, undefined, sight.nonces, entry?.grantedAt ?? 0))(request);
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
    const { near, serving } = this.#parts;
    if (near === undefined || request.isForced === true || this.#whyNotRead(request) !== undefined) return undefined;
    const found = near.get(request);
    if (found !== undefined) serving.served(request, "hit", found.freshForMs, found.ageMs, found.hint);
    return found;
  }

  /** The fresh value of a request, read with all others of the tick; undefined where there is none, and then nothing is loaded. */
  async peek(request: ReadRequest): Promise<unknown> {
    if (this.#whyNotRead(request) !== undefined) return undefined;
    const [sight] = (await this.#reads.look([request])) as [Sight];
    if (verdictOf(request, sight) !== "fresh" || sight.reading.kind === "failed") return undefined;
    const { entry, now } = sight.reading as { entry: Entry; now: number };
    const opened = this.#parts.serving.open(request, entry);
    if (opened.kind !== "value" || opened.resultTags.length > 0) return undefined;
    this.#parts.serving.served(request, "hit", entry.freshUntilAt - now, now - entry.grantedAt);
    return opened.value;
  }

  /** From here on everything is bypassed. */
  close(): void {
    this.#isClosed = true;
  }

  #answer(request: ReadRequest, sight: Sight): unknown {
    const { serving } = this.#parts;
    const { reading } = sight;
    const verdict = verdictOf(request, sight);
    if (verdict === undefined || reading.kind === "failed")
      return pending(serving.bypass(request, "STORE_UNAVAILABLE"));
    const { entry, now } = reading;
    const waitsForNew = verdict === "stale-while-revalidate" && request.policy.refresh === "FOREGROUND";
    if (entry === undefined || !isServable(verdict) || waitsForNew)
      return pending(this.#setOut(request, sight, verdict));
    const opened = serving.open(request, entry);
    if (opened.kind === "collision") return pending(serving.bypass(request, "KEY_COLLISION"));
    if (opened.kind === "corrupt") return pending(this.#reload(request, sight, entry));
    if (opened.resultTags.length > 0) return pending(this.#serveIfCurrent(request, sight, verdict, entry, now, opened));
    const value = this.#serve(request, sight, verdict, entry, now, opened);
    // Whoever takes answers for a DataLoader would take an Error for a failure.
    return value instanceof Error ? Promise.resolve(value) : value;
  }

  async #serveIfCurrent(
    request: ReadRequest,
    sight: Sight,
    verdict: Verdict,
    entry: Entry,
    now: number,
    opened: OpenedValue,
  ): Promise<unknown> {
    if (!(await this.#parts.serving.areCurrent(opened.resultTags))) return this.#reload(request, sight, entry);
    return this.#serve(request, sight, verdict, entry, now, opened);
  }

  /** What is there cannot be used, and nothing as old. */
  async #reload(request: ReadRequest, { nonces }: Sight, entry: Entry): Promise<unknown> {
    return (await this.#pursue(request, "absent", undefined, nonces, entry.grantedAt))(request);
  }

  /**
   * Those who have seen the same in one tick set out together: one wish, one watch, one wait, and a value of his own for each. A reader inside a load
   * has a deadline of his own, and who waits for a refresh while others are served the stale value is alone.
   */
  async #setOut(request: ReadRequest, sight: Sight, verdict: Verdict): Promise<unknown> {
    const { loads, serving } = this.#parts;
    const entry = sight.reading.kind === "read" ? sight.reading.entry : undefined;
    const begin = async (): Promise<Ending> => {
      if (verdict === "absent" && (await request.mayExist?.()) === false) return (one) => serving.nothing(one);
      return this.#pursue(request, verdict, entry, sight.nonces, 0);
    };
    if (verdict === "stale-while-revalidate" || loads.held().size > 0) return (await begin())(request);
    sight.pursuit ??= begin();
    return (await sight.pursuit)(request);
  }

  #serve(
    request: ReadRequest,
    sight: Sight,
    verdict: Verdict,
    entry: Entry,
    now: number,
    { value, resultTags, hint }: OpenedValue,
  ): unknown {
    const { near, random, serving } = this.#parts;
    const isFresh = verdict === "fresh";
    const isDue = isFresh && isDueEarly(entry, request.policy, now, random);
    if (verdict === "stale-while-revalidate" || isDue) this.#refresh(request, entry, now, sight.nonces);
    const outcome = isFresh ? "hit" : verdict === "rescued" ? "rescued" : "stale";
    serving.served(request, outcome, isFresh ? entry.freshUntilAt - now : 0, now - entry.grantedAt, hint);
    if (isFresh) near?.put(request, entry, { value, hint, resultTags }, now, sight.mark);
    return value;
  }

  /** One refresh a key and process at a time, and none while another process holds the lease. Detached: nobody waits for it. */
  #refresh(request: ReadRequest, entry: Entry, now: number, nonces: readonly Nonce[]): void {
    const { name } = request.key;
    if (entry.untilAt > now || this.#refreshing.has(name) || this.#isClosed) return;
    this.#refreshing.add(name);
    void this.#parts.leases
      .acquire({ request, nonces, supersededAt: entry.grantedAt, isRefresh: true })
      .then((acquired): unknown => {
        if (acquired.kind === "flight") return acquired.flight.isKept;
        return acquired.kind === "handed" ? acquired.isOver : undefined;
      })
      .catch(() => false)
      .finally(() => this.#refreshing.delete(name));
  }

  async #pursue(
    request: ReadRequest,
    verdict: Verdict,
    entry: Entry | undefined,
    nonces: readonly Nonce[],
    supersededAt: number,
  ): Promise<Ending> {
    const { clock, loads, settings, waiting } = this.#parts;
    const isNested = loads.held().size > 0;
    const hasStale = verdict === "stale-while-revalidate" || verdict === "stale-if-error";
    const waitMs = isNested ? settings.nestedWaitMs : settings.waitMs;
    const deadlineAt = clock.now() + Math.min(waitMs, hasStale ? (settings.softTimeoutMs ?? waitMs) : waitMs);
    const start = { verdict, entry, nonces, supersededAt, deadlineAt, isNested };
    const watch = waiting.watch(request.key.name);
    try {
      return await new Pursuit(request, start, watch, this.#pursuitParts).run(start);
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
