import { attempt } from "../../base/built-in.js";
import { within } from "../../base/clock.js";
import { succeeds } from "../../base/deferred.js";
import type { Registry } from "../../base/multimap.js";
import { areLoadsShareable, type Entry, isForWaiters } from "../../store/entry.js";
import type { Reading } from "../../store/store.js";
import type { BypassReason } from "../../telemetry/events.js";
import { reportImplausible } from "../entry/entry-decoder.js";
import { type Freshness, freshEndOf } from "../entry/freshness.js";
import { implausibilityOf } from "../entry/plausible.js";
import type { InFlightLoad } from "../lease/held-leases.js";
import type { Acquired, Leases } from "../lease/leases.js";
import type { LoadSharing } from "../lease/load-sharing.js";
import type { SettlementParts } from "../lease/settlement.js";
import type { Waiting, Watch } from "../lease/waiting.js";
import { isForWaitersOnly, isUnshareable, type Loaded } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import { subjectsOfLoaded } from "../request/served-report.js";
import {
  isCurrentAt,
  outcomeOf,
  tagsStateOf,
  type Unservable,
  type Verdict,
  type VerdictParts,
  verdictOf,
} from "../request/verdict.js";
import { Waiters } from "../request/waiters.js";
import { inTurn, type LongTick, type Turns } from "../tick/long-tick.js";
import type { AwaitedLoad, Respond, Responder } from "./responder.js";

/**
 * Resolves the miss of one request, for itself and for all that share it. In each round it joins a
 * load of this process, wins the lease and loads, or waits for another process, and then reads the
 * store again. It ends with a value, an error of the source, or at the deadline; then it falls back
 * to a stale value or bypasses the cache.
 *
 * The interleavings it has to handle, besides those of PROTOCOL.md:
 *
 * - The load of another process ends between the read and the lease request (row 4), or between
 *   that and the wait: the watch began earlier and has the message (interleaving 3). A lost message
 *   ends the wait by polling, a late one by reading again (6).
 * - Two loads of this process from before invalidations still run: the reply is `limited`, and the
 *   next load begins when one of them has ended.
 * - The key, its coordinate or everything is invalidated during the load. The request that runs the
 *   load began before it and may have the value. So did a request that joined, which has found the
 *   lease to be current by the clock.
 * - A tag is invalidated during the load. A request that joined may have begun after it, so it
 *   compares the tags of the result with what it knows of the clock, which is at least as new as
 *   its own read.
 * - The load fails with what concerns only the caller that it was run for. Those that joined read
 *   the store again and request the lease; but not before it has been released, or they would find
 *   the same load. Those that shared this caller's miss start over, each in its own asynchronous
 *   context. If the load also depends on more than its key, all others leave this key at once
 *   instead.
 * - The source of the load, such as the parent of a field, is older than an invalidation that
 *   others have to heed: the same.
 * - The entry is one that no load can have made. It is removed, once, before a lease is requested:
 *   it could hold that up for ever.
 */
export class Miss {
  readonly waiters = new Waiters();
  readonly deadlineAt: number;
  /** Never rejects: the function rejects with an error of the source. */
  readonly #outcome: Promise<Respond>;
  #sharers = 0;
  #turns: Turns | undefined = undefined;
  /** The load that it has waited for last. */
  #awaited: AwaitedLoad | undefined = undefined;
  readonly #isNested: boolean;
  /** Whether to serve the stale value at once unless this request wins the lease. */
  readonly #mayServeStale: boolean;
  readonly #begunAt: number;
  readonly #fallback: Entry | undefined;
  #supersededAt: number;
  #endsFreshness: boolean;
  /** The `grantedAt` of the value shown last, which no load from now on produces. 0: none. */
  #knownGrantedAt = 0;
  #hasRemoved = false;
  /** The chain of the lease that this request was refused last. */
  #busyGen: string | undefined = undefined;
  /** The chain by which requests of later ticks find the miss. */
  #waitsFor: string | undefined = undefined;

  /** Made in the asynchronous context of `request`. */
  constructor(
    readonly request: ReadRequest,
    private readonly start: MissStart,
    private readonly parts: ReadParts,
    private readonly path: ReadPath,
  ) {
    this.deadlineAt = start.deadlineAt;
    this.#isNested = parts.loads.isEnclosing;
    this.#begunAt = parts.clock.now();
    this.#mayServeStale = start.freshness === "stale-while-revalidate";
    this.#fallback = this.#mayServeStale || start.freshness === "stale-if-error" ? start.entry : undefined;
    this.#supersededAt = start.superseded?.grantedAt ?? 0;
    this.#endsFreshness = start.endsFreshness ?? false;
    if (start.entry?.state === "value") this.#knownGrantedAt = start.entry.grantedAt;
    this.#outcome = this.#resolve();
  }

