import { AsyncLocalStorage } from "node:async_hooks";
import { asJob, type Cancel, type Clock, disableStorage, MAX_TIMER_MS, within } from "../../base/clock.js";
import { CachedError } from "../../base/errors.js";
import { Multimap } from "../../base/multimap.js";
import type { Packing } from "../../codec/packing.js";
import { PromiseFound, settled } from "../../codec/settled.js";
import type { Key, Subject } from "../../keys/key.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import type { Traced, Tracing } from "../../telemetry/tracing.js";
import type { Loaded } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import { LoadControl } from "../request/result-control.js";
import type { TierSettings } from "../request/settings.js";
import {
  AbortListeners,
  Caller,
  type EnclosingLoad,
  isAbandonment,
  isAbortError,
  JointLoad,
  SingleLoad,
  Waiters,
} from "../request/waiters.js";
import { ByteTurns } from "../tick/long-tick.js";
import { errorForOthers } from "./caller-headers.js";
import { ask, CallerErrors, saysNotAllowed, saysSourceFailed } from "./error-signs.js";
import { excessOf, loadedOf } from "./load-result.js";
import type { ParentComparison } from "./parent-comparison.js";
import { PrivateValues } from "./private-values.js";
import { type CallOutcome, isRefusal, type Sources } from "./sources.js";

/**
 * Runs loads. Measures them, limits how long readers wait for them, and tracks which loads call
 * which.
 *
 * Here it is decided to whom a result belongs, whoever asked: a field, a loader, a reference, a
 * refresh or a worker. The request must still be that of the caller its key was made for when the
 * load begins and ends (`ReadRequest.changed`). The scope of a load is the narrowest of what it
 * reads, of the hints that it sets, and of where its source came from. (P8)
 */
export class Loads {
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #packing: Packing;
  readonly #sources: Sources;
  readonly #settings: LoadSettings;
  readonly #subjectsOf: (tags: readonly string[]) => readonly Subject[];
  readonly #nesting = new AsyncLocalStorage<EnclosingLoad>();
  /** What PRIVATE reads have returned. */
  readonly privateValues = new PrivateValues();
  /** Compares the parents of those that share a load. Undefined: nothing does, as in production. */
  parents: ParentComparison | undefined = undefined;
  readonly #abortListeners = new AbortListeners();
  /** The keys whose loads fail for most of their callers. */
  readonly callerErrors: CallerErrors;
  readonly #turns: ByteTurns;
  /**
   * How many loads run. Without any, no caller is part of one. A property, because hits read it.
   */
  running = 0;
  /**
   * How many loads somebody waits for, and what ends the timer that keeps the process alive
   * meanwhile.
   */
  #awaited = 0;
  #letEnd: Cancel = () => undefined;
  #isClosed = false;
  #starts = 0;
  #isStarting = false;
  /** What begins the loads of a key that wait for a slot. */
  readonly #queued = new Multimap<string, () => void>();
  /** The reads of a key that readers inside of loads wait for. Its loads do not wait for a slot. */
  readonly #awaitedInside = new Multimap<string, Promise<unknown>>();

  constructor(
    clock: Clock,
    channel: Channel,
    packing: Packing,
    sources: Sources,
    settings: LoadSettings,
    subjectsOf: (tags: readonly string[]) => readonly Subject[],
  ) {
    this.#clock = clock;
    this.#channel = channel;
    this.#packing = packing;
    this.#sources = sources;
    this.#settings = settings;
    this.#subjectsOf = subjectsOf;
    this.#turns = new ByteTurns(clock);
    this.callerErrors = new CallerErrors(clock, settings.errorBackoffMs);
  }

  enclosingKeys(): ReadonlySet<string> {
    return this.running === 0 ? NONE : (this.enclosing()?.keys ?? NONE);
  }

  get isEnclosing(): boolean {
    return this.running !== 0 && this.enclosing() !== undefined;
  }

  /**
   * How often loads have begun. Those that begin in one job of the event loop count once: their
   * leases are granted together.
   */
  get starts(): number {
    return this.#starts;
  }

  #enter(key: Key, waiters: Waiters, outer: EnclosingLoad | undefined): SingleLoad {
    this.running++;
    if (!this.#isStarting) {
      this.#isStarting = true;
      this.#starts++;
      asJob(() => {
        this.#isStarting = false;
      });
    }
    return new SingleLoad(key, this.#starts, waiters, outer);
  }

