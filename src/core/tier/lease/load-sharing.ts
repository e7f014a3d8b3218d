import { type Cancel, type Clock, within } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import { Multimap } from "../../base/multimap.js";
import type { Loaded } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import type { TierSettings } from "../request/settings.js";
import { Waiters } from "../request/waiters.js";
import type { LongTick } from "../tick/long-tick.js";

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
 * most two loads of a key run at a time in a process, see `LoadLimit`.
 *
 * Source: "Scaling Memcache at Facebook", NSDI 2013, §3.3; P11 of docs/guarantees.md.
 */

/** Shares the loads that run without a lease, by the table above. */
export class UnleasedLoads {
  readonly #clock: Clock;
  readonly #longTick: LongTick;
  readonly #limit: LoadLimit;
  readonly #settings: TierSettings;
  readonly #byKey = new Map<string, KeyLoads>();
  /** The keys whose next load begins at the end of this tick. */
  #starting: KeyLoads[] = [];

  /** `longTick` says when the readers of a tick have asked. */
  constructor(clock: Clock, longTick: LongTick, limit: LoadLimit, settings: TierSettings) {
    this.#clock = clock;
    this.#longTick = longTick;
    this.#limit = limit;
    this.#settings = settings;
  }

  /** How many keys have a load that runs, and how many have one that waits to run. */
  get counts(): { readonly running: number; readonly queued: number } {
    const loads = [...this.#byKey.values()];
    return {
      running: loads.filter(({ running }) => running !== undefined).length,
      queued: loads.filter(({ next }) => next !== undefined).length,
    };
  }

  /**
   * Returns the result of a load that begins after this call, and the request that it was begun
   * for. If it is `request` itself, `begin` was called, in the asynchronous context of this call. A
   * failure that concerns only the caller of another request is never returned.
   */
  async share(request: ReadRequest, isNested: boolean, begin: Begin): Promise<SharedLoad> {
    for (let nth = 0; nth < MAX_LOADS_OF_OTHERS; nth++) {
      const load = this.#nextLoad(request, begin);
      const leave = load.waiters.add(request.caller);
      if (isNested && !(await this.#begins(load))) {
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
    const key = `${request.key.variantId} ${request.key.input}`;
    const loads = this.#byKey.get(key) ?? { key };
    this.#byKey.set(key, loads);
    if (loads.next !== undefined) return loads.next;
    const turn = new Deferred<boolean>();
    const waiters = new Waiters();
    // Begins in the asynchronous context of this call.
    const loaded = turn.promise.then((mayBegin) => (mayBegin ? begin(waiters) : droppedLoad(waiters)));
    loads.next = { request, turn, loaded, waiters };
    if (loads.running === undefined) this.#startAfterTick(loads);
    else loads.cancelStart = this.#clock.after(this.#settings.leaseMs, () => this.#start(loads), true);
    return loads.next;
  }

  /** Starts all first loads of a tick together, so that a source can batch them. */
  #startAfterTick(loads: KeyLoads): void {
    if (this.#starting.push(loads) > 1) return;
    this.#longTick.afterTick(() => {
      const starting = this.#starting;
      this.#starting = [];
      for (const each of starting) this.#start(each);
    });
  }

  /**
   * Starts the load that waits to run, unless no reader waits for it any more. A reader that has
   * joined it since then starts over.
   */
  #start(loads: KeyLoads): void {
    loads.cancelStart?.();
    const { next: load } = loads;
    if (load !== undefined && this.#limit.isReached(load.request.key.name)) {
      let isCancelled = false;
      loads.cancelStart = () => {
        isCancelled = true;
      };
      void this.#limit.untilChanged(load.request.key.name).then(() => isCancelled || this.#start(loads));
      return;
    }
    loads.next = undefined;
    if (load === undefined || load.waiters.isGone) {
      load?.turn.resolve(false);
      if (loads.running === undefined) this.#byKey.delete(loads.key);
      return;
    }
    loads.running = load;
    load.turn.resolve(true);
    this.#limit.add(load.request.key.name, load.loaded);
    void load.loaded.then(() => {
      if (loads.running !== load) return;
      loads.running = undefined;
      this.#start(loads);
    });
  }

  /** Resolves with true when the load begins, or with false after `nestedWaitMs`. */
  #begins({ turn }: UnleasedLoad): Promise<boolean> {
    return within(this.#clock, turn.promise, { ms: this.#settings.nestedWaitMs, otherwise: () => false });
  }
}

/** A load that runs in this process under a lease. `loaded` and `settled` never reject. */
export interface InFlightLoad {
  /** The request that won the lease. */
  readonly request: ReadRequest;
  /** From which position of the invalidation clock on its value counts. */
  readonly position: number;
  readonly gen: string;
  readonly token: string;
  /** On the store's clock. */
  readonly grantedAt: number;
  /** On the clock of this process. */
  readonly startedAt: number;
  /** When the lease was requested: before the store granted it. */
  readonly askedAt: number;
  /** Whether it is a background refresh, which no reader waits for. */
  readonly isRefresh: boolean;
  readonly waiters: Waiters;
  /** What readers get. */
  readonly loaded: Promise<Loaded>;
  readonly settled: Promise<Settled>;
  /** Whether the entry held a value when the lease was requested. */
  readonly hasValue: boolean;
  /** Whether its value is being stored, which ends the lease. */
  isStoring: boolean;
}

/** How a load has ended in the store. */
export interface Settled {
  /**
   * Whether the store accepted the value: false if the lease had ended, as by an invalidation of
   * the entry.
   */
  readonly isStored: boolean;
}

/** A load without a lease that waits to run, runs, or has ended. */
interface UnleasedLoad {
  /** The request whose source is called. */
  readonly request: ReadRequest;
  /** Resolves to whether it begins, when that is known: not if nobody waits for it any more. */
  readonly turn: Deferred<boolean>;
  readonly loaded: Promise<Loaded>;
  readonly waiters: Waiters;
}

/** The loads of one key: at most one runs and one waits to run, unless a load exceeds `leaseMs`. */
interface KeyLoads {
  readonly key: string;
  running?: UnleasedLoad | undefined;
  next?: UnleasedLoad | undefined;
  cancelStart?: Cancel;
}

/**
 * How many shared loads may fail with an error of their own caller before a reader loads for
 * itself. Bounds its wait.
 */
const MAX_LOADS_OF_OTHERS = 2;

/** Begins a load for those who wait for it. Never rejects. */
type Begin = (waiters: Waiters) => Promise<Loaded>;

/** The result of a load, and the request that it was begun for. */
interface SharedLoad {
  readonly request: ReadRequest;
  readonly loaded: Loaded;
}

const droppedLoad = ({ signal }: Waiters): Loaded => ({
  kind: "failed",
  error: signal.reason,
  refusal: undefined,
  loadMs: 0,
  begunAt: 0,
  isCallersOwn: true,
  isSourceFailure: false,
});

/**
 * Bounds the loads of one key in this process. An invalidation makes the lease of a load void but
 * does not end the load itself, and later readers must not join it. Without a limit, a key that is
 * invalidated again and again while it loads would be loaded as often at the same time.
 *
 * The second load begins at once, so that a reader does not wait for a load that began before an
 * invalidation. Readers that would begin a third wait until one of the two ends, and then share the
 * next. A load that runs for longer than `leaseMs` no longer counts, since it may never end. Loads
 * that cannot be shared, and those inside a load of the same key, are not limited.
 */
export class LoadLimit {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #running = new Multimap<string, { readonly startedAt: number }>();
  readonly #waits = new Map<string, { readonly over: Promise<void>; end(): void }>();

