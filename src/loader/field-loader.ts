import type { Execution } from "../graphql-version.js";
import type { EnclosingLoad } from "../tier/loads.js";
import type { Reads } from "../tier/reads.js";
import type { InvalidationCount } from "../tier/recent-invalidations.js";
import type { ReadRequest } from "../tier/request.js";
import { MemoInLoads } from "./memo-in-loads.js";

/** A request with the promise of its value, once it has been read. */
export interface FieldRequest extends ReadRequest {
  result?: Promise<unknown> | undefined;
  /** How many invalidations this process had made when the request was last compared with them. Undefined: never. */
  comparedAt?: number | undefined;
}

/**
 * What all cached fields of one execution read: each key once. Every reader of a key gets a value of its own,
 * since child resolvers may change their parent.
 */
export class FieldLoader {
  readonly execution: Execution;
  readonly #tier: Reads;
  readonly #invalidations: InvalidationCount;
  readonly #countAtStart: number;
  /** The first request of each key. */
  readonly #firstOf = new Map<string, FieldRequest>();
  /** The same for fields that loads of this execution ask for. Undefined until the first. */
  #firstInLoads: MemoInLoads<FieldRequest> | undefined;

  constructor(tier: Reads, invalidations: InvalidationCount, execution: Execution) {
    this.#tier = tier;
    this.#invalidations = invalidations;
    this.#countAtStart = invalidations.count;
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
    const first = nesting === "none" ? this.#firstOf.get(name) : this.#firstInLoad(name);
    let value: Promise<unknown>;
    if (first === undefined || this.#mayBeInvalidated(first)) {
      if (nesting === "none") this.#firstOf.set(name, request);
      else this.#rememberInLoad(request);
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
    this.#firstInLoads?.clear();
  }

  /** Whether this process has invalidated what a request has read, or may have, since it began. */
  #mayBeInvalidated(first: FieldRequest): boolean {
    const { count } = this.#invalidations;
    const since = first.comparedAt ?? this.#countAtStart;
    if (since === count) return false;
    first.comparedAt = count;
    return this.#invalidations.hasChangedSince(since, first.key, first.tags.names, this.#tier.hasResultTags(first));
  }

  #firstInLoad(name: string): FieldRequest | undefined {
    return this.#firstInLoads?.get(name, this.#tier.enclosingLoad() as EnclosingLoad)?.value;
  }

  #rememberInLoad(request: FieldRequest): void {
    const load = this.#tier.enclosingLoad() as EnclosingLoad;
    this.#firstInLoads ??= new MemoInLoads();
    this.#firstInLoads.set(request.key.name, request, load, this.#tier.loadStarts);
  }
}
