import { CachedError, keyUnusable } from "../base/errors.js";
import { MAX_LENGTH } from "../keys/canonical.js";
import type { Key } from "../keys/key.js";
import type { Entry } from "../store/entry.js";
import type { ResponseHint } from "../store/entry-layout.js";
import type { KnownRequest, Reads } from "../tier/read/hit.js";
import type { Loaded } from "../tier/request/loaded.js";
import type { ReadEnding } from "../tier/request/request.js";
import type { RequestTags } from "../tier/request/tags.js";
import type { EnclosingLoad } from "../tier/request/waiters.js";
import type { Moment } from "../tier/shared/known-positions.js";
import type { InvalidationCount } from "../tier/shared/unconfirmed-invalidations.js";
import { MemoInLoads } from "./memo-in-loads.js";

/** Reads each key of an execution once. Each reader gets its own value, as it may change it. */
export class FieldLoader implements Moment {
  #budget: ExecutionBudget | undefined;
  readonly #countAtStart: number;
  readonly #firstOf = new Map<string, FirstRead>();
  /** The same for reads inside of loads. */
  #firstInLoads: MemoInLoads<FirstRead> | undefined;

  /** The number of the first read of the store that can be sent after it began. */
  readonly since: number;
  /** The latest shown position when it began: what its resolvers read themselves is no older. */
  readonly position: number;
  readonly restarts: number;

  constructor(
    private readonly tier: Reads,
    private readonly invalidations: InvalidationCount,
    private readonly limits: ExecutionLimits,
  ) {
    this.since = tier.nextRead;
    this.position = tier.invalidations.shownPosition;
    this.restarts = tier.invalidations.restarts;
    this.#countAtStart = invalidations.count;
  }

  /** Made when it is needed: hits need none. */
  get budget(): ExecutionBudget {
    this.#budget ??= new ExecutionBudget(this.limits);
    return this.#budget;
  }

  /** Rejects only with a load's error. A load that asks for its own key goes to the source. */
  read(request: FieldRequest): Promise<unknown> {
    const known = this.#firstOf.size === 0 ? undefined : this.#known(request);
    if (known === undefined && request.usesMemory && this.tier.isPlain) return this.tier.readKnown(request);
    const nesting = this.tier.loads.running === 0 ? "none" : this.tier.nestingOf(request);
    if (nesting === "own-load") return this.tier.read(request);
    const { name } = request.key;
    const load = nesting === "none" ? undefined : (this.tier.loads.enclosing() as EnclosingLoad);
    const first = load === undefined ? known : this.#firstInLoads?.get(name, load)?.value;
    let value: Promise<unknown>;
    if (first === undefined || (load !== undefined && this.#mayBeInvalidated(first, request))) {
      const own = FirstRead.of(request);
      if (load === undefined) this.#firstOf.set(name, own);
      else {
        this.#firstInLoads ??= new MemoInLoads();
        // Other loads may have what was invalidated as their own.
        if (first !== undefined) this.#firstInLoads.entries.delete(name);
        this.#firstInLoads.set(name, own, load, this.tier.loads.starts);
      }
      value = this.tier.read(request);
      own.result = value;
    } else {
      first.isShared = true;
      value = this.tier.responder.respondAgain(request, first, first.result);
    }
    if (nesting === "other-load") this.tier.loads.expedite(request.key, value);
    return value;
  }

  /** Calls `respond`, unless this execution has read the key. */
  readMissed(request: FieldRequest, respond: () => unknown): Promise<unknown> {
    const known = this.#known(request);
    if (known !== undefined) {
      known.isShared = true;
      return this.tier.responder.respondAgain(request, known, known.result);
    }
    const own = FirstRead.of(request);
    this.#firstOf.set(request.key.name, own);
    own.result = Promise.resolve(respond());
    return own.result;
  }

  /** Returns the first read of a key unless it was invalidated. */
  #known(request: FieldRequest): FirstRead | undefined {
    const { name } = request.key;
    const first = this.#firstOf.get(name);
    // Most executions see no invalidation, and have many aliases at worst.
    const isUnchanged = (first?.comparedAt ?? this.#countAtStart) === this.invalidations.count;
    if (first === undefined || isUnchanged || !this.#mayBeInvalidated(first, request)) return first;
    this.#firstOf.delete(name);
    return undefined;
  }

  /** Called after a write, and at the end: graphql 16 can keep executions in memory for long. */
  clear(): void {
    this.#firstOf.clear();
    this.#firstInLoads?.entries.clear();
  }

  /** Whether this process may have invalidated what was read, since it was. */
  #mayBeInvalidated(first: FirstRead, request: FieldRequest): boolean {
    const { count } = this.invalidations;
    const since = first.comparedAt ?? this.#countAtStart;
    if (since === count) return false;
    first.comparedAt = count;
    const hasResultTags = this.tier.hasResultTags(request);
    return this.invalidations.hasChangedSince(since, request.key, first.tags.subjects, hasResultTags);
  }
}

export interface FieldRequest extends KnownRequest {
  ending?: ReadEnding | undefined;
  /** Whether its value may come from memory, and is kept there. */
  readonly usesMemory: boolean;
}

/** The first read of a key. Refers to no request: ended executions can stay in memory. */
class FirstRead implements ReadEnding {
  isShared = false;
  origin: Entry | Loaded | undefined = undefined;
  hint: ResponseHint | undefined = undefined;
  decoded: ReadEnding["decoded"] = undefined;
  /** Undefined once there is an entry that other readers get values of their own from. */
  result: Promise<unknown> | undefined = undefined;
  /** How many invalidations it was last compared with. Undefined: never compared. */
  comparedAt: number | undefined = undefined;

