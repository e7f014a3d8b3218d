import { AsyncLocalStorage } from "node:async_hooks";
import { attempt } from "../../base/built-in.js";
import {
  asJob,
  type Cancel,
  type Clock,
  disableStorage,
  MAX_TIMER_MS,
  SharedTimers,
  within,
} from "../../base/clock.js";
import { CachedError } from "../../base/errors.js";
import { getOrMake, Multimap } from "../../base/multimap.js";
import type { Packing } from "../../codec/packing.js";
import { PromiseFound, settled } from "../../codec/settled.js";
import type { Key, Subject } from "../../keys/key.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import type { Traced, Tracing } from "../../telemetry/tracing.js";
import type { Loaded } from "../request/loaded.js";
import type { Place, ReadRequest } from "../request/request.js";
import { LoadControl } from "../request/result-control.js";
import type { TierSettings } from "../request/settings.js";
import {
  AbortListeners,
  BypassingCall,
  Caller,
  type EnclosingLoad,
  isAbandonment,
  isAbortError,
  JointLoad,
  type PrivateReader,
  type ReadOwner,
  SingleLoad,
  Waiters,
} from "../request/waiters.js";
import { ByteTurns } from "../tick/long-tick.js";
import { errorForOthers } from "./caller-headers.js";
import { CallerErrors, saysNotAllowed, saysSourceFailed } from "./error-signs.js";
import { excessOf, loadedOf } from "./load-result.js";
import type { ParentComparison } from "./parent-comparison.js";
import { PrivateValues, whenSettled } from "./private-values.js";
import {
  type AdmittedLoad,
  type CallOutcome,
  failed,
  isRefusal,
  Source,
  type SourceParts,
  type SourceSettings,
  type SourceStatus,
} from "./sources.js";

/**
 * Runs loads: limits how long readers wait for them, tracks which loads call which, and decides to
 * whom a result belongs, whoever asked: a field, a loader, a refresh or a worker. The request must
 * still be that of the caller its key was made for when the load begins and ends
 * (`ReadRequest.changed`). The scope of a load is the narrowest of what it reads, of the hints that
 * it sets, and of where its source came from. (P8)
 */
export class Loads {
  /** Of the names of keys. */
  readonly #prefix = `${NESTING.caches++} `;
  /** What PRIVATE reads have returned. */
  readonly privateValues = PRIVATE_VALUES;
  /** Compares the parents of those that share a load. Undefined: nothing does, as in production. */
  parents: ParentComparison | undefined = undefined;
  readonly #abortListeners = new AbortListeners();
  /** The keys whose loads fail for most of their callers. */
  readonly callerErrors: CallerErrors;
  readonly #turns: ByteTurns;
  readonly #limits: SharedTimers;
  /** By coordinate. */
  readonly #sources = new Map<string, Source>();
  /** How many loads somebody waits for, and what ends the timer that keeps the process alive. */
  #awaited = 0;
  #letEnd: Cancel = () => undefined;
  #isClosed = false;
  /** What begins the loads of a key that wait for a slot. */
  readonly #queued = new Multimap<string, () => void>();
  /** The reads of a key that readers inside of loads wait for: see `expedite`. */
  readonly #awaitedInside = new Multimap<string, Promise<unknown>>();

  constructor(private readonly parts: LoadsParts) {
    this.#turns = new ByteTurns(parts.clock);
    this.#limits = new SharedTimers(parts.clock);
    this.callerErrors = new CallerErrors(parts.clock, parts.settings.errorBackoffMs);
  }

