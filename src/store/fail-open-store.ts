import type { Cancel, Clock } from "../clock.js";
import { CachedError, messageOf } from "../errors.js";
import type { Channel } from "../telemetry/channel.js";
import { Breaker } from "./breaker.js";
import type {
  AcquireRequest,
  Grant,
  Hold,
  LeaseTimes,
  LogPosition,
  LossListener,
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRequest,
  TagVersion,
  Wake,
} from "./store.js";

/**
 * Number of time budgets that operations which must be confirmed, such as invalidations, may take.
 */
const CONFIRMED_BUDGETS = 10;

/**
 * Wraps a store so that its failures become misses. An operation fails if it exceeds its time
 * budget, if the store rejects it, or if the breaker is open; an open breaker does not call the
 * store.
 *
 * `read`, `acquire`, `storeValues`, `renew`, `release` and `readLogPosition` never reject. All other operations reject
 * with `CACHED_STORE_UNAVAILABLE`. Each node of the store has a breaker of its own, so that a
 * failing node affects only its own keys.
 */
export class FailOpenStore implements Store {
  readonly nodeOf: Store["nodeOf"];
  readonly follow: Store["follow"];
  readonly #inner: Store;
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #budgetMs: number;
  readonly #breakers = new Map<string, Breaker>();

  constructor(inner: Store, clock: Clock, channel: Channel, budgetMs: number) {
    this.#inner = inner;
    this.nodeOf = inner.nodeOf?.bind(inner);
    this.follow = inner.follow?.bind(inner);
    this.#clock = clock;
    this.#channel = channel;
    this.#budgetMs = budgetMs;
  }

  get name(): string {
    return this.#inner.name;
  }

