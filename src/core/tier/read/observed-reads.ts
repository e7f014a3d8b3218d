import { Deferred } from "../../base/deferred.js";
import { isForWaiters } from "../../store/entry.js";
import { subjectOf } from "../../telemetry/channel.js";
import type { Comparison, ObservedOutcome, WatchedValue } from "../../telemetry/events.js";
import { isDueEarly } from "../entry/freshness.js";
import type { LeaseRequest } from "../lease/leases.js";
import type { Settled } from "../lease/load-sharing.js";
import type { ReadRequest } from "../request/request.js";
import { type ServableValue, verdictOf } from "../request/verdict.js";
import { Waiters } from "../request/waiters.js";
import type { Misses } from "./misses.js";
import type { ReadParts, ReadPath } from "./read-parts.js";
import type { ValueComparison } from "./value-comparison.js";

/**
 * The reads of fields, loaders and responses whose mode is `observe`. Each is looked up as if the mode was on, and then answered
 * by its source, with a call of its own that no other read shares. If the cache would have loaded the value, the read
 * requests the lease, and this call is the load that is stored. So the source is called as often as without the cache, and
 * the store has what it would have if the mode was on. If the cache would have served a value, it is compared with the
 * answer.
 *
 * The lookup precedes the call of the source, so a value that is found is never newer than the answer. The interleavings
 * that a comparison has to handle:
 *
 * - After the lookup, the value is changed and invalidated; then the source is read. The answer differs, but nobody
 *   would have been served an outdated value. So a difference counts only if the store still has the same entry
 *   afterwards, and nothing has invalidated it.
 * - The same, and this read's own load replaces the entry. Its value is stored only if nothing has ended the lease, so
 *   the difference counts if it was stored.
 */
export class ObservedReads {
  readonly #parts: ReadParts;
  readonly #path: ReadPath;
  readonly #misses: Misses;
  readonly #comparison: ValueComparison;

  constructor(parts: ReadParts, path: ReadPath, misses: Misses, comparison: ValueComparison) {
    this.#parts = parts;
    this.#path = path;
    this.#misses = misses;
    this.#comparison = comparison;
  }

  /**
   * Resolves or rejects as `source` does, with the same object. Calls it unless a load under a lease has done so.
   * `mayLoad`: whether the cache would load a value, or only look for a fresh one.
   */
  async read(request: ReadRequest, source: ObservedSource, mayLoad: boolean): Promise<unknown> {
    request.isObserved = true;
    const lookUp = request.isForced === true ? this.#supersede(request) : this.#lookUp(request);
    const found = await lookUp.catch((): Lookup => BYPASSED);
    const lookup = mayLoad ? found : withoutLoad(found);
    const own = lookup.lease === undefined ? undefined : await this.#load(request, lookup.lease);
    let value: unknown;
    try {
      value = await (own === undefined ? source(lookup.outcome) : own.answer);
    } catch (error) {
      this.#report(request, lookup, "none");
      throw error;
    }
    // The caller may go on to modify it.
    await own?.encoded;
    this.#compareAnswer(request, lookup, value, own?.settled);
    return value;
  }

  /** Finds out what the cache would have done. Rejects if the store's `read` does. */
  async #lookUp(request: ReadRequest): Promise<Lookup> {
    const { random } = this.#parts;
    if (!this.#path.mayRead(request)) return BYPASSED;
    const { reading } = await this.#path.readResultOf(request);
    const verdict = verdictOf(request, reading, this.#parts);
    const missed = (supersededAt: number, hasValue: boolean): Lookup => ({
      outcome: "miss",
      lease: { supersededAt, hasValue },
    });
    if (reading.kind === "failed" || verdict.kind === "unknown" || verdict.kind === "collision") return BYPASSED;
    if (verdict.kind === "unreadable") return missed(verdict.entry.grantedAt, false);
    const { entry: stored, now } = reading;
    if (verdict.kind === "load") {
      const { freshness, superseded } = verdict;
      if (freshness === "write-in-progress" || freshness === "uncacheable") return BYPASSED;
      if (superseded !== undefined) return missed(superseded.grantedAt, false);
      if (freshness === "absent" && (await request.mayExist?.()) === false)
        return { outcome: "bypassed", served: "absent" };
      const isLoading = freshness === "pending" && stored !== undefined && now < stored.untilAt;
      if (isLoading || freshness === "failed") return MISSED;
      return missed(0, stored?.state === "value" && !isForWaiters(stored));
    }
    const { entry, freshness, isSoft } = verdict;
    const isFresh = freshness === "fresh";
    const isDue = freshness === "stale-while-revalidate" || (isFresh && isDueEarly(entry, request.policy, now, random));
    return {
      outcome: isFresh ? "hit" : "stale",
      served: verdict,
      ageMs: now - entry.grantedAt,
      ...(isDue && entry.untilAt <= now
        ? { lease: { supersededAt: entry.grantedAt, hasValue: true, endsFreshness: isSoft } }
        : {}),
    };
  }

  /** Prepares a load whose value replaces the stored one, for a caller who wants no older one. */
  async #supersede(request: ReadRequest): Promise<Lookup> {
    const superseded = this.#path.mayRead(request) ? await this.#misses.supersede(request) : undefined;
    if (superseded === undefined || superseded.isWriting) return { outcome: undefined };
    const { supersededAt } = superseded;
    return { outcome: undefined, lease: { supersededAt, hasValue: false } };
  }

