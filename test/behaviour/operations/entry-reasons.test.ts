import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, type CacheOptions, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { writeRecord } from "../../../src/core/store/clock-log.js";
import { inspect } from "../../support/inspection.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): String
      @cached(maxAge: 60, staleWhileRevalidate: 60, staleIfError: 180, tags: ["Movie:{$args.id}", "Genre:{$result}"])
  }
`;

/** One process on a memory store, with a source whose load a test controls. */
function createSite(options: CacheOptions = {}) {
  const clock = new FakeClock();
  const inner = memoryStore({ clock });
  const store = chaosStore(inner);
  const log = { isDown: false };
  const { appendHistory, readHistory } = inner;
  Object.assign(inner, {
    appendHistory: (...args: never) =>
      log.isDown ? new Promise(() => undefined) : (appendHistory as Method).apply(inner, args),
    readHistory: () => (log.isDown ? Promise.reject(new Error("full")) : (readHistory as Method).apply(inner)),
  });
  const source = { load: (): unknown => "Ran" };
  const cache = createCache({
    store,
    testing: { clock },
    defaults: { earlyRefresh: 0, jitter: 0 },
    logger: { info: () => undefined, warn: () => undefined },
    ...options,
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, typeDefs],
      resolvers: { Query: { movie: () => source.load() } },
    }),
    cache,
  );
  const read = async (): Promise<void> => {
    await graphql({ schema, source: '{ movie(id: "7") }', contextValue: {} });
    await settle();
  };
  const entry = async (selection = "state use reason"): Promise<Record<string, unknown> | null> =>
    (await inspect(cache, `entry(coordinate: "Query.movie", args: { id: "7" }) { ${selection} }`)).entry as never;
  return { cache, read, clock, store, inner, log, source, entry };
}

type Method = (...args: never) => Promise<unknown>;

const TARGET = { coordinate: "Query.movie", args: { id: "7" } };

describe("The reason why an entry is not served", () => {
  it("is its age, within the stale windows and after them", async () => {
    const { clock, read, entry } = createSite();
    await read();
    expect(await entry()).toEqual({ state: "VALUE", use: "FRESH", reason: null });
    await clock.advance(60_000);
    expect(await entry()).toEqual({ state: "VALUE", use: "STALE", reason: "EXPIRED" });
    await clock.advance(60_000);
    expect(await entry()).toEqual({ state: "VALUE", use: "STALE_IF_ERROR", reason: "EXPIRED" });
    expect(await entry("servableForMs explanation invalidation { via }")).toEqual({
      servableForMs: 120_000,
      explanation: "Its maxAge is over, or the time for which its state lasts.",
      invalidation: null,
    });
    await clock.advance(120_000);
    expect(await entry()).toBeNull();
  });

  it("is a failed refresh, or a failed first load", async () => {
    const { clock, cache, source, read, entry } = createSite();
    source.load = () => Promise.reject(new Error("down"));
    await read();
    expect(await entry()).toEqual({ state: "FAILED", use: "NONE", reason: "FAILED" });
    await cache.invalidate(TARGET);
    source.load = () => "Ran";
    await read();
    await clock.advance(61_000);
    source.load = () => Promise.reject(new Error("down"));
    await read();
    expect(await entry()).toEqual({ state: "VALUE", use: "STALE", reason: "REFRESH_FAILED" });
  });

  it("is a value that cannot be stored", async () => {
    const { source, read, entry } = createSite({ storage: { maxValueBytes: 10 } });
    source.load = () => "x".repeat(100);
    await read();
    expect(await entry()).toEqual({ state: "UNCACHEABLE", use: "NONE", reason: "UNCACHEABLE" });
  });

  it.each([
    ["of the entry, which has removed it", { entries: [TARGET] }, "ABSENT"],
    ["of a tag that is known before the load", { tags: ["Movie:7"] }, "VALUE"],
    ["of a tag of the result", { tags: ["Genre:Ran"] }, "VALUE"],
  ])("is a write %s while it lasts", async (_, target, state) => {
    const { cache, read, entry } = createSite();
    await read();
    const writing = gate();
    const write = cache.mutate(target, () => writing.passed);
    await settle();
    expect(await entry("state use reason invalidation { kind via isConfirmed }")).toEqual({
      state,
      use: "NONE",
      reason: "WRITE_IN_PROGRESS",
      invalidation: { kind: "WRITE", via: "cache.mutate", isConfirmed: true },
    });
    writing.open();
    await write;
  });

  it("is an invalidation that the store has not confirmed yet", async () => {
    const { cache, store, inner, clock, read, entry } = createSite();
    await read();
    const { appendClock } = inner;
    inner.appendClock = () => Promise.reject(new Error("full"));
    store.chaos.calls.clear();
    await expect(cache.invalidateTags(["Movie:7"])).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    const selection = "use reason invalidation { via isConfirmed }";
    expect(await entry(selection)).toEqual({
      use: "NONE",
      reason: "UNCONFIRMED",
      invalidation: { via: "cache.invalidateTags", isConfirmed: false },
    });
    expect(store.chaos.calls.get("appendClock")).toBe(1);
    inner.appendClock = appendClock;
    await clock.advance(250);
    await settle();
    // The call that asked for it, not the one that repeated it.
    expect(await entry(selection)).toEqual({
      use: "NONE",
      reason: "TAG_INVALIDATED",
      invalidation: { via: "cache.invalidateTags", isConfirmed: false },
    });
    expect(await inspect(cache, "invalidations { items { via kind isConfirmed } }")).toEqual({
      invalidations: {
        items: [
          { via: "retry", kind: "HARD", isConfirmed: true },
          { via: "cache.invalidateTags", kind: "HARD", isConfirmed: false },
        ],
      },
    });
  });

  it("is damage, or a key of encryption that this process does not have", async () => {
    const { inner, read, entry } = createSite();
    await read();
    const { read: readStore } = inner;
    inner.read = async (keys) => {
      const result = await readStore.call(inner, keys);
      const readings = result.readings.map((reading) =>
        reading.kind === "read" && reading.entry !== undefined
          ? { ...reading, entry: { ...reading.entry, body: Buffer.from("garbage") } }
          : reading,
      );
      return { ...result, readings: readings as never };
    };
    expect(await entry()).toEqual({ state: "VALUE", use: "NONE", reason: "UNREADABLE" });
  });

  it("is probably an invalidation of more names than are remembered", async () => {
    const { cache, read, entry } = createSite();
    await read();
    await cache.invalidateTags([...Array.from({ length: 1_500 }, (_, nth) => `other-${nth}`), "Movie:7"]);
    const { explanation, invalidation } = (await entry("explanation invalidation { via nameCount }")) as never;
    // The tag of the type as well.
    expect(invalidation).toEqual({ via: "cache.invalidateTags", nameCount: 1_502 });
    expect(explanation).toContain(" Probably by cache.invalidateTags, in process ");
    expect(explanation).toContain("; it had 1502 names, more than are remembered.");
  });

  it("says up to when invalidations are known if the cause is not remembered", async () => {
    const { cache, inner, read, entry } = createSite();
    await read();
    // By another process, whose record was lost.
    await inner.appendClock([writeRecord({ kind: "hard", subjects: partsOf(cache, "test").keys.tags(["Movie:7"]) })]);
    const { reason, explanation, invalidation } = (await entry("reason explanation invalidation { via }")) as {
      reason: string;
      explanation: string;
      invalidation: null;
    };
    expect({ reason, invalidation }).toEqual({ reason: "TAG_INVALIDATED", invalidation: null });
    expect(explanation).toMatch(
      /^One of its tags was invalidated after its load began\. The cause is not among the invalidations that are remembered, which reach back to \d{4}-\d\d-\d\dT[\d:.]+Z\.$/,
    );
  });

  it("is given without the cause if the log cannot be read, and an invalidation does not wait for the log", async () => {
    const { cache, log, read, entry, clock } = createSite();
    await read();
    log.isDown = true;
    await cache.invalidateTags(["Movie:7"]);
    await clock.advance(250);
    await cache.invalidateTags(["Movie:7"]);
    expect(await entry("reason explanation")).toEqual({
      reason: "TAG_INVALIDATED",
      explanation: "One of its tags was invalidated after its load began. The log of invalidations could not be read.",
    });
    await cache.invalidate(TARGET);
    expect(await entry()).toBeNull();
    log.isDown = false;
    await clock.advance(10_000);
  });
});
