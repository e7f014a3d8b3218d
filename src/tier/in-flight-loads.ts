import type { Key } from "../keys/key.js";
import type { TagVersion } from "../store/store.js";
import type { Loaded } from "./loads.js";
import type { ReadRequest } from "./request.js";

/** A load of this process, under a lease. */
export interface InFlightLoad {
  /** The request that won the lease. */
  readonly request: ReadRequest;
  /** Of the tags known before the load, as read before it. */
  readonly tagVersions: readonly TagVersion[];
  readonly gen: string;
  readonly token: string;
  /** On the store's clock. */
  readonly grantedAt: number;
  /** On this process's clock. */
  readonly startedAt: number;
  /** What readers get. Never rejects. */
  readonly loaded: Promise<Loaded>;
  /** Whether the store took it: false if it was invalidated meanwhile. Never rejects. */
  readonly stored: Promise<boolean>;
}

/**
 * The loads of this process, by lease chain.
 * A reader may join a load only if the store has just shown him its `gen`: an invalidation ends the chain, so whoever reads after it finds
 * another gen or none, and does not get a value from before.
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
   * The load that holds the lease chain `gen`, which the store has shown under the reader's own signature. It has to be one of the reader's key: a store
   * that mixes replies up must not have him join another's.
   */
  find(gen: string, key: Key): InFlightLoad | undefined {
    const inFlight = this.#byGen.get(gen);
    return inFlight?.request.key.input === key.input ? inFlight : undefined;
  }
}
