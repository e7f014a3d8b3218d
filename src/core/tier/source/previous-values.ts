import type { Clock } from "../../base/clock.js";
import type { Entry } from "../../store/entry.js";
import type { Reading, Store } from "../../store/store.js";
import type { Decoded } from "../entry/entry-decoder.js";
import type { ReadRequest } from "../request/request.js";
import type { PreviousValue } from "../request/result-control.js";
import type { ValueDecoder } from "../request/value-decoder.js";
import {
  fallbackOf,
  type KnownInvalidations,
  prepareFor,
  UNPREPARED,
  type VerdictParts,
  verdictOf,
} from "../request/verdict.js";
import { TickBatch } from "../tick/tick-batch.js";

/** The parts that `PreviousValues` uses. */
export interface PreviousValueParts extends KnownInvalidations, VerdictParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly decoder: ValueDecoder;
}

/**
 * Reads the values that running loads replace, when the loads ask for them.
 *
 * The entry is read again rather than kept from before the load. If it still shows the lease chain of
 * the load and its tags are current, it has not been invalidated since, other than softly; and the
 * value is the one that storing under this chain replaces.
 */
export class PreviousValues {
  readonly #parts: PreviousValueParts;
  readonly #reads: TickBatch<ReadRequest, Reading>;

  constructor(parts: PreviousValueParts) {
    this.#parts = parts;
    this.#reads = new TickBatch(parts.clock, (requests) => this.#read(requests));
  }

  /**
   * Returns the value of the entry that has the lease chain `gen`. Undefined if it has none that could
   * be served, or if that is unknown. Never rejects.
   */
  async read(request: ReadRequest, gen: string): Promise<PreviousValue | undefined> {
    const { decoder } = this.#parts;
    try {
      const reading = await this.#reads.add(request);
      if (reading.kind === "failed" || reading.entry?.gen !== gen || reading.entry.state !== "value") return undefined;
      const decode = (entry: Entry): Decoded => decoder.decodePrevious(request, entry);
      const verdict = verdictOf(request, reading, this.#parts, decode);
      if (verdict.kind === "serve") return verdict.decoded;
      return verdict.kind === "load" && verdict.freshness === "stale-if-error"
        ? fallbackOf(request, reading.entry, this.#parts, decode)
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
