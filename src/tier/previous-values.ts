import type { Clock } from "../clock.js";
import type { Packing } from "../codec/packing.js";
import type { Reading, Store } from "../store/store.js";
import type { ControlRecord } from "./control-record.js";
import { type Freshness, freshnessOf, prepareFor, UNPREPARED } from "./freshness.js";
import type { InvalidationClock } from "./invalidation-clock.js";
import type { ReadRequest } from "./request.js";
import type { Responder } from "./responder.js";
import type { PreviousValue } from "./result-control.js";
import { TickBatch } from "./tick-batch.js";

/** The parts that `PreviousValues` uses. */
export interface PreviousValueParts {
  readonly store: Store;
  readonly control: ControlRecord;
  readonly invalidations: InvalidationClock;
  readonly clock: Clock;
  readonly packing: Packing;
  readonly responder: Responder;
}

/** A value in any of these states can be revalidated. */
const REVALIDATABLE: readonly (Freshness | undefined)[] = [
  "fresh",
  "stale-while-revalidate",
  "stale-if-error",
  "stale-backoff",
];

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
    const { responder } = this.#parts;
    try {
      const reading = await this.#reads.add(request);
      if (reading.kind === "failed" || reading.entry?.gen !== gen || reading.entry.state !== "value") return undefined;
      if (!REVALIDATABLE.includes(freshnessOf(request, { reading }, this.#parts))) return undefined;
      const decoded = responder.decodePrevious(request, reading.entry);
      if (decoded.kind !== "value" || responder.tagsStateOf(request, reading.entry, decoded) === "changed")
        return undefined;
      return decoded;
    } catch {
      // The store reports its failures itself.
      return undefined;
    }
  }

  async #read(requests: readonly ReadRequest[]): Promise<readonly Reading[]> {
    const { store, clock } = this.#parts;
    const sentAt = clock.now();
    const keys = requests.map(({ key }) => key);
    const read = await store.read(keys.map(({ name }) => name));
    if (!(await prepareFor(read, keys, sentAt, this.#parts))) throw new Error(UNPREPARED);
    return read.readings;
  }
}
