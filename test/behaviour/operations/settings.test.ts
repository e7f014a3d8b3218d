import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore, type RefreshJob } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { createKeySpace } from "../../../src/core/keys/key.js";
import { VersionedSource } from "../../support/versioned-source.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World } from "../../support/world.js";

const FIELD = "type Query { value: Int @cached(maxAge: 60) }";
const COORDINATE = "Query.value";
const DAY_MS = 24 * 3_600_000;

class Source extends VersionedSource {
  start(world: World, options: object = {}, typeDefs = FIELD): Process {
    return world.process(typeDefs, { Query: { value: this.load } }, options);
  }
}

const read = async ({ ask }: Process): Promise<unknown> =>
  ((await dataOf(ask("{ value }"))) as { value: unknown }).value;

/** Reads until a read of the process has `outcome`. */
async function untilOutcome(process: Process, outcome: string): Promise<void> {
  await expect.poll(async () => (await read(process), process.outcomes()[outcome] ?? 0)).toBeGreaterThan(0);
}

interface Content {
  readonly modes: Record<string, { readonly mode: string; readonly sequence: number }>;
  readonly coordinates: readonly string[];
}

const contentOf = async (store: Store): Promise<Content> =>
  JSON.parse(Buffer.from((await store.readSettings()) ?? "{}").toString()) as Content;

/** Replaces the settings, as a process of another release. */
async function write(store: Store, content: object | undefined): Promise<void> {
  const bytes = Buffer.from(content === undefined ? "lost" : JSON.stringify(content));
  expect(await store.replaceSettings(await store.readSettings(), bytes)).toBe(true);
}

/** Opens a store of a world for the test itself. */
function openStore(world: World): Store {
  const store = world.store();
  store.open(createKeySpace(world.prefix), () => undefined);
  return store;
}

