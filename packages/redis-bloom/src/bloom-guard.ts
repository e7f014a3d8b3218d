import { hash, randomBytes } from "node:crypto";
import { CachedError } from "graphql-cached";
import { problemOfClient, type RedisClient, runScripts, type Script, type ScriptArguments } from "graphql-cached/redis";
import {
  type Clock,
  checkOptionRules,
  describeSetting,
  EXPECTED_TIMER_MS,
  isTimerMs,
  messageOf,
  type OptionRules,
  systemClock,
  within,
} from "graphql-cached/store";
import { bloomAdd } from "./bloom-add.js";
import { bloomBuild } from "./bloom-build.js";
import { bloomCheck } from "./bloom-check.js";
import { bloomSwap } from "./bloom-swap.js";

/**
 * Creates a Bloom filter in Redis that tells which ids cannot exist, so that requests for them
 * reach neither the cache nor the source. The client is never closed.
 * Throws `CACHED_OPTION_INVALID`, listing all invalid options.
 */
export function bloomGuard<Id extends string | number | bigint>(options: BloomGuardOptions): BloomGuard<Id> {
  checkOptionRules(options, "bloomGuard", RULES, ["prefix", "name", "capacity"]);
  const { client, capacity, falsePositiveRatio = 0.01, timeoutMs = 100, clock = systemClock } = options;
  const problem = problemOfClient(client);
  if (problem !== undefined) throw new CachedError("CACHED_OPTION_INVALID", `bloomGuard: \`client\`: ${problem}`);
  const size = bloomSize(capacity, falsePositiveRatio);
  if (size === undefined)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      "bloomGuard: expected a filter of at most 512 MB, the maximum length of a Redis string, got a larger one; lower `capacity` or raise `falsePositiveRatio`",
    );
  return new RedisBloomGuard({ ...options, falsePositiveRatio, timeoutMs, clock }, size);
}

/**
 * Options of `bloomGuard`. All processes that share a filter must pass the same prefix, name,
 * capacity and ratio; another capacity or ratio is another filter.
 */
export interface BloomGuardOptions {
  /** A client of ioredis, iovalkey or node-redis, as for `redisStore`. It is never closed. */
  readonly client: RedisClient;
  /** Name of the filter, such as `Movie`. Letters, digits and `_`. */
  readonly name: string;
  /**
   * Expected number of ids, at least 1. More ids raise the share of false positives; `false` stays
   * reliable.
   */
  readonly capacity: number;
  /**
   * Share of nonexistent ids that `has` may report as existing, between 0 and 1, both excluded.
   * Default: 0.01.
   */
  readonly falsePositiveRatio?: number;
  /** Prefix of the filter's keys in Redis, a name for the application: that of its cache. */
  readonly prefix: string;
  /** Maximum time that `has` waits for Redis, in milliseconds, at least 1. Default: 100. */
  readonly timeoutMs?: number;
  /** Source of time and timers. Default: the system clock. */
  readonly clock?: Clock;
}

/**
 * Tells which ids cannot exist: a Bloom filter in Redis, shared by all processes. `false` is
 * reliable for every id that was added; `true` means only that the id may exist. Ids are compared
 * as text: where `7` was added, `"7"` exists as well, since a database may return numbers as
 * strings, and GraphQL passes an `ID` as a string.
 */
export interface BloomGuard<Id extends string | number | bigint> {
  /**
   * Returns, in the order of `ids`, false for each id that cannot exist and true for all others.
   * Returns true for all ids until a filter has been built, and whenever Redis fails or exceeds
   * `timeoutMs`. Never rejects.
   */
  has(ids: readonly Id[]): Promise<readonly boolean[]>;
  /**
   * Adds new ids. Call it before the ids can be requested, and again when they are committed: a
   * rebuild that has begun in between has read the source without them. Does nothing until a filter
   * has been built. Rejects with `CACHED_STORE_UNAVAILABLE` if Redis fails, and with
   * `CACHED_OPTION_INVALID` if one of them is not an id.
   */
  add(ids: readonly Id[]): Promise<void>;
  /**
   * Builds a new filter from all existing ids, in any order, and replaces the old one in one step.
   * Resolves with the number of ids. The old filter serves until then, and ids added meanwhile go
   * into both. Read the source in a generator: an array lacks what is added after it was read, and
   * before this call. Only one process can rebuild at a time. Rejects with
   * `CACHED_STORE_UNAVAILABLE` if another process is rebuilding or Redis fails, with
   * `CACHED_OPTION_INVALID` if one of them is not an id, and with the iterator's own error if it
   * throws. The old filter then stays in use.
   */
  rebuild(ids: Iterable<Id> | AsyncIterable<Id>): Promise<number>;
}

