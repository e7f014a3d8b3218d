import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { type CachedError, type CacheOptions, memoryStore, type RefreshJob } from "graphql-cached";
import type { Store } from "graphql-cached/store";
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

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no error",
    (error: CachedError) => error.code,
  );

/** A memory store and processes on it, on a clock that the test moves. */
function fakeWorld() {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const source = new Source();
  const start = (options: CacheOptions<never> = {}, typeDefs = FIELD): Process =>
    source.start(
      memoryWorld(() => store),
      { prefix: "modes", testing: { clock }, ...options },
      typeDefs,
    );
  const storeReads = (): number => store.chaos.calls.get("read") ?? 0;
  return { clock, store, source, start, storeReads };
}

onEachStore("a field that is switched off", (world) => {
  it("is loaded by every read in every process, is not stored, and has its old entries again when it is on", async () => {
    const shared = world();
    const source = new Source();
    const [one, other] = [source.start(shared), source.start(shared)];
    expect(await read(one)).toBe(1);
    await waitForStores(one);
    await one.cache.setMode("off", { coordinate: COORDINATE });
    source.version = 2;
    // The other process learns it with its first read.
    expect([await read(one), await read(other), await read(other), source.loads]).toEqual([2, 2, 2, 4]);
    expect(other.outcomes()).toEqual({ "bypassed(MODE_OFF)": 2 });
    await one.cache.setMode("on", { coordinate: COORDINATE });
    expect([await read(one), source.loads]).toEqual([1, 4]);
    await expect.poll(() => read(other), { timeout: 2_000 }).toBe(1);
  });

  it("is still invalidated, so that it has no outdated entry when it is on again", async () => {
    const source = new Source();
    const process = source.start(world());
    expect(await read(process)).toBe(1);
    await waitForStores(process);
    await process.cache.setMode("off", { coordinate: COORDINATE });
    source.version = 2;
    await process.cache.invalidate({ coordinate: COORDINATE, args: { id: "7" } });
    await process.cache.setMode("on", { coordinate: COORDINATE });
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
    await process.cache.setMode("off");
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
    await cache.setMode("off");
    await cache.setMode("on", { coordinate: COORDINATE });
    expect(await loadsOfTwoReads()).toBe(2);
    await cache.setMode("on");
    expect(await loadsOfTwoReads()).toBe(1);
    await cache.setMode("off", { coordinate: COORDINATE });
    expect(await loadsOfTwoReads()).toBe(2);
  });

  it("leaves other fields as they are", async () => {
    const { source, start } = fakeWorld();
    const process = start({}, `${FIELD.slice(0, -1)} other: Int @cached(maxAge: 60) }`);
    await process.cache.setMode("off", { coordinate: "Query.other" });
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
    await process.cache.setMode("off");
    const before = storeReads();
    expect([await read(process, undefined, {}), source.loads, storeReads()]).toEqual([1, 1, before]);
    expect(process.outcomes()).toEqual({ "bypassed(MODE_OFF)": 1 });
  });

  it("takes precedence over REFRESH, and BYPASS over it", async () => {
    const { start } = fakeWorld();
    const process = start();
    await process.cache.setMode("off");
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
    await process.cache.setMode("off", { coordinate: COORDINATE });
    held.open();
    expect(await Promise.all(reads)).toEqual([1, 1]);
    await settle();
    expect(process.events.map(({ name }) => name)).not.toContain("write.finished");
    await process.cache.setMode("on", { coordinate: COORDINATE });
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
    await loading.cache.setMode("off");
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
    await web.cache.setMode("off", { coordinate: COORDINATE });
    expect([await worker.cache.refresh(jobs[0] as RefreshJob), source.loads]).toEqual([false, 1]);
    expect(store.chaos.calls.get("release")).toBe(1);
    await web.cache.setMode("on", { coordinate: COORDINATE });
    // The lease is free, so the next stale read is refreshed at once.
    await read(web);
    await settle();
    expect(jobs).toHaveLength(2);
    expect(await worker.cache.refresh(jobs[1] as RefreshJob)).toBe(true);
  });

  it("keeps the near cache from serving what it has", async () => {
    const clock = new FakeClock();
    const inner = chaosStore(memoryStore({ clock }));
    const source = new Source();
    const process = source.start(
      memoryWorld(() => inner),
      { nearCache: {}, testing: { clock } },
    );
    const things = process.cache.loader<number, number>({
      name: "Thing",
      maxAge: 60,
      batch: async (ids) => ids.map(() => source.version),
    });
    const readBoth = async (): Promise<unknown[]> => [await read(process), await things({}).load(1)];
    const storeReads = (): number => inner.chaos.calls.get("read") ?? 0;
    for (const _ of [1, 2, 3]) {
      await readBoth();
      await settle();
    }
    const before = storeReads();
    expect([await readBoth(), source.loads, storeReads()]).toEqual([[1, 1], 1, before]);
    await process.cache.setMode("off");
    source.version++;
    expect(await readBoth()).toEqual([source.version, source.version]);
  });
});