  sourceStatuses(): SourceStatus[] {
    return [...this.#sources.values()].map(({ status }) => status);
  }

  /** Whether the caller is part of a load of this key. Other caches can have keys of its name. */
  isInside({ name }: Pick<Key, "name">): boolean {
    return this.running !== 0 && this.enclosing()?.has(this.#prefix + name) === true;
  }

  get isEnclosing(): boolean {
    return this.running !== 0 && this.enclosing() !== undefined;
  }

  /** How many loads run. Without any, no caller is part of one. */
  get running(): number {
    return NESTING.running;
  }

  /** How often loads have begun; once for those of one job, whose leases are granted together. */
  get starts(): number {
    return NESTING.starts;
  }

  #enter(key: Key, waiters: Waiters, { isRefresh, isOutside = false }: LoadStart): SingleLoad {
    // Nobody inside another load waits for a refresh.
    const isInside = !isRefresh && this.running > 0;
    const outer = isInside ? this.enclosing() : undefined;
    const reader = isInside ? this.reader() : undefined;
    NESTING.running++;
    if (!NESTING.isStarting) {
      NESTING.isStarting = true;
      NESTING.starts++;
      asJob(() => {
        NESTING.isStarting = false;
      });
    }
    const isAlone = isOutside || outer?.isOutside === true;
    return new SingleLoad(this.#prefix + key.name, this.starts, waiters, outer, isAlone, reader);
  }

  /** In Node.js 20 and 22, an enabled AsyncLocalStorage slows down every promise of the process. */
  #leave(load: SingleLoad): void {
    load.hasEnded = true;
    load.waiters.end();
    this.#left();
  }

  #left(): void {
    NESTING.running--;
    if (NESTING.running === 0) disableStorage(NESTING.storage);
  }

  enclosing(): EnclosingLoad | undefined {
    let load = NESTING.storage.getStore();
    while (load?.hasEnded === true) load = load.outer;
    return load as EnclosingLoad | undefined;
  }

  /** Returns what a PRIVATE value that is read now is for. */
  reader(): EnclosingLoad | BypassingCall | undefined {
    let load = NESTING.storage.getStore();
    while (load instanceof BypassingCall ? load.isOver : load?.hasEnded) load = load?.outer;
    return load;
  }

  readPrivate(coordinate: string, owner: ReadOwner): void {
    if (this.running > 0) this.reader()?.readPrivate(coordinate, owner);
  }

  /** Calls a source without the cache, for `readers`. What it makes of PRIVATE values is noted. */
  bypass<T>(call: () => T, context: unknown, readers: readonly PrivateReader[] = [], path?: Place): T {
    if (!this.privateValues.isAsked) return call();
    const here = this.reader();
    const around = new Set(here === undefined ? readers : [here, ...readers]);
    const bypassing = new BypassingCall(here, [...around]);
    const note = (value: unknown): void => {
      const [coordinate] = bypassing.privateReads?.values() ?? [];
      if (coordinate !== undefined) this.privateValues.noteField(value, coordinate, context, path);
    };
    const left = (): void => {
      bypassing.isOver = true;
      this.#left();
    };
    NESTING.running++;
    try {
      const value = NESTING.storage.run(bypassing, () => whenSettled(call(), note));
      if (value instanceof Promise) void value.then(left, left);
      else left();
      return value;
    } catch (error) {
      left();
      throw error;
    }
  }

  /** Runs `work` inside of all `loads` at once: what it reads, each of them has read. */
  together<T>(loads: readonly EnclosingLoad[], work: () => T): T {
    const joined = [...new Set(loads)];
    if (joined.length === 0 || (joined.length === 1 && this.enclosing() === joined[0])) return work();
    return NESTING.storage.run(new JointLoad(joined), work);
  }

  /** Until `read` settles, the loads of a key need no slot: what may hold it waits for them. */
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

