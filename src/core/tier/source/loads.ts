import { AsyncLocalStorage } from "node:async_hooks";
import { disableStorage, outsideOfRequests } from "../../base/async-context.js";
import { asJob, type Clock, within } from "../../base/clock.js";
import { ignoreRejection } from "../../base/deferred.js";
import { CachedError, type ErrorCode } from "../../base/errors.js";
import { TooLarge, Unstorable } from "../../codec/codec.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import type { Key, Subject } from "../../keys/key.js";
import type { Channel } from "../../telemetry/channel.js";
import { subjectOf } from "../../telemetry/subject.js";
import type { LoadTrace } from "../../telemetry/tracing.js";
import { AbortListeners, Caller, type CallSignals } from "../request/caller.js";
import { type EnclosingLoad, JointLoad, SingleLoad } from "../request/enclosing-load.js";
import { type Excess, type Loaded, LoadedValue, type Refusal } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import { LoadControl, type OwnSettings, type PreviousValue } from "../request/result-control.js";
import { isAbandonment, Waiters } from "../request/waiters.js";
import { ByteTurns } from "../tick/byte-turns.js";
import { CallerErrors } from "./caller-errors.js";
import { saysNotAllowed } from "./callers-own.js";
import { saysSourceFailed } from "./source-failure.js";
import { isRefusal, type SourceGuard } from "./source-guard.js";

/** The settings of `Loads`. The resolved options satisfy this interface. */
export interface LoadSettings {
  /** How long readers wait for a load. */
  readonly loadTimeoutMs: number;
  /** How long a key is not shared after errors that concern one caller only. */
  readonly errorBackoffMs: number;
  /** Returns whether an error concerns only the caller that the load was run for. */
  readonly isCallerError: ((error: unknown, coordinate: string) => boolean) | undefined;
  /**
   * Returns whether an error means that the source is in trouble, rather than that it has no value for this key. So does
   * every error for which it returns anything but false.
   */
  readonly isSourceFailure: ((error: unknown, coordinate: string) => boolean) | undefined;
}

/** What a load is run for. */
export interface LoadStart {
  readonly isRefresh: boolean;
  /** Who waits for it. */
  readonly waiters: Waiters;
  /** Whether the value is known not to be storable, so that it is encoded only if others want copies. Default: false. */
  readonly isUncacheable?: boolean;
  /** Reads the value that it replaces. Undefined: it replaces none. */
  readonly readPrevious?: ReadPrevious;
  /** How long it goes on when nobody waits for it any more, once it has begun. Default: not at all. */
  readonly lingerMs?: number;
  /** Called if it has not ended in time. */
  readonly onTimeout?: () => void;
}

/** A running load. Neither promise rejects. */
export interface RunningLoad {
  /** Who waits for it. To be joined by others that do. */
  readonly waiters: Waiters;
  /**
   * The result for readers: the result of the load, or `CACHED_LOAD_TIMEOUT` after the time limit.
   */
  readonly limited: Promise<Loaded>;
  /** The result of the load, whenever it ends. */
  readonly completed: Promise<Loaded>;
}

/**
 * Runs loads. Measures them, limits how long readers wait for them, and tracks which loads call
 * which.
 *
 * One place decides to whom the result of a load belongs, whoever asked for it: a field, a loader, a reference, a
 * refresh, a worker or an observed read. The request must still be that of the caller its key was made for when the load
 * begins and when it ends (`ReadRequest.changed`). And the scope of a load is the narrowest of what it reads and of the
 * hints that it sets: with a PRIVATE value in it, the result of a PUBLIC load is its caller's own. (P8)
 */
export class Loads {
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #packing: Packing;
  readonly #guard: SourceGuard;
  readonly #settings: LoadSettings;
  readonly #subjectsOf: (tags: readonly string[]) => readonly Subject[];
  readonly #nesting = new AsyncLocalStorage<EnclosingLoad>();
  readonly #abortListeners = new AbortListeners();
  readonly #callerErrors: CallerErrors;
  readonly #turns: ByteTurns;
  #running = 0;
  #starts = 0;
  #isStarting = false;
  /** What begins the loads of a key that wait for a slot. */
  readonly #queued = new Map<string, Set<() => void>>();
  /** How many readers inside of loads wait for a key. Its loads do not wait for a slot. */
  readonly #awaitedInside = new Map<string, number>();