/** Passes calls on to a store, except those that a test replaces. */
function storeWith(inner: Store, own: Partial<Store>): Store {
  return new Proxy(inner, {
    get(target, property) {
      const value: unknown = Reflect.get(own, property) ?? Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

onEachStore("the settings", (world) => {
  it("have the names of the fields and loaders of all releases, once each", async () => {
    const shared = world();
    const source = new Source();
    const store = openStore(shared);
    const one = source.start(shared);
    one.cache.loader({ name: "Thing", maxAge: 60, batch: async (ids: readonly number[]) => [...ids] });
    await read(one);
    await expect.poll(async () => (await contentOf(store)).coordinates).toEqual([COORDINATE, "Thing"]);
    const other = source.start(shared, {}, `${FIELD.slice(0, -1)} later: Int @cached(maxAge: 60) }`);
    await read(other);
    await expect.poll(async () => (await contentOf(store)).coordinates).toEqual([COORDINATE, "Thing", "Query.later"]);
    // Also that of a loader that is created later, when nothing else has changed.
    await read(one);
    await read(one);
    const late = one.cache.loader({ name: "Late", maxAge: 60, batch: async (ids: readonly number[]) => [...ids] });
    await late({} as never).load(1);
    await expect.poll(async () => (await contentOf(store)).coordinates.slice(3)).toEqual(["Late"]);
  });

  it("keep what other releases have written to them, and a mode that only those know is off", async () => {
    const shared = world();
    const source = new Source();
    const store = openStore(shared);
    const process = source.start(shared);
    await untilOutcome(process, "hit");
    await expect.poll(async () => (await contentOf(store)).coordinates).toEqual([COORDINATE]);
    const foreign = {
      modes: { "Query.new": { mode: "shadow", sequence: 1, setAt: 1, reach: 0.5 }, "Query.text": "off" },
      coordinates: ["Query.new", 7],
      quotas: { "Query.value": 3 },
    };
    await write(store, foreign);
    const typeDefs = `${FIELD.slice(0, -1)} new: Int @cached(maxAge: 60) text: Int @cached(maxAge: 60) }`;
    const next = shared.process(typeDefs, { Query: { value: source.load, new: () => 1, text: () => 1 } });
    await dataOf(next.ask("{ new text }"));
    await dataOf(next.ask("{ new text }"));
    expect(next.outcomes()).toMatchObject({ "bypassed(MODE_OFF)": 2, loaded: 1 });
    await process.cache.setMode("off", { coordinate: COORDINATE });
    await expect
      .poll(() => contentOf(store))
      .toMatchObject({
        modes: { ...foreign.modes, [COORDINATE]: { mode: "off" } },
        quotas: foreign.quotas,
      });
    await expect
      .poll(async () => [...(await contentOf(store)).coordinates].sort())
      .toEqual(["Query.new", "Query.text", COORDINATE]);
  });

  it("are written again with the modes and the names that a process knows if they are lost", async () => {
    const shared = world();
    const source = new Source();
    const store = openStore(shared);
    const [one, other] = [source.start(shared), source.start(shared)];
    await one.cache.setMode("off", { coordinate: COORDINATE });
    await untilOutcome(other, "bypassed(MODE_OFF)");
    const { modes } = await contentOf(store);
    await write(store, undefined);
    // Without a read: a process with a mode that is not on reads the settings once a second.
    await expect
      .poll(() => contentOf(store).catch(() => undefined), { timeout: 10_000 })
      .toEqual({ modes, coordinates: [COORDINATE] });
    const late = source.start(shared);
    await untilOutcome(late, "bypassed(MODE_OFF)");
    expect(late.outcomes()).not.toHaveProperty("loaded");
  });

  it("keep the later one of two modes if the store goes back to earlier settings", async () => {
    const shared = world();
    const source = new Source();
    const store = openStore(shared);
    const process = source.start(shared);
    await process.cache.setMode("off", { coordinate: COORDINATE });
    const early = await contentOf(store);
    await process.cache.setMode("on", { coordinate: COORDINATE });
    await write(store, early);
    // With the next change, a process also writes the later modes that it knows.
    await process.cache.setMode("on");
    expect((await contentOf(store)).modes[COORDINATE]?.mode).toBe("on");
  });
});

describe("the settings", () => {
  function fakeWorld(own: Partial<Store> = {}) {
    const clock = new FakeClock();
    const inner = memoryStore({ clock });
    const store = storeWith(inner, own);
    const source = new Source();
    const start = (options: object = {}): Process =>
      source.start(
        memoryWorld(() => store),
        { prefix: "settings", testing: { clock }, ...options },
      );
    return { clock, inner, source, start };
  }

  it("show a mode that is set after everything was off for days, to processes that have read nothing since", async () => {
    const storeClock = new FakeClock();
    const inner = memoryStore({ clock: storeClock });
    const clock = new FakeClock();
    const source = new Source();
    const shared = memoryWorld(() => inner);
    const start = (): Process => source.start(shared, { testing: { clock } });
    const [one, other] = [start(), start()];
    await one.cache.setMode("off");
    await read(other);
    await storeClock.advance(3 * DAY_MS);
    await start().cache.setMode("on");
    await clock.advance(2_000);
    for (const process of [one, other]) {
      await read(process);
      await settle();
    }
    expect([one.outcomes(), other.outcomes()]).toEqual([{ loaded: 1 }, { "bypassed(MODE_OFF)": 1, hit: 1 }]);
  });

  it("are waited for during two time budgets at most if they cannot be read, and reads load without the store then", async () => {
    const { clock, source, start } = fakeWorld({ readSettings: () => new Promise(() => undefined) });
    const process = start();
    const answer = read(process);
    await clock.advance(90);
    expect(source.loads).toBe(0);
    await clock.advance(120);
    expect([await answer, source.loads]).toEqual([1, 1]);
    expect(process.outcomes()).toEqual({ "bypassed(STORE_UNAVAILABLE)": 1 });
  });

  it("are not needed to be written for values to be stored and served, and get the names once they can be", async () => {
    let isRefused = true;
    const inner = memoryStore({ clock: new FakeClock() });
    const { clock, source, start } = fakeWorld({
      readSettings: () => inner.readSettings(),
      replaceSettings: (expected, content) =>
        isRefused ? Promise.reject(new Error("READONLY")) : inner.replaceSettings(expected, content),
    });
    const process = start();
    for (const _ of [1, 2]) {
      expect(await read(process)).toBe(1);
      await settle();
    }
    expect([source.loads, process.outcomes()]).toEqual([1, { loaded: 1, hit: 1 }]);
    isRefused = false;
    await clock.advance(10_000);
    expect((await contentOf(inner)).coordinates).toEqual([COORDINATE]);
  });

  it("are changed by one process after the other, however many set modes at the same time", async () => {
    const { inner, start } = fakeWorld();
    const processes = Array.from({ length: 10 }, () => start());
    const coordinates = processes.map((_, nth) => `Query.field${nth}`);
    await write(inner, { coordinates });
    await Promise.all(
      processes.map(({ cache }, nth) => cache.setMode("off", { coordinate: coordinates[nth] as string })),
    );
    expect(Object.keys((await contentOf(inner)).modes)).toHaveLength(10);
  });

  it("are given up by a process that always loses to another one", async () => {
    let written = 0;
    const { start } = fakeWorld({ replaceSettings: async () => (written++, false) });
    await expect(start().cache.setMode("off")).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
      message: "store: the settings change faster than they can be written; check what else writes to them",
    });
    expect(written).toBe(20);
  });

  it("show a mode to processes that have read the settings before, although its record of the clock failed at first", async () => {
    const clock = new FakeClock();
    const inner = memoryStore({ clock });
    let isAway = false;
    const store = storeWith(inner, {
      appendClock: (records) =>
        isAway && records.length > 0 ? Promise.reject(new Error("away")) : inner.appendClock(records),
    });
    const { start } = fakeWorld();
    const [one, other] = [start({ testing: { clock }, store }), start({ testing: { clock }, store: inner })];
    for (const process of [one, other]) await read(process);
    isAway = true;
    await expect(one.cache.setMode("off")).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    await clock.advance(3_000);
    isAway = false;
    await clock.advance(1_000);
    for (const process of [one, other])
      expect((await read(process), process.outcomes())).toHaveProperty(["bypassed(MODE_OFF)"]);
  });

  it("are written again, with a record of the clock, once a second at most to a store that keeps none", async () => {
    let isForgetful = false;
    let records = 0;
    const inner = memoryStore({ clock: new FakeClock() });
    const { clock, start } = fakeWorld({
      readSettings: async () => (isForgetful ? undefined : inner.readSettings()),
      replaceSettings: async (expected, content) => isForgetful || inner.replaceSettings(expected, content),
      appendClock: (appended) => {
        records += appended.length;
        return inner.appendClock(appended);
      },
      readClock: (from) => inner.readClock(from),
      read: (keys) => inner.read(keys),
      acquire: (...args) => inner.acquire(...args),
      storeValues: (requests) => inner.storeValues(requests),
    });
    const process = start();
    await process.cache.setMode("on", { coordinate: "Query.value" });
    isForgetful = true;
    await process.cache.invalidateTags(["a"]);
    await process.cache.setMode("on").catch(() => undefined);
    const before = records;
    for (let nth = 0; nth < 300; nth++) {
      await read(process);
      await clock.advance(10);
    }
    expect(records - before).toBeLessThanOrEqual(4);
  });

  it("keep their modes when a worker adds its names that has read nothing yet and cannot read the clock", async () => {
    const clock = new FakeClock(Date.now());
    const inner = memoryStore({ clock });
    const held = gate();
    const store = storeWith(inner, {
      readClock: async (from) => {
        await held.passed;
        return inner.readClock(from);
      },
    });
    const jobs: RefreshJob[] = [];
    const world = memoryWorld(() => inner);
    const typeDefs =
      "type Query { value: Int @cached(maxAge: 1, staleWhileRevalidate: 60) two: Int @cached(maxAge: 1) }";
    const resolvers = { Query: { value: () => 1 } };
    const refreshQueue = (job: RefreshJob): void => void jobs.push(job);
    const web = world.process(typeDefs, resolvers, { testing: { clock }, loads: { refreshQueue } });
    await read(web);
    await web.cache.setMode("off", { coordinate: "Query.two" });
    await clock.advance(2_000);
    await read(web);
    await settle();
    const later = `${typeDefs.slice(0, -1)} three: Int @cached(maxAge: 1) }`;
    const worker = world.process(later, resolvers, { testing: { clock }, store } as object);
    const refreshed = worker.cache.refresh(jobs[0] as RefreshJob, {} as never);
    await settle();
    expect(await contentOf(inner)).toMatchObject({
      coordinates: ["Query.value", "Query.two", "Query.three"],
      modes: { "Query.two": { mode: "off" } },
    });
    held.open();
    await refreshed;
  });
});