  /** Starts a load at once, so that all loads of one tick reach their source in that tick. */
  run(request: ReadRequest, start: LoadStart): RunningLoad {
    const { clock, settings } = this.parts;
    const { isRefresh, lingerMs = 0 } = start;
    const hasBegun = (): boolean => load.hasBegun;
    const waiters = lingerMs === 0 ? start.waiters : lingering(start.waiters, lingerMs, clock, hasBegun);
    const load = new Load(request, start, waiters, this.#enter(request.key, waiters, start), clock.now());
    if (!isRefresh) this.#keepAlive();
    const completed = this.#complete(load);
    const limited = within(this.#limits, completed, {
      ms: settings.loadTimeoutMs,
      otherwise: (): Loaded => {
        if (!isRefresh) this.#letProcessEnd();
        load.isOverdue = true;
        load.admitted?.expire();
        start.onTimeout?.();
        waiters.expire();
        return failedLoad(this.#timedOut(request.key), settings.loadTimeoutMs);
      },
    });
    return { waiters, completed, limited };
  }

  /** Calls the source in its turn. Never rejects. */
  async #complete(load: Load): Promise<Loaded> {
    const { request, start, waiters } = load;
    const { name } = request.key;
    let called: CallOutcome;
    let expedite: (() => void) | undefined;
    try {
      const admitted = this.#admit(load);
      load.admitted = admitted;
      if (admitted.begun !== undefined) {
        expedite = () => admitted.expedite();
        this.#queued.add(name, expedite);
        // It fails at once then, rather than keeping its lease and its place in the queue.
        if (!start.isRefresh) waiters.onGone(expedite);
        await admitted.begun;
      }
      admitted.hasBegun = true;
      called = this.#abandoned(load) ?? { kind: "returned", value: await this.#call(load) };
      if (called.kind === "returned") {
        checkUnchanged(request);
        load.trace?.end();
      }
      admitted.end(called);
    } catch (thrown) {
      // Errors can throw when they are looked at.
      called = (load.hasBegun ? attempt(() => this.#failureOf(load, thrown)) : undefined) ?? failed(thrown);
      load.admitted?.end(load.hasBegun ? called : undefined);
    }
    let loaded: Loaded;
    try {
      const result = called.kind === "failed" ? this.#failed(load, called) : this.#loadedOf(load, called.value);
      loaded = result instanceof Promise ? await result : result;
    } catch (thrown) {
      loaded = failedLoad(thrown, 0);
    }
    this.#leave(load.enclosing);
    start.waiters.end();
    if (expedite !== undefined) this.#queued.delete(name, expedite);
    if (!start.isRefresh && !load.isOverdue) this.#letProcessEnd();
    return loaded;
  }

  #admit({ request, start, enclosing }: Load): AdmittedLoad {
    const { coordinate, name } = request.key;
    const source = getOrMake(this.#sources, coordinate, () => new Source(coordinate, this.parts));
    const needsNoSlot = enclosing.outer !== undefined || request.needsNoSlot === true || this.#awaitedInside.has(name);
    const batch = start.isOutside === true ? request.batch?.outside : request.batch;
    return source.admit(needsNoSlot, { batch, owner: request.owner });
  }

  /** It may have waited for a slot. Others who wait load for themselves. */
  #abandoned({ request, start, waiters }: Load): CallOutcome | undefined {
    if (start.isRefresh || !(waiters.isGone || request.caller?.hasLeft === true)) return undefined;
    const error = request.caller?.reason ?? waiters.signal.reason;
    return { kind: "failed", error, isCallersOwn: true, isSourceFailure: true, isUncalled: true };
  }

  /** Calls the source. Throws what it throws, or if the request is another caller's by now. */
  #call(load: Load): unknown {
    const { request, start, waiters, enclosing } = load;
    const { clock, channel } = this.parts;
    const { isRefresh } = start;
    load.startedAt = clock.now();
    load.hasBegun = true;
    load.control = new LoadControl(request.key.coordinate, this.parts.subjectsOf);
    channel.publish({ name: "load.started", ...subjectOf(request.key), isRefresh });
    const trace = channel.tracing && startTrace(request, isRefresh, channel.tracing);
    load.trace = trace;
    checkUnchanged(request);
    load.isCalled = true;
    const call = (): unknown => request.load(waiters, load.control as LoadControl);
    return NESTING.storage.run(enclosing, trace === undefined ? call : () => trace.run(call));
  }

