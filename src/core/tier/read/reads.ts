import type { Policy } from "../../policy/policy.js";
import type { NearCache, NearKey } from "../near/near-cache.js";
import type { NearValue } from "../near/near-entries.js";
import type { ReadEnding, ReadReport, ReadRequest } from "../request/request.js";
import { verdictOf } from "../request/verdict.js";
import type { Loads } from "../source/loads.js";
import { Hits } from "./hit.js";
import type { ReadParts } from "./read-parts.js";

/** All ways to read: through the store (`hit.ts`), from the near cache, and without a load. */
export class Reads extends Hits {
  /** Whether there is a near cache. */
  readonly hasNear: boolean;
  readonly loads: Loads;
  readonly #parts: ReadParts;

  constructor(parts: ReadParts) {
    super(parts);
    this.hasNear = parts.near !== undefined;
    this.loads = parts.loads;
    this.#parts = parts;
  }

  /** The number of readers that wait for a load. */
  get waitingReaders(): number {
    return this.misses.waitingReaders;
  }

  /** Returns whether values like that of the request have tags derived from them. */
  hasResultTags({ key, tags }: ReadRequest): boolean {
    return tags.subjectsOf !== undefined || this.#parts.leases.isTaggedByLoads(key.coordinate);
  }

  /**
   * Returns what the near cache has of an entry, synchronously and without a request, for a caller who
   * wants a fresh value. Undefined if the store has to be read.
   */
  near(names: NearKey, policy: Policy): NearValue | undefined {
    const { loads, near, unconfirmed } = this.#parts;
    if (near === undefined) return undefined;
    if (!this.modes.isUnrestricted && this.restrictionOf(names.key) !== undefined) return undefined;
    // What a load reads is stored with its value, also where nothing is outdated for as long as in a near cache.
    if (loads.isEnclosing || unconfirmed.has(names.key, names.tags)) return undefined;
    return near.get(names, policy);
  }

  /** Returns a promise of a value of the near cache, the same for all readers. */
  nearPromise(value: NearValue): Promise<unknown> {
    return (this.#parts.near as NearCache).promiseOf(value);
  }

  /** Returns how a value of the near cache was served. */
  nearReport(value: NearValue, policy: Policy): ReadReport {
    return (this.#parts.near as NearCache).reportOf(value, policy);
  }

  /** Returns whether GraphQL accepts what the near cache has for a request. Forgets and reports it if not. */
  acceptsNear(request: ReadRequest, { value }: NearValue): boolean {
    if (this.#parts.decoder.isValid(request, value)) return true;
    this.#parts.near?.drop(request.key.name);
    return false;
  }

  /**
   * Returns the fresh value of a request, read together with all others of the tick. Undefined if
   * there is none; never loads.
   */
  async peek(request: ReadRequest): Promise<unknown> {
    if (this.bypassReasonOf(request) !== undefined) return undefined;
    const { reading } = await this.readResultOf(request);
    const { responder } = this.#parts;
    const verdict = verdictOf(request, reading, this.#parts);
    if (verdict.kind !== "serve" || verdict.freshness !== "fresh" || reading.kind === "failed") return undefined;
    const { entry, decoded } = verdict;
    const [freshForMs, ageMs] = [entry.freshUntilAt - reading.now, reading.now - entry.grantedAt];
    responder.reportServed(request, "hit", freshForMs, ageMs, decoded);
    return decoded.value;
  }

  /**
   * Returns another value for `request`, whose key was read before with `result`, or with what `first` says: a copy, or
   * a value of its own if the value cannot be copied or belongs to the first reader alone.
   */
  readAgain(request: ReadRequest, first: ReadEnding, result: Promise<unknown> | undefined): Promise<unknown> {
    return this.#parts.responder.respondAgain(request, first, result);
  }

  /** See `Misses.refill`. */
  refill(request: ReadRequest, loadMs: number): void {
    if (!this.isClosed) this.misses.refill(request, loadMs);
  }

  /** Keeps the load of `request` from waiting for a slot, since a caller inside another load waits for `read`. */
  expedite({ key }: Pick<ReadRequest, "key">, read: Promise<unknown>): void {
    this.#parts.loads.expedite(key, read);
  }
}