  /** `subjectsOf` returns what is stored of tags. */
  constructor(
    clock: Clock,
    channel: Channel,
    packing: Packing,
    guard: SourceGuard,
    settings: LoadSettings,
    subjectsOf: (tags: readonly string[]) => readonly Subject[],
  ) {
    this.#clock = clock;
    this.#channel = channel;
    this.#packing = packing;
    this.#guard = guard;
    this.#settings = settings;
    this.#subjectsOf = subjectsOf;
    this.#turns = new ByteTurns(clock);
    this.#callerErrors = new CallerErrors(clock, settings.errorBackoffMs);
  }

  /** Returns the keys of the loads that the caller runs inside of; empty outside of loads. */
  enclosingKeys(): ReadonlySet<string> {
    return this.#running === 0 ? NONE : (this.enclosing()?.keys ?? NONE);
  }

  /** Whether the caller runs inside of a load. Short, since every hit asks: V8 inlines it. */
  get isEnclosing(): boolean {
    return this.#running !== 0 && this.enclosingKeys().size > 0;
  }

  /**
   * How often loads have begun so far. Those that begin together, without a job of the event loop in between, count once: what the
   * first of them reads is read from the store when the leases of all of them have been granted.
   */
  get starts(): number {
    return this.#starts;
  }

  #countStart(): number {
    if (!this.#isStarting) {
      this.#isStarting = true;
      this.#starts++;
      asJob(() => {
        this.#isStarting = false;
      });
    }
    return this.#starts;
  }

  /** Returns the innermost load that the caller runs inside of. */
  enclosing(): EnclosingLoad | undefined {
    let load = this.#nesting.getStore();
    while (load?.hasEnded === true) load = load.outer;
    return load;
  }

  /** Notes that the caller reads a PRIVATE value: the loads that it runs inside of depend on who asks. */
  readPrivate(coordinate: string): void {
    if (this.#running > 0) this.enclosing()?.readPrivate(coordinate);
  }

  /** Runs `work` inside of all `loads` at once: what it reads, each of them has read. */
  together<T>(loads: readonly EnclosingLoad[], work: () => T): T {
    const joined = new Set(loads);
    const [only] = joined;
    if (only === undefined || (joined.size === 1 && this.enclosing() === only)) return work();
    return this.#nesting.run(new JointLoad([...joined]), work);
  }

  /**
   * Lets the loads of a key begin without a slot until `read` settles: a reader inside another load waits
   * for it, and that load may hold the slot.
   */
  expedite({ name }: Key, read: Promise<unknown>): void {
    this.#awaitedInside.set(name, (this.#awaitedInside.get(name) ?? 0) + 1);
    for (const begin of [...(this.#queued.get(name) ?? [])]) begin();
    const end = (): void => {
      const others = (this.#awaitedInside.get(name) as number) - 1;
      if (others === 0) this.#awaitedInside.delete(name);
      else this.#awaitedInside.set(name, others);
    };
    read.then(end, end);
  }

  /** Returns who waits for a request. Undefined if it cannot be aborted. */
  callerOf(request: ReadRequest): Caller | undefined {
    if (request.caller !== undefined) return request.caller;
    const signals = request.signals?.();
    const waiters = this.enclosing()?.waiters;
    if (signals !== undefined || waiters !== undefined)
      request.caller = new Caller(signals ?? NO_SIGNALS, waiters, this.#abortListeners);
    return request.caller;
  }

  /** Returns whether each caller of the key loads for itself, since its loads fail for most of them. */
  isUnshared({ key }: ReadRequest): boolean {
    return this.#callerErrors.isUnshared(key);
  }

  /**
   * Starts a load at once, so that all loads of one tick reach their source in that tick. Ends the
   * wait of `waiters` with it.
   *
   * A refresh of a PUBLIC value must not depend on who has found it stale. That of a PRIVATE value may need the
   * session of the caller whom it belongs to.
   */
  run(request: ReadRequest, start: LoadStart): RunningLoad {
    return start.isRefresh && request.policy.scope === "PUBLIC"
      ? outsideOfRequests.runInAsyncScope(() => this.#run(request, start))
      : this.#run(request, start);
  }

  #run(request: ReadRequest, start: LoadStart): RunningLoad {
    const { isRefresh, readPrevious, onTimeout } = start;
    const { coordinate, name } = request.key;
    const subject = subjectOf(request.key);
    const control = new LoadControl({ coordinate, subjectsOf: this.#subjectsOf, readPrevious });
    let startedAt = this.#clock.now();
    let hasStarted = false;
    const waiters = this.#lingering(start, () => hasStarted);
    let isCallersOwn = false;
    let isSourceFailure = true;
    const load = async (): Promise<unknown> => {
      // It may have waited for a slot. Others who wait load for themselves.
      if (!isRefresh && (waiters.isGone || request.caller?.hasLeft === true)) {
        isCallersOwn = true;
        throw request.caller?.reason ?? waiters.signal.reason;
      }
      startedAt = this.#clock.now();
      hasStarted = true;
      this.#channel.publish({ name: "load.started", ...subject, isRefresh });
      const trace = this.#startTrace(request, isRefresh);
      try {
        checkUnchanged(request);
        const value = await (trace === undefined
          ? request.load(waiters, control)
          : trace.run(() => request.load(waiters, control)));
        checkUnchanged(request);
        control.checkReturned(value);
        trace?.end();
        return value;
      } catch (error) {
        trace?.end(error);
        isCallersOwn = this.#isCallersOwn(request, error, isRefresh);
        isSourceFailure = !isCallersOwn && this.#isSourceFailure(error, coordinate);
        throw error;
      }
    };
    // Nobody inside another load waits for a refresh.
    const outer = isRefresh || this.#running === 0 ? undefined : this.enclosing();
    this.#running++;
    const enclosing = new SingleLoad(request.key, this.#countStart(), waiters, outer);
    const isNested = outer !== undefined && !outer.isBuild;
    const { result, expire, expedite } = this.#nesting.run(enclosing, () => {
      // It is no call of a source: what is loaded in it takes slots, and counts for the breaker.
      if (enclosing.isBuild) return { result: load(), expire: () => undefined, expedite: undefined };
      return this.#guard.run(coordinate, isNested || request.needsNoSlot === true || this.#awaitedInside.has(name), {
        run: load,
        isCallersOwn: () => isCallersOwn,
        isSourceFailure: () => isSourceFailure,
        batch: request.batch,
        owner: request.owner,
      });
    });
    if (expedite !== undefined) {
      this.#addQueued(name, expedite);
      // It fails at once, as nobody waits for it, rather than keeping its lease and its place in the queue.
      if (!isRefresh) waiters.onGone(expedite);
    }
    const end = (): void => {
      enclosing.hasEnded = true;
      waiters.end();
      start.waiters.end();
      if (expedite !== undefined) this.#removeQueued(name, expedite);
      this.#onEnd();
    };
    const finish = (value: unknown): Loaded | Promise<Loaded> => {
      const settings = control.end();
      const loadMs = this.#clock.now() - startedAt;
      return this.#turns.run(() => {
        const loaded = this.#finish(request, value, settings, loadMs, enclosing, start);
        end();
        return loaded;
      }, encodedBytesOf);
    };
    const completed = result.then(finish, (error: unknown): Loaded => {
      control.end();
      const loadMs = this.#clock.now() - startedAt;
      const isRefused = isRefusal(error) || (isCallersOwn && !hasStarted);
      if (isRefused) this.#channel.publish({ name: "load.refused", ...subject, error });
      else this.#channel.publish({ name: "load.failed", ...subject, loadMs, error });
      const refusal = excessOf(request, enclosing)?.kind;
      end();
      return { kind: "failed", error, refusal, loadMs, isCallersOwn, isSourceFailure };
    });
    const expireLoad = (): void => {
      expire();
      onTimeout?.();
    };
    return { waiters, completed, limited: this.#withinTimeLimit(completed, coordinate, expireLoad) };
  }

  /** See `SourceGuard.hasRoom`. */
  hasRoom(coordinate: string): boolean {
    return this.#guard.hasRoom(coordinate);
  }

  /**
   * Calls the source of a request beside its loads: nobody waits for the value, and it is not stored. Takes no slot, and is
   * not reported as a load. Never rejects: undefined if the call fails, if its result depends on more than the key, or if it
   * has skipped to be stored.
   */
  callBeside(request: ReadRequest): Promise<{ readonly value: unknown } | undefined> {
    return outsideOfRequests.runInAsyncScope(() => this.#callBeside(request));
  }

  async #callBeside(request: ReadRequest): Promise<{ readonly value: unknown } | undefined> {
    const { coordinate } = request.key;
    const waiters = Waiters.of(undefined);
    const control = new LoadControl({ coordinate, subjectsOf: this.#subjectsOf, readPrevious: undefined });
    const enclosing = new SingleLoad(request.key, this.#countStart(), waiters, undefined);
    this.#running++;
    try {
      checkUnchanged(request);
      const value: unknown = await this.#nesting.run(enclosing, () => request.load(waiters, control));
      checkUnchanged(request);
      const isSkipped = control.end()?.isSkipped === true;
      return isSkipped || excessOf(request, enclosing) !== undefined ? undefined : { value };
    } catch {
      return undefined;
    } finally {
      control.end();
      enclosing.hasEnded = true;
      waiters.end();
      this.#onEnd();
    }
  }

  /** Returns those who wait for a load, which they leave later than at once if it lingers. */
  #lingering({ waiters, lingerMs = 0 }: LoadStart, hasBegun: () => boolean): Waiters {
    if (lingerMs === 0) return waiters;
    const lingering = new Waiters((go) => {
      if (hasBegun()) return this.#clock.after(lingerMs, go);
      go();
      return () => undefined;
    });
    lingering.addAll(waiters);
    return lingering;
  }

  /** Starts to trace a load, if loads are traced. A request that was not read, such as that of a worker, has no parent. */
  #startTrace(request: ReadRequest, isRefresh: boolean): LoadTrace | undefined {
    const { tracing } = this.#channel;
    if (tracing === undefined) return undefined;
    request.trace ??= { parent: isRefresh ? undefined : tracing.active() };
    const { parent, gen } = request.trace;
    request.trace.load = tracing.startLoad({ coordinate: request.key.coordinate, isRefresh, parent, gen });
    return request.trace.load;
  }

  #addQueued(name: string, begin: () => void): void {
    const queued = this.#queued.get(name);
    if (queued === undefined) this.#queued.set(name, new Set([begin]));
    else queued.add(begin);
  }

  #removeQueued(name: string, begin: () => void): void {
    const queued = this.#queued.get(name);
    queued?.delete(begin);
    if (queued?.size === 0) this.#queued.delete(name);
  }

  /**
   * Returns whether the failure of a load concerns only the caller that it was run for: its request
   * has been aborted, or the error is about this caller.
   */
  #isCallersOwn(request: ReadRequest, error: unknown, isRefresh: boolean): boolean {
    const { key } = request;
    // A context that has changed its identity says nothing about other requests of that identity.
    if (error instanceof CachedError && error.code === "CACHED_IDENTITY_CHANGED") return true;
    if (isAbandonment(error)) return true;
    if (this.#isCallerError(error, key.coordinate)) {
      const isUnshared = this.#callerErrors.add(key);
      if (isUnshared) this.#channel.publish({ name: "sharing.suspended", ...subjectOf(key), error });
      return true;
    }
    const caller = isRefresh ? this.#answeredCaller(request) : request.caller;
    const isAbort = caller?.mayHaveCaused(error) === true;
    if (!isAbort) this.#callerErrors.endSeries(key);
    return isAbort;
  }

  /** Returns who asked for the value that a refresh renews. */
  #answeredCaller(request: ReadRequest): Caller | undefined {
    const signals = request.signals?.();
    if (signals === undefined) return undefined;
    const caller = new Caller(signals, undefined, this.#abortListeners);
    caller.answered();
    return caller;
  }

  #isCallerError(error: unknown, coordinate: string): boolean {
    const { isCallerError = saysNotAllowed } = this.#settings;
    try {
      const isCallers: unknown = isCallerError(error, coordinate);
      // An asynchronous function returns a promise, which would count for every error.
      ignoreRejection(isCallers);
      return isCallers === true;
    } catch {
      return false;
    }
  }

  /** An error in the user's function must not take the place of that of the source. */
  #isSourceFailure(error: unknown, coordinate: string): boolean {
    const { isSourceFailure = saysSourceFailed } = this.#settings;
    try {
      const isFailure: unknown = isSourceFailure(error, coordinate);
      // An asynchronous function returns a promise, which answers too late.
      ignoreRejection(isFailure);
      return isFailure !== false;
    } catch {
      return true;
    }
  }

  /**
   * Disables the AsyncLocalStorage when the last load ends: in Node.js 20 and 22, an enabled one
   * slows down every promise of the process.
   */
  #onEnd(): void {
    this.#running--;
    if (this.#running === 0) disableStorage(this.#nesting);
  }

  #finish(
    request: ReadRequest,
    value: unknown,
    settings: OwnSettings | undefined,
    loadMs: number,
    enclosing: SingleLoad,
    { isUncacheable, waiters }: LoadStart,
  ): Loaded {
    const { coordinate } = request.key;
    const subject = subjectOf(request.key);
    this.#callerErrors.endSeries(request.key);
    this.#channel.publish({ name: "load.finished", ...subject, loadMs });
    const unchanged = settings?.unchanged;
    const excess = excessOf(request, enclosing);
    const isNarrowed = excess?.kind === "unkeyable" && excess.isNarrowed === true;
    if (isNarrowed) enclosing.outer?.readPrivate(coordinate);
    const ownHint = isNarrowed ? { ...request.hintOf?.(), scope: "PRIVATE" as const } : request.hintOf?.();
    const hint = unchanged?.hint === undefined ? ownHint : { ...unchanged.hint, ...ownHint };
    const result = { hint, settings, loadMs };
    if (excess?.kind === "unkeyable") this.#channel.publish({ name: "value.refused", ...subject, error: excess.error });
    if (excess !== undefined) return new LoadedValue(value, undefined, excess.kind, result);
    // It was read from the store, so it can be stored.
    if (unchanged !== undefined) return new LoadedValue(value, unchanged.content, undefined, result);
    // Only if others want it, and at once: the source, or the caller, can go on to change the value.
    const contentForCopies = (): Encoded | undefined =>
      waiters.count > 1 || request.ending?.isShared === true ? this.#contentForCopies(value) : undefined;
    if (isUncacheable === true) return new LoadedValue(value, contentForCopies(), undefined, result);
    let content: Encoded | undefined;
    let refusal: Refusal | undefined;
    try {
      content = this.#packing.encode(value, this.#packing.maxValueBytes);
      refusal = this.#refusalOf(request, value, content);
    } catch (cause) {
      if (cause instanceof TooLarge) {
        this.#reportTooLarge(request, "more");
        return new LoadedValue(value, contentForCopies(), "too-large", result);
      }
      refusal = "unserializable";
      const isKnown = cause instanceof Unstorable;
      const actual = isKnown ? cause.message : "a value that the codec could not encode";
      const remedy =
        (isKnown ? cause.remedy : undefined) ?? "return plain data, or declare the class in createCache({ types })";
      this.#reportRefused(
        request,
        "CACHED_VALUE_UNSERIALIZABLE",
        `expected plain data, Date, BigInt, Map, Set or Buffer, got ${actual}; ${remedy}`,
        cause,
      );
    }
    // Nobody may get a copy that differs.
    return new LoadedValue(value, refusal === "unserializable" ? undefined : content, refusal, result);
  }

  /** Encodes a value that is not stored, whatever its size. Undefined if it cannot be encoded. */
  #contentForCopies(value: unknown): Encoded | undefined {
    try {
      return this.#packing.encode(value);
    } catch {
      return undefined;
    }
  }

  #reportTooLarge(request: ReadRequest, actual: string): void {
    const { maxValueBytes } = this.#packing;
    const what = `expected at most ${maxValueBytes} bytes, got ${actual}; return less data, or raise \`maxValueBytes\``;
    this.#reportRefused(request, "CACHED_VALUE_TOO_LARGE", what);
  }

  /** Returns why a value is not stored although it can be encoded, and reports it. */
  #refusalOf(request: ReadRequest, value: unknown, content: Encoded): Refusal | undefined {
    const bytes = this.#packing.excessBytes(content);
    if (bytes !== undefined) {
      this.#reportTooLarge(request, String(bytes));
      return "too-large";
    }
    const mistake = request.validator?.mistakeInLoaded(value, () => this.#packing.decode(content), request);
    if (mistake === undefined) return undefined;
    if (mistake.isRestored) {
      this.#reportRefused(
        request,
        "CACHED_VALUE_UNSERIALIZABLE",
        `expected a value that has the same types when it is restored, got ${mistake.what}; let resolveType and isTypeOf decide by the data, such as \`__typename\``,
      );
      return "unserializable";
    }
    this.#reportRefused(
      request,
      "CACHED_VALUE_INVALID",
      `expected a value that matches the schema, got ${mistake.what}; correct the resolver, or the type in the schema`,
    );
    return "invalid";
  }

  #reportRefused({ key }: ReadRequest, code: ErrorCode, what: string, cause?: unknown): void {
    const { coordinate } = key;
    const message = `\`${coordinate}\`: the value is not cached: ${what}`;
    const error = new CachedError(code, message, cause === undefined ? { coordinate } : { coordinate, cause });
    this.#channel.publish({ name: "value.refused", ...subjectOf(key), error });
  }

  /** Calls `expire` when the time is over. */
  #withinTimeLimit(load: Promise<Loaded>, coordinate: string, expire: () => void): Promise<Loaded> {
    const { loadTimeoutMs } = this.#settings;
    const otherwise = (): Loaded => {
      const error = new CachedError(
        "CACHED_LOAD_TIMEOUT",
        `\`${coordinate}\`: expected the load to finish within ${loadTimeoutMs} ms, but it is still running; speed up the source, or raise \`loadTimeoutMs\``,
        { coordinate },
      );
      expire();
      return {
        kind: "failed",
        error,
        refusal: undefined,
        loadMs: loadTimeoutMs,
        isCallersOwn: false,
        isSourceFailure: true,
      };
    };
    return within(this.#clock, load, { ms: loadTimeoutMs, otherwise });
  }
}

