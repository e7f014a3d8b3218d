import { type Gate, gate, settle } from "@graphql-cached/testing";
import { type Cache, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it, vi } from "vitest";
import { listen } from "../../support/listen.js";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, memoryWorld, onEachStore, type Process, timedWorld } from "../../support/world.js";

const typeDefs = `
  type Query { film: Int @cached(maxAge: 60) stale: Int @cached(maxAge: 60, staleWhileRevalidate: 60, tags: ["Stale"]) }
`;
const makeStale = (cache: Pick<Cache, "invalidateTags">): Promise<void> =>
  cache.invalidateTags(["Stale"], { soft: true });

/** A store whose operation `name` does not end before its gate is opened. */
function holding(store: Store, name: "storeValues" | "acquire", held: () => Gate): Store {
  const run = store[name] as (...args: unknown[]) => Promise<never>;
  return overrideStore(store, { [name]: (...args: unknown[]) => held().passed.then(() => run.apply(store, args)) });
}

/** Whether a promise has settled after everything that needs no timer has run. */
async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  const ended = promise.then(
    () => true,
    () => true,
  );
  return Promise.race([ended, settle().then(() => false)]);
}

onEachStore("cache.settled", (world) => {
  it("resolves when what was loaded is stored, so that the process can be frozen", async () => {
    const shared = world();
    const loads: string[] = [];
    const start = (name: string): Process => shared.process(typeDefs, { Query: { film: () => (loads.push(name), 7) } });
    const [one, two] = [start("one"), start("two")];
    expect(await dataOf(one.ask("{ film }"))).toEqual({ film: 7 });
    await one.cache.settled();
    expect(await dataOf(two.ask("{ film }"))).toEqual({ film: 7 });
    expect([loads, two.outcomes()]).toEqual([["one"], { hit: 1 }]);
  });

  it("waits for the refresh of a stale value", async () => {
    let loads = 0;
    const { ask, cache, events } = world().process(typeDefs, { Query: { stale: () => ++loads } });
    await ask("{ stale }");
    await cache.settled();
    for (const version of [1, 2, 3]) {
      await makeStale(cache);
      expect(await dataOf(ask("{ stale }"))).toEqual({ stale: version });
      await cache.settled();
      expect(events.filter(({ name }) => name === "write.finished")).toHaveLength(version + 1);
    }
  });
});

