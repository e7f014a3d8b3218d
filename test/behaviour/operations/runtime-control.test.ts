import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { type CacheOptions, memoryStore, type RefreshJob } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { VersionedSource } from "../../support/versioned-source.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

const FIELD = "type Query { value(id: ID!): Int @cached(maxAge: 60) }";
const COORDINATE = "Query.value";

class Source extends VersionedSource {
  start(world: World, options: CacheOptions<never> = {}, typeDefs = FIELD): Process {
    return world.process(typeDefs, { Query: { value: this.load } }, options);
  }
}

const read = async ({ ask }: Pick<Process, "ask">, query = '{ value(id: "7") }', context?: object): Promise<unknown> =>
  ((await dataOf(ask(query, context))) as { value: unknown }).value;

/** A memory store and processes on it, on a clock that the test moves. */
function fakeWorld() {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const source = new Source();
  const world = memoryWorld(() => store);
  const start = (options: CacheOptions<never> = {}, typeDefs = FIELD): Process =>
    source.start(world, { prefix: "modes", testing: { clock }, ...options }, typeDefs);
  const storeReads = (): number => store.chaos.calls.get("read") ?? 0;
  return { clock, store, source, start, storeReads };
}

onEachStore("a field that is switched off", (world) => {
  it("is loaded by every read of its process alone, is not stored, and has its old entries again when it is on", async () => {
    const shared = world();
    const source = new Source();
    const [one, other] = [source.start(shared), source.start(shared)];
    expect(await read(one)).toBe(1);
    await waitForStores(one);
    one.cache.setMode("off", COORDINATE);
    source.version = 2;
    expect([await read(one), await read(one), await read(other), source.loads]).toEqual([2, 2, 1, 3]);
    expect(one.outcomes()).toEqual({ loaded: 1, "bypassed(MODE_OFF)": 2 });
    one.cache.setMode("on", COORDINATE);
    expect([await read(one), source.loads]).toEqual([1, 3]);
  });

  it("is still invalidated, so that it has no outdated entry when it is on again", async () => {
    const source = new Source();
    const process = source.start(world());
    expect(await read(process)).toBe(1);
    await waitForStores(process);
    process.cache.setMode("off", COORDINATE);
    source.version = 2;
    await process.cache.invalidate({ coordinate: COORDINATE, args: { id: "7" } });
    process.cache.setMode("on", COORDINATE);
    expect(await read(process)).toBe(2);
  });
});