  async read(keys: readonly string[], tags: readonly string[]): ReturnType<Store["read"]> {
    const names = [...keys, ...tags];
    const results = await this.#byNode<string, Reading | TagVersion>(names, identity, async (node, part, indexes) => {
      const isKey = indexes.map((index) => index < keys.length);
      const ofKind = (wanted: boolean): string[] => part.filter((_, index) => isKey[index] === wanted);
      try {
        const { readings, tagVersions } = await this.#within(node, "read", () =>
          this.#inner.read(ofKind(true), ofKind(false)),
        );
        // Keys precede tags in `names`, and therefore in each part.
        return [...readings, ...tagVersions];
      } catch (error) {
        return isKey.map((is) => (is ? { kind: "failed", error } : undefined));
      }
    });
    return {
      readings: results.slice(0, keys.length) as Reading[],
      tagVersions: results.slice(keys.length) as TagVersion[],
    };
  }

  acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<readonly Grant[]> {
    return this.#byNode<AcquireRequest, Grant>(requests, keyOf, async (node, part) => {
      let granting: Promise<readonly Grant[]> | undefined;
      try {
        return await this.#within(node, "acquire", () => {
          granting = this.#inner.acquire(part, times);
          return granting;
        });
      } catch (error) {
        if (granting !== undefined) this.#releaseLate(granting, part);
        return part.map(() => ({ kind: "unavailable", error }));
      }
    });
  }

  storeValues(requests: readonly StoreRequest[]): Promise<readonly StoreOutcome[]> {
    return this.#byNode<StoreRequest, StoreOutcome>(requests, keyOf, (node, part) =>
      this.#within(node, "storeValues", () => this.#inner.storeValues(part)).catch(() => part.map(() => "unavailable")),
    );
  }

  release(releases: readonly Release[]): Promise<readonly boolean[]> {
    return this.#byNode<Release, boolean>(releases, keyOf, (node, part) =>
      this.#within(node, "release", () => this.#inner.release(part)).catch(() => part.map(() => false)),
    );
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<readonly boolean[]> {
    // A node that does not reply leaves it unknown whether its leases are held; the next renewal
    // decides.
    return this.#byNode<Hold, boolean>(holds, keyOf, (node, part) =>
      this.#within(node, "renew", () => this.#inner.renew(part, times)).catch(() => part.map(() => true)),
    );
  }

  ensureTags(tags: readonly string[], ttlMs: number | undefined): Promise<readonly string[]> {
    return this.#byNode<string, string>(tags, identity, (node, part) =>
      this.#within(node, "ensureTags", () => this.#inner.ensureTags(part, ttlMs)),
    );
  }

  invalidationLogs(): readonly string[] {
    return this.#inner.invalidationLogs();
  }

  async readLogPosition(logs: readonly string[], logRetentionMs: number): Promise<LogPosition> {
    let position: LogPosition = {};
    await this.#byNode<string, void>(logs, identity, async (node, part) => {
      const read = (): Promise<LogPosition> => this.#inner.readLogPosition(part, logRetentionMs);
      // Without the position of its log, no value with a tag of this node is stored.
      const ends = await this.#within(node, "readLogPosition", read).catch(() => ({}));
      position = { ...position, ...ends };
      return [];
    });
    return position;
  }

  async areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    const areUnchanged = await this.#byNode<string, boolean>(tags, identity, async (node, part) => {
      const check = (): Promise<boolean> => this.#inner.areUnchangedSince(position, part);
      const isUnchanged = await this.#within(node, "areUnchangedSince", check);
      return part.map(() => isUnchanged);
    });
    return !areUnchanged.includes(false);
  }

  invalidate(keys: readonly string[]): Promise<void> {
    return this.#everywhere("invalidate", keys, (part) => this.#inner.invalidate(part));
  }

  softInvalidate(keys: readonly string[]): Promise<void> {
    return this.#everywhere("softInvalidate", keys, (part) => this.#inner.softInvalidate(part));
  }

  invalidateTags(tags: readonly string[], logRetentionMs: number): Promise<void> {
    return this.#everywhere("invalidateTags", tags, (part) => this.#inner.invalidateTags(part, logRetentionMs));
  }

  beginWrite(names: readonly string[], writer: string, writeGuardMs: number): Promise<void> {
    return this.#everywhere("beginWrite", names, (part) => this.#inner.beginWrite(part, writer, writeGuardMs));
  }

  endWrite(names: readonly string[], writer: string): Promise<void> {
    return this.#everywhere("endWrite", names, (part) => this.#inner.endWrite(part, writer));
  }

  open(names: StoreNames, wake: Wake, onLoss?: LossListener): Cancel {
    if (onLoss === undefined) return this.#inner.open(names, wake);
    return this.#inner.open(names, wake, ({ ended, mayBeLost }) => {
      const isOver = withinBudget(this.#clock, ended, this.#budgetMs, "open").catch(() => undefined);
      onLoss({ ended: isOver, mayBeLost });
    });
  }

  /**
   * Calls `run` for the items of each node, concurrently. Returns the results in the order of
   * `items`. Rejects with the first error after all calls have ended.
   */
  async #byNode<Item, Result>(
    items: readonly Item[],
    nameOf: (item: Item) => string,
    run: (node: string, part: readonly Item[], indexes: readonly number[]) => Promise<readonly Result[]>,
  ): Promise<readonly Result[]> {
    const { nodeOf } = this;
    if (nodeOf === undefined) return run("", items, [...items.keys()]);
    const byNode = new Map<string, number[]>();
    for (const [index, item] of items.entries()) {
      const node = nodeOf(nameOf(item));
      const indexes = byNode.get(node);
      if (indexes === undefined) byNode.set(node, [index]);
      else indexes.push(index);
    }
    const results = new Array<Result>(items.length);
    const ended = await Promise.allSettled(
      [...byNode].map(async ([node, indexes]) => {
        const part = indexes.map((index) => items[index] as Item);
        for (const [at, result] of (await run(node, part, indexes)).entries()) results[indexes[at] as number] = result;
      }),
    );
    const failed = ended.find((one) => one.status === "rejected");
    if (failed !== undefined) throw failed.reason as Error;
    return results;
  }

  /** Runs an operation that must be confirmed by every node. */
  async #everywhere(
    operation: string,
    names: readonly string[],
    run: (part: readonly string[]) => Promise<void>,
  ): Promise<void> {
    await this.#byNode<string, void>(names, identity, async (node, part) => {
      await this.#within(node, operation, () => run(part), CONFIRMED_BUDGETS);
      return [];
    });
  }

  /** Runs one call within its time budget, through the breaker of its node. */
  async #within<T>(node: string, operation: string, run: () => Promise<T>, budgets = 1): Promise<T> {
    const breaker = this.#breakers.get(node) ?? new Breaker(this.#clock);
    this.#breakers.set(node, breaker);
    if (!breaker.mayTry()) throw unavailable(operation, "the circuit breaker is open after repeated failures");
    try {
      const result = await withinBudget(this.#clock, run(), this.#budgetMs * budgets, operation);
      if (breaker.succeeded()) this.#channel.publish({ name: "store.recovered", node });
      return result;
    } catch (cause) {
      breaker.failed();
      const connectionError = this.#inner.connectionError?.();
      const reason = connectionError === undefined ? "" : ` (connection: ${connectionError.message})`;
      const error =
        cause instanceof CachedError && reason === ""
          ? cause
          : unavailable(operation, messageOf(cause) + reason, cause);
      this.#channel.publish({ name: "store.failed", node, operation, error });
      throw error;
    }
  }

  /**
   * Releases leases that were granted after their caller gave up, so that other callers do not wait
   * for them.
   */
  #releaseLate(late: Promise<readonly Grant[]>, requests: readonly AcquireRequest[]): void {
    const releaseGranted = async (): Promise<void> => {
      const releases = (await late).flatMap((grant, index): Release[] => {
        const key = requests[index]?.key;
        if (grant.kind !== "granted" || key === undefined) return [];
        return [{ key, token: grant.token, outcome: "abandoned", holdMs: 0, body: new Uint8Array() }];
      });
      if (releases.length > 0) await this.#inner.release(releases);
    };
    // A lease that could not be released expires.
    releaseGranted().catch(() => undefined);
  }
}

/** Number of consecutive timers that make up a time budget. */
const PARTS = 4;

/**
 * Rejects after `ms` milliseconds in which a reply could have been processed. The budget is split
 * into parts, each a timer and a turn of the event loop: a process whose event loop was blocked
 * loses one part of the budget, not all of it. With a single timer, a burst of requests would look
 * like an outage of the store.
 */
function withinBudget<T>(clock: Clock, result: Promise<T>, ms: number, operation: string): Promise<T> {
  return new Promise((resolve, reject) => {
    let cancel = (): void => undefined;
    let isSettled = false;
    const waitFor = (partsLeft: number): void => {
      if (isSettled) return;
      if (partsLeft === 0)
        reject(unavailable(operation, `no reply within ${ms} ms; check the store, or raise \`storeTimeoutMs\``));
      else cancel = clock.after(ms / PARTS, () => clock.afterTick(() => waitFor(partsLeft - 1)));
    };
    waitFor(PARTS);
    result.then(resolve, reject).finally(() => {
      isSettled = true;
      cancel();
    });
  });
}

const identity = (name: string): string => name;
const keyOf = ({ key }: { readonly key: string }): string => key;

const unavailable = (operation: string, reason: string, cause?: unknown): CachedError =>
  new CachedError("CACHED_STORE_UNAVAILABLE", `store: \`${operation}\` failed: ${reason}`, { cause });
