import { CachedError } from "../base/errors.js";
import type { Entry } from "../store/entry.js";
import type { ResponseHint } from "../store/entry-layout.js";
import type { KnownRequest } from "../tier/read/hit.js";
import type { Reads } from "../tier/read/reads.js";
import type { Loaded } from "../tier/request/loaded.js";
import type { DecodedToShare, ReadEnding, ReadRequest, ReadResult } from "../tier/request/request.js";
import type { RequestTags } from "../tier/request/tags.js";
import type { Verdict } from "../tier/request/verdict.js";
import type { EnclosingLoad } from "../tier/request/waiters.js";
import type { InvalidationCount } from "../tier/shared/unconfirmed-invalidations.js";
import { MemoInLoads } from "./memo-in-loads.js";

/**
 * What all cached fields of one execution read: each key once, with a value for every reader, since
 * child resolvers may change their parent.
 */
export class FieldLoader {
  readonly #tier: Reads;
  readonly #limits: ExecutionLimits;
  #budget: ExecutionBudget | undefined;
  readonly #invalidations: InvalidationCount;
  readonly #countAtStart: number;
  readonly #firstOf: Map<string, FirstRead>;
  /** The same for fields that loads of this execution ask for. Made when it is needed. */
  #firstInLoads: MemoInLoads<FirstRead> | undefined;

  /** The number of the first read of the store that can be sent after it began. */
  readonly since: number;
  /**
   * The latest position of the invalidation clock that was shown when it began: nothing that its
   * resolvers have read themselves is older.
   */
  readonly position: number;

  constructor(tier: Reads, invalidations: InvalidationCount, limits: ExecutionLimits) {
    this.since = tier.nextRead;
    this.position = tier.shownPosition;
    this.#limits = limits;
    this.#tier = tier;
    this.#invalidations = invalidations;
    this.#countAtStart = invalidations.count;
    this.#firstOf = new Map();
  }

  /** Made when it is needed: hits need none. */
  get budget(): ExecutionBudget {
    this.#budget ??= new ExecutionBudget(this.#limits);
    return this.#budget;
  }

