import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { fleet, type Shop, Source } from "../../support/shop.js";
import { onEachStore, pair } from "../../support/world.js";

const TAGS = { tags: ["Item:7"] };
const TARGETS: Readonly<Record<string, readonly [what: string, target: object, isLate?: boolean]>> = {
  "an entry of a field": ["field", { entries: [{ coordinate: "Query.field", args: { id: 7 } }] }],
  "an entry of a loader": ["Loader", { entries: [{ loader: "Loader", id: 7 }] }],
  "an entry of a function": ["Call", { entries: [{ function: "Call", args: [7] }] }],
  "a tag of the arguments": ["tagged", TAGS],
  "a tag of a loader": ["Loader", TAGS],
  "a tag of the result": ["found", TAGS, true],
  "a tag that the load has set": ["said", TAGS, true],
};
const targets = Object.entries(TARGETS);

onEachStore("cache.mutate", (world) => {
  it.each(targets)(
    "of %s keeps what is loaded during the write from being stored, and later readers get the new value",
    async (_, [what, target, isLate]) => {
      const shared = world();
      const source = new Source();
      const [writing, other] = pair(() => source.start(shared));
      await writing.read(what);
      await writing.drain();
      const answer = await writing.cache.mutate(target, async () => {
        for (let nth = 2; nth <= 3; nth++) {
          expect(await other.read(what)).toBe(1);
          await other.drain();
          expect(source.loads).toBe(nth);
        }
        source.version = 2;
        return "written";
      });
      expect(answer).toBe("written");
      if (!isLate)
        expect(other.outcomes()).toMatchObject(what.match(/^[A-Z]/) ? {} : { "bypassed(WRITE_IN_PROGRESS)": 2 });
      else expect(other.lastWrite()).toMatchObject({ isStored: false });
      expect([await other.read(what), await writing.read(what), source.loads]).toEqual([2, 2, 4]);
    },
  );

  it("rejects with the error of a write that fails, after which values are stored again", async () => {
    const source = new Source();
    const { cache, read } = source.start(world());
    const failure = new Error("no such item");
    await expect(cache.mutate(TAGS, () => Promise.reject(failure))).rejects.toBe(failure);
    expect([await read("tagged"), await read("tagged"), source.loads]).toEqual([1, 1, 1]);
  });
});

describe.each(targets)("the mark of a write of %s", (_, [what, target, isLate]) => {
  /** A process that writes, whose clock stands still, and others. `end` lets the write end, and resolves when `mutate` has. */
  async function beginWrite(writeGuardMs?: number) {
    const { clock, world, source, shops } = fleet(2);
    const own = new FakeClock();
    const invalidation = writeGuardMs === undefined ? {} : { writeGuardMs };
    const { cache } = source.start(world, { testing: { clock: own }, invalidation });
    const [begun, committed] = [gate(), gate()];
    const begin = async () => {
      const written = cache.mutate(target, () => (begun.open(), committed.passed));
      await begun.passed;
      return async () => (committed.open(), await written);
    };
    const [reader, other] = shops as [Shop, Shop];
    const readTwice = async () => {
      for (let nth = 0; nth < 2; nth++) {
        await reader.read(what);
        await settle();
      }
      return source.loads;
    };
    return { clock, own, source, reader, other, begin, readTwice };
  }

  it("ends three seconds after its process has died", async () => {
    const { clock, begin, readTwice } = await beginWrite();
    await begin();
    await clock.advance(2_999);
    expect(await readTwice()).toBe(2);
    await clock.advance(isLate ? 1_001 : 1);
    expect(await readTwice()).toBe(3);
  });

  it("lasts as long as the write if its process lives", async () => {
    const { clock, own, source, reader, begin, readTwice } = await beginWrite(1_000);
    const end = await begin();
    for (let elapsedMs = 0; elapsedMs < 10_000; elapsedMs += 200) {
      await own.advance(200);
      await clock.advance(200);
    }
    expect(await readTwice()).toBe(2);
    source.version = 2;
    await end();
    expect(await reader.read(what)).toBe(2);
  });

  it("is set again after a pause of its process, and what was stored meanwhile is removed", async () => {
    const { clock, own, source, reader, begin, readTwice } = await beginWrite(1_000);
    await begin();
    await clock.advance(5_000);
    expect(await readTwice()).toBe(1);
    await own.advance(5_000);
    source.version = 2;
    expect(await reader.read(what)).toBe(2);
  });

  it("keeps a value from being served that was read before a write whose process dies after its commit", async () => {
    const { clock, source, reader, other, begin } = await beginWrite();
    const held = source.hold();
    const earlier = reader.read(what);
    while (source.loads === 0) await settle();
    await begin();
    // A reader who knows the tag does not wait for the load that has begun before.
    if (!isLate) expect(await other.read(what)).toBe(1);
    source.version = 2;
    held.open();
    expect(await earlier).toBe(1);
    for (const shop of [other, reader]) expect(await shop.read(what)).toBe(2);
    await clock.advance(3_000);
    for (const shop of [reader, other]) expect(await shop.read(what)).toBe(2);
    await settle();
    const { loads } = source;
    expect([await other.read(what), source.loads]).toEqual([2, loads]);
  });
});

it("cache.mutate needs the names of its entries, so it refuses whole fields and loaders", async () => {
  const { cache } = (fleet(1).shops as [Shop])[0];
  for (const entry of [{ coordinate: "Query.field" }, { loader: "Loader" }])
    await expect(cache.mutate({ entries: [entry] }, () => 1)).rejects.toMatchObject({ code: "CACHED_KEY_UNUSABLE" });
  expect(await cache.mutate({ entries: [{ loader: "Loader", id: 1 }] }, () => 1)).toBe(1);
});