const IDS_PER_CALL = 100;
/** After its last step: a rebuild whose process died is discarded. */
const BUILD_TTL_MS = 60_000;

class RedisBloomGuard<Id extends string | number | bigint> implements BloomGuard<Id> {
  readonly #options: Required<BloomGuardOptions>;
  readonly #size: BloomSize;
  readonly #filter: string;
  readonly #building: string;
  readonly #lock: string;

  constructor(options: Required<BloomGuardOptions>, size: BloomSize) {
    this.#options = options;
    this.#size = size;
    // The hash tag puts all three keys into one Cluster slot, since RENAME moves one onto another.
    this.#filter = `${options.prefix}:2:{bloom:${options.name}}:${size.bits}:${size.bitsPerId}`;
    this.#building = `${this.#filter}:building`;
    this.#lock = `${this.#filter}:lock`;
  }

  async has(ids: readonly Id[]): Promise<readonly boolean[]> {
    const { clock, timeoutMs } = this.#options;
    const chunks = chunksOf(ids);
    const pending = this.#call(bloomCheck, [this.#filter], { bitsPerId: this.#size.bitsPerId }, chunks);
    const inTime = { ms: timeoutMs, otherwise: (): readonly unknown[] => [] };
    const replies = (await within(clock, pending.catch(inTime.otherwise), inTime)) as readonly (unknown[] | null)[];
    const flags = chunks.flatMap((chunk, nth) => replies[nth] ?? chunk.map(() => 1));
    return flags.map((flag, nth) => integerOf(flag) !== 0 || !isId(ids[nth]));
  }

  async add(ids: readonly Id[]): Promise<void> {
    for (const id of ids) this.#checkId(id);
    await this.#call(bloomAdd, [this.#filter, this.#building], {}, chunksOf(ids));
  }

  async rebuild(ids: Iterable<Id> | AsyncIterable<Id>): Promise<number> {
    const token = randomBytes(16);
    let step = 0;
    await this.#build(token, step, []);
    let count = 0;
    try {
      let chunk: Id[] = [];
      for await (const id of ids) {
        this.#checkId(id);
        count++;
        if (chunk.push(id) < IDS_PER_CALL) continue;
        await this.#build(token, ++step, chunk);
        chunk = [];
      }
      await this.#build(token, ++step, chunk);
    } catch (error) {
      await this.#finish(token, "").catch(() => undefined);
      throw error;
    }
    if (!(await this.#finish(token, step))) throw this.#unavailable(LOST);
    return count;
  }

  async #build(token: Buffer, step: number, ids: readonly Id[]): Promise<void> {
    const args = { token, step, buildTtlMs: BUILD_TTL_MS, lastBit: this.#size.bits - 1 };
    const [isHeld] = await this.#call(bloomBuild, [this.#building, this.#lock], args, [ids]);
    if (integerOf(isHeld) === 1) return;
    throw this.#unavailable(step > 0 ? LOST : "another process is rebuilding it; try again later");
  }

  /** Replaces the filter if `step` was the last one. Without a number, discards the new one. */
  async #finish(token: Buffer, step: number | ""): Promise<boolean> {
    const keys = [this.#building, this.#lock, this.#filter];
    const [reply] = await this.#call(bloomSwap, keys, { token, step }, [[]]);
    return integerOf(reply) === 1;
  }

  async #call<Args extends readonly string[]>(
    script: Script<Args>,
    keys: readonly string[],
    args: ScriptArguments<Args>,
    chunks: readonly (readonly Id[])[],
  ): Promise<readonly unknown[]> {
    const offsetsOf = (id: Id): number[] => bloomOffsets(String(id), this.#size);
    const calls = chunks.map((ids) => ({ script, args: script.argumentsFor(keys, args, ids.flatMap(offsetsOf)) }));
    const replies = await runScripts(this.#options.client, calls as never);
    const failed = replies.find((reply) => reply instanceof Error);
    if (failed !== undefined) throw this.#unavailable(messageOf(failed), failed);
    return replies;
  }

  #checkId(id: unknown): void {
    if (isId(id)) return;
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `bloomGuard \`${this.#options.name}\`: expected ids that are strings, numbers or bigints, got ${describeSetting(id)}`,
    );
  }

  #unavailable(reason: string, cause?: unknown): CachedError {
    const message = `bloomGuard \`${this.#options.name}\`: ${reason}`;
    return new CachedError("CACHED_STORE_UNAVAILABLE", message, { cause });
  }
}

