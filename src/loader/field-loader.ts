import type { Execution } from "../graphql-version.js";
import type { Reads } from "../tier/reads.js";
import type { ReadRequest } from "../tier/request.js";

/** A request with the promise of its value, once it has been read. */
export interface FieldRequest extends ReadRequest {
  result?: Promise<unknown> | undefined;
}

/**
 * What all cached fields of one execution read: each key once. Every reader of a key gets a value of its own,
 * since child resolvers may change their parent.
 */
export class FieldLoader {
  readonly execution: Execution;
  readonly #tier: Reads;
  /** The first request of each key. */
  readonly #firstOf = new Map<string, FieldRequest>();

  constructor(tier: Reads, execution: Execution) {
    this.#tier = tier;
    this.execution = execution;
  }

  /**
   * Rejects only with the error of a load. A load that asks for its own key goes to the source: the
   * first request of the key is the one that waits for this load.
   */
  read(request: FieldRequest): Promise<unknown> {
    const nesting = this.#tier.nestingOf(request);
    if (nesting === "own-load") return this.#tier.read(this, request, nesting);
    const { name } = request.key;
    const first = this.#firstOf.get(name);
    let value: Promise<unknown>;
    if (first === undefined) {
      this.#firstOf.set(name, request);
      value = this.#tier.read(this, request, nesting);
      request.result = value;
    } else value = this.#tier.readAgain(request, first, first.result);
    if (nesting === "other-load") this.#tier.expedite(request, value);
    return value;
  }

  /**
   * Forgets everything this request has read, so that reads after a write in the same request see
   * its effect.
   */
  clear(): void {
    this.#firstOf.clear();
  }
}
