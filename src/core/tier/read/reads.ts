import type { Memory } from "../memory/memory.js";
import type { ReadEnding, ReadRequest } from "../request/request.js";
import type { ValueDecoder } from "../request/value-decoder.js";
import { verdictOf } from "../request/verdict.js";
import type { Loads } from "../source/loads.js";
import { Hits } from "./hit.js";
import type { ReadParts } from "./read-parts.js";

/** All ways to read: through memory and the store (`hit.ts`), and without a load. */
export class Reads extends Hits {
  /** The values in memory. Undefined: none are kept. */
  readonly memory: Memory | undefined;
  readonly decoder: ValueDecoder;
  readonly loads: Loads;
  readonly #parts: ReadParts;

  constructor(parts: ReadParts) {
    super(parts);
    this.memory = parts.memory;
    this.decoder = parts.decoder;
    this.loads = parts.loads;
    this.#parts = parts;
  }

  /** The number of readers that wait for a load. */
  get waitingReaders(): number {
    return this.misses.waitingReaders;
  }

  /** See `InvalidationClock`. */
  get shownPosition(): number {
    return this.#parts.invalidations.shownPosition;
  }

  /** Returns whether values like that of the request have tags derived from them. */
  hasResultTags({ key, tags }: Pick<ReadRequest, "key" | "tags">): boolean {
    return tags.subjectsOf !== undefined || this.#parts.leases.taggedByLoads.has(key.coordinate);
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
   * Returns another value for `request`, whose key was read before with `result`, or with what
   * `first` says: a copy, or a value of its own if the value cannot be copied or belongs to the
   * first reader alone.
   */
  readAgain(request: ReadRequest, first: ReadEnding, result: Promise<unknown> | undefined): Promise<unknown> {
    return this.#parts.responder.respondAgain(request, first, result);
  }

  /** See `Misses.refill`. */
  refill(request: ReadRequest, loadMs: number): void {
    if (!this.isClosed) this.misses.refill(request, loadMs);
  }

  /**
   * Keeps the load of `request` from waiting for a slot, since a caller inside another load waits
   * for `read`.
   */
  expedite({ key }: Pick<ReadRequest, "key">, read: Promise<unknown>): void {
    this.#parts.loads.expedite(key, read);
  }
}