  /** Answers one of the requests that share the miss. Rejects with an error of the source only. */
  answer(request: ReadRequest): Promise<unknown> {
    const { clock, longTick } = this.parts;
    const { responder } = this.path;
    const { caller } = request;
    const nth = this.#sharers++;
    const askedAt = clock.now();
    this.waiters.add(caller);
    return this.#outcome.then((respond) => {
      this.#turns ??= longTick.turnsFor(this.#sharers);
      return inTurn(this.#turns, nth, () => {
        if (this.#awaited !== undefined) responder.reportWait(request, this.#awaited, clock.now() - askedAt);
        return caller?.hasLeft === true ? responder.respondAborted(request, caller.reason) : respond(request);
      });
    });
  }

  /** Watches the key before any lease is requested. */
  async #resolve(): Promise<Respond> {
    const request = this.request;
    const { clock, modes, waiting } = this.parts;
    const { responder } = this.path;
    const { open, isJoinable } = this.start;
    let { freshness, entry: current } = this.start;
    const nth = open === undefined ? 0 : ++open.begun;
    open?.pending.set(nth, this);
    if (isJoinable && freshness === "pending") this.#waitFor((current as Entry).gen);
    const watch = waiting.watch(request.key.name);
    try {
      const mayBeAbsent = open !== undefined && freshness === "absent" && request.mayExist !== undefined;
      if (mayBeAbsent && (await request.mayExist?.()) === false) return (sharer) => responder.respondNull(sharer);
      let now = this.start.now;
      let inFlight = current && this.#inFlightLoadOf(current);
      for (let round = 0; ; round++) {
        const end = this.#endWithoutLease(freshness, current);
        if (end !== undefined) return end;
        if (freshness === "implausible" && current !== undefined) {
          if (!(await this.#remove(current, now))) return this.#bypass("STORE_UNAVAILABLE");
        } else {
          const acquired: Acquired =
            inFlight === undefined
              ? await this.#acquire(current, now, freshness !== "absent")
              : { kind: "in-flight", inFlight };
          const busyGen = acquired.kind === "busy" ? acquired.gen : undefined;
          this.#busyGen = busyGen ?? this.#busyGen;
          // Not for own loads: their result may be checked before a request joins. See `#join`.
          if (isJoinable && busyGen !== this.#waitsFor) this.#waitFor(busyGen);
          const respond = await this.#respondTo(acquired, round, watch);
          if (respond !== undefined) return respond;
        }
        if (clock.now() >= this.deadlineAt)
          return this.#isNested ? this.#bypass("NESTED") : this.#fallBack(this.#bypass("WAIT_TIMEOUT"), "stale");
        const reading = await this.path.readingOf(request);
        if (modes.isOff(request.key.coordinate)) return this.#bypass("MODE_OFF");
        if (reading.kind === "failed") return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"));
        ({ entry: current, now } = reading);
        const isAwaited = this.#isAwaited(current);
        const verdict = this.#verdictOn(current, now, isAwaited);
        if (current?.state === "value") this.#knownGrantedAt = current.grantedAt;
        const respondFromEntry = this.#use(current, verdict, "coalesced", isAwaited ? undefined : now);
        if (respondFromEntry !== undefined) return respondFromEntry;
        freshness = "freshness" in verdict ? verdict.freshness : "absent";
        inFlight = current && this.#inFlightLoadOf(current);
      }
    } finally {
      waiting.end(watch);
      if (this.#waitsFor !== undefined) this.#waitFor(undefined);
      open?.pending.delete(nth);
      this.waiters.endWait();
    }
  }

  /** Returns how a round ends in which no lease may be requested. */
  #endWithoutLease(freshness: Freshness, current: Entry | undefined): Respond | undefined {
    const { loads } = this.parts;
    const { responder } = this.path;
    const { key, caller } = this.request;
    // No lease for a caller that has left: its load might fail with its abort.
    if (caller?.hasLeft === true) return this.#leaveToOthers((own) => responder.respondAborted(own, caller.reason));
    // Callers for whom its loads fail would only take the lease from others, one after the other.
    if (loads.callerErrors.isUnshared(key)) return this.#bypass("UNCACHEABLE", false);
    if (this.request.isOutdated?.() === true) return this.#leaveToOthers((own) => responder.bypass(own, "UNCACHEABLE"));
    if (freshness === "write-in-progress") return this.#bypass("WRITE_IN_PROGRESS");
    if (current === undefined) return undefined;
    if (freshness === "failed") return this.#respondFailedElsewhere(current.body);
    return freshness === "uncacheable" ? this.#bypass("UNCACHEABLE", areLoadsShareable(current)) : undefined;
  }

  /** Removes an implausible entry and its lease. Returns false if that failed or did not help. */
  async #remove(entry: Entry, now: number): Promise<boolean> {
    const { invalidations, store, channel, longestMs } = this.parts;
    const { key } = this.request;
    if (this.#hasRemoved) return false;
    this.#hasRemoved = true;
    // The read of one node may be ahead of the clock that this process knows.
    if (entry.position > invalidations.position) await invalidations.follow();
    const reason = implausibilityOf(entry, now, invalidations, longestMs);
    if (reason === undefined) return true;
    reportImplausible(key, reason, channel);
    return succeeds(store.remove([key.name]));
  }

  /** Lets later ticks find the miss while it waits for the lease chain `gen`. Undefined: none. */
  #waitFor(gen: string | undefined): void {
    const waiting = this.start.open?.waiting;
    if (waiting === undefined) return;
    const earlier = this.#waitsFor;
    if (earlier !== undefined && earlier !== gen && waiting.get(earlier) === this) waiting.delete(earlier);
    if (gen !== undefined) waiting.set(gen, this);
    this.#waitsFor = gen;
  }

  /**
   * Requests the lease. The reply is that it is held, without asking for it, if the entry shows
   * that it is the one that this request was refused before, which cannot be free yet. The end of
   * any other lease would not be announced, because its entry does not say that a caller waits.
   * `isUsable`: whether what the entry holds may be served in any case.
   */
  #acquire(entry: Entry | undefined, now: number, isUsable: boolean): Acquired | Promise<Acquired> {
    const isRefused = entry !== undefined && entry.gen !== "" && entry.gen === this.#busyGen && entry.untilAt > now;
    if (isRefused && this.#isCurrent(entry, entry.leasePosition ?? 0))
      return { kind: "busy", gen: entry.gen, remainingMs: entry.untilAt - now };
    const { isForced } = this.request;
    const left = isForced === true ? this.start.superseded : isUsable ? entry : undefined;
    return this.parts.leases.acquire({
      request: this.request,
      supersededAt: this.#supersededAt,
      endsFreshness: this.#endsFreshness,
      isRefresh: false,
      hasValue: left?.state === "value" && !isForWaiters(left) && this.#isCurrent(left, left.position),
      waiters: this.waiters,
    });
  }

  /** Acts on the result of a lease request. Returns undefined if the store must be read again. */
  #respondTo(acquired: Acquired, round: number, watch: Watch): Respond | undefined | Promise<Respond | undefined> {
    const outcome = round === 0 ? "hit" : "coalesced";
    switch (acquired.kind) {
      case "in-flight":
        return this.#join(acquired.inFlight);
      case "value":
        return this.#use(acquired.entry, this.#verdictOn(acquired.entry, acquired.now), outcome, acquired.now);
      case "busy":
        return this.#wait(watch, acquired.remainingMs, round, acquired.gen);
      case "enqueued":
        return this.#wait(watch, Number.POSITIVE_INFINITY, round, undefined);
      case "limited":
        return this.#mayServeStale ? this.#serveStale() : this.#untilDeadline(acquired.isOver).then(() => undefined);
      case "failed":
        return this.#respondFailedElsewhere(acquired.body);
      case "uncacheable":
        // The entry, which the next read shows, says why.
        return undefined;
      case "write-in-progress":
        return this.#bypass("WRITE_IN_PROGRESS");
      case "unknown-format":
        return this.#bypass("KEY_COLLISION");
      case "expired":
      case "unavailable":
        return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"));
    }
  }

  /**
   * Uses the result of a load of this process. The request that won the lease may use it in any
   * case. One that joined may, unless a tag derived from the result was invalidated meanwhile.
   */
  async #join(inFlight: InFlightLoad): Promise<Respond | undefined> {
    const { responder } = this.path;
    const isOwn = inFlight.request === this.request;
    if (!isOwn && this.#mayServeStale) return this.#serveStale();
    if (!isOwn) inFlight.waiters.addAll(this.waiters);
    this.#awaited = inFlight;
    const hadEnded = !isOwn && (await Promise.race([inFlight.loaded, undefined])) !== undefined;
    // Without a fallback, the request waits for its own load beyond the deadline. For a load, a
    // stale value is one only if the source fails, since what it returns is stored as fresh.
    const hasNoDeadline = isOwn && (this.#fallback === undefined || this.#isNested);
    const loaded = hasNoDeadline ? await inFlight.loaded : await this.#untilDeadline(inFlight.loaded);
    if (loaded === undefined) return undefined;
    const respond: Respond = (request) =>
      responder.respondLoaded(request, loaded, request === inFlight.request ? "loaded" : "coalesced");
    // Once it has been released, or the next read would show the same load.
    const readAgain = (): Promise<undefined> => this.#untilDeadline(inFlight.settled).then(() => undefined);
    const isUnshared = isUnshareable(loaded, this.request);
    if ((loaded.isCallersOwn && !isUnshared) || loaded.refusal === "outdated")
      return isOwn ? this.#leaveToOthers(this.#endOf(loaded, respond), inFlight.settled) : readAgain();
    if (isOwn || isUnshared || loaded.kind === "failed") return this.#endOf(loaded, respond);
    if (hadEnded && isForWaitersOnly(this.request.policy, loaded)) return readAgain();
    const subjects = attempt(() => subjectsOfLoaded(inFlight.request.tags, loaded));
    // Nothing says whether a value was invalidated whose tags cannot be derived.
    if (subjects === undefined) return this.#bypass("UNCACHEABLE");
    const state = tagsStateOf(this.request, inFlight, subjects, this.parts);
    if (state === "current") return respond;
    // A load waits for another value, since what it returns is stored as fresh: see `#use`.
    if (state === "stale" && !this.#isNested)
      return (request) => responder.respondLoaded(request, loaded, "coalesced", true);
    return readAgain();
  }

  /** After a failure of the source, a stale value takes the place of its error. */
  #endOf(loaded: Loaded, respond: Respond): Respond {
    const isOfSource = loaded.kind === "failed" && !loaded.isCallersOwn && loaded.isSourceFailure;
    return isOfSource ? this.#fallBack(respond) : respond;
  }

  /**
   * Waits for the load of the lease chain `gen`. Only a message that names this chain counts: the
   * store has shown it to this request, so its load is not older than the last invalidation before
   * the request.
   */
  async #wait(watch: Watch, remainingMs: number, round: number, gen: string | undefined): Promise<Respond | undefined> {
    if (this.#mayServeStale) return this.#serveStale();
    this.#awaited = { request: "elsewhere", gen };
    const { waiting, clock } = this.parts;
    const woken = await waiting.wait(watch, round, Math.min(remainingMs + 1, this.deadlineAt - clock.now()));
    if (woken.kind === "poll" || woken.entry === undefined || woken.gen === undefined || woken.gen !== gen)
      return undefined;
    const { entry } = woken;
    // A wake-up does not carry the store's time. The entry was stored just now, so its age is that
    // of its load, and its failure is not over.
    const { storeNow } = this.parts.invalidations;
    const now = entry.state === "value" ? entry.grantedAt + entry.loadMs : Math.min(storeNow, entry.untilAt - 1);
    return this.#use(entry, this.#verdictOn(entry, now, true), "coalesced");
  }

  /**
   * Returns whether a value is that of a load of another process that this request has waited for.
   * It may use it however short its life is: those who wait for a load get its result, or they
   * would load one after the other.
   */
  #isAwaited(entry: Entry | undefined): boolean {
    return (
      this.#awaited?.request === "elsewhere" &&
      entry?.state === "value" &&
      entry.gen !== this.#awaited.gen &&
      entry.grantedAt > this.#knownGrantedAt &&
      this.#isCurrent(entry, entry.position)
    );
  }

  #verdictOn(entry: Entry | undefined, now: number, atAnyAge = false): Verdict {
    return verdictOf(this.request, { kind: "read", entry, now }, this.parts, undefined, atAnyAge);
  }

  /**
   * Uses an entry that ends the miss: a value that may be served, or a shared failure. Returns
   * undefined for any other entry. `outcome`: of a fresh value. `now`: the store's time; undefined:
   * when the load of the entry ended.
   */
  #use(entry: Entry | undefined, verdict: Verdict, outcome: "hit" | "coalesced", now?: number): Respond | undefined {
    switch (verdict.kind) {
      case "unknown":
        return undefined;
      case "collision":
        return this.#bypass("KEY_COLLISION");
      case "unreadable":
        return this.#supersede(verdict.entry);
      case "load":
        if (verdict.superseded !== undefined) return this.#supersede(verdict.superseded, verdict.endsFreshness);
        return verdict.freshness === "failed" ? this.#respondFailedElsewhere((entry as Entry).body) : undefined;
      case "serve": {
        const { freshness, isSoft, decoded, entry: served } = verdict;
        if (served.grantedAt <= this.#supersededAt) return undefined;
        // What a load returns is stored as fresh.
        if (freshness === "stale-while-revalidate" && this.#isNested) return this.#supersede(served, isSoft);
        const at = now ?? served.grantedAt + served.loadMs;
        const freshForMs =
          freshness === "fresh"
            ? Math.max(0, freshEndOf(served, this.request.policy, decoded.parts.freshness) - at)
            : 0;
        const ended = outcomeOf(freshness, outcome);
        return this.path.responder.shareDecoded(served, decoded, ended, freshForMs, at - served.grantedAt);
      }
    }
  }

  #supersede({ grantedAt }: Pick<Entry, "grantedAt">, endsFreshness = false): undefined {
    if (grantedAt < this.#supersededAt) return;
    this.#supersededAt = grantedAt;
    this.#endsFreshness = endsFreshness;
  }

  #isCurrent(entry: Entry, position: number): boolean {
    return isCurrentAt(this.request, entry, position, this.parts);
  }

  #inFlightLoadOf(entry: Entry): InFlightLoad | undefined {
    if (entry.gen === "" || !this.#isCurrent(entry, entry.leasePosition ?? 0)) return undefined;
    return this.parts.leases.inFlightLoad(entry.gen, this.request.key);
  }

  /**
   * Ends the miss for this request only. All others that share the miss start over when `released`
   * has settled: they read and answer again, together, by the deadline that it had.
   */
  #leaveToOthers(respondOwn: Respond, released?: Promise<unknown>): Respond {
    return async (request) => {
      if (request === this.request) return respondOwn(request);
      // All of them at once, not one after the other.
      if (request.isOutdated?.() === true) return this.path.responder.bypass(request, "UNCACHEABLE");
      await released;
      return this.path.read(request, this.deadlineAt);
    };
  }

  #serveStale(): Respond {
    return this.#fallBack(this.#bypass("STORE_UNAVAILABLE"), "stale");
  }

  /** Without a fallback: the store shows a failure in the place of a stale value that it has. */
  #respondFailedElsewhere(description: Uint8Array): Respond {
    return (request) => this.path.responder.respondFailedElsewhere(request, description);
  }

  #bypass(reason: BypassReason, isShareable = true): Respond {
    return (request) => this.path.responder.bypass(request, reason, isShareable);
  }

  #fallBack(otherwise: Respond, outcome: "staleIfError" | "stale" = "staleIfError"): Respond {
    if (this.#fallback === undefined) return otherwise;
    const now = this.start.now + this.parts.clock.now() - this.#begunAt;
    let verdict = this.#verdictOn(this.#fallback, now);
    // Its window may have ended during the wait. (P5)
    if (verdict.kind === "load" && verdict.freshness !== "absent") verdict = this.#verdictOn(this.#fallback, now, true);
    if (verdict.kind !== "serve") return otherwise;
    const ageMs = now - this.#fallback.grantedAt;
    return this.path.responder.shareDecoded(this.#fallback, verdict.decoded, outcome, 0, ageMs);
  }

  #untilDeadline<T>(promise: Promise<T>): Promise<T | undefined> {
    const { clock } = this.parts;
    return within(clock, promise, { ms: this.deadlineAt - clock.now(), otherwise: () => undefined });
  }
}