describe("a process that reads nothing, since its fields are off", () => {
  it("learns of a change by reading the settings once a second, and stops when all modes are on", async () => {
    const { clock, start, storeReads } = fakeWorld();
    const [one, other] = [start(), start()];
    await read(other);
    await one.cache.setMode("off");
    await read(other, '{ value(id: "8") }');
    expect(other.outcomes()).toMatchObject({ "bypassed(MODE_OFF)": 1 });
    const before = storeReads();
    await clock.advance(3_000);
    expect(storeReads() - before).toBe(2 * 3);
    await one.cache.setMode("on");
    await clock.advance(1_000);
    expect(other.events.filter(({ name }) => name === "mode.changed")).toEqual([
      { name: "mode.changed", coordinate: null, previous: "on", mode: "off" },
      { name: "mode.changed", coordinate: null, previous: "off", mode: "on" },
    ]);
    const after = storeReads();
    await clock.advance(60_000);
    expect(storeReads()).toBe(after);
  });

  it("stops reading when its cache is closed", async () => {
    const { clock, start, storeReads } = fakeWorld();
    const { cache } = start();
    await cache.setMode("off");
    await cache.close();
    const before = storeReads();
    await clock.advance(60_000);
    expect(storeReads()).toBe(before);
  });

  it("keeps its modes while the store is away, and goes on asking", async () => {
    const { clock, start, store } = fakeWorld();
    const [one, other] = [start(), start()];
    await one.cache.setMode("off");
    await read(other);
    store.chaos.mode = "throws";
    await clock.advance(60_000);
    await read(other);
    expect(other.outcomes()).toEqual({ "bypassed(MODE_OFF)": 2 });
    store.chaos.mode = undefined;
    // The breaker of the store lets a probe through after five seconds at most.
    await clock.advance(7_000);
    await one.cache.setMode("on");
    await clock.advance(1_000);
    await read(other);
    expect(other.outcomes()).toMatchObject({ loaded: 1 });
  });
});

describe("settings that are lost", () => {
  it("gets the modes again that processes have seen, with the latest of each", async () => {
    const clock = new FakeClock();
    let inner = memoryStore({ clock });
    const losing = new Proxy({} as Store, {
      get: (_, property) => {
        const value: unknown = Reflect.get(inner, property, inner);
        return typeof value === "function" ? value.bind(inner) : value;
      },
    });
    const source = new Source();
    const start = (): Process =>
      source.start(
        memoryWorld(() => losing),
        { prefix: "lost", testing: { clock } },
      );
    const [one, other] = [start(), start()];
    await one.cache.setMode("off", { coordinate: COORDINATE });
    await read(other);
    expect(other.outcomes()).toEqual({ "bypassed(MODE_OFF)": 1 });
    inner = memoryStore({ clock });
    const fresh = start();
    await clock.advance(1_000);
    await read(fresh);
    await read(other);
    expect([fresh.outcomes(), other.outcomes()]).toEqual([{ "bypassed(MODE_OFF)": 1 }, { "bypassed(MODE_OFF)": 2 }]);
    // A later change counts, also for a process that comes back with an earlier one.
    await fresh.cache.setMode("on", { coordinate: COORDINATE });
    inner = memoryStore({ clock });
    await clock.advance(3_000);
    for (const process of [one, other, fresh]) await read(process);
    const modes = [one, other, fresh].map(({ outcomes }) => outcomes()["bypassed(MODE_OFF)"]);
    expect(modes).toEqual([undefined, 2, 1]);
  });
});

