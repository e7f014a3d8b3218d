import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { overrideStore } from "../../support/override-store.js";
import { KINDS } from "../../support/shop.js";
import { memoryWorld } from "../../support/world.js";
import { all, fleetOn } from "./watched-store.js";

const MEMORY = { memory: { maxStalenessMs: 2_000 } };

/** A process whose memory counts for two seconds and has all values, and others. `isTold`: whether it gets messages. */
async function start({ isTold = true, adapt = (store: Store) => store } = {}) {
  const clock = new FakeClock();
  const store = chaosStore(adapt(memoryStore({ clock })));
  const world = memoryWorld(() => store);
  const fleet = fleetOn(world, { isTold });
  const startOne = (options: object = {}) => fleet.start({ testing: { clock }, ...options });
  const one = startOne(MEMORY);
  await one.warm();
  /** The number of reads so far. */
  const reads = (): number => store.chaos.calls.get("read") ?? 0;
  /** Reads what is in memory, and fails unless it is. */
  const readMemory = async (): Promise<number[]> => {
    const before = reads();
    const values = await one.readAll();
    expect(reads()).toBe(before);
    return values;
  };
  await readMemory();
  return { ...fleet, clock, store, one, other: startOne(), start: startOne, reads, readMemory };
}

describe("memory that counts for two seconds", () => {
  it.each(Object.entries(KINDS))(
    "learns from a message that another process has invalidated %s",
    async (_, { what, invalidate }) => {
      const { source, one, other, reads } = await start();
      for (let nth = 0; nth < 2; nth++) {
        await one.read(what);
        await settle();
      }
      source.version = 2;
      await invalidate(other.cache);
      await settle();
      const before = reads();
      expect(await one.read(what)).toBe(2);
      expect(reads()).toBeGreaterThan(before);
    },
  );

  it("learns from a message of a write of another process", async () => {
    const { source, one, other } = await start();
    source.version = 2;
    await other.cache.mutate({ tags: ["Item:7"] }, () => undefined);
    await settle();
    expect(await one.readAll()).toEqual(all(2));
  });

  it("goes on to serve what was not invalidated, without a read of the store", async () => {
    const { other, readMemory } = await start();
    await other.cache.invalidateTags(["Item:8"]);
    await settle();
    expect(await readMemory()).toEqual(all(1));
  });

  it("no longer serves a softly invalidated value, which the store serves as stale", async () => {
    const { one, other } = await start();
    await other.cache.invalidateTags(["Item:7"], { soft: true });
    await settle();
    const before = one.outcomes();
    expect(await one.isInMemory()).toBe(false);
    expect(one.outcomes()).toMatchObject({ hit: before.hit, stale: 4 });
  });

  it("learns within half a second of an invalidation whose message is lost, at once if it reads something else", async () => {
    for (const readsMore of [false, true]) {
      const { clock, source, one, other, readMemory } = await start({ isTold: false });
      source.version = 2;
      await other.cache.invalidateTags(["Item:7"]);
      expect(await readMemory()).toEqual(all(1));
      if (readsMore) await one.read("number", 8);
      else {
        await clock.advance(499);
        expect(await one.readAll()).toEqual(all(1));
        await clock.advance(1);
      }
      expect(await one.readAll()).toEqual(all(2));
    }
  });

  it.each(["throws", "hangs"] as const)(
    "serves nothing from two seconds after its last answer on, if the store %s",
    async (mode) => {
      const { clock, store, source, one, readMemory } = await start();
      store.chaos.mode = mode;
      source.version = 2;
      await clock.advance(1_999);
      expect(await one.readAll()).toEqual(all(1));
      await clock.advance(1);
      const asked = one.readAll();
      await clock.advance(5_000);
      expect(await asked).toEqual(all(2));
      const { at, memory } = await one.cache.health();
      expect(Date.parse(at) - Date.parse(memory?.confirmedAt as string)).toBeGreaterThanOrEqual(2_000);
      store.chaos.mode = undefined;
      await clock.advance(3_000);
      expect(await one.readAll()).toEqual(all(1));
      await readMemory();
    },
  );

  it("does not serve what was invalidated while it slept", async () => {
    const { clock, source, one, other } = await start();
    await clock.advance(60_000);
    source.version = 2;
    await other.cache.invalidateTags(["Item:7"]);
    await settle();
    expect(await one.readAll()).toEqual(all(2));
  });

  it("does not serve a value that was invalidated between its read and the reply", async () => {
    const held = gate();
    let isHeld = false;
    const adapt = (store: Store): Store =>
      overrideStore(store, {
        read: async (keys) => {
          const reply = await store.read(keys);
          if (isHeld && keys.length > 0) await held.passed;
          return reply;
        },
      });
    const { source, one, other, readMemory } = await start({ isTold: false, adapt });
    await one.read("tagged");
    await settle();
    isHeld = true;
    const asked = one.read("tagged");
    await settle();
    isHeld = false;
    source.version = 2;
    await other.cache.invalidateTags(["Item:7"]);
    held.open();
    // It has asked before the invalidation.
    expect(await asked).toBe(1);
    await readMemory();
    await one.read("number", 8);
    expect(await one.read("tagged")).toBe(2);
  });

  it("does not serve what was read while an invalidation of this process failed", async () => {
    const failing = { isOn: false, held: gate() };
    const { store, source, other, start: startOne } = await start({ isTold: false });
    const own = overrideStore(store, {
      async appendClock(records) {
        if (!failing.isOn || records.length === 0) return store.appendClock(records);
        await failing.held.passed;
        throw new Error("away");
      },
    });
    const process = startOne({ ...MEMORY, store: own });
    await process.read("found", 8);
    // The position of the value is later than all that the process knows.
    await other.cache.invalidateTags(["Item:9"]);
    await other.read("found", 6);
    await other.drain();
    failing.isOn = true;
    source.version = 2;
    const invalidated = process.cache.invalidateTags(["Item:6"]);
    await settle();
    expect(await process.read("found", 6)).toBe(1);
    failing.held.open();
    await expect(invalidated).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    expect(await process.read("found", 6)).toBe(2);
    failing.isOn = false;
  });

  it("does not learn that another process has stored a newer value, if nothing was invalidated", async () => {
    const { clock, source, other, readMemory } = await start();
    source.version = 2;
    const context = {};
    other.cache.override(context, "REFRESH");
    expect((await other.ask("{ number(id: 7) found(id: 7) { version } }", context)).data).toEqual({
      number: 2,
      found: { version: 2 },
    });
    await clock.advance(500);
    expect(await readMemory()).toEqual(all(1));
  });

  it("ends with its cache: no question and no message reaches it any more", async () => {
    const { clock, store, one, other, reads } = await start();
    await one.cache.close();
    const before = reads();
    const logReads = store.chaos.calls.get("readClock") as number;
    await other.cache.invalidateTags(["Item:7"]);
    await clock.advance(5_000);
    // The process that has invalidated reads the log once.
    expect([reads(), store.chaos.calls.get("readClock")]).toEqual([before, logReads + 1]);
  });
});
