import { randomBytes } from "node:crypto";
import { type Clock, systemClock } from "../clock.js";
import { CachedError, describeSetting, messageOf } from "../errors.js";
import { type BloomSize, bloomOffsets, bloomSize } from "./bloom-bits.js";
import type { Script, ScriptArgument } from "./define-script.js";
import { sendScripts } from "./pipeline.js";
import type { RedisClient } from "./redis-client.js";
import { bloomAdd } from "./scripts/bloom-add.js";
import { bloomBuild } from "./scripts/bloom-build.js";
import { bloomCheck } from "./scripts/bloom-check.js";
import { bloomSwap } from "./scripts/bloom-swap.js";

/** What a guard is made of. All processes that share one say the same name, capacity and ratio. */
export interface BloomGuardOptions {
  /** An ioredis client, as for `redisStore`. */
  readonly client: RedisClient;
  /** What the ids are of, such as `Movie`. Letters, digits and `_`. */
  readonly name: string;
  /** How many ids there may be. More make it say "perhaps" more often, never "no" wrongly. */
  readonly capacity: number;
  /** To which share of the ids that do not exist it may say "perhaps", from 0 to 1, both excluded. Default 0.01. */
  readonly falsePositiveRatio?: number;
  /** The first part of its keys. Default `gc`. */
  readonly prefix?: string;
  /** The longest that `has` waits for Redis, in milliseconds. Default 100. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
}

/** Knows which ids cannot exist, for all processes: a Bloom filter in Redis. It may say "perhaps" of an id that does not exist, never "no" of one that it was told of. */
export interface BloomGuard<Id extends string | number | bigint> {
  /** False where an id cannot exist, in the order of `ids`. True for all as long as no filter was built, and where Redis does not answer. Never rejects. */
  has(ids: readonly Id[]): Promise<readonly boolean[]>;
  /** Tells of new ids: before they can be asked for. Errors: `CACHED_STORE_UNAVAILABLE`. */
  add(ids: readonly Id[]): Promise<void>;
  /**
   * Builds the filter anew from all ids there are, in any order, while the old one is in use; what is added meanwhile is in both. Answers how
   * many ids it took. One process at a time.
   * Errors: `CACHED_STORE_UNAVAILABLE` if another is at it or Redis fails; what the stream throws. The old filter then stays.
   */
  rebuild(ids: Iterable<Id> | AsyncIterable<Id>): Promise<number>;
}

/** So many ids a script call. */
const IDS_PER_CALL = 100;
/** A filter under construction that hears nothing for this long is given up. */
const KEPT_MS = 60_000;

/** Errors: `CACHED_OPTION_INVALID`, with all mistakes at once. */
export function bloomGuard<Id extends string | number | bigint>(options: BloomGuardOptions): BloomGuard<Id> {
  const { falsePositiveRatio = 0.01, prefix = "gc", timeoutMs = 100, clock = systemClock } = options;
  const given = { ...options, falsePositiveRatio, prefix, timeoutMs, clock };
  return new RedisBloomGuard(given, sizeOf(given));
}

class RedisBloomGuard<Id extends string | number | bigint> implements BloomGuard<Id> {
  readonly #options: Required<BloomGuardOptions>;
  readonly #size: BloomSize;
  readonly #filter: string;
  readonly #building: string;
  readonly #lock: string;

  constructor(options: Required<BloomGuardOptions>, size: BloomSize) {
    this.#options = options;
    this.#size = size;
    // One slot of a Cluster, since the filter under construction takes the place of the other.
    this.#filter = `${options.prefix}:1:{bloom:${options.name}}:${size.bits}:${size.perId}`;
    this.#building = `${this.#filter}:building`;
    this.#lock = `${this.#filter}:lock`;
  }

  async has(ids: readonly Id[]): Promise<readonly boolean[]> {
    const { clock, timeoutMs } = this.#options;
    const parts = chunks(ids);
    const asked = this.#call(bloomCheck, [this.#filter], { perId: this.#size.perId }, parts);
    const replies = await inTime(clock, asked, timeoutMs);
    const answers = parts.flatMap((part, nth) => replies[nth] ?? part.map(() => 1));
    return answers.map((answer) => answer !== 0);
  }

  async add(ids: readonly Id[]): Promise<void> {
    await this.#call(bloomAdd, [this.#filter, this.#building], {}, chunks(ids));
  }

