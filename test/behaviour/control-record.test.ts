import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { chaosStore, FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../src/parts.js";
import { VersionedSource } from "../support/versioned-source.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../support/world.js";

const field = (settings = "", type = "Int") =>
  `type Query { value(id: ID!, lang: String): ${type} @cached(maxAge: 60${settings}) }`;

/** A source that counts its loads, whose loads can be held after they have read the value. */
class Source extends VersionedSource {
  start(world: World, typeDefs = field(), options: object = {}): Process {
    // A busy machine must not look like a store that fails.
    const storage = "testing" in options ? {} : { storeTimeoutMs: 2_000 };
    return world.process(typeDefs, { Query: { value: this.load } }, { storage, ...options });
  }
}

const QUERY = '{ value(id: "7") }';
const TARGET = { coordinate: "Query.value", args: { id: "7" } };
const read = async ({ ask }: Process, query = QUERY): Promise<unknown> =>
  ((await dataOf(ask(query))) as { value: unknown }).value;
const clear = ({ cache }: Process): Promise<void> =>
  partsOf(cache, "test").invalidation.clear("hard", { via: "cache.clear" });
/** Changes the record, and nothing that a test reads. */
const setMode = ({ cache }: Process): Promise<void> =>
  partsOf(cache, "test").control.setMode({ mode: "off", coordinate: "Query.other", by: "test" });

/** Passes calls on to a store, except those that a test replaces. */
function storeWith(inner: Store, own: Partial<Store>): Store {
  return new Proxy(inner, {
    get(target, property) {
      const value: unknown = Reflect.get(own, property) ?? Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

onEachStore("the control record", (world) => {
  it("keeps a value from being served whose load began before everything was cleared, although it is stored", async () => {
    const shared = world();
    const source = new Source();
    const [loading, other] = [source.start(shared), source.start(shared)];
    const held = gate();
    source.hold = held.passed;
    const first = read(loading);
    await expect.poll(() => source.loads).toBe(1);
    source.hold = undefined;
    source.version = 2;
    await clear(other);
    held.open();
    expect(await first).toBe(1);
    await waitForStores(loading);
    expect(loading.events.filter(({ name }) => name === "write.finished")).toMatchObject([{ isStored: true }]);
    expect([await read(loading), await read(other), source.loads]).toEqual([2, 2, 2]);
  });

  it("makes a process that was away while everything was cleared serve nothing older", async () => {
    const shared = world();
    const source = new Source();
    const [away, other] = [source.start(shared), source.start(shared)];
    expect(await read(away)).toBe(1);
    await waitForStores(away);
    source.version = 2;
    await clear(other);
    expect([await read(away), source.loads]).toEqual([2, 2]);
    await waitForStores(away, 2);
    expect([await read(other), source.loads]).toEqual([2, 2]);
  });

  it("lets every release invalidate the entry of a key in all releases, also after a rollback", async () => {
    const shared = world();
    const source = new Source();
    const [old, next] = [source.start(shared), source.start(shared, field("", "Float"))];
    for (const invalidating of [old, next]) {
      for (const process of [old, next]) {
        await read(process);
        await expect.poll(async () => (await read(process), process.outcomes().hit ?? 0)).toBeGreaterThan(0);
      }
      source.version++;
      await invalidating.cache.invalidate(TARGET);
      for (const process of [old, next]) expect(await read(process)).toBe(source.version);
    }
    await waitForStores(old, 3);
    await waitForStores(next, 3);
    source.version++;
    await next.cache.invalidate(TARGET);
    const rolledBack = source.start(shared);
    expect(await read(rolledBack)).toBe(source.version);
  });

  it("invalidates the whole field for a release that makes its keys in another way", async () => {
    const shared = world();
    const source = new Source();
    const [old, next] = [source.start(shared), source.start(shared, field(', key: ["$args.id"]'))];
    for (const process of [old, next]) expect(await read(process)).toBe(1);
    await waitForStores(old);
    await waitForStores(next);
    source.version = 2;
    await old.cache.invalidate(TARGET);
    for (const process of [old, next]) expect(await read(process)).toBe(2);
  });

  it.each([
    ["the same way", field("", "Float")],
    ["another way", field(', key: ["$args.id"]')],
  ])(
    "outdates what a release loads that is listed while another one invalidates the key and makes its keys in %s",
    async (_way, typeDefs) => {
      const shared = world();
      const source = new Source();
      const invalidating = source.start(shared);
      await read(invalidating);
      await waitForStores(invalidating);
      const third = source.start(shared, typeDefs);
      const held = gate();
      source.hold = held.passed;
      const loading = read(third);
      await expect.poll(() => source.loads).toBe(2);
      source.hold = undefined;
      source.version = 2;
      // It does not know the third release yet.
      await invalidating.cache.invalidate(TARGET);
      held.open();
      expect(await loading).toBe(1);
      await waitForStores(third);
      expect([await read(third), await read(invalidating)]).toEqual([2, 2]);
    },
  );

  it("makes everything absent, once, if the store has lost the record alone", async () => {
    const shared = world();
    const source = new Source();
    let isLost = false;
    // The record is lost: no copy has a version until one is written.
    const store = shared.store();
    const losing = storeWith(store, {
      read: async (keys) => ({
        ...(await store.read(keys)),
        ...(isLost ? { controlVersion: undefined } : {}),
      }),
      readControl: async (copies) =>
        isLost ? copies.map(() => ({ kind: "read", record: undefined })) : store.readControl(copies),
      replaceControl: async (expected, content) => {
        if (!isLost || expected !== undefined) return store.replaceControl(expected, content);
        isLost = false;
        const [current] = await store.readControl(store.controlCopies().slice(0, 1));
        return store.replaceControl(current?.kind === "read" ? current.record?.version : undefined, content);
      },
    });
    const process = source.start(shared, field(), { store: losing });
    await read(process);
    await waitForStores(process);
    expect([await read(process), source.loads]).toEqual([1, 1]);
    isLost = true;
    source.version = 2;
    expect([await read(process), source.loads]).toEqual([2, 2]);
    await waitForStores(process, 2);
    expect([await read(process), source.loads]).toEqual([2, 2]);
  });

  it("keeps what another release has written to it, with the version that its placeholders stand for", async () => {
    const shared = world();
    const store = shared.store();
    const source = new Source();
    const reader = source.start(shared, field(), { store });
    await read(reader);
    const contentOf = async (): Promise<[string, Record<string, unknown>]> => {
      const [reading] = await store.readControl(store.controlCopies().slice(0, 1));
      if (reading?.kind !== "read" || reading.record === undefined) throw new Error("expected a record");
      return [reading.record.version, JSON.parse(Buffer.from(reading.record.content).toString())];
    };
    const [before, content] = await contentOf();
    const modes = { bypass: { since: "*", by: "another release" } };
    const written = await store.replaceControl(before, Buffer.from(JSON.stringify({ ...content, modes })));
    await setMode(reader);
    const [after, { modes: kept }] = await contentOf();
    expect(after > before).toBe(true);
    const since = Buffer.from(written ?? "", "latin1").toString("base64url");
    expect(kept).toMatchObject({ bypass: { since, by: "another release" } });
  });

  it("lists a variant again that was dropped, and does not serve its earlier entries", async () => {
    const shared = world();
    const store = shared.store();
    const source = new Source();
    const process = source.start(shared, field(), { store });
    await read(process);
    await waitForStores(process);
    const [reading] = await store.readControl(store.controlCopies().slice(0, 1));
    if (reading?.kind !== "read" || reading.record === undefined) throw new Error("expected a record");
    const content = JSON.parse(Buffer.from(reading.record.content).toString()) as object;
    const dropped = Buffer.from(JSON.stringify({ ...content, coordinates: {} }));
    const version = (await store.replaceControl(reading.record.version, dropped)) ?? "";
    await store.raiseControl(store.controlCopies(), { version, content: dropped });
    source.version = 2;
    expect([await read(process), source.loads]).toEqual([2, 2]);
    await waitForStores(process, 2);
    expect([await read(process), source.loads]).toEqual([2, 2]);
  });

  it("keeps a later version that a process knows if the store goes back to an earlier one, and restores it", async () => {
    const shared = world();
    const inner = shared.store();
    const source = new Source();
    let rolledBackTo: Awaited<ReturnType<Store["readControl"]>>[number] | undefined;
    let raised: string | undefined;
    const store = storeWith(inner, {
      read: async (keys) => {
        const result = await inner.read(keys);
        if (rolledBackTo?.kind !== "read") return result;
        return { ...result, controlVersion: rolledBackTo.record?.version };
      },
      readControl: async (copies) =>
        rolledBackTo === undefined ? inner.readControl(copies) : copies.map(() => rolledBackTo as never),
      raiseControl: async (copies, record) => {
        raised = record.version;
        rolledBackTo = undefined;
        return inner.raiseControl(copies, record);
      },
    });
    const process = source.start(shared, field(), { store });
    await read(process);
    await waitForStores(process);
    const [early] = await inner.readControl(inner.controlCopies().slice(0, 1));
    await setMode(process);
    const [late] = await inner.readControl(inner.controlCopies().slice(0, 1));
    rolledBackTo = early;
    raised = undefined;
    expect([await read(process), source.loads]).toEqual([1, 1]);
    await expect.poll(() => raised, { timeout: 5_000 }).toBe(late?.kind === "read" ? late.record?.version : "");
  });
});

describe("the control record while the store fails", () => {
  it("loads without a lease, once at a time, while the variant cannot be listed, and recovers", async () => {
    const clock = new FakeClock();
    const inner = memoryStore({ clock });
    let isRefused = true;
    const store = storeWith(inner, {
      replaceControl: (expected, content) =>
        isRefused ? Promise.reject(new Error("read-only")) : inner.replaceControl(expected, content),
    });
    const source = new Source();
    const process = source.start(
      memoryWorld(() => store),
      field(),
      { testing: { clock } },
    );
    const held = gate();
    source.hold = held.passed;
    const results = Array.from({ length: 20 }, () => read(process));
    await settle();
    held.open();
    expect(new Set(await Promise.all(results))).toEqual(new Set([1]));
    expect([source.loads, process.outcomes()]).toEqual([1, { "bypassed(STORE_UNAVAILABLE)": 20 }]);
    isRefused = false;
    await clock.advance(1_500);
    await read(process);
    await settle();
    await read(process);
    expect(process.outcomes()).toMatchObject({ loaded: 1, hit: 1 });
  });

  it("lists its variants again when a store that has lost the record accepts writes again", async () => {
    const clock = new FakeClock();
    const inner = memoryStore({ clock });
    let isLost = false;
    const store = storeWith(inner, {
      read: async (keys) => ({
        ...(await inner.read(keys)),
        ...(isLost ? { controlVersion: undefined } : {}),
      }),
      readControl: async (copies) =>
        isLost ? copies.map(() => ({ kind: "read", record: undefined })) : inner.readControl(copies),
      replaceControl: (expected, content) =>
        isLost ? Promise.reject(new Error("READONLY")) : inner.replaceControl(expected, content),
    });
    const source = new Source();
    const process = source.start(
      memoryWorld(() => store),
      field(),
      { testing: { clock } },
    );
    await read(process);
    await settle();
    isLost = true;
    for (let nth = 0; nth < 3; nth++) expect(await read(process)).toBe(1);
    expect(process.outcomes()).toEqual({ loaded: 1, "bypassed(STORE_UNAVAILABLE)": 3 });
    isLost = false;
    await clock.advance(6_000);
    await read(process);
    await settle();
    await read(process);
    expect(process.outcomes().hit).toBeGreaterThan(0);
  });

  it("waits for two time budgets at most before it loads when the record cannot be read", async () => {
    const clock = new FakeClock();
    const inner = memoryStore({ clock });
    const store = storeWith(inner, { readControl: () => new Promise(() => undefined) });
    const source = new Source();
    const process = source.start(
      memoryWorld(() => store),
      field(),
      { testing: { clock } },
    );
    const answer = read(process);
    await clock.advance(90);
    expect(source.loads).toBe(0);
    await clock.advance(120);
    expect([await answer, source.loads]).toEqual([1, 1]);
  });

  it("turns more invalidations than can be held into a clear, reads nothing until it is confirmed, and reports it", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const world = memoryWorld(() => store);
    const source = new Source();
    const lines: string[] = [];
    const logger = { info: () => undefined, warn: (line: string) => void lines.push(line) };
    const process = source.start(world, field(), { testing: { clock }, logger });
    await read(process);
    await settle();
    expect([await read(process), source.loads]).toEqual([1, 1]);
    store.chaos.mode = "throws";
    source.version = 2;
    const names = Array.from({ length: 10_001 }, (_, nth) => `tag ${nth}`);
    await expect(process.cache.invalidateTags(names)).rejects.toThrow();
    const overflowed = (): number => process.events.filter(({ name }) => name === "invalidations.overflowed").length;
    expect(overflowed()).toBe(1);
    expect(lines.filter((line) => line.includes("more than 10000 keys or tags"))).toHaveLength(1);
    // None of the names concerns this entry, but nobody can tell any more.
    expect(await read(process)).toBe(2);
    store.chaos.mode = undefined;
    await clock.advance(6_000);
    await settle();
    expect(await read(process)).toBe(2);
    await settle();
    const { loads } = source;
    expect([await read(process), source.loads]).toEqual([2, loads]);
    expect(process.outcomes().hit).toBe(2);
  });

  it("remembers no more names of invalidations once it has to invalidate everything, however many fail", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const source = new Source();
    const process = source.start(
      memoryWorld(() => store),
      field(),
      { testing: { clock }, logger: { info: () => undefined, warn: () => undefined } },
    );
    await read(process);
    await settle();
    const { invalidations } = partsOf(process.cache, "test");
    store.chaos.mode = "throws";
    const fail = (names: readonly string[]): Promise<void> =>
      expect(process.cache.invalidateTags([...names])).rejects.toThrow();
    await fail(Array.from({ length: 10_001 }, (_, nth) => `tag ${nth}`));
    const { changes } = invalidations;
    for (let nth = 0; nth < 10; nth++) await fail([`another ${nth}`]);
    expect(invalidations.changes).toBe(changes);
    source.version = 2;
    await expect(process.cache.invalidate(TARGET)).rejects.toThrow();
    store.chaos.mode = undefined;
    await clock.advance(6_000);
    await settle();
    expect(await read(process)).toBe(2);
  });
});