/** What the first read has shown, and how long the miss may take. */
export interface MissStart extends Omit<Unservable, "kind"> {
  readonly entry: Entry | undefined;
  readonly now: number;
  /** On the clock of this process. */
  readonly deadlineAt: number;
  /** Where the miss is found while it may be shared. Undefined: one request resolves it alone. */
  readonly open: OpenMisses | undefined;
  /** Whether requests of later ticks may share it. */
  readonly isJoinable: boolean;
}

/** The misses that requests may share and that have no outcome yet. */
export interface OpenMisses {
  /** How many there have been. */
  begun: number;
  readonly pending: Registry<number, Miss>;
  /** Those that wait for a load of another process, by its lease chain. */
  readonly waiting: Registry<string, Miss>;
}

export interface ReadParts extends VerdictParts, SettlementParts {
  /** What lease requests and loads are collected in. */
  readonly longTick: LongTick;
  readonly leases: Leases;
  readonly sharing: LoadSharing;
  readonly waiting: Waiting;
}

export interface ReadPath {
  readonly responder: Responder;
  /** Reads the store for one request, together with all other reads of the tick. Never rejects. */
  readingOf(request: ReadRequest): Promise<Reading>;
  /** Answers a request that starts over. Stops waiting at `deadlineAt`. */
  read(request: ReadRequest, deadlineAt: number): Promise<unknown>;
}
