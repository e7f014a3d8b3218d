import DataLoader from "dataloader";
import type { Reads } from "../tier/reads.js";
import type { ReadRequest } from "../tier/request.js";

/** A request with the promise of its value, once it has been read. */
export interface FieldRequest extends ReadRequest {
  result?: Promise<unknown> | undefined;
}

/**
 * The DataLoader over all cached fields of one request: each key is read once per request, and all
 * keys of one tick are read together. DataLoader settles a batch as a whole, so the batch function
 * returns as soon as the store has been read, with a promise in the place of each pending value: a
 * hit never waits for the load of another key.
 *
 * Every reader of a key gets a value of its own, since child resolvers may change their parent.
 * DataLoader memoizes promises, which would share one object, so the memo is kept here.
 */
export class FieldLoader {
  readonly #tier: Reads;
  readonly #loader: DataLoader<ReadRequest, unknown>;
  /** The first request of each key. */
  readonly #firstOf = new Map<string, FieldRequest>();

  constructor(tier: Reads) {
    this.#tier = tier;
    this.#loader = new DataLoader((requests) => tier.readMany(requests), { cache: false });
  }

  /**
   * Rejects only with the error of a load. A load that asks for its own key goes to the source: the
   * first request of the key is the one that waits for this load.
   */
  read(request: FieldRequest): Promise<unknown> {
    const nesting = this.#tier.nestingOf(request);
    if (nesting === "own-load") return this.#readOnce(request);
    const value = this.#readMemoized(request);
    if (nesting === "other-load") this.#tier.expedite(request, value);
    return value;
  }

  #readMemoized(request: FieldRequest): Promise<unknown> {
    const { name } = request.key;
    const first = this.#firstOf.get(name);
    if (first !== undefined) return this.#tier.readAgain(request, first, first.result);
    this.#firstOf.set(name, request);
    request.result = this.#loader.load(request);
    return request.result;
  }

  async #readOnce(request: ReadRequest): Promise<unknown> {
    return (await this.#tier.readMany([request]))[0];
  }

  /**
   * Forgets everything this request has read, so that reads after a write in the same request see
   * its effect.
   */
  clear(): void {
    this.#firstOf.clear();
  }
}
