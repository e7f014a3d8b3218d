import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { VersionedSource } from "../../support/versioned-source.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

const FIELD = "type Query { value(id: ID!): Int @cached(maxAge: 60) }";

/** A source that counts its loads, whose loads can be held after they have read the value. */
class Source extends VersionedSource {
  start(world: World, options: object = {}): Process {
    // A busy machine must not look like a store that fails.
    const storage = "testing" in options ? {} : { storeTimeoutMs: 2_000 };
    return world.process(FIELD, { Query: { value: this.load } }, { storage, ...options });
  }
}

const TARGET = { coordinate: "Query.value", args: { id: "7" } };
const read = async ({ ask }: Process): Promise<unknown> =>
  ((await dataOf(ask('{ value(id: "7") }'))) as { value: unknown }).value;

onEachStore("cache.clear", (world) => {
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
    await other.cache.clear();
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
    await other.cache.clear();
    expect([await read(away), source.loads]).toEqual([2, 2]);
    await waitForStores(away, 2);
    expect([await read(other), source.loads]).toEqual([2, 2]);
  });
});

describe("more invalidations than can be kept", () => {
  it("become a clear, until whose confirmation nothing is read, and are reported", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const world = memoryWorld(() => store);
    const source = new Source();
    const lines: string[] = [];
    const logger = { info: () => undefined, warn: (line: string) => void lines.push(line) };
    const process = source.start(world, { testing: { clock }, logger });
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

  it("are no names to remember any more, however many fail", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const source = new Source();
    const process = source.start(
      memoryWorld(() => store),
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
