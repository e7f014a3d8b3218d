import type { Clock } from "../../base/clock.js";
import type { Packing } from "../../codec/packing.js";
import type { Reading, Store } from "../../store/store.js";
import type { ReadRequest } from "../request/request.js";
import type { PreviousValue } from "../request/result-control.js";
import type { ValueDecoder } from "../request/value-decoder.js";
import { fallbackOf, prepareFor, UNPREPARED, type VerdictParts, verdictOf } from "../request/verdict.js";
import type { InvalidationClock } from "../shared/invalidation-clock.js";
import type { UnconfirmedInvalidations } from "../shared/unconfirmed-invalidations.js";
import { TickBatch } from "../tick/tick-batch.js";

/**
 * Reads the values that running loads replace, when they ask for them. Only an entry that still shows the lease chain of the load, with current
 * tags, was not invalidated since, other than softly, and is what storing under this chain replaces.
 */
export class PreviousValues {
  readonly #parts: PreviousValueParts;
  readonly #previousParts: VerdictParts;
  readonly #reads: TickBatch<ReadRequest, Reading>;

  constructor(parts: PreviousValueParts) {
    this.#parts = parts;
    const { decoder } = parts;
    this.#previousParts = { ...parts, decoder: { decode: (request, entry) => decoder.decodePrevious(request, entry) } };
    this.#reads = new TickBatch(parts.clock, (requests) => this.#read(requests));
  }

  /** Undefined if the entry of this lease chain has no value that could be served, or if that is unknown. Never rejects. */
  async read(request: ReadRequest, gen: string): Promise<PreviousValue | undefined> {
    try {
      const reading = await this.#reads.add(request);
      if (reading.kind === "failed" || reading.entry?.gen !== gen || reading.entry.state !== "value") return undefined;
      const verdict = verdictOf(request, reading, this.#previousParts);
      if (verdict.kind === "serve") return verdict.decoded;
      return verdict.kind === "load" && verdict.freshness === "stale-if-error"
        ? fallbackOf(request, reading.entry, this.#previousParts)
        : undefined;
    } catch {
      // The store reports its failures itself.
      return undefined;
    }
  }

  async #read(requests: readonly ReadRequest[]): Promise<readonly Reading[]> {
    const read = await this.#parts.store.read(requests.map(({ key }) => key.name));
    if (!(await prepareFor(read, this.#parts))) throw new Error(UNPREPARED);
    return read.readings;
  }
}

export interface PreviousValueParts {
  readonly store: Store;
  readonly invalidations: InvalidationClock;
  readonly clock: Clock;
  readonly packing: Packing;
  readonly decoder: ValueDecoder;
  readonly unconfirmed: UnconfirmedInvalidations;
}
