import DataLoader from "dataloader";
import type { ReadThrough } from "../tier/read-through.js";
import type { ReadRequest } from "../tier/request.js";

/**
 * The DataLoader over all cached fields of one request: each key is read once per request, and all
 * keys of one tick are read together. DataLoader settles a batch as a whole, so the batch function
 * returns as soon as the store has been read, with a promise in the place of each pending value: a
 * hit never waits for the load of another key.
 */
export class FieldLoader {
  readonly #loader: DataLoader<ReadRequest, unknown, string>;
  readonly #tier: ReadThrough;

  constructor(tier: ReadThrough) {
    this.#tier = tier;
    this.#loader = new DataLoader((requests) => tier.readMany(requests), { cacheKeyFn: ({ key }) => key.name });
  }

  /**
   * Rejects only with the error of a load. A load that asks for its own key goes to the source: the
   * memoized promise is the one that waits for this load.
   */
  read(request: ReadRequest): Promise<unknown> {
    if (this.#tier.isInsideOwnLoad(request)) return this.#readUnmemoized(request);
    return this.#loader.load(request);
  }

  async #readUnmemoized(request: ReadRequest): Promise<unknown> {
    return (await this.#tier.readMany([request]))[0];
  }

  /**
   * Forgets everything this request has read, so that reads after a write in the same request see
   * its effect.
   */
  clear(): void {
    this.#loader.clearAll();
  }
}