/** Returns how large the content of a value is that has been encoded, in bytes or characters. */
const encodedBytesOf = (loaded: Loaded): number => (loaded.kind === "loaded" ? (loaded.content?.length ?? 0) : 0);

type ReadPrevious = () => Promise<PreviousValue | undefined>;

/** Throws if the context has another identity, or other values in the key or the tags, than when the request was made. */
function checkUnchanged(request: ReadRequest): void {
  const change = request.changed?.();
  if (change !== undefined) throw change;
}

/** Returns in what way a load that has ended depends on more than its key. */
function excessOf(request: ReadRequest, { privateCoordinate }: SingleLoad): Excess | undefined {
  const { policy, key } = request;
  if (privateCoordinate === undefined || policy.scope === "PRIVATE") return request.excess?.();
  const { coordinate } = key;
  const error = new CachedError(
    "CACHED_SCOPE_NARROWED",
    `\`${coordinate}\`: the value is not cached: expected the load of a PUBLIC value to read PUBLIC values only, got a read of \`${privateCoordinate}\`, which is PRIVATE; set scope: PRIVATE, or do not read it there`,
    { coordinate },
  );
  return { kind: "unkeyable", isNarrowed: true, error };
}

const NONE: ReadonlySet<string> = new Set();
const NO_SIGNALS: CallSignals = { request: [], execution: undefined };
