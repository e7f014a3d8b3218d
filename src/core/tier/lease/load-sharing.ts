import { type Cancel, type Clock, within } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import { getOrMake } from "../../base/multimap.js";
import type { Loaded } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import type { TierSettings } from "../request/settings.js";
import { PATIENT, Waiters } from "../request/waiters.js";
import type { LongTick } from "../tick/long-tick.js";
import { TickBatch } from "../tick/tick-batch.js";

/*
 * All rules by which readers of one process share a load. Whatever the state of the entry, a reader
 * gets only a load that began after it asked, or one whose `gen` the store has just shown to it: so
 * an invalidation that was confirmed before it asked has taken effect (P3).
 *
 * | state at the key                                   | a reader shares                | loads     |
 * |----------------------------------------------------|--------------------------------|-----------|
 * | any, several readers in one tick                   | one read and one miss          |           |
 * | lease held by a load of this process               | that load, by its `gen`        | 1 a fleet |
 * | lease held by a load of another process            | the wait for it, by its `gen`  | 1 a fleet |
 * | write in progress, or hold-off (`replicaLagMs`)    | the next load without a lease  | 1 + 1     |
 * | unknown format, or the entry of another key        | the next load without a lease  | 1 + 1     |
 * | value too large to be stored                       | the next load without a lease  | 1 + 1     |
 * | result that its load has skipped, for as long as it took | the next load without a lease | 1 + 1 |
 * | store unavailable, wait too long, cache closed     | the next load without a lease  | 1 + 1     |
 * | invalidated since the execution began, by which its parent was read | the next load without a lease of one that began no earlier | 1 + 1 |
 * | value that cannot be encoded                       | nothing; the bulkhead bounds   | 1 a reader|
 * | value that depends on more than its key            | nothing; it reads a wider key, or loads | 1 a reader|
 * | a load that asks for its own key                   | nothing; it would wait for itself | 1      |
 * | two loads in a row failed with an `isCallerError`  | nothing; the bulkhead bounds   | 1 a reader|
 *
 * "1 + 1": per process and key, one load runs and one waits to run.
 *
 * A failure that concerns only the caller that the load was run for (its request was aborted, or
 * `isCallerError`) is that caller's alone, in every state: all others who wait start over.
 *
 * An invalidation makes the lease of a load void, not the load (interleaving 2 of PROTOCOL.md): at
 * most two loads of a key run at a time in a process. The second begins at once, so that a reader
 * does not wait for a load from before an invalidation; those that would begin a third wait until
 * one of the two ends, and then share the next. A load that has run for `leaseMs` does not count,
 * since it may never end, nor do loads that cannot be shared, or are inside a load of their key.
 *
 * Source: "Scaling Memcache at Facebook", NSDI 2013, §3.3; P11 of docs/guarantees.md.
 */

/** Bounds the loads of each key, and shares those without a lease, by the table above. */
export class LoadSharing {
  readonly #byKey = new Map<string, KeyLoads>();
  /** The first loads of a tick start together, so that a source can batch them. */
  readonly #starting: TickBatch<KeyLoads, unknown>;

  constructor(
    private readonly clock: Clock,
    longTick: Pick<LongTick, "afterTick">,
    private readonly settings: Pick<TierSettings, "leaseMs" | "nestedWaitMs">,
  ) {
    this.#starting = new TickBatch(longTick, async (all) => all.map((loads) => this.#start(loads)));
  }

  /** Counts a load of `key` that begins now, until what is returned is called. */
  add(key: string, hasLease = true): Cancel {
    const loads = this.#loadsOf(key);
    const load = { startedAt: this.clock.now(), hasLease };
    loads.running.push(load);
    return () => {
      loads.running.splice(loads.running.indexOf(load), 1);
      loads.changed?.resolve();
      this.#forget(loads);
    };
  }

  /** Whether as many loads of `key` run as may. */
  isReached(key: string): boolean {
    return this.#countedOf(this.#byKey.get(key)).length >= MAX_LOADS_OF_A_KEY;
  }

  /** Resolves when a load of `key` has ended, or after a short while. */
  untilChanged(key: string): Promise<void> {
    const loads = this.#loadsOf(key);
    if (loads.changed === undefined) {
      loads.changed = new Deferred();
      const cancel = this.clock.after(RECHECK_MS, loads.changed.resolve, true);
      void loads.changed.promise.then(() => {
        cancel();
        loads.changed = undefined;
        this.#forget(loads);
      });
    }
    return loads.changed.promise;
  }

