import type { Clock } from "../../base/clock.js";
import type { Packing } from "../../codec/packing.js";
import type { Entry } from "../../store/entry.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import type { BypassReason, ReadOutcome } from "../../telemetry/events.js";
import { type DecodedValue, decodeFailure } from "../entry/entry-decoder.js";
import type { Failures, Thrown } from "../entry/failure.js";
import type { LoadSharing } from "../lease/load-sharing.js";
import { errorOf, freshMsOf, isUnshareable, type Loaded, type LoadedValue } from "../request/loaded.js";
import {
  type DecodedHolder,
  hasMoreTags,
  type ReadEnding,
  type ReadRequest,
  type Respond,
} from "../request/request.js";
import { reportWait, ServedReport, type ServedValue } from "../request/served-report.js";
import type { ValueDecoder } from "../request/value-decoder.js";
import { type Caller, Waiters } from "../request/waiters.js";
import type { Loads } from "../source/loads.js";

/**
 * The ways a read ends: with a value from an entry, the result of a load, a load that bypasses the
 * cache, or an error. Each reports its outcome once.
 */
export class Responder {
  readonly #parts: ResponderParts;

  constructor(parts: ResponderParts) {
    this.#parts = parts;
  }

  /**
   * Returns another value for `request`, whose key was read before: a copy of the value that the
   * first reader gets as `result`, or a value of its own if that value cannot be copied or belongs
   * to the first reader alone. Rejects with the error that the first reader gets, unless that is
   * the error of such a load. Without `result`, `first` has an entry.
   */
  async respondAgain(request: ReadRequest, first: ReadEnding, result: Promise<unknown> | undefined): Promise<unknown> {
    const belongsToFirst = (): boolean =>
      first.origin !== undefined && "kind" in first.origin && isUnshareable(first.origin, request);
    const value = await result?.catch((error: unknown) => {
      if (belongsToFirst()) return;
      throw first.origin !== undefined && "kind" in first.origin && first.origin.kind === "failed"
        ? errorOf(first.origin, false)
        : error;
    });
    const { origin } = first;
    if (belongsToFirst()) return this.bypass(request, "UNCACHEABLE", false);
    if (first.hint !== undefined) request.onHint?.(first.hint);
    const isPrimitive = (typeof value !== "object" || value === null) && typeof value !== "function";
    if (isPrimitive && result !== undefined) {
      if (origin !== undefined && "kind" in origin && origin.kind === "loaded")
        this.#parts.loads.parents?.compare(origin, request);
      return value;
    }
    if (origin !== undefined && !("kind" in origin)) {
      if (request.policy.readOnly === true && result !== undefined) {
        if (this.#parts.decoder.isValid(request, value)) return value;
      } else {
        // How many more readers there will be is not known, so none of them is the last.
        const decoded = this.#parts.decoder.decodeForMany(request, origin, first);
        if (decoded.kind === "value") return decoded.value;
      }
    } else if (origin?.kind === "loaded" && origin.content !== undefined) {
      const copy = this.#copyOf(request, origin);
      if (copy !== UNCOPIED) return copy;
    }
    return this.bypass(request, "UNCACHEABLE", false);
  }

  /**
   * Reports how a read ended: how long its value stays fresh, its age, and the value unless the
   * load has failed.
   */
  reportServed(
    request: ReadRequest,
    outcome: Exclude<ReadOutcome, "bypassed">,
    freshForMs: number,
    ageMs: number,
    value?: ServedValue,
  ): void {
    if (request.caller !== undefined && isReported(request.caller)) return;
    this.#parts.channel.served(request.key.coordinate, request.key, outcome);
    const hint = value?.hint;
    if (hint !== undefined && request.ending !== undefined) request.ending.hint = hint;
    if (request.onRead !== undefined)
      request.onRead(new ServedReport(request.policy, request.tags, outcome, freshForMs, ageMs, value));
  }

  /**
   * Returns what gives the value of an entry to requests that share a miss: `decoded` to the first
   * one. For all others, which get copies, the entry is decoded once more.
   */
  shareDecoded(
    entry: Entry,
    decoded: DecodedValue,
    outcome: "hit" | "coalesced" | "staleIfError" | "stale",
    freshForMs: number,
    ageMs: number,
  ): Respond {
    let unused: DecodedValue | undefined = decoded;
    const others: DecodedHolder = {};
    return (request) => {
      const own = unused ?? this.#parts.decoder.decodeForMany(request, entry, others);
      unused = undefined;
      if (own.kind !== "value") return this.bypass(request, own.kind === "collision" ? "KEY_COLLISION" : "UNCACHEABLE");
      request.ending?.endWith(entry);
      if (hasMoreTags(request, own.parts.subjects)) this.#parts.onMoreTags(request.key.coordinate);
      this.reportServed(request, outcome, freshForMs, ageMs, own);
      return own.value;
    };
  }

  /**
   * Returns the value of a load, or rejects with its error. A request that joined a load whose
   * result belongs to another reader gets a value of its own: nothing else could be done with a
   * generator, for example.
   */
  respondLoaded(request: ReadRequest, loaded: Loaded, outcome: "loaded" | "coalesced", isSoft = false): unknown {
    if (outcome === "coalesced" && isUnshareable(loaded, request)) return this.bypass(request, "UNCACHEABLE", false);
    if (loaded.kind === "failed") {
      request.ending?.endWith(loaded);
      return this.respondFailed(request, errorOf(loaded, outcome === "loaded"), outcome);
    }
    const value = this.#valueOf(request, loaded, outcome === "loaded");
    if (value === UNCOPIED) return this.bypass(request, "UNCACHEABLE", false);
    const freshForMs = isSoft ? 0 : freshMsOf(request.policy, loaded) - loaded.loadMs;
    this.reportServed(request, isSoft ? "stale" : outcome, freshForMs, loaded.loadMs, loaded);
    return value;
  }

  /** Rejects with an error of the source, unchanged. */
  respondFailed(request: ReadRequest, error: unknown, outcome: "loaded" | "coalesced"): Promise<never> {
    this.reportServed(request, outcome, 0, 0);
    return Promise.reject(error as Error);
  }

  /**
   * Rejects with the error of a failure in the store. If it cannot be read, or has no copy of the
   * error, loads instead.
   */
  respondFailedElsewhere(request: ReadRequest, description: Uint8Array): Promise<unknown> {
    const failure = decodeFailure(description, request.key, this.#parts);
    if (failure === undefined) return this.bypass(request, "STORE_UNAVAILABLE");
    const { id, thrown } = failure;
    return thrown === undefined
      ? this.bypass(request, "UNCACHEABLE", true, (forOthers) => this.#parts.failures.catch(id, forOthers, request.key))
      : this.respondFailed(request, thrown.error, "coalesced");
  }

  /**
   * Bypasses the cache: loads without a lease and stores nothing. Rejects with an error of the
   * source only. Readers of this process share these loads as described in `load-sharing.ts`,
   * unless the value is known not to be shareable.
   */
  async bypass(
    request: ReadRequest,
    reason: BypassReason,
    isShareable = true,
    onFailed?: (forOthers: Thrown | null) => void,
  ): Promise<unknown> {
    const caller = this.#parts.loads.callerOf(request);
    if (caller?.hasLeft === true) return this.respondAborted(request, caller.reason);
    this.#reportBypassed(request, reason);
    const isUnshared = this.#parts.loads.callerErrors.isUnshared(request.key);
    const isUncacheable = reason === "UNCACHEABLE" && !isUnshared;
    const begin = async (waiters: Waiters): Promise<Loaded> => {
      const loaded = await this.#parts.loads.run(request, { isRefresh: false, waiters, isUncacheable }).limited;
      if (loaded.kind === "failed" && !loaded.isCallersOwn) onFailed?.(loaded.forOthers ?? null);
      return loaded;
    };
    const beginAlone = (): Promise<Loaded> => begin(Waiters.of(caller));
    const enclosingKeys = this.#parts.loads.enclosingKeys();
    // A load that asks for its own key would wait for itself.
    const isAlone = !isShareable || reason === UNSHARED || isUnshared;
    if (isAlone || enclosingKeys.has(request.key.name)) {
      const loaded = await beginAlone();
      if (isUnshared && loaded.kind === "loaded" && loaded.refusal === undefined)
        this.#parts.onPermitted(request, loaded.loadMs);
      return this.#valueOfBypass(request, loaded, true);
    }
    const askedAt = this.#parts.clock.now();
    const shared = await this.#parts.sharing.share(request, enclosingKeys.size > 0, begin);
    reportWait(request, shared, this.#parts.clock.now() - askedAt, this.#parts.channel);
    const isOwn = shared.request === request;
    const isShared = isOwn || !isUnshareable(shared.loaded, request);
    const value = isShared ? this.#valueOfBypass(request, shared.loaded, isOwn) : UNCOPIED;
    return value === UNCOPIED ? this.#valueOfBypass(request, await beginAlone(), true) : value;
  }

  /** The read has been reported before its load, so the hint of the load has not. */
  #valueOfBypass(request: ReadRequest, loaded: Loaded, isOwn: boolean): unknown {
    const hint = loaded.kind === "loaded" ? loaded.hint : undefined;
    if (hint !== undefined) {
      if (request.ending !== undefined) request.ending.hint = hint;
      // A load that only others know to be PRIVATE has not said so itself.
      if (!isOwn || loaded.refusal === "unkeyable") request.onHint?.(hint);
    }
    return this.#valueOf(request, loaded, isOwn);
  }

  /** Rejects with the reason for which the caller's request was aborted. Loads nothing. */
  respondAborted(request: ReadRequest, reason: unknown): Promise<never> {
    this.#reportBypassed(request, "ABORTED");
    return Promise.reject(reason as Error);
  }

  /** Returns null for a value that does not exist, without a load. */
  respondNull(request: ReadRequest): null {
    this.#reportBypassed(request, "DOES_NOT_EXIST");
    return null;
  }

  #reportBypassed(request: ReadRequest, reason: BypassReason): void {
    if (request.caller !== undefined && isReported(request.caller)) return;
    this.#parts.channel.publish({ name: "resolver.bypassed", ...subjectOf(request.key), reason });
    request.onRead?.({ outcome: "bypassed", isPrivate: request.policy.scope === "PRIVATE", reason });
  }

  /**
   * `isOwn`: whether it is the load of this request, which may have the source's own object.
   * Otherwise `UNCOPIED` if there is no copy for it.
   */
  #valueOf(request: ReadRequest, loaded: Loaded, isOwn: boolean): unknown {
    request.ending?.endWith(loaded);
    if (loaded.kind === "failed") throw errorOf(loaded, isOwn);
    return isOwn && loaded.refusal !== undefined ? loaded.value : this.#copyOf(request, loaded, isOwn);
  }

  /**
   * Returns a value with objects of its own, or the read-only value that all readers share. For all
   * but the caller that loaded it, who is often the only one, it is decoded once and copied, where
   * a copy is exact.
   */
  #copyOf(request: ReadRequest, loaded: LoadedValue, isOwn = false): unknown {
    const { content, value } = loaded;
    if (!isOwn) this.#parts.loads.parents?.compare(loaded, request);
    if (content === undefined) return value;
    const isOnly = isOwn && request.policy.readOnly !== true;
    const copy = isOnly ? undefined : this.#parts.decoder.copierOf(request, content);
    try {
      if (copy === undefined) return this.#parts.packing.decode(content);
      loaded.decoded ??= { value: this.#parts.packing.decode(content) };
      return copy(loaded.decoded.value);
    } catch {
      // A custom codec whose `decode` throws must not fail the load. Reading the entry reports it.
      return isOwn ? value : UNCOPIED;
    }
  }
}

/**
 * A field that is not on may be so because its key is wrong, so its readers must not share
 * anything.
 */
const UNSHARED: BypassReason = "MODE_OFF";

/** Stands for the copy of a value that could not be made. */
const UNCOPIED = Symbol("uncopied");

/** The parts that `Responder` uses. */
export interface ResponderParts {
  readonly clock: Clock;
  readonly channel: Channel;
  readonly packing: Packing;
  readonly decoder: ValueDecoder;
  readonly loads: Loads;
  readonly sharing: LoadSharing;
  readonly failures: Failures;
  /**
   * Called with a request whose load has shown that its caller is not one of those for whom the
   * loads of the key fail.
   */
  readonly onPermitted: (request: ReadRequest, loadMs: number) => void;
  /** Called if an entry of a coordinate has more tags than its requests know of. */
  readonly onMoreTags: (coordinate: string) => void;
}

/**
 * Returns whether the outcome of a read has been reported before. Happens if its caller has left,
 * but a result arrives nevertheless.
 */
function isReported(caller: Caller): boolean {
  const { isReported } = caller;
  caller.isReported = true;
  return isReported;
}
