import { randomUUID } from "node:crypto";
import { type Cache, type CacheExtension, extensionOf } from "graphql-cached";
import {
  type Clock,
  checkOptionRules,
  EXPECTED_TIMER_MS,
  isTimerMs,
  type OptionRules,
  systemRandom,
} from "graphql-cached/store";
import { keepListening, type Listen } from "./listening.js";
import { type OutboxDatabase, OutboxPosition } from "./outbox-position.js";
import { outboxQueries, type UnwatchedRow } from "./outbox-queries.js";
import { DEFAULT_SCHEMA, EXPECTED_SCHEMA, isSchema } from "./outbox-sql.js";
import { Retrying } from "./retrying.js";

/**
 * Invalidates the tags that triggers write to the outbox, each after its transaction is committed.
 * Invalidates first and advances its position then, so that no tag is lost; after a crash between
 * the two, a batch is invalidated again. Errors never end it.
 *
 * Throws `CACHED_OPTION_INVALID` with every mistake in `options`.
 */
export function invalidateFromOutbox<Context>(options: OutboxOptions<Context>): OutboxConsumer {
  const extension = extensionOf(options?.cache, "invalidateFromOutbox: `cache`");
  const { clock, logger } = extension;
  checkOptionRules(options, "invalidateFromOutbox", RULES, ["database"]);
  const { database, listen, consumer = "default", schema = DEFAULT_SCHEMA, onError } = options;
  const { pollMs = 1_000, leaseMs = 5_000, batchSize = 500 } = options;
  const settings = { consumer, leader: randomUUID(), leaseMs, pageSize: batchSize };
  const position = new OutboxPosition(database, outboxQueries(schema), clock, settings);
  const retrying = (subject: string): Retrying => new Retrying(subject, logger, onError, systemRandom);
  const loop = new ConsumerLoop(extension, position, {
    clock,
    pollMs,
    leaseMs,
    retrying: retrying(`the outbox consumer "${consumer}"`),
    cleaning: retrying(`maintenance by the outbox consumer "${consumer}"`),
    checking: retrying(`the check of watched tables by the outbox consumer "${consumer}"`),
  });
  const ofListening = retrying(`listening of the outbox consumer "${consumer}"`);
  const stopListening = listen && keepListening(listen, schema, () => loop.wake(), clock, ofListening);
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopping ??= Promise.all([loop.stop(), stopListening?.()]).then(() => undefined);
    return stopping;
  };
  return { stop, [Symbol.asyncDispose]: stop };
}

/** Options of `invalidateFromOutbox`. Durations are in milliseconds. */
export interface OutboxOptions<Context = object> {
  readonly cache: Cache<Context>;
  /** Runs statements and replaces connections that are lost, such as a `Pool` of pg. */
  readonly database: OutboxDatabase;
  /**
   * Listens for notifications, so that tags are invalidated at once. Default: none, the consumer
   * polls.
   */
  readonly listen?: Listen | undefined;
  /**
   * The name of the position. Processes whose caches share a store use one name, and one of them
   * consumes. Caches on different stores use different names. Default: `default`.
   */
  readonly consumer?: string | undefined;
  /** The schema that the outbox is in. Default: `graphql_cached`. */
  readonly schema?: string | undefined;
  /**
   * How often to look for tags without a notification. An idle consumer sends no other statements.
   * Default: 1,000.
   */
  readonly pollMs?: number | undefined;
  /** How soon another process takes over after a crash. Default: 5,000. */
  readonly leaseMs?: number | undefined;
  /** The most tags that are invalidated together. Default: 500. */
  readonly batchSize?: number | undefined;
  /**
   * Called with every error; the consumer tries again by itself. Exceptions it throws are ignored.
   * Default: none.
   */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** A consumer that runs until it is stopped. */
export interface OutboxConsumer {
  /**
   * Waits for the batch that is being invalidated, stops listening, and leaves the rest to another
   * process or a later start. Call it before `cache.close`. Never rejects. Calling it again returns
   * the same promise.
   */
  stop(): Promise<void>;
  /** The same as `stop`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** How often rows are removed that every consumer has seen. */
const CLEAN_MS = 10_000;
/** How often the triggers of watched tables are looked at. */
const CHECK_MS = 60_000;

const PROBLEMS: Readonly<Record<UnwatchedRow["problem"], string>> = {
  disabled: "triggers of the outbox are disabled; enable them, and invalidate what was changed meanwhile",
  missing:
    "it lacks triggers of the outbox, as a table does that has taken the name of another; call watch_table for it, or unwatch_table for it and for the table that had its name",
};

const UNSHARED =
  "expected a store that is shared with the process that consumes, got one of this process alone, whose values stay old until maxAge; pass another `consumer` in each process, or share a store";

interface LoopParts {
  readonly clock: Clock;
  readonly pollMs: number;
  readonly leaseMs: number;
  readonly retrying: Retrying;
  readonly cleaning: Retrying;
  readonly checking: Retrying;
}

/** Reads, invalidates and advances until it is stopped. */
class ConsumerLoop {
  readonly #cache: CacheExtension;
  readonly #position: OutboxPosition;
  readonly #parts: LoopParts;
  readonly #ended: Promise<void>;
  #isStopped = false;
  #isWoken = false;
  /** Whether it waits for the next poll, not after an error or for the end of a lease. */
  #isIdle = false;
  #endWait: (() => void) | undefined;
  /** When this process took or renewed the lead; undefined while another process has it. */
  #ledAt: number | undefined;
  #othersMs: number;
  /** Since when this cache misses what another process invalidates. */
  #missesSince: number | undefined;
  #cleanAt: number;
  #checkAt: number;
  #maintaining: Promise<void> | undefined;
  /** What was reported about watched tables, and still holds. */
  #unwatched: readonly string[] = [];