  async rebuild(ids: Iterable<Id> | AsyncIterable<Id>): Promise<number> {
    const token = randomBytes(16);
    await this.#build(token, [], this.#size.bits - 1);
    let count = 0;
    try {
      let part: Id[] = [];
      for await (const id of ids) {
        count++;
        if (part.push(id) < IDS_PER_CALL) continue;
        await this.#build(token, part);
        part = [];
      }
      await this.#build(token, part);
    } catch (error) {
      await this.#end(token, 0).catch(() => undefined);
      throw error;
    }
    if (!(await this.#end(token, 1))) throw this.#unavailable("the filter under construction was lost");
    return count;
  }

  /** Takes one part more. With `lastBit` it begins. */
  async #build(token: Buffer, ids: readonly Id[], lastBit = -1): Promise<void> {
    const args = { token, keptMs: KEPT_MS, lastBit };
    const [isMine] = await this.#call(bloomBuild, [this.#building, this.#lock], args, [ids]);
    if (isMine === 1) return;
    throw this.#unavailable(lastBit < 0 ? "the filter under construction was lost" : "another process is building it");
  }

  async #end(token: Buffer, isWhole: 0 | 1): Promise<boolean> {
    const keys = [this.#building, this.#lock, this.#filter];
    const [reply] = await this.#call(bloomSwap, keys, { token, isWhole }, [[]]);
    return reply === 1;
  }

  async #call<Args extends readonly string[]>(
    script: Script<Args>,
    keys: readonly string[],
    args: { readonly [Name in Args[number]]: ScriptArgument },
    parts: readonly (readonly Id[])[],
  ): Promise<readonly unknown[]> {
    const offsetsOf = (id: Id): number[] => bloomOffsets(`${typeof id}:${id}`, this.#size);
    const calls = parts.map((ids) => ({ script, args: script.argumentsFor(keys, args, ids.flatMap(offsetsOf)) }));
    const replies = await sendScripts(this.#options.client, calls as never);
    const failed = replies.find((reply) => reply instanceof Error);
    if (failed !== undefined) throw this.#unavailable(messageOf(failed), failed);
    return replies;
  }

  #unavailable(why: string, cause?: unknown): CachedError {
    const message = `the filter \`${this.#options.name}\` was expected to be written: ${why}`;
    return new CachedError("CACHED_STORE_UNAVAILABLE", message, { cause });
  }
}

function sizeOf(options: Required<BloomGuardOptions>): BloomSize {
  const { client, name, capacity, falsePositiveRatio, timeoutMs } = options;
  const mistakes: string[] = [];
  const expect = (isRight: boolean, option: string, expected: string, came: unknown): void => {
    if (!isRight) mistakes.push(`\`${option}\` must be ${expected}, ${describeSetting(came)} came`);
  };
  const isPositive = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;
  const isRatio = typeof falsePositiveRatio === "number" && falsePositiveRatio > 0 && falsePositiveRatio < 1;
  expect(
    typeof (client as Partial<RedisClient> | undefined)?.pipeline === "function",
    "client",
    "an ioredis client",
    client,
  );
  expect(typeof name === "string" && /^\w+$/.test(name), "name", "letters, digits and _", name);
  expect(isPositive(capacity), "capacity", "a whole number of ids, 1 or more", capacity);
  expect(isRatio, "falsePositiveRatio", "a number between 0 and 1, both excluded", falsePositiveRatio);
  expect(isPositive(timeoutMs), "timeoutMs", "a whole number of milliseconds, 1 or more", timeoutMs);
  const size = mistakes.length === 0 ? bloomSize(capacity, falsePositiveRatio) : undefined;
  if (size !== undefined) return size;
  if (mistakes.length === 0)
    mistakes.push("`capacity` at this ratio needs more than 512 MB, the most that Redis holds in one string");
  throw new CachedError("CACHED_OPTION_INVALID", `bloomGuard: ${mistakes.join("; ")}`);
}

function chunks<Item>(items: readonly Item[]): (readonly Item[])[] {
  const parts: (readonly Item[])[] = [];
  for (let at = 0; at < items.length; at += IDS_PER_CALL) parts.push(items.slice(at, at + IDS_PER_CALL));
  return parts;
}

/** The replies; none where Redis fails or does not answer in time. */
async function inTime(
  clock: Clock,
  replies: Promise<readonly unknown[]>,
  ms: number,
): Promise<readonly (number[] | null)[]> {
  let cancel = (): void => undefined;
  const over = new Promise<readonly unknown[]>((resolve) => {
    cancel = clock.after(ms, () => resolve([]));
  });
  const first = await Promise.race([replies.catch(() => []), over]);
  cancel();
  return first as readonly (number[] | null)[];
}