  #failureOf({ request, start, isOverdue, isCalled, trace }: Load, thrown: unknown): CallOutcome {
    const { settings } = this.parts;
    const { key } = request;
    // The abort of an overdue load is no caller's: its failure is that of the source.
    const error = isOverdue && isAbortError(thrown) ? this.#timedOut(key) : thrown;
    trace?.end(error);
    const caller = start.isRefresh ? this.#answeredCaller(request) : request.caller;
    const isCallersOwn = this.#isCallersOwn(key, error, isOverdue ? undefined : caller);
    const saysFailed = settings.isSourceFailure ?? saysSourceFailed;
    // Nothing that it throws itself must come in the place of the error.
    const isSourceFailure = !isCallersOwn && attempt(() => saysFailed(error, key.coordinate)) !== false;
    return { kind: "failed", error, isCallersOwn, isSourceFailure, isUncalled: !isCalled };
  }

  #failed(load: Load, { error, isCallersOwn, isSourceFailure }: Extract<CallOutcome, { kind: "failed" }>): Loaded {
    const { clock, channel } = this.parts;
    const { request, enclosing } = load;
    load.control?.end();
    const loadMs = clock.now() - load.startedAt;
    const isRefused = isRefusal(error) || (isCallersOwn && !load.hasBegun);
    if (isRefused) channel.publish({ name: "load.refused", ...subjectOf(request.key), error });
    else channel.publish({ name: "load.failed", ...subjectOf(request.key), loadMs, error });
    const isOutdated = request.wasOutdated?.(() => request.tags.subjects) === true;
    const refusal = excessOf(request, enclosing, this.privateValues)?.kind ?? (isOutdated ? "outdated" : undefined);
    const { begunAt = 0 } = request;
    const forOthers = errorForOthers(error);
    return { kind: "failed", error, forOthers, refusal, loadMs, begunAt, isCallersOwn, isSourceFailure };
  }

  /** Returns what readers get of a value, at once if it can be encoded at once. */
  #loadedOf(load: Load, value: unknown): Loaded | Promise<Loaded> {
    const { clock, channel } = this.parts;
    const { request, start, waiters, enclosing } = load;
    const settings = load.control?.end();
    const loadMs = clock.now() - load.startedAt;
    const result = { settings, loadMs, isUncacheable: start.isUncacheable === true, waiters, enclosing };
    const parts = { ...this.parts, privateValues: this.privateValues };
    const encode = (value: unknown, isSettled: boolean): LoadedOrPromise | Promise<LoadedOrPromise> =>
      this.#turns.run(() => loadedOf(request, { ...result, value, isSettled }, parts), encodedBytesOf);
    const finish = (loaded: LoadedOrPromise): Loaded | Promise<Loaded> => {
      if (loaded instanceof PromiseFound)
        return this.#settled(value)
          .then((value) => encode(value, true))
          .then(finish);
      this.parents?.note(loaded, request);
      return loaded;
    };
    this.callerErrors.endSeries(request.key);
    channel.publish({ name: "load.finished", ...subjectOf(request.key), loadMs });
    const loaded = encode(value, false);
    return loaded instanceof Promise ? loaded.then(finish) : finish(loaded);
  }

  /** A value without the promises in it. With them, if one rejects, or takes too long. */
  #settled(value: unknown): Promise<unknown> {
    const { clock, packing, settings } = this.parts;
    const ms = Math.min(MAX_SETTLE_MS, settings.loadTimeoutMs / 2);
    const otherwise = (): unknown => value;
    return within(clock, settled(value, packing.maxValueBytes), { ms, otherwise }).catch(otherwise);
  }

  /** Whether a failure concerns only the caller of the load: its abort, or an error about it. */
  #isCallersOwn(key: Key, error: unknown, caller: Caller | undefined): boolean {
    const { channel, settings } = this.parts;
    // A context that has changed its identity says nothing about other requests of that identity.
    if (error instanceof CachedError && error.code === "CACHED_IDENTITY_CHANGED") return true;
    if (isAbandonment(error)) return true;
    const saysCallers = settings.isCallerError ?? saysNotAllowed;
    if (attempt(() => saysCallers(error, key.coordinate)) === true) {
      const isUnshared = this.callerErrors.add(key);
      if (isUnshared) channel.publish({ name: "sharing.suspended", ...subjectOf(key), error });
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

  /** The process does not end while somebody waits for a load, unless the cache is closed. */
  #keepAlive(): void {
    const { clock } = this.parts;
    if (this.#awaited++ === 0 && !this.#isClosed) this.#letEnd = clock.after(MAX_TIMER_MS, () => undefined, true);
  }

  #letProcessEnd(): void {
    if (--this.#awaited === 0) this.#letEnd();
  }

  #timedOut({ coordinate }: Key): CachedError {
    const { loadTimeoutMs } = this.parts.settings;
    const mistake = `\`${coordinate}\`: expected the load to finish within ${loadTimeoutMs} ms, but it is still running; speed up the source, or raise \`loads.loadTimeoutMs\``;
    return new CachedError("CACHED_LOAD_TIMEOUT", mistake, { coordinate });
  }

  /** Lets the process end although loads that somebody waits for have not. */
  close(): void {
    this.#isClosed = true;
    this.#letEnd();
  }
}

