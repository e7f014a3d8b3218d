import type { Clock } from "../clock.js";
import { CachedError, messageOf } from "../errors.js";
import type { Channel } from "../telemetry/channel.js";
import { Breaker } from "./breaker.js";
import type { Grant, Hold, LeaseTimes, Store } from "./store.js";

/** An invalidation is worth waiting for longer than a read. */
const PATIENT = 10;

/**
 * A store in front of another, which turns its troubles into misses: what is slower than the time budget, fails or would be asked while the
 * breaker is open counts as not there. Reading, acquiring and filling never reject; an operation that somebody must know to be done does,
 * with `CACHED_STORE_UNAVAILABLE`.
 */
export function failOpenStore(inner: Store, clock: Clock, channel: Channel, budgetMs: number): Store {
  const breaker = new Breaker(clock);

  async function within<T>(operation: string, run: () => Promise<T>, ms: number = budgetMs): Promise<T> {
    if (!breaker.mayTry()) throw unavailable(operation, "its breaker is open");
    try {
      const result = await inTime(clock, run(), ms, operation);
      if (breaker.succeeded()) channel.publish({ name: "store.recovered" });
      return result;
    } catch (error) {
      breaker.failed();
      channel.publish({ name: "store.failed", operation, error });
      throw error instanceof CachedError ? error : unavailable(operation, messageOf(error), error);
    }
  }

  /** A grant that comes when nobody waits for it any more would keep others waiting: it is let go. */
  function releaseLate(late: Promise<readonly Grant[]>, keys: readonly string[]): void {
    late.then(
      (grants) => {
        const holds = grants.flatMap((grant, index): Hold[] =>
          grant.kind === "granted" ? [{ key: keys[index] as string, token: grant.token }] : [],
        );
        if (holds.length > 0)
          inner.release(holds.map((hold) => ({ ...hold, outcome: "abandoned", holdMs: 0, body: new Uint8Array() }))).catch(() => undefined);
      },
      () => undefined,
    );
  }

  return {
    name: inner.name,
    read: (keys, tags) =>
      within("read", () => inner.read(keys, tags)).catch((error: unknown) => ({
        readings: keys.map(() => ({ kind: "failed" as const, error })),
        nonces: tags.map(() => undefined),
      })),
    async acquire(requests, times: LeaseTimes) {
      let asked: Promise<readonly Grant[]> | undefined;
      try {
        return await within("acquire", () => {
          asked = inner.acquire(requests, times);
          return asked;
        });
      } catch (error) {
        if (asked !== undefined) releaseLate(asked, requests.map(({ key }) => key));
        return requests.map((): Grant => ({ kind: "unavailable", error }));
      }
    },
    fill: (fills) => within("fill", () => inner.fill(fills)).catch(() => fills.map(() => "unavailable" as const)),
    release: (releases) => within("release", () => inner.release(releases)).catch(() => releases.map(() => false)),
    renew: (holds, times) => within("renew", () => inner.renew(holds, times)),
    ensureTags: (tags, ttlMs) => within("ensureTags", () => inner.ensureTags(tags, ttlMs)),
    markRecord: (recordMs) => within("markRecord", () => inner.markRecord(recordMs)),
    isUntouchedSince: (mark, tags) => within("isUntouchedSince", () => inner.isUntouchedSince(mark, tags)),
    invalidate: (keys) => within("invalidate", () => inner.invalidate(keys), budgetMs * PATIENT),
    invalidateTags: (tags, recordMs) => within("invalidateTags", () => inner.invalidateTags(tags, recordMs), budgetMs * PATIENT),
    openFence: (names, writer, fenceMs) => within("openFence", () => inner.openFence(names, writer, fenceMs), budgetMs * PATIENT),
    closeFence: (names, writer) => within("closeFence", () => inner.closeFence(names, writer), budgetMs * PATIENT),
    open: (names, wake) => inner.open(names, wake),
    close: () => inner.close(),
  };
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
      if (left === 0) return reject(unavailable(operation, `it did not answer within ${ms} ms`));
      cancel = clock.after(ms / PARTS, () => clock.afterTick(() => wait(left - 1)));
    };
    wait(PARTS);
    result.then(resolve, reject).finally(() => {
      isOver = true;
      cancel();
    });
  });
}

const unavailable = (operation: string, why: string, cause?: unknown): CachedError =>
  new CachedError("CACHED_STORE_UNAVAILABLE", `the store was expected to ${operation}: ${why}`, { cause });
