import type { Entry } from "../../store/entry.js";
import { subjectOf } from "../../telemetry/channel.js";
import type { BypassReason, ReadOutcome } from "../../telemetry/events.js";
import { type DecodedValue, decodeFailure } from "../entry/entry-decoder.js";
import type { Thrown } from "../entry/failure.js";
import type { Leases } from "../lease/leases.js";
import type { LoadSharing } from "../lease/load-sharing.js";
import type { SettlementParts } from "../lease/settlement.js";
import { errorOf, freshMsOf, isUnshareable, type Loaded, type LoadedValue } from "../request/loaded.js";
import type { DecodedHolder, ReadEnding, ReadRequest } from "../request/request.js";
import { Served, type ServedValue } from "../request/served-report.js";
import type { ValueDecoder } from "../request/value-decoder.js";
import { type Caller, Waiters } from "../request/waiters.js";

/** How a read ends: with a value that is stored or loaded, a bypass or an error; reported once. */
export class Responder {
  /** `onPermitted`: called if a load shows that its caller is not one for whom the loads fail. */
  constructor(
    private readonly parts: ResponderParts,
    private readonly onPermitted: (request: ReadRequest, loadMs: number) => void,
  ) {}

  /**
   * Returns another value for `request`, whose key was read before: a copy of the value that the
   * first reader gets as `result`, or a value of its own if that value cannot be copied or belongs
   * to the first reader alone. Rejects with the error that the first reader gets, unless that is
   * the error of such a load. Without `result`, `first` has an entry.
   */
  async respondAgain(request: ReadRequest, first: ReadEnding, result: Promise<unknown> | undefined): Promise<unknown> {
    const { loads, decoder } = this.parts;
    const loadOf = ({ origin }: ReadEnding): Loaded | undefined =>
      origin !== undefined && "kind" in origin ? origin : undefined;
    const value = await result?.catch((error: unknown) => {
      const loaded = loadOf(first);
      if (loaded === undefined) throw error;
      if (!isUnshareable(loaded, request)) throw loaded.kind === "failed" ? errorOf(loaded, false) : error;
    });
    const loaded = loadOf(first);
    const { origin, hint } = first;
    if (loaded !== undefined && isUnshareable(loaded, request)) return this.bypass(request, "UNCACHEABLE", false);
    if (hint !== undefined) request.onHint?.(hint);
    if (result !== undefined && ((typeof value !== "object" && typeof value !== "function") || value === null)) {
      if (loaded?.kind === "loaded") loads.parents?.compare(loaded, request);
      return value;
    }
    let copy: unknown = UNCOPIED;
    if (loaded?.kind === "loaded" && loaded.content !== undefined) copy = this.#copyOf(request, loaded);
    else if (origin !== undefined && !("kind" in origin)) {
      const isValueShared = request.policy.readOnly === true && result !== undefined;
      const decoded = isValueShared ? undefined : decoder.decode(request, origin, first);
      if (decoded?.kind === "value") copy = decoded.value;
      else if (isValueShared && decoder.isValid(request, value)) copy = value;
    }
    return copy === UNCOPIED ? this.bypass(request, "UNCACHEABLE", false) : copy;
  }

  /** `value`: undefined if the load has failed. */
  reportServed(
    request: ReadRequest,
    outcome: Exclude<ReadOutcome, "bypassed">,
    freshForMs: number,
    ageMs: number,
    value?: ServedValue,
  ): void {
    const { coordinate } = request.key;
    const { tags } = request;
    // Its load has added some.
    const hasMoreTags =
      value !== undefined && "subjects" in value && !tags.subjectsOf && value.subjects.length > tags.subjects.length;
    if (hasMoreTags) this.parts.leases.taggedByLoads.add(coordinate);
    if (request.caller !== undefined && isReported(request.caller)) return;
    this.parts.channel.served(coordinate, request.key, outcome);
    const hint = value?.hint;
    if (hint !== undefined && request.ending !== undefined) request.ending.hint = hint;
    request.onRead?.(new Served(request, outcome, freshForMs, ageMs, value));
  }