describe("the mode off", () => {
  it("resolves each call of a field, and each load of a request, as without the cache", async () => {
    const { source, start } = fakeWorld();
    const process = start({}, "type Query { value(id: ID!): Int @cached(maxAge: 60, key: []) }");
    const batches: (readonly number[])[] = [];
    const loader = process.cache.loader<number, number>({
      name: "Thing",
      maxAge: 60,
      batch: async (ids) => (batches.push(ids), ids.map((id) => id * 10)),
    });
    process.cache.setMode("off");
    await dataOf(process.ask('{ a: value(id: "1") b: value(id: "2") c: value(id: "2") }'));
    expect(source.loads).toBe(3);
    for (const context of [{}, {}]) {
      const things = loader(context);
      expect(await Promise.all([things.load(1), things.load(2), things.load(1)])).toEqual([10, 20, 10]);
      expect(await things.load(1)).toBe(10);
    }
    expect(batches).toEqual([
      [1, 2],
      [1, 2],
    ]);
    expect(process.outcomes()).toEqual({ "bypassed(MODE_OFF)": 7 });
  });

  it("applies if either everything or the field has it", async () => {
    const { source, start } = fakeWorld();
    const process = start();
    const { cache } = process;
    const loadsOfTwoReads = async (): Promise<number> => {
      const before = source.loads;
      await cache.clear();
      for (const _ of [1, 2]) {
        await read(process);
        await settle();
      }
      return source.loads - before;
    };
    expect(await loadsOfTwoReads()).toBe(1);
    cache.setMode("off");
    cache.setMode("on", COORDINATE);
    expect(await loadsOfTwoReads()).toBe(2);
    cache.setMode("on");
    expect(await loadsOfTwoReads()).toBe(1);
    cache.setMode("off", COORDINATE);
    expect(await loadsOfTwoReads()).toBe(2);
  });

  it("leaves other fields as they are", async () => {
    const { source, start } = fakeWorld();
    const process = start({}, `${FIELD.slice(0, -1)} other: Int @cached(maxAge: 60) }`);
    process.cache.setMode("off", "Query.other");
    for (const _ of [1, 2]) {
      expect(await read(process)).toBe(1);
      await settle();
    }
    expect([source.loads, process.outcomes()]).toEqual([1, { loaded: 1, hit: 1 }]);
  });

  it("does not read the store, and needs no identity and no key", async () => {
    const { source, start, storeReads } = fakeWorld();
    const typeDefs = 'type Query { value(id: ID!): Int @cached(maxAge: 60, scope: PRIVATE, key: ["$context.tenant"]) }';
    const process = start({ identify: () => undefined }, typeDefs);
    process.cache.setMode("off");
    const before = storeReads();
    expect([await read(process, undefined, {}), source.loads, storeReads()]).toEqual([1, 1, before]);
    expect(process.outcomes()).toEqual({ "bypassed(MODE_OFF)": 1 });
  });

  it("takes precedence over REFRESH, and BYPASS over it", async () => {
    const { start } = fakeWorld();
    const process = start();
    process.cache.setMode("off");
    for (const override of ["REFRESH", "BYPASS"] as const) {
      const context = {};
      process.cache.override(context, override);
      await read(process, undefined, context);
    }
    expect(process.outcomes()).toEqual({ "bypassed(MODE_OFF)": 1, "bypassed(REQUESTED)": 1 });
  });

  it("keeps a load under way from storing its value, which its callers get", async () => {
    const { source, start } = fakeWorld();
    const process = start();
    const held = gate();
    source.hold = held.passed;
    const reads = [read(process), read(process)];
    await settle();
    process.cache.setMode("off", COORDINATE);
    held.open();
    expect(await Promise.all(reads)).toEqual([1, 1]);
    await settle();
    expect(process.events.map(({ name }) => name)).not.toContain("write.finished");
    process.cache.setMode("on", COORDINATE);
    expect([await read(process), source.loads]).toEqual([1, 2]);
  });

  it("lets callers that wait for a load of another process load themselves", async () => {
    const { clock, source, start } = fakeWorld();
    const [loading, waiting] = [start(), start()];
    const held = gate();
    source.hold = held.passed;
    const first = read(loading);
    await settle();
    const second = read(waiting);
    await settle();
    expect(source.loads).toBe(1);
    source.hold = undefined;
    source.version = 2;
    waiting.cache.setMode("off");
    // The next poll of the waiter reads the store.
    await clock.advance(1_000);
    expect([await second, source.loads]).toEqual([2, 2]);
    held.open();
    expect(await first).toBe(1);
    expect(waiting.outcomes()).toEqual({ "bypassed(MODE_OFF)": 1 });
  });

  it("keeps a refresh job from running, and gives its lease up", async () => {
    const jobs: RefreshJob[] = [];
    const typeDefs = "type Query { value(id: ID!): Int @cached(maxAge: 1, staleWhileRevalidate: 600) }";
    const { clock, store, source, start } = fakeWorld();
    const web = start({ loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } }, typeDefs);
    const worker = start({}, typeDefs);
    await read(web);
    await clock.advance(2_000);
    await read(web);
    await settle();
    worker.cache.setMode("off", COORDINATE);
    expect([await worker.cache.refresh(jobs[0] as RefreshJob), source.loads]).toEqual([false, 1]);
    expect(store.chaos.calls.get("release")).toBe(1);
    worker.cache.setMode("on", COORDINATE);
    // The lease is free, so the next stale read is refreshed at once.
    await read(web);
    await settle();
    expect(jobs).toHaveLength(2);
    expect(await worker.cache.refresh(jobs[1] as RefreshJob)).toBe(true);
  });

  it("keeps values in memory from being served", async () => {
    const { source, start, storeReads } = fakeWorld();
    const process = start({ memory: { maxStalenessMs: 2_000 } });
    const things = process.cache.loader<number, number>({
      name: "Thing",
      maxAge: 60,
      batch: async (ids) => ids.map(() => source.version),
    });
    const readBoth = async (): Promise<unknown[]> => [await read(process), await things({}).load(1)];
    for (const _ of [1, 2, 3]) {
      await readBoth();
      await settle();
    }
    const before = storeReads();
    expect([await readBoth(), source.loads, storeReads()]).toEqual([[1, 1], 1, before]);
    process.cache.setMode("off");
    source.version++;
    expect(await readBoth()).toEqual([source.version, source.version]);
  });
});

describe("cache.setMode", () => {
  it("takes fields, loaders and responses, and refuses anything else", () => {
    const { start } = fakeWorld();
    const { cache } = start();
    cache.loader<number, number>({ name: "Thing", maxAge: 60, batch: async (ids) => ids });
    for (const coordinate of [COORDINATE, "Thing", "responses", undefined]) cache.setMode("on", coordinate);
    const refusal = (...given: unknown[]): unknown => {
      try {
        return (cache.setMode as (...args: unknown[]) => unknown)(...given);
      } catch (error) {
        return error;
      }
    };
    expect(refusal.call(cache, "off", "Query.values")).toMatchObject({
      code: "CACHED_COORDINATE_UNKNOWN",
      message: expect.stringContaining("known are Query.value, Thing, responses"),
    });
    for (const given of [["OFF"], [undefined], ["off", null], ["off", { coordinate: COORDINATE }]])
      expect(refusal(...given)).toMatchObject({ code: "CACHED_OPTION_INVALID" });
  });

  it("takes effect at once, also for a read that waits for the store", async () => {
    const { source, start, store, clock } = fakeWorld();
    const process = start();
    store.chaos.mode = "hangs";
    const waiting = read(process);
    await settle();
    process.cache.setMode("off");
    store.chaos.mode = undefined;
    await clock.advance(1_000);
    expect([await waiting, source.loads]).toEqual([1, 1]);
    expect(await read(process)).toBe(1);
    expect(process.outcomes()).toMatchObject({ "bypassed(MODE_OFF)": expect.any(Number) });
  });

  it("can be called when the cache is closed", async () => {
    const { start } = fakeWorld();
    const process = start();
    await process.cache.close();
    process.cache.setMode("on");
    await read(process);
    expect(process.outcomes()).toEqual({ "bypassed(CLOSED)": 1 });
  });
});