  /** In Node.js 20 and 22, an enabled AsyncLocalStorage slows down every promise of the process. */
  #leave(load: SingleLoad): void {
    load.hasEnded = true;
    load.waiters.end();
    this.running--;
    if (this.running === 0) disableStorage(this.#nesting);
  }

  enclosing(): EnclosingLoad | undefined {
    let load = this.#nesting.getStore();
    while (load?.hasEnded === true) load = load.outer;
    return load;
  }

  /**
   * Notes that the caller reads a PRIVATE value: the loads that it runs inside of depend on who
   * asks.
   */
  readPrivate(coordinate: string): void {
    if (this.running > 0) this.enclosing()?.readPrivate(coordinate);
  }

  /** Runs `work` inside of all `loads` at once: what it reads, each of them has read. */
  together<T>(loads: readonly EnclosingLoad[], work: () => T): T {
    const joined = [...new Set(loads)];
    if (joined.length === 0 || (joined.length === 1 && this.enclosing() === joined[0])) return work();
    return this.#nesting.run(new JointLoad(joined), work);
  }

  /**
   * Until `read` settles, the loads of a key need no slot: a reader inside another load, which may
   * hold it, waits for them.
   */
  expedite({ name }: Key, read: Promise<unknown>): void {
    this.#awaitedInside.add(name, read);
    for (const begin of this.#queued.get(name)) begin();
    const end = (): void => this.#awaitedInside.delete(name, read);
    read.then(end, end);
  }

  callerOf(request: ReadRequest): Caller | undefined {
    if (request.caller !== undefined) return request.caller;
    const signals = request.signals?.();
    const waiters = this.enclosing()?.waiters;
    if (signals !== undefined || waiters !== undefined)
      request.caller = new Caller(signals ?? { request: [], execution: undefined }, waiters, this.#abortListeners);
    return request.caller;
  }

  /**
   * Starts a load at once, so that all loads of one tick reach their source in that tick. Ends the
   * wait of `waiters` with it.
   */
  run(request: ReadRequest, start: LoadStart): RunningLoad {
    const { isRefresh, isUncacheable = false, lingerMs = 0 } = start;
    const { coordinate, name } = request.key;
    const subject = subjectOf(request.key);
    const control = new LoadControl(coordinate, this.#subjectsOf);
    let startedAt = this.#clock.now();
    let hasStarted = false;
    let isOverdue = false;
    const waiters = lingerMs === 0 ? start.waiters : lingering(start, lingerMs, this.#clock, () => hasStarted);
    const call = async (): Promise<CallOutcome> => {
      // It may have waited for a slot. Others who wait load for themselves.
      if (!isRefresh && (waiters.isGone || request.caller?.hasLeft === true)) {
        const error = request.caller?.reason ?? waiters.signal.reason;
        return { kind: "failed", error, isCallersOwn: true, isSourceFailure: true };
      }
      startedAt = this.#clock.now();
      hasStarted = true;
      this.#channel.publish({ name: "load.started", ...subject, isRefresh });
      const { tracing } = this.#channel;
      const trace = tracing && this.#startTrace(request, isRefresh, tracing);
      try {
        checkUnchanged(request);
        const value = await (trace === undefined
          ? request.load(waiters, control)
          : trace.run(() => request.load(waiters, control)));
        checkUnchanged(request);
        trace?.end();
        return { kind: "returned", value };
      } catch (thrown) {
        // The abort of an overdue load is no caller's: its failure is that of the source.
        const error = isOverdue && isAbortError(thrown) ? this.#timedOut(coordinate) : thrown;
        trace?.end(error);
        const caller = isRefresh ? this.#answeredCaller(request) : request.caller;
        const isCallersOwn = this.#isCallersOwn(request, error, isOverdue ? undefined : caller);
        const isSourceFailure =
          !isCallersOwn && ask(this.#settings.isSourceFailure ?? saysSourceFailed, error, coordinate) !== false;
        return { kind: "failed", error, isCallersOwn, isSourceFailure };
      }
    };
    // Nobody inside another load waits for a refresh.
    const outer = isRefresh || this.running === 0 ? undefined : this.enclosing();
    const enclosing = this.#enter(request.key, waiters, outer);
    const needsNoSlot = outer !== undefined || request.needsNoSlot === true || this.#awaitedInside.has(name);
    const { outcome, expire, expedite } = this.#nesting.run(enclosing, () =>
      this.#sources.sourceOf(coordinate).run(needsNoSlot, { run: call, batch: request.batch, owner: request.owner }),
    );
    if (expedite !== undefined) {
      this.#queued.add(name, expedite);
      // It fails at once, as nobody waits for it, rather than keeping its lease and its place in
      // the queue.
      if (!isRefresh) waiters.onGone(expedite);
    }
    const end = (): void => {
      this.#leave(enclosing);
      start.waiters.end();
      if (expedite !== undefined) this.#queued.delete(name, expedite);
    };
    const completed = outcome.then((called): Loaded | Promise<Loaded> => {
      const settings = control.end();
      const loadMs = this.#clock.now() - startedAt;
      if (called.kind === "failed") {
        const { error, isCallersOwn, isSourceFailure } = called;
        const isRefused = isRefusal(error) || (isCallersOwn && !hasStarted);
        if (isRefused) this.#channel.publish({ name: "load.refused", ...subject, error });
        else this.#channel.publish({ name: "load.failed", ...subject, loadMs, error });
        const isOutdated = request.wasOutdated?.(() => request.tags.subjects) === true;
        const refusal = excessOf(request, enclosing, this.privateValues)?.kind ?? (isOutdated ? "outdated" : undefined);
        end();
        const { begunAt = 0 } = request;
        const forOthers = errorForOthers(error);
        return { kind: "failed", error, forOthers, refusal, loadMs, begunAt, isCallersOwn, isSourceFailure };
      }
      const encode = (value: unknown, isSettled: boolean): Loaded | PromiseFound | Promise<Loaded | PromiseFound> =>
        this.#turns.run(() => {
          const result = { value, settings, loadMs, isUncacheable, isSettled, waiters: start.waiters };
          const parts = { packing: this.#packing, channel: this.#channel, privateValues: this.privateValues };
          return loadedOf(request, result, enclosing, parts);
        }, encodedBytesOf);
      const finish = (loaded: Loaded | PromiseFound): Loaded | Promise<Loaded> => {
        if (loaded instanceof PromiseFound)
          return this.#settled(called.value)
            .then((value) => encode(value, true))
            .then(finish);
        if (loaded.kind === "loaded") this.parents?.note(loaded, request);
        end();
        return loaded;
      };
      this.callerErrors.endSeries(request.key);
      this.#channel.publish({ name: "load.finished", ...subject, loadMs });
      const loaded = encode(called.value, false);
      return loaded instanceof Promise ? loaded.then(finish) : finish(loaded);
    });
    const limited = this.#withinTimeLimit(completed, coordinate, start.isRefresh, () => {
      isOverdue = true;
      expire();
      start.onTimeout?.();
      waiters.expire();
    });
    return { waiters, completed, limited };
  }

  /**
   * Returns a value without the promises in it. With them, if one rejects, which is the error of
   * one field, or takes too long: it is not stored then.
   */
  #settled(value: unknown): Promise<unknown> {
    const ms = Math.min(MAX_SETTLE_MS, this.#settings.loadTimeoutMs / 2);
    return within(this.#clock, settled(value, this.#packing.maxValueBytes), { ms, otherwise: () => value }).catch(
      () => value,
    );
  }

  /**
   * Starts to trace a load. A request that was not read, such as that of a worker, has no parent.
   */
  #startTrace(request: ReadRequest, isRefresh: boolean, tracing: Tracing): Traced {
    request.trace ??= { parent: isRefresh ? undefined : tracing.active() };
    const { parent, gen } = request.trace;
    request.trace.load = tracing.startLoad({ coordinate: request.key.coordinate, isRefresh, parent, gen });
    return request.trace.load;
  }