  private constructor(
    readonly tags: RequestTags,
    readonly isReadOnly: boolean,
  ) {}

  static of(request: FieldRequest): FirstRead {
    const ending = new FirstRead(request.tags.known, request.policy.readOnly === true);
    request.ending = ending;
    return ending;
  }

  endWith(origin: Entry | Loaded): void {
    this.origin = origin;
    if (!(this.isReadOnly || "kind" in origin)) this.result = undefined;
  }
}

export interface ExecutionLimits {
  readonly maxKeyBytes: number;
  readonly maxTagCombinations: number;
}

/** What an execution has used of its limits: a small request can multiply large variables. (P13) */
export class ExecutionBudget {
  #keyBytes = 0;
  /** By coordinate: keys without a text take nothing from other fields. */
  readonly #unwritten = new Map<string, number>();
  #combinations = 0;

  constructor(private readonly limits: ExecutionLimits) {}

  /**
   * Counts the text of the key that `make` returns: as the longest one if its input has none, which
   * may show at its end. Throws what `make` throws, and `CACHED_KEY_UNUSABLE` over the limit.
   */
  makeKey(coordinate: string, make: () => Key): Key {
    const { maxKeyBytes } = this.limits;
    const unwritten = this.#unwritten.get(coordinate) ?? 0;
    if (this.#keyBytes + unwritten > maxKeyBytes) {
      const expected = `at most ${maxKeyBytes} bytes of arguments in the keys of one execution`;
      throw overLimit(expected, "maxKeyBytes", coordinate);
    }
    try {
      const key = make();
      this.#keyBytes += key.input.length;
      return key;
    } catch (error) {
      if (error instanceof CachedError && error.code === "CACHED_KEY_UNSERIALIZABLE")
        this.#unwritten.set(coordinate, unwritten + MAX_LENGTH);
      throw error;
    }
  }

  /** Tags can have lists that no key has. */
  addTags(texts: readonly string[]): void {
    for (const text of texts) this.#keyBytes += text.length;
  }

  /** Counts tags of a template with several lists. Throws `CACHED_KEY_UNUSABLE` over the limit. */
  addCombinations(count: number, coordinate?: string): void {
    const { maxTagCombinations } = this.limits;
    this.#combinations += count;
    if (this.#combinations <= maxTagCombinations) return;
    throw overLimit(
      `at most ${maxTagCombinations} tags of templates with several lists in one execution`,
      "maxTagCombinations",
      coordinate,
    );
  }
}

function overLimit(expected: string, option: string, coordinate?: string): CachedError {
  const mistake = `expected ${expected}, got more; raise createCache({ limits: { ${option} } }) if an honest client sends such requests`;
  if (coordinate === undefined) return keyUnusable(mistake);
  return keyUnusable(`\`${coordinate}\` is not cached in the rest of a request: ${mistake}`, { coordinate });
}