function chunksOf<Id>(ids: readonly Id[]): (readonly Id[])[] {
  return Array.from({ length: Math.ceil(ids.length / IDS_PER_CALL) }, (_, nth) =>
    ids.slice(nth * IDS_PER_CALL, (nth + 1) * IDS_PER_CALL),
  );
}

/** A reply as a number. Clients may be told to return numbers as strings. */
const integerOf = (reply: unknown): number => Number(reply);

const isId = (id: unknown): boolean => ["string", "number", "bigint"].includes(typeof id);

const LOST = "the filter under construction was lost; rebuild it again";

const isFrom1 = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;
const matches = (pattern: RegExp) => (value: unknown) => typeof value === "string" && pattern.test(value);

const RULES: OptionRules<keyof BloomGuardOptions> = {
  client: [() => true, "a client"],
  prefix: [matches(/^[A-Za-z0-9_.:-]+$/), "a name for this application, of letters, digits and any of _ . : -"],
  name: [matches(/^\w+$/), "letters, digits and _"],
  capacity: [isFrom1, "an integer of at least 1"],
  falsePositiveRatio: [
    (value) => typeof value === "number" && value > 0 && value < 1,
    "a number between 0 and 1, both excluded",
  ],
  timeoutMs: [isTimerMs, EXPECTED_TIMER_MS],
  clock: [(value) => typeof value === "object" && value !== null, "a clock"],
};

export interface BloomSize {
  readonly bits: number;
  readonly bitsPerId: number;
}

/** The maximum length of a Redis string: 512 MB, in bits. */
const MAX_BITS = 2 ** 32;

/**
 * Returns the size of the smallest filter that, with `capacity` ids in it, reports at most
 * `falsePositiveRatio` of all other ids as present. Undefined if that exceeds the maximum length of
 * a Redis string.
 * Source: B. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 13(7), 1970.
 */
export function bloomSize(capacity: number, falsePositiveRatio: number): BloomSize | undefined {
  const bits = Math.ceil((-capacity * Math.log(falsePositiveRatio)) / Math.LN2 ** 2);
  const bitsPerId = Math.max(1, Math.round((bits / capacity) * Math.LN2));
  return bits > MAX_BITS ? undefined : { bits, bitsPerId };
}

/**
 * Returns the offsets of the bits of one id. They are derived from two hashes by double hashing.
 * Source: A. Kirsch, M. Mitzenmacher, "Less Hashing, Same Performance: Building a Better Bloom
 * Filter", ESA 2006.
 */
export function bloomOffsets(id: string, { bits, bitsPerId }: BloomSize): number[] {
  const digest = hash("sha256", id, "buffer");
  // 48 bits each, so that the products and sums below stay exact.
  const first = digest.readUIntBE(0, 6);
  const second = digest.readUIntBE(6, 6);
  return Array.from({ length: bitsPerId }, (_, nth) => ((first % bits) + nth * (second % bits)) % bits);
}