  /**
   * Whether a failure concerns only the caller that the load was run for: its request was aborted,
   * or the error is about it.
   */
  #isCallersOwn({ key }: ReadRequest, error: unknown, caller: Caller | undefined): boolean {
    // A context that has changed its identity says nothing about other requests of that identity.
    if (error instanceof CachedError && error.code === "CACHED_IDENTITY_CHANGED") return true;
    if (isAbandonment(error)) return true;
    if (ask(this.#settings.isCallerError ?? saysNotAllowed, error, key.coordinate) === true) {
      const isUnshared = this.callerErrors.add(key);
      if (isUnshared) this.#channel.publish({ name: "sharing.suspended", ...subjectOf(key), error });
      return true;
    }
    const isAbort = caller?.mayHaveCaused(error) === true;
    if (!isAbort) this.callerErrors.endSeries(key);
    return isAbort;
  }

  #answeredCaller(request: ReadRequest): Caller | undefined {
    const signals = request.signals?.();
    const caller = signals && new Caller(signals, undefined, this.#abortListeners);
    caller?.answered();
    return caller;
  }

  #withinTimeLimit(
    load: Promise<Loaded>,
    coordinate: string,
    isUnawaited: boolean,
    expire: () => void,
  ): Promise<Loaded> {
    const { loadTimeoutMs } = this.#settings;
    const otherwise = (): Loaded => {
      expire();
      const error = this.#timedOut(coordinate);
      const refusal = undefined;
      const loadMs = loadTimeoutMs;
      return { kind: "failed", error, refusal, loadMs, begunAt: 0, isCallersOwn: false, isSourceFailure: true };
    };
    const limited = within(this.#clock, load, { ms: loadTimeoutMs, otherwise, isUnawaited: true });
    if (isUnawaited) return limited;
    if (this.#awaited++ === 0 && !this.#isClosed) this.#letEnd = this.#clock.after(MAX_TIMER_MS, () => undefined, true);
    void limited.then(() => {
      if (--this.#awaited === 0) this.#letEnd();
    });
    return limited;
  }

  #timedOut(coordinate: string): CachedError {
    const { loadTimeoutMs } = this.#settings;
    return new CachedError(
      "CACHED_LOAD_TIMEOUT",
      `\`${coordinate}\`: expected the load to finish within ${loadTimeoutMs} ms, but it is still running; speed up the source, or raise \`loads.loadTimeoutMs\``,
      { coordinate },
    );
  }

  /** Lets the process end although loads that somebody waits for have not. */
  close(): void {
    this.#isClosed = true;
    this.#letEnd();
  }
}

/** The settings of `Loads`. The resolved options satisfy this interface. */
export interface LoadSettings extends Pick<TierSettings, "loadTimeoutMs" | "errorBackoffMs"> {
  /** Returns whether an error concerns only the caller that the load was run for. */
  readonly isCallerError: ((error: unknown, coordinate: string) => boolean) | undefined;
  /**
   * Returns whether an error means that the source is in trouble, rather than that it has no value
   * for this key. So does every error for which it returns anything but false.
   */
  readonly isSourceFailure: ((error: unknown, coordinate: string) => boolean) | undefined;
}

export interface LoadStart {
  readonly isRefresh: boolean;
  /** Who waits for it. */
  readonly waiters: Waiters;
  /** Whether the value is known not to be storable. Default: false. */
  readonly isUncacheable?: boolean;
  /**
   * How long it goes on when nobody waits for it any more, once it has begun. Default: not at all.
   */
  readonly lingerMs?: number;
  readonly onTimeout?: () => void;
}

/** A running load. Neither promise rejects. */
export interface RunningLoad {
  readonly waiters: Waiters;
  /** The result for readers: that of the load, or `CACHED_LOAD_TIMEOUT` after the time limit. */
  readonly limited: Promise<Loaded>;
  readonly completed: Promise<Loaded>;
}

/**
 * How long the promises in a value are waited for. GraphQL waits for those that the query selects.
 */
const MAX_SETTLE_MS = 10_000;

const encodedBytesOf = (loaded: Loaded | PromiseFound): number =>
  !(loaded instanceof PromiseFound) && loaded.kind === "loaded" ? (loaded.content?.length ?? 0) : 0;

/**
 * Throws if the context has another identity, or other values in the key or the tags, than when the
 * request was made.
 */
function checkUnchanged(request: ReadRequest): void {
  const change = request.changed?.();
  if (change !== undefined) throw change;
}

const NONE: ReadonlySet<string> = new Set();

/** Returns those who wait for a load, who leave `lingerMs` later once it has begun. */
function lingering({ waiters }: LoadStart, lingerMs: number, clock: Clock, hasBegun: () => boolean): Waiters {
  const later = new Waiters((go) => {
    if (hasBegun()) return clock.after(lingerMs, go);
    go();
    return () => undefined;
  });
  later.addAll(waiters);
  return later;
}
