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
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRequest,
  TagVersion,
  Wake,
} from "./store.js";

/** An invalidation is worth waiting for longer than a read: so many budgets. */
const PATIENT = 10;

/**
 * A store in front of another, which turns its troubles into misses: what is slower than the time budget, fails or would be asked while the
 * breaker is open counts as not there. Reading, acquiring, filling and releasing never reject; an operation that somebody must know to be done
 * does, with `CACHED_STORE_UNAVAILABLE`. Each node of a store has a budget and a breaker of its own, so that one that is away costs only its own keys.
 */
export class FailOpenStore implements Store {
  readonly nodeOf: Store["nodeOf"];
  readonly follow: Store["follow"];
  readonly #inner: Store;
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #budgetMs: number;
  readonly #breakers = new Map<string, Breaker>();
  #logNode = "";

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
    const found = await this.#byNode<string, Reading | TagVersion>(names, same, async (node, part, indexes) => {
      const isKey = indexes.map((index) => index < keys.length);
      const ofKind = (wanted: boolean): string[] => part.filter((_, index) => isKey[index] === wanted);
      try {
        const { readings, tagVersions } = await this.#within(node, "read", () =>
          this.#inner.read(ofKind(true), ofKind(false)),
        );
        // Keys come first in `names`, and so they do in each part.
        return [...readings, ...tagVersions];
      } catch (error) {
        return isKey.map((is) => (is ? { kind: "failed", error } : undefined));
      }
    });
    return {
      readings: found.slice(0, keys.length) as Reading[],
      tagVersions: found.slice(keys.length) as TagVersion[],
    };
  }

  acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<readonly Grant[]> {
    return this.#byNode<AcquireRequest, Grant>(requests, keyOf, async (node, part) => {
      let asked: Promise<readonly Grant[]> | undefined;
      try {
        return await this.#within(node, "acquire", () => {
          asked = this.#inner.acquire(part, times);
          return asked;
        });
      } catch (error) {
        if (asked !== undefined) this.#releaseLate(asked, part);
        return part.map(() => ({ kind: "unavailable", error }));
      }
    });
  }

  storeValues(storeRequests: readonly StoreRequest[]): Promise<readonly StoreOutcome[]> {
    return this.#byNode<StoreRequest, StoreOutcome>(storeRequests, keyOf, (node, part) =>
      this.#within(node, "fill", () => this.#inner.storeValues(part)).catch(() => part.map(() => "unavailable")),
    );
  }

  release(releases: readonly Release[]): Promise<readonly boolean[]> {
    return this.#byNode<Release, boolean>(releases, keyOf, (node, part) =>
      this.#within(node, "release", () => this.#inner.release(part)).catch(() => part.map(() => false)),
    );
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<readonly boolean[]> {
    // Whether a lease on a node that does not answer is held is not known; it is asked again with the next renewal.
    return this.#byNode<Hold, boolean>(holds, keyOf, (node, part) =>
      this.#within(node, "renew", () => this.#inner.renew(part, times)).catch(() => part.map(() => true)),
    );
  }

  ensureTags(tags: readonly string[], ttlMs: number): Promise<readonly string[]> {
    return this.#byNode<string, string>(tags, same, (node, part) =>
      this.#within(node, "ensureTags", () => this.#inner.ensureTags(part, ttlMs)),
    );
  }

  readLogPosition(logRetentionMs: number): Promise<LogPosition> {
    return this.#within(this.#logNode, "readLogPosition", () => this.#inner.readLogPosition(logRetentionMs));
  }

  areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    return this.#within(this.#logNode, "areUnchangedSince", () => this.#inner.areUnchangedSince(position, tags));
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

  open(names: StoreNames, wake: Wake, onLoss?: () => void): Cancel {
    const end = this.#inner.open(names, wake, onLoss);
    this.#logNode = this.nodeOf?.(names.invalidationLog) ?? "";
    return end;
  }

  /** Runs `run` for the items of each node at the same time. Answers in the order of `items`. Rejects with the first error, after all have ended. */
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
      const own = byNode.get(node);
      if (own === undefined) byNode.set(node, [index]);
      else own.push(index);
    }
    const results = new Array<Result>(items.length);
    const ended = await Promise.allSettled(
      [...byNode].map(async ([node, own]) => {
        const part = own.map((index) => items[index] as Item);
        for (const [at, result] of (await run(node, part, own)).entries()) results[own[at] as number] = result;
      }),
    );
    const failed = ended.find((one) => one.status === "rejected");
    if (failed !== undefined) throw failed.reason as Error;
    return results;
  }

  async #everywhere(
    operation: string,
    names: readonly string[],
    run: (part: readonly string[]) => Promise<void>,
  ): Promise<void> {
    await this.#byNode<string, void>(names, same, async (node, part) => {
      await this.#within(node, operation, () => run(part), PATIENT);
      return [];
    });
  }

  async #within<T>(node: string, operation: string, run: () => Promise<T>, budgets = 1): Promise<T> {
    const breaker = this.#breakers.get(node) ?? new Breaker(this.#clock);
    this.#breakers.set(node, breaker);
    if (!breaker.mayTry()) throw unavailable(operation, "its breaker is open");
    try {
      const result = await inTime(this.#clock, run(), this.#budgetMs * budgets, operation);
      if (breaker.succeeded()) this.#channel.publish({ name: "store.recovered", node });
      return result;
    } catch (error) {
      breaker.failed();
      this.#channel.publish({ name: "store.failed", node, operation, error });
      throw error instanceof CachedError ? error : unavailable(operation, messageOf(error), error);
    }
  }

  /** A grant that comes when nobody waits for it any more would keep others waiting: it is let go. */
  #releaseLate(late: Promise<readonly Grant[]>, requests: readonly AcquireRequest[]): void {
    const letGo = async (): Promise<void> => {
      const releases = (await late).flatMap((grant, index): Release[] => {
        const key = requests[index]?.key;
        if (grant.kind !== "granted" || key === undefined) return [];
        return [{ key, token: grant.token, outcome: "abandoned", holdMs: 0, body: new Uint8Array() }];
      });
      if (releases.length > 0) await this.#inner.release(releases);
    };
    // What is not let go runs out.
    letGo().catch(() => undefined);
  }
}

/** The budget is counted in this many parts. */
const PARTS = 4;

/**
 * Rejects once `ms` have passed in which an answer could have been heard. They are counted in parts, each a timer and a turn of the event loop:
 * a process that was too busy to listen for a while has lost one part of its patience and not all of it, so that a burst of requests is not
 * taken for an outage of the store.
 */
function inTime<T>(clock: Clock, result: Promise<T>, ms: number, operation: string): Promise<T> {
  return new Promise((resolve, reject) => {
    let cancel = (): void => undefined;
    let isOver = false;
    const wait = (left: number): void => {
      if (isOver) return;
      if (left === 0) reject(unavailable(operation, `it did not answer within ${ms} ms`));
      else cancel = clock.after(ms / PARTS, () => clock.afterTick(() => wait(left - 1)));
    };
    wait(PARTS);
    result.then(resolve, reject).finally(() => {
      isOver = true;
      cancel();
    });
  });
}

const same = (name: string): string => name;
const keyOf = ({ key }: { readonly key: string }): string => key;

const unavailable = (operation: string, why: string, cause?: unknown): CachedError =>
  new CachedError("CACHED_STORE_UNAVAILABLE", `the store was expected to ${operation}: ${why}`, { cause });