describe("cache.setMode", () => {
  it("keeps the changes of two processes that are made at the same time", async () => {
    const { start, source } = fakeWorld();
    const typeDefs = `${FIELD.slice(0, -1)} other: Int @cached(maxAge: 60) }`;
    const [one, other] = [start({}, typeDefs), start({}, typeDefs)];
    await Promise.all([
      one.cache.setMode("off", { coordinate: COORDINATE }),
      other.cache.setMode("off", { coordinate: "Query.other" }),
      one.cache.setMode("off"),
    ]);
    const reader = start({}, typeDefs);
    for (const process of [one, other, reader]) {
      await dataOf(process.ask('{ value(id: "7") other }'));
      await settle();
      await dataOf(process.ask('{ value(id: "7") other }'));
    }
    expect(reader.outcomes()["bypassed(MODE_OFF)"]).toBeGreaterThanOrEqual(3);
    expect(source.loads).toBe(6);
    await start({}, typeDefs).cache.setMode("on");
    await dataOf(reader.ask('{ value(id: "7") other }'));
    expect(reader.outcomes()["bypassed(MODE_OFF)"]).toBeGreaterThanOrEqual(5);
  });

  it("takes fields of other releases, and refuses what no release has, and other invalid arguments", async () => {
    const { start } = fakeWorld();
    const [one, other] = [start(), start({}, `${FIELD.slice(0, -1)} later: Int @cached(maxAge: 60) }`)];
    await other.ask("{ later }");
    await settle();
    await one.cache.setMode("off", { coordinate: "Query.later" });
    expect(await codeOf(one.cache.setMode("off", { coordinate: "Query.values" }))).toBe("CACHED_COORDINATE_UNKNOWN");
    await expect(one.cache.setMode("off", { coordinate: "Query.values" })).rejects.toThrow(
      "known are Query.later, Query.value",
    );
    for (const [mode, target] of [
      ["OFF", {}],
      [undefined, {}],
      ["off", null],
      ["off", { coordinate: null }],
      ["off", { field: COORDINATE }],
    ] as const)
      expect(await codeOf(one.cache.setMode(mode as never, target as never))).toBe("CACHED_OPTION_INVALID");
  });

  it("rejects if the store does not confirm", async () => {
    const { start, store } = fakeWorld();
    const { cache } = start();
    store.chaos.mode = "throws";
    expect(await codeOf(cache.setMode("off"))).toBe("CACHED_STORE_UNAVAILABLE");
  });

  it("is changed for the other processes by one whose cache is closed, as entries are invalidated by it", async () => {
    const { start, source } = fakeWorld();
    const [one, other] = [start(), start()];
    expect(await read(other)).toBe(1);
    await one.cache.close();
    source.version = 2;
    await one.cache.invalidate({ coordinate: COORDINATE, args: { id: "7" } });
    expect(await read(other)).toBe(2);
    await one.cache.setMode("off");
    await read(other);
    expect(other.outcomes()).toEqual({ loaded: 2, "bypassed(MODE_OFF)": 1 });
  });

  it("is logged by each process that learns of the change", async () => {
    const lines: string[] = [];
    const { start } = fakeWorld();
    const { cache } = start({ logger: { info: (line) => lines.push(line), warn: () => undefined } });
    await cache.setMode("off", { coordinate: COORDINATE });
    await cache.setMode("off");
    expect(lines).toEqual([
      "graphql-cached: the mode of `Query.value` is off now; it was on",
      "graphql-cached: the mode of the cache is off now; it was on",
    ]);
  });
});

describe("the options for modes", () => {
  it("are checked when they are given", () => {
    const { start } = fakeWorld();
    expect(() => start({ initialMode: "ON" as never })).toThrow(
      '`initialMode`: expected one of the modes off and on, got "ON"',
    );
  });
});

describe("the option initialMode", () => {
  it("counts until the process has reached the store, which no request waits for", async () => {
    const { clock, source, start, store } = fakeWorld();
    store.chaos.mode = "hangs";
    const process = start({ initialMode: "off" });
    await read(process);
    await clock.advance(30_000);
    await read(process);
    expect(process.outcomes()).toEqual({ "bypassed(MODE_OFF)": 2 });
    store.chaos.mode = undefined;
    await clock.advance(7_000);
    await read(process);
    await settle();
    expect([await read(process), source.loads, process.outcomes()]).toEqual([
      1,
      3,
      { "bypassed(MODE_OFF)": 2, loaded: 1, hit: 1 },
    ]);
  });
});
