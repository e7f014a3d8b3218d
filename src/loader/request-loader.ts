import DataLoader from "dataloader";
import type { ReadThrough } from "../tier/read-through.js";
import type { Answer, ReadRequest } from "../tier/request.js";

/** The per-request DataLoader over every coordinate: a key is asked for once in a request, and all keys of a tick together. */
export class RequestLoader {
  readonly #loader: DataLoader<ReadRequest, Answer, string>;

  constructor(tier: ReadThrough) {
    this.#loader = new DataLoader((requests) => tier.readMany(requests) as Promise<Answer[]>, {
      cacheKeyFn: ({ key }) => key.name,
    });
  }

  /** Rejects with a load's error only. */
  async read(request: ReadRequest): Promise<unknown> {
    return settledOf(await this.#loader.load(request));
  }

  /** Forgets what the request has read so far: after a write in the same request. */
  clear(): void {
    this.#loader.clearAll();
  }
}

/** DataLoader settles a batch as one; what is pending settles by itself here, so that no hit waits for another key's load. */
export const settledOf = (answer: Answer): unknown => (answer.kind === "settled" ? answer.value : answer.promise);
