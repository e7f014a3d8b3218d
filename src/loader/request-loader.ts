import DataLoader from "dataloader";
import type { ReadThrough } from "../tier/read-through.js";
import type { ReadRequest } from "../tier/request.js";

/**
 * The per-request DataLoader over every coordinate: a key is asked for once in a request, and all keys of a tick together. DataLoader settles a batch as
 * one, so the batch is done after the read; what is pending then is a promise in its place, and settles by itself: no hit waits for another key's load.
 */
export class RequestLoader {
  readonly #loader: DataLoader<ReadRequest, unknown, string>;

  constructor(tier: ReadThrough) {
    this.#loader = new DataLoader((requests) => tier.readMany(requests), { cacheKeyFn: ({ key }) => key.name });
  }

  /** Rejects with a load's error only. */
  read(request: ReadRequest): Promise<unknown> {
    return this.#loader.load(request);
  }

  /** Forgets what the request has read so far: after a write in the same request. */
  clear(): void {
    this.#loader.clearAll();
  }
}