  /**
   * Rejects only with the error of a load. A load that asks for its own key goes to the source: the
   * first request waits for this load.
   */
  read(request: FieldRequest): Promise<unknown> {
    const isFirst = this.#firstOf.size === 0 || this.#known(request) === undefined;
    if (isFirst && request.usesMemory && this.#tier.isPlain) return this.#tier.readKnown(request);
    const nesting = this.#tier.loads.running === 0 ? "none" : this.#tier.nestingOf(request);
    if (nesting === "own-load") return this.#tier.read(request, nesting);
    const { name } = request.key;
    const load = nesting === "none" ? undefined : (this.#tier.loads.enclosing() as EnclosingLoad);
    const first = load === undefined ? this.#firstOf.get(name) : this.#firstInLoads?.get(name, load)?.value;
    let value: Promise<unknown>;
    if (first === undefined || this.#mayBeInvalidated(first, request)) {
      const own = new FirstRead(request);
      request.ending = own;
      if (load === undefined) this.#firstOf.set(name, own);
      else {
        this.#firstInLoads ??= new MemoInLoads();
        this.#firstInLoads.set(name, own, load, this.#tier.loads.starts);
      }
      value = this.#tier.read(request, nesting);
      own.result = value;
    } else {
      first.isShared = true;
      value = this.#tier.readAgain(request, first, first.result);
    }
    if (nesting === "other-load") this.#tier.expedite(request, value);
    return value;
  }

  /** Answers a request from what was read, which is not a fresh value. */
  readMissed(request: FieldRequest, result: ReadResult, verdict: Verdict): Promise<unknown> {
    const known = this.#known(request);
    if (known !== undefined) {
      known.isShared = true;
      return this.#tier.readAgain(request, known, known.result);
    }
    const own = new FirstRead(request);
    request.ending = own;
    this.#firstOf.set(request.key.name, own);
    const value = Promise.resolve(this.#tier.respond(request, result, undefined, verdict));
    own.result = value;
    return value;
  }

  /** Returns the first read of a key if it counts for a request. */
  #known(request: FieldRequest): FirstRead | undefined {
    const { name } = request.key;
    const first = this.#firstOf.size === 0 ? undefined : this.#firstOf.get(name);
    // Most executions see no invalidation.
    const isUnchanged = (first?.comparedAt ?? this.#countAtStart) === this.#invalidations.count;
    if (first === undefined || isUnchanged || !this.#mayBeInvalidated(first, request)) return first;
    this.#firstOf.delete(name);
    return undefined;
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
  #mayBeInvalidated(first: FirstRead, request: FieldRequest): boolean {
    const { count } = this.#invalidations;
    const since = first.comparedAt ?? this.#countAtStart;
    if (since === count) return false;
    first.comparedAt = count;
    const hasResultTags = this.#tier.hasResultTags(request);
    return this.#invalidations.hasChangedSince(since, request.key, first.tags.subjects, hasResultTags);
  }
}

export interface FieldRequest extends KnownRequest {
  ending?: ReadEnding | undefined;
  /** Whether its value may come from memory, and is kept there. */
  readonly usesMemory: boolean;
}

/**
 * The first read of a key in an execution. It refers to no request: parts of ended executions can
 * stay in memory for long (see README.md).
 */
class FirstRead implements ReadEnding {
  readonly tags: RequestTags;
  readonly isReadOnly: boolean;
  isShared: boolean;
  origin: Entry | Loaded | undefined;
  hint: ResponseHint | undefined;
  decoded: DecodedToShare | undefined;
  /** Undefined once there is an entry that other readers get values of their own from. */
  result: Promise<unknown> | undefined;
  /**
   * How many invalidations this process had made when the read was last compared with them.
   * Undefined: never.
   */
  comparedAt: number | undefined;

  constructor({ tags, policy }: ReadRequest) {
    this.tags = tags.known;
    this.isReadOnly = policy.readOnly === true;
    this.isShared = false;
    this.origin = undefined;
    this.hint = undefined;
    this.decoded = undefined;
    this.result = undefined;
    this.comparedAt = undefined;
  }

  endWith(origin: Entry | Loaded): void {
    this.origin = origin;
    if (!(this.isReadOnly || "kind" in origin)) this.result = undefined;
  }
}

/**
 * What one execution may make the cache do, beyond what grows with the request itself. See
 * `LimitOptions`.
 */
export interface ExecutionLimits {
  readonly maxKeyBytes: number;
  readonly maxTagCombinations: number;
}

/**
 * What an execution has used of its limits. A request of a few kilobytes can name one large
 * variable in thousands of aliases, or multiply the members of two lists. (P13)
 */
export class ExecutionBudget {
  readonly #limits: ExecutionLimits;
  #keyBytes = 0;
  #combinations = 0;

  constructor(limits: ExecutionLimits) {
    this.#limits = limits;
  }

  /**
   * Throws `CACHED_KEY_UNUSABLE` if the keys of the execution are too large already. To be called
   * before a key is made.
   */
  checkKeys(coordinate: string): void {
    const { maxKeyBytes } = this.#limits;
    if (this.#keyBytes <= maxKeyBytes) return;
    throw overLimit(
      coordinate,
      `at most ${maxKeyBytes} bytes of arguments in the keys of one execution`,
      "maxKeyBytes",
    );
  }

  /** Counts a key that was made. `input`: its canonical text. */
  addKey({ input }: { readonly input: string }): void {
    this.#keyBytes += input.length;
  }

  /**
   * Counts the tags that a template with several lists makes. Throws `CACHED_KEY_UNUSABLE` if they
   * are too many.
   */
  addCombinations(count: number, coordinate: string): void {
    const { maxTagCombinations } = this.#limits;
    this.#combinations += count;
    if (this.#combinations <= maxTagCombinations) return;
    throw overLimit(
      coordinate,
      `at most ${maxTagCombinations} tags of templates with several lists in one execution`,
      "maxTagCombinations",
    );
  }
}

const overLimit = (coordinate: string, expected: string, option: string): CachedError =>
  new CachedError(
    "CACHED_KEY_UNUSABLE",
    `\`${coordinate}\` is not cached in the rest of a request: expected ${expected}, got more; raise createCache({ limits: { ${option} } }) if an honest client sends such requests`,
    { coordinate },
  );