  constructor(clock: Clock, { leaseMs }: { readonly leaseMs: number }) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  /** Counts a load of `key` that begins now and runs until `ended`, which never rejects. */
  add(key: string, ended: Promise<unknown>): void {
    const load = { startedAt: this.#clock.now() };
    this.#running.add(key, load);
    void ended.then(() => {
      this.#running.delete(key, load);
      this.#waits.get(key)?.end();
    });
  }

  isReached(key: string): boolean {
    const since = this.#clock.now() - this.#leaseMs;
    return this.#running.get(key).filter(({ startedAt }) => startedAt > since).length >= MAX_LOADS_OF_A_KEY;
  }

  /**
   * Resolves when a load of `key` has ended, or after a short while. All readers of a key share it.
   */
  untilChanged(key: string): Promise<void> {
    const existing = this.#waits.get(key);
    if (existing !== undefined) return existing.over;
    const { promise, resolve: end } = new Deferred<void>();
    const cancel = this.#clock.after(RECHECK_MS, end, true);
    const over = promise.then(() => {
      cancel();
      this.#waits.delete(key);
    });
    this.#waits.set(key, { over, end });
    return over;
  }
}

/** How many loads of one key a process runs at a time. */
const MAX_LOADS_OF_A_KEY = 2;

/** How often a reader that waits for a place looks whether another process has loaded meanwhile. */
const RECHECK_MS = 100;