describe("cache.settled", () => {
  it("resolves at once if nothing is under way, before and after the cache is closed", async () => {
    const { cache } = listen();
    await cache.settled();
    await cache.close();
    await cache.settled();
  });

  it("does not resolve while a load runs, or its value is being stored", async () => {
    const [source, write] = [gate(), gate()];
    const world = memoryWorld(() => holding(memoryStore(), "storeValues", () => write));
    const { ask, cache } = world.process(typeDefs, { Query: { film: () => source.passed.then(() => 7) } });
    const answer = ask("{ film }");
    await settle();
    const settled = cache.settled();
    expect(await hasSettled(settled)).toBe(false);
    source.open();
    expect(await dataOf(answer)).toEqual({ film: 7 });
    expect(await hasSettled(settled)).toBe(false);
    write.open();
    await settled;
  });

  it("waits for a refresh of which the lease is not granted yet, and for a queue to take it", async () => {
    const [lease, queue] = [gate(), gate()];
    let held = gate();
    held.open();
    const jobs: unknown[] = [];
    const world = memoryWorld(() => holding(memoryStore(), "acquire", () => held));
    const refreshQueue = (job: unknown): Promise<void> => queue.passed.then(() => void jobs.push(job));
    const { ask, cache } = world.process(typeDefs, { Query: { stale: () => 1 } }, { loads: { refreshQueue } });
    await ask("{ stale }");
    await cache.settled();
    await makeStale(cache);
    held = lease;
    await ask("{ stale }");
    const settled = cache.settled();
    expect(await hasSettled(settled)).toBe(false);
    lease.open();
    expect(await hasSettled(settled)).toBe(false);
    queue.open();
    await settled;
    expect(jobs).toHaveLength(1);
  });

  it("leaves nothing that goes on when its time is over, however often it is called while the store is away", async () => {
    const timersAfter = async (calls: number): Promise<number> => {
      const { clock, chaos, bare } = timedWorld();
      const { cache } = bare({ loads: { loadTimeoutMs: 1_000 } });
      chaos.mode = "throws";
      await expect(cache.invalidateTags(["Film:7"])).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
      const settled = Array.from({ length: calls }, () => cache.settled());
      await clock.advance(1_000);
      await Promise.all(settled);
      await clock.advance(1_000);
      const after = vi.spyOn(clock, "after");
      await clock.advance(1_000);
      const { length } = after.mock.calls;
      chaos.mode = undefined;
      await Promise.all([cache.close(), clock.advance(3_000)]);
      return length;
    };
    expect(await timersAfter(50)).toBe(await timersAfter(0));
  });

  it("waits until an invalidation that the store has not confirmed is repeated, and its record is written", async () => {
    const { clock, chaos, bare } = timedWorld();
    const { cache } = bare();
    chaos.mode = "throws";
    await expect(cache.invalidateTags(["Film:7"])).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    const settled = cache.settled();
    await clock.advance(5_000);
    expect(await hasSettled(settled)).toBe(false);
    chaos.mode = undefined;
    await clock.advance(5_000);
    expect(await hasSettled(settled)).toBe(true);
    expect((await cache.health()).reasons).toEqual([]);
  });

  it("resolves after the time limit of a load that never ends", async () => {
    const { clock, bare } = timedWorld();
    const { cache } = bare({ loads: { loadTimeoutMs: 7_000 } });
    const films = cache.loader({ name: "Film", maxAge: 60, batch: () => new Promise<never>(() => undefined) });
    const answer = films({}).load(7);
    answer.catch(() => undefined);
    await settle();
    const settled = cache.settled();
    await clock.advance(6_999);
    expect(await hasSettled(settled)).toBe(false);
    await clock.advance(1);
    expect(await hasSettled(settled)).toBe(true);
    await expect(answer).rejects.toMatchObject({ code: "CACHED_LOAD_TIMEOUT" });
    await Promise.all([cache.close(), clock.advance(2_000)]);
  });
});

describe("storeBeforeResponse", () => {
  const before = { storage: { storeBeforeResponse: true } };

  it("answers when the value is stored, those that wait for the load as well", async () => {
    const write = gate();
    const world = memoryWorld(() => holding(memoryStore(), "storeValues", () => write));
    const { ask, outcomes } = world.process(typeDefs, { Query: { film: () => 7 } }, before);
    const answers = [ask("{ film }"), ask("{ film }")];
    for (const answer of answers) expect(await hasSettled(answer)).toBe(false);
    write.open();
    for (const answer of answers) expect(await dataOf(answer)).toEqual({ film: 7 });
    expect(outcomes()).toEqual({ loaded: 1, coalesced: 1 });
    expect(await dataOf(ask("{ film }"))).toEqual({ film: 7 });
    expect(outcomes()).toEqual({ loaded: 1, coalesced: 1, hit: 1 });
  });

  it("does not wait for a store that hangs longer than for its time budget", async () => {
    const { clock, bare, store } = timedWorld();
    const { cache } = bare({ ...before, store: holding(store(), "storeValues", gate) });
    const films = cache.loader({ name: "Film", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    const answer = films({}).load(7);
    expect(await hasSettled(answer)).toBe(false);
    await clock.advance(1_000);
    expect(await answer).toBe(7);
  });

  it("changes nothing for failures, for values that are not stored, and for loads that take too long", async () => {
    const { clock, bare } = timedWorld();
    const { cache } = bare({ ...before, loads: { loadTimeoutMs: 100 } });
    const error = new Error("no such film");
    const films = cache.loader<string, unknown>({
      name: "Film",
      maxAge: 60,
      batch: async (ids) =>
        ids[0] === "hang" ? new Promise<never>(() => undefined) : ids.map((id) => (id === "fail" ? error : () => id)),
      maxBatchSize: 1,
    });
    await expect(films({}).load("fail")).rejects.toBe(error);
    expect(await films({}).load("function")).toBeInstanceOf(Function);
    const hanging = films({}).load("hang");
    hanging.catch(() => undefined);
    await settle();
    await clock.advance(100);
    await expect(hanging).rejects.toMatchObject({ code: "CACHED_LOAD_TIMEOUT" });
    await Promise.all([cache.close(), clock.advance(2_000)]);
  });
});
