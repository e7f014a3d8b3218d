import type { Key } from "../keys/key.js";
import type { TagVersion } from "../store/store.js";
import type { Loaded } from "./loaded.js";
import type { ReadRequest } from "./request.js";

/** A load that runs in this process under a lease. */
export interface InFlightLoad {
  /** The request that won the lease. */
  readonly request: ReadRequest;
  /** The versions of the tags known before the load, as read before it. */
  readonly tagVersions: readonly TagVersion[];
  readonly gen: string;
  readonly token: string;
  /** On the store's clock. */
  readonly grantedAt: number;
  /** On the clock of this process. */
  readonly startedAt: number;
  /** What readers get. Never rejects. */
  readonly loaded: Promise<Loaded>;
  /**
   * Whether the store accepted the value: false if it was invalidated during the load. Never
   * rejects.
   */
  readonly stored: Promise<boolean>;
}

/**
 * The loads of this process by lease chain.
 *
 * A reader may join a load only if the store has just shown it the load's `gen`. An invalidation
 * ends the chain, so a reader that starts later sees another gen or none, and never gets a value
 * from before the invalidation (P3).
 */
export class InFlightLoads {
  readonly #byGen = new Map<string, InFlightLoad>();

  add(inFlight: InFlightLoad): void {
    this.#byGen.set(inFlight.gen, inFlight);
  }

  remove(inFlight: InFlightLoad): void {
    if (this.#byGen.get(inFlight.gen) === inFlight) this.#byGen.delete(inFlight.gen);
  }

  /**
   * Returns the load that holds the lease chain `gen`, which the store has shown under the reader's
   * own signature. The key is compared as well: if a client mixes up replies, a reader must not
   * join the load of another key.
   */
  find(gen: string, key: Key): InFlightLoad | undefined {
    const inFlight = this.#byGen.get(gen);
    return inFlight?.request.key.input === key.input ? inFlight : undefined;
  }
}
