import type { Key } from "../keys/key.js";
import type { Nonce } from "../store/store.js";
import type { Loaded } from "./loads.js";
import type { ReadRequest } from "./request.js";

/** A load of this process, under a lease. */
export interface Flight {
  /** The request that won the lease. */
  readonly request: ReadRequest;
  /** Of the tags known before the load, as read before it. */
  readonly nonces: readonly Nonce[];
  readonly gen: string;
  readonly token: string;
  /** On the store's clock. */
  readonly grantedAt: number;
  /** On this process's clock. */
  readonly startedAt: number;
  /** What readers get. Never rejects. */
  readonly loaded: Promise<Loaded>;
  /** Whether the store took it: false if it was invalidated meanwhile. Never rejects. */
  readonly isKept: Promise<boolean>;
}

/**
 * The loads of this process, by lease chain.
 * A reader may join a load only if the store has just shown him its `gen`: an invalidation ends the chain, so whoever reads after it finds
 * another gen or none, and does not get a value from before.
 */
export class Flights {
  readonly #byGen = new Map<string, Flight>();

  add(flight: Flight): void {
    this.#byGen.set(flight.gen, flight);
  }

  remove(flight: Flight): void {
    if (this.#byGen.get(flight.gen) === flight) this.#byGen.delete(flight.gen);
  }

  /**
   * The load that holds the lease chain `gen`, which the store has shown under the reader's own signature. It has to be one of the reader's key: a store
   * that mixes replies up must not have him join another's.
   */
  find(gen: string, key: Key): Flight | undefined {
    const flight = this.#byGen.get(gen);
    return flight?.request.key.echo === key.echo ? flight : undefined;
  }
}