  constructor(cache: CacheExtension, position: OutboxPosition, parts: LoopParts) {
    this.#cache = cache;
    this.#position = position;
    this.#parts = parts;
    this.#othersMs = parts.leaseMs;
    this.#cleanAt = parts.clock.now();
    this.#checkAt = parts.clock.now();
    this.#ended = this.#run();
  }

  /** Reads at once, if this process leads. */
  wake(): void {
    this.#isWoken = true;
    if (this.#isIdle) this.#endWait?.();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#endWait?.();
    await this.#ended;
    await this.#maintaining;
  }

  async #run(): Promise<void> {
    const { pollMs, retrying } = this.#parts;
    while (!this.#isStopped) {
      try {
        const hasMore = await this.#step();
        retrying.succeeded();
        this.#isIdle = !hasMore && this.#ledAt !== undefined;
        // The lease of an idle leader may end: every process that then believes to lead asks for it
        // first.
        if (!hasMore && !(this.#isIdle && this.#isWoken))
          await this.#wait(this.#isIdle ? pollMs : Math.min(pollMs, this.#othersMs));
        this.#isIdle = false;
      } catch (error) {
        await this.#wait(retrying.failed(error));
      }
    }
    if (this.#ledAt !== undefined) await this.#position.resign().catch(() => undefined);
  }

  /** Invalidates one page. Resolves to whether there may be more to do at once. */
  async #step(): Promise<boolean> {
    // A notification from now on may concern a transaction that this step does not see.
    this.#isWoken = false;
    if (!(await this.#keepLead())) return false;
    const page = await this.#position.read();
    if (page === undefined) return this.#lose();
    if (page.tags.length > 0) await this.#cache.invalidateTags(page.tags, "outbox");
    if (!(await page.advance())) return this.#lose();
    if (page.hasMore) return true;
    // Not awaited: no invalidation depends on it.
    this.#maintaining ??= this.#maintain().finally(() => {
      this.#maintaining = undefined;
    });
    return false;
  }

  #lose(): false {
    this.#ledAt = undefined;
    this.#othersMs = this.#parts.leaseMs;
    return false;
  }

  async #keepLead(): Promise<boolean> {
    const { clock, leaseMs } = this.#parts;
    const now = clock.now();
    if (this.#ledAt !== undefined && now - this.#ledAt < leaseMs / 3) return true;
    const othersMs = await this.#position.lead();
    this.#ledAt = othersMs === undefined ? now : undefined;
    this.#othersMs = Math.max(1, othersMs ?? leaseMs);
    if (othersMs !== undefined && !this.#cache.isShared) this.#missed(now);
    return othersMs === undefined;
  }

  /** Warns once, unless the other process may just have crashed. */
  #missed(now: number): void {
    this.#missesSince ??= now;
    if (now - this.#missesSince <= this.#parts.leaseMs) return;
    this.#missesSince = Number.POSITIVE_INFINITY;
    this.#parts.retrying.warn(new Error(UNSHARED));
  }

  /** Removes rows, and looks at watched tables, if it is time. Never rejects. */
  async #maintain(): Promise<void> {
    const { clock, cleaning, checking } = this.#parts;
    const now = clock.now();
    // Failures wait as well: a statement that was given up may still run.
    if (now >= this.#cleanAt)
      try {
        this.#cleanAt = (await this.#position.clean()) ? now : clock.now() + CLEAN_MS;
        cleaning.succeeded();
      } catch (error) {
        this.#cleanAt = clock.now() + CLEAN_MS;
        cleaning.failed(error);
      }
    if (now < this.#checkAt || this.#isStopped) return;
    try {
      await this.#check();
      checking.succeeded();
    } catch (error) {
      checking.failed(error);
    }
    this.#checkAt = clock.now() + CHECK_MS;
  }

  /** Reports watched tables that have lost their triggers, once until they have them again. */
  async #check(): Promise<void> {
    const { retrying } = this.#parts;
    const unwatched = (await this.#position.check()).map(
      ({ name, problem }) => `changes of the table ${name} are not all invalidated: ${PROBLEMS[problem]}`,
    );
    for (const text of unwatched) if (!this.#unwatched.includes(text)) retrying.warn(new Error(text));
    this.#unwatched = unwatched;
  }

  /** Waits for so long, until a notification if this process leads, or until it is stopped. */
  async #wait(ms: number): Promise<void> {
    if (this.#isStopped) return;
    await new Promise<void>((resolve) => {
      const cancel = this.#parts.clock.after(ms, resolve);
      this.#endWait = () => {
        cancel();
        resolve();
      };
    });
    this.#endWait = undefined;
  }
}

const isFunction = (value: unknown): boolean => typeof value === "function";

const RULES: OptionRules = {
  cache: [() => true, "a cache"],
  database: [
    (value) => isFunction((value as Partial<OutboxDatabase> | null | undefined)?.query),
    "an object with a method query(text, values), such as a Pool of pg",
  ],
  listen: [isFunction, "a function, such as listenWith(() => new Client(config))"],
  consumer: [(value) => typeof value === "string" && /^[^\0]{1,200}$/.test(value), "a string of 1 to 200 characters"],
  schema: [isSchema, EXPECTED_SCHEMA],
  pollMs: [isTimerMs, EXPECTED_TIMER_MS],
  leaseMs: [isTimerMs, EXPECTED_TIMER_MS],
  batchSize: [
    (value) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 10_000,
    "an integer from 1 to 10000",
  ],
  onError: [isFunction, "a function"],
};