  /** Loads under a lease. Undefined if there is none, or if the source was not called under it. */
  async #load(request: ReadRequest, lease: NonNullable<Lookup["lease"]>): Promise<OwnLoad | undefined> {
    const { leases, loads } = this.#parts;
    const { promise: hasBeenCalled, resolve: onCalled } = new Deferred<{ readonly answer: unknown }>();
    const own = ownRequestOf(request, onCalled);
    const caller = loads.callerOf(own);
    if (caller?.hasLeft === true) return undefined;
    const { promise: hasEnded, resolve: end } = new Deferred<void>();
    // The load must not wait for a slot: without the cache, it would not.
    loads.expedite(request.key, hasEnded);
    try {
      const acquired = await leases.acquire({
        ...lease,
        request: own,
        isRefresh: false,
        waiters: Waiters.of(caller),
      });
      if (acquired.kind !== "in-flight" || acquired.inFlight.request !== own) return undefined;
      const { loaded, settled } = acquired.inFlight;
      const called = await Promise.race([hasBeenCalled, loaded.then(() => undefined)]);
      return called === undefined ? undefined : { answer: called.answer, encoded: loaded, settled };
    } finally {
      end();
    }
  }

  /** Compares at once, before others can modify the answer, and reports now or when a difference is confirmed. */
  #compareAnswer(request: ReadRequest, lookup: Lookup, answer: unknown, settled: Promise<Settled> | undefined): void {
    const { served } = lookup;
    const comparison = served === undefined ? "none" : this.#compare(request, served, answer);
    if (served === undefined || comparison !== "different") {
      this.#report(request, lookup, comparison);
      return;
    }
    void this.#isConfirmed(request, served, settled)
      .catch(() => false)
      .then((isConfirmed) => this.#report(request, lookup, isConfirmed ? "different" : "none"));
  }

  #compare(request: ReadRequest, served: ServableValue | "absent", answer: unknown): Comparison {
    if (served !== "absent") return this.#comparison.compare(request, served, answer);
    return answer === null || answer === undefined ? "same" : "different";
  }

  /** Returns whether what would have been served was not invalidated before the source was read. */
  async #isConfirmed(
    request: ReadRequest,
    served: ServableValue | "absent",
    settled: Promise<Settled> | undefined,
  ): Promise<boolean> {
    if (served === "absent") return (await request.mayExist?.()) === false;
    return this.#comparison.isConfirmed(request, served, settled);
  }

  #report({ key }: ReadRequest, lookup: Lookup, comparison: Comparison): void {
    const { outcome } = lookup;
    if (outcome === undefined) return;
    const watched = comparison === "none" ? undefined : this.#watch(key, lookup, comparison === "same");
    this.#parts.channel.publish({
      name: "read.observed",
      ...subjectOf(key),
      outcome,
      comparison,
      ...(watched === undefined ? {} : { watched }),
    });
  }

  #watch({ name }: ReadRequest["key"], { served, ageMs }: Lookup, isSame: boolean): WatchedValue | undefined {
    if (served === undefined || served === "absent" || ageMs === undefined) return undefined;
    // What was invalidated softly is known to have changed.
    if (served.tags !== "current") return undefined;
    return this.#comparison.watch(name, served.entry, ageMs, isSame);
  }
}

/** Calls the source of an observed read. `outcome`: what the cache would have done. Undefined: the read is not counted. */
export type ObservedSource = (outcome: ObservedOutcome | undefined) => unknown;

/** What the cache would have done with a read. */
interface Lookup {
  /** Undefined: the caller wants a value that is loaded now, so there is nothing to observe. */
  readonly outcome: ObservedOutcome | undefined;
  /** The value that would have been served. `absent`: null, since a guard excludes the id. */
  readonly served?: ServableValue | "absent";
  /** How old that value was. */
  readonly ageMs?: number;
  /** What lease the cache would have requested. Undefined: none. */
  readonly lease?: Pick<LeaseRequest, "supersededAt" | "hasValue" | "endsFreshness">;
}

/** The load of an observed read, under a lease. */
interface OwnLoad {
  /** What the source has returned: a value or a promise. */
  readonly answer: unknown;
  /** Resolves when it has been encoded to be stored, or at the time limit of the load. */
  readonly encoded: Promise<unknown>;
  readonly settled: Promise<Settled>;
}

const BYPASSED: Lookup = { outcome: "bypassed" };
const MISSED: Lookup = { outcome: "miss" };

/** Returns what the cache would have done that serves fresh values and never loads. */
const withoutLoad = ({ lease: _, ...lookup }: Lookup): Lookup =>
  lookup.outcome === "hit" || lookup.outcome === "bypassed" ? lookup : MISSED;

/** Returns the request of a load under a lease. `onCalled` gets what the source returns, to answer the read with the same object. */
function ownRequestOf(request: ReadRequest, onCalled: (called: { readonly answer: unknown }) => void): ReadRequest {
  const { key, policy, owner, batch, validator, call, context, signals, hintOf, excess } = request;
  return {
    key,
    policy,
    owner,
    batch,
    validator,
    call,
    context,
    // The load changes them.
    get tags() {
      return request.tags;
    },
    signals: signals && (() => request.signals?.()),
    hintOf: hintOf && (() => request.hintOf?.()),
    excess: excess && (() => request.excess?.()),
    changed: () => request.changed?.(),
    caller: undefined,
    load(waiters, result) {
      // A query builder, for example, runs its query whenever its `then` is called, so it is called once.
      const answer = new Promise<unknown>((resolve) => resolve(request.load(waiters, result)));
      onCalled({ answer });
      return answer;
    },
  };
}