/**
 * Of all caches of the process: what a load of one reads through another is part of its value, with
 * its age and its scope. (P2, P8)
 */
const NESTING = {
  storage: new AsyncLocalStorage<EnclosingLoad | BypassingCall>(),
  caches: 0,
  running: 0,
  starts: 0,
  isStarting: false,
};
const PRIVATE_VALUES = new PrivateValues();

interface LoadsParts extends SourceParts {
  readonly channel: Channel;
  readonly packing: Packing;
  readonly settings: LoadSettings;
  /** Returns what is stored of tags. */
  readonly subjectsOf: (tags: readonly string[]) => readonly Subject[];
}

interface LoadSettings extends SourceSettings, Pick<TierSettings, "errorBackoffMs"> {
  readonly isCallerError: ((error: unknown, coordinate: string) => boolean) | undefined;
  /** Every error for which it returns anything but false means that the source is in trouble. */
  readonly isSourceFailure: ((error: unknown, coordinate: string) => boolean) | undefined;
}

interface LoadStart {
  readonly isRefresh: boolean;
  /** Whether it was begun in the asynchronous context of no request. Default: false. */
  readonly isOutside?: boolean;
  readonly waiters: Waiters;
  /** Default: false. */
  readonly isUncacheable?: boolean;
  /** How long it goes on once it has begun and nobody waits any more. Default: not at all. */
  readonly lingerMs?: number;
  readonly onTimeout?: () => void;
}

/** The state of a load. */
class Load {
  admitted: AdmittedLoad | undefined = undefined;
  control: LoadControl | undefined = undefined;
  trace: Traced | undefined = undefined;
  /** Whether it has had its turn while somebody waited. */
  hasBegun = false;
  isCalled = false;
  isOverdue = false;

  constructor(
    readonly request: ReadRequest,
    readonly start: LoadStart,
    readonly waiters: Waiters,
    readonly enclosing: SingleLoad,
    public startedAt: number,
  ) {}
}

/** A running load. Neither promise rejects. */
export interface RunningLoad {
  readonly waiters: Waiters;
  /** That of the load, or `CACHED_LOAD_TIMEOUT` after the time limit. */
  readonly limited: Promise<Loaded>;
  readonly completed: Promise<Loaded>;
}

const failedLoad = (error: unknown, loadMs: number): Loaded => ({
  kind: "failed",
  error,
  refusal: undefined,
  loadMs,
  begunAt: 0,
  isCallersOwn: false,
  isSourceFailure: true,
});

/** For the promises in a value. GraphQL waits for those that the query selects. */
const MAX_SETTLE_MS = 10_000;

type LoadedOrPromise = ReturnType<typeof loadedOf>;

const encodedBytesOf = (loaded: LoadedOrPromise): number =>
  loaded instanceof PromiseFound ? 0 : (loaded.content?.length ?? 0);

function checkUnchanged(request: ReadRequest): void {
  const change = request.changed?.();
  if (change !== undefined) throw change;
}

/** Starts to trace a load. A request that was not read, such as that of a worker, has no parent. */
function startTrace(request: ReadRequest, isRefresh: boolean, tracing: Tracing): Traced {
  request.trace ??= { parent: isRefresh ? undefined : tracing.active() };
  const { parent, gen } = request.trace;
  request.trace.load = tracing.startLoad({ coordinate: request.key.coordinate, isRefresh, parent, gen });
  return request.trace.load;
}

/** Those who wait for a load, who leave `lingerMs` later once it has begun. */
function lingering(waiters: Waiters, lingerMs: number, clock: Clock, hasBegun: () => boolean): Waiters {
  const later = new Waiters((go) => {
    if (hasBegun()) return clock.after(lingerMs, go);
    go();
    return () => undefined;
  });
  later.addAll(waiters);
  return later;
}