  /**
   * Returns the result of a load that begins after this call, and the request that it was begun
   * for. If it is `request` itself, `begin` was called, in the asynchronous context of this call. A
   * failure that concerns only the caller of another request is never returned.
   */
  async share(request: ReadRequest, isNested: boolean, begin: Begin) {
    const { nestedWaitMs } = this.settings;
    for (let nth = 0; nth < MAX_LOADS_OF_OTHERS; nth++) {
      const load = this.#nextLoad(request, begin);
      const leave = load.waiters.add(request.caller ?? (isNested ? PATIENT : undefined));
      if (isNested && !(await within(this.clock, load.turn.promise, { ms: nestedWaitMs, otherwise: () => false }))) {
        // The running load may wait for this reader, so the reader cannot wait for it any longer.
        leave();
        break;
      }
      const loaded = await load.loaded;
      if (load.request === request || !loaded.isCallersOwn || request.caller?.hasLeft === true)
        return { request: load.request, loaded };
    }
    return { request, loaded: await begin(Waiters.of(request.caller)) };
  }

  /** Returns the load that waits to run, and arranges for one if there is none. */
  #nextLoad(request: ReadRequest, begin: Begin): UnleasedLoad {
    const loads = this.#loadsOf(request.key.name);
    if (loads.next !== undefined) return loads.next;
    const turn = new Deferred<boolean>();
    const waiters = new Waiters();
    // Begins in the asynchronous context of this call.
    const loaded = turn.promise.then((mayBegin) => (mayBegin ? begin(waiters) : droppedLoad(waiters)));
    loads.next = { request, turn, loaded, waiters };
    void this.#starting.add(loads);
    return loads.next;
  }

  /** Starts the next load once it may run, if anybody waits. Those who join too late start over. */
  async #start(loads: KeyLoads): Promise<void> {
    const { key, next } = loads as KeyLoads & { readonly next: UnleasedLoad };
    while (this.isReached(key) || this.#countedOf(loads).some(({ hasLease }) => !hasLease))
      await this.untilChanged(key);
    loads.next = undefined;
    const isWanted = !next.waiters.isGone;
    next.turn.resolve(isWanted);
    if (isWanted) void next.loaded.then(this.add(key, false));
    else this.#forget(loads);
  }

  /** Returns the loads that count: one that has run for `leaseMs` may never end. */
  #countedOf(loads: KeyLoads | undefined): RunningLoad[] {
    const since = this.clock.now() - this.settings.leaseMs;
    return (loads?.running ?? []).filter(({ startedAt }) => startedAt > since);
  }

  #loadsOf(key: string): KeyLoads {
    return getOrMake(this.#byKey, key, () => ({ key, running: [], next: undefined, changed: undefined }));
  }

  #forget({ key, running, next, changed }: KeyLoads): void {
    if (running.length === 0 && next === undefined && changed === undefined) this.#byKey.delete(key);
  }
}

interface KeyLoads {
  readonly key: string;
  readonly running: RunningLoad[];
  next: UnleasedLoad | undefined;
  /** Resolves when one of them has ended. Undefined: nobody waits for that. */
  changed: Deferred<void> | undefined;
}

interface RunningLoad {
  readonly startedAt: number;
  readonly hasLease: boolean;
}

/** A load without a lease that waits to run. */
interface UnleasedLoad {
  readonly request: ReadRequest;
  /** Resolves to whether it begins, when that is known: not if nobody waits for it any more. */
  readonly turn: Deferred<boolean>;
  readonly loaded: Promise<Loaded>;
  readonly waiters: Waiters;
}

/** After how many loads that fail with an error of their own caller a reader loads for itself. */
const MAX_LOADS_OF_OTHERS = 2;

const MAX_LOADS_OF_A_KEY = 2;

/** How often a reader that waits for a place looks whether another process has loaded meanwhile. */
const RECHECK_MS = 100;

/** Begins a load for those who wait for it. Never rejects. */
type Begin = (waiters: Waiters) => Promise<Loaded>;

const droppedLoad = ({ signal }: Waiters): Loaded => ({
  kind: "failed",
  error: signal.reason,
  refusal: undefined,
  loadMs: 0,
  begunAt: 0,
  isCallersOwn: true,
  isSourceFailure: false,
});