  /** Gives the value to requests that share a miss: `decoded` to the first, copies to others. */
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
      const own = unused ?? this.parts.decoder.decode(request, entry, others);
      unused = undefined;
      if (own.kind !== "value") return this.bypass(request, own.kind === "collision" ? "KEY_COLLISION" : "UNCACHEABLE");
      request.ending?.endWith(entry);
      this.reportServed(request, outcome, freshForMs, ageMs, own.parts);
      return own.value;
    };
  }

  /**
   * Returns the value of a load, or rejects with its error. A request that joined a load whose
   * result is another reader's, such as a generator, gets a value of its own.
   */
  respondLoaded(request: ReadRequest, loaded: Loaded, outcome: "loaded" | "coalesced", isSoft = false): unknown {
    if (outcome === "coalesced" && isUnshareable(loaded, request)) return this.bypass(request, "UNCACHEABLE", false);
    const isOwn = outcome === "loaded";
    if (loaded.kind === "failed") {
      this.reportServed(request, outcome, 0, 0);
      return this.#valueOf(request, loaded, isOwn);
    }
    const value = this.#valueOf(request, loaded, isOwn);
    if (value === UNCOPIED) return this.bypass(request, "UNCACHEABLE", false);
    const freshForMs = isSoft ? 0 : freshMsOf(request.policy, loaded) - loaded.loadMs;
    this.reportServed(request, isSoft ? "stale" : outcome, freshForMs, loaded.loadMs, loaded);
    return value;
  }

  /** Rejects with the error of a failure in the store. If it has no copy of the error, loads. */
  respondFailedElsewhere(request: ReadRequest, description: Uint8Array): Promise<unknown> {
    const failure = decodeFailure(description, request.key, this.parts);
    if (failure === undefined) return this.bypass(request, "STORE_UNAVAILABLE");
    const { id, thrown } = failure;
    if (thrown === undefined)
      return this.bypass(request, "UNCACHEABLE", true, (forOthers) =>
        this.parts.failures.catch(id, forOthers, request.key),
      );
    this.reportServed(request, "coalesced", 0, 0);
    return Promise.reject(thrown.error as Error);
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
    const { loads, clock, sharing } = this.parts;
    const caller = loads.callerOf(request);
    if (caller?.hasLeft === true) return this.respondAborted(request, caller.reason);
    this.#reportBypassed(request, reason);
    const isUnshared = loads.callerErrors.isUnshared(request.key);
    const isUncacheable = reason === "UNCACHEABLE" && !isUnshared;
    const begin = async (waiters: Waiters): Promise<Loaded> => {
      const loaded = await loads.run(request, { isRefresh: false, waiters, isUncacheable }).limited;
      if (loaded.kind === "failed" && !loaded.isCallersOwn) onFailed?.(loaded.forOthers ?? null);
      return loaded;
    };
    // A load that asks for its own key would wait for itself.
    const isAlone = !isShareable || reason === UNSHARED || isUnshared || loads.isInside(request.key);
    if (!isAlone) {
      const askedAt = clock.now();
      const shared = await sharing.share(request, loads.isEnclosing, begin);
      this.reportWait(request, shared, clock.now() - askedAt);
      const isOwn = shared.request === request;
      const isShared = isOwn || !isUnshareable(shared.loaded, request);
      const value = isShared ? this.#valueOfBypass(request, shared.loaded, isOwn) : UNCOPIED;
      if (value !== UNCOPIED) return value;
    }
    const loaded = await begin(Waiters.of(caller));
    if (isUnshared && loaded.kind === "loaded" && loaded.refusal === undefined)
      this.onPermitted(request, loaded.loadMs);
    return this.#valueOfBypass(request, loaded, true);
  }

  /** Reports that `request` has waited, unless it was for its own load. */
  reportWait(request: ReadRequest, { request: awaited, gen }: AwaitedLoad, waitMs: number): void {
    if (awaited === request) return;
    const { channel } = this.parts;
    const { coordinate } = request.key;
    channel.waited(coordinate, request.key, waitMs, awaited !== "elsewhere");
    const load = awaited === "elsewhere" ? undefined : awaited.trace?.load;
    if (request.trace !== undefined)
      channel.tracing?.waited({ coordinate, waitMs, parent: request.trace.parent, load, gen });
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

  respondAborted(request: ReadRequest, reason: unknown): Promise<never> {
    this.#reportBypassed(request, "ABORTED");
    return Promise.reject(reason as Error);
  }

  respondNull(request: ReadRequest): null {
    this.#reportBypassed(request, "DOES_NOT_EXIST");
    return null;
  }

  #reportBypassed(request: ReadRequest, reason: BypassReason): void {
    if (request.caller !== undefined && isReported(request.caller)) return;
    this.parts.channel.publish({ name: "resolver.bypassed", ...subjectOf(request.key), reason });
    request.onRead?.({ outcome: "bypassed", isPrivate: request.policy.scope === "PRIVATE", reason });
  }

  /** Throws a failed load's error. `isOwn`: may have the source's own object, not a copy. */
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
    if (!isOwn) this.parts.loads.parents?.compare(loaded, request);
    if (content === undefined) return value;
    const isOnly = isOwn && request.policy.readOnly !== true;
    const copy = isOnly ? undefined : this.parts.decoder.copierOf(request, content);
    try {
      if (copy === undefined) return this.parts.packing.decode(content);
      loaded.decoded ??= { value: this.parts.packing.decode(content) };
      return copy(loaded.decoded.value);
    } catch {
      // A custom codec whose `decode` throws must not fail the load. Reading the entry reports it.
      return isOwn ? value : UNCOPIED;
    }
  }
}

/**
 * The outcome of a miss. Called once for each request that shares it: reports how that was served,
 * and returns a value of its own, or a promise of one. Fails with an error of the source only.
 */
export type Respond = (request: ReadRequest) => unknown;

/** The load that a request has waited for: that of a request of this process, or another's. */
export interface AwaitedLoad {
  readonly request: ReadRequest | "elsewhere";
  /** The id of its lease chain. */
  readonly gen?: string | undefined;
}

/** A field may be off because its key is wrong, so its readers must not share anything. */
const UNSHARED: BypassReason = "MODE_OFF";

const UNCOPIED = Symbol("uncopied");

interface ResponderParts extends Pick<SettlementParts, "clock" | "channel" | "packing" | "failures" | "loads"> {
  readonly decoder: ValueDecoder;
  readonly sharing: LoadSharing;
  readonly leases: Leases;
}

/** Whether the outcome of a read has been reported before, when its caller left. */
function isReported(caller: Caller): boolean {
  const { isReported } = caller;
  caller.isReported = true;
  return isReported;
}
