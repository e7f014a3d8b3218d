import assert from "node:assert/strict";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { GraphQLError } from "graphql";
import { type CacheOptions, memoryStore } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { ANSWERS, FAILURES } from "../../support/thrown-errors.js";
import { memoryWorld, onEachStore, type Process, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    ifError(id: Int = 1): String @cached(maxAge: 10, staleIfError: 600)
    revalidated(id: Int = 1): String @cached(maxAge: 10, staleWhileRevalidate: 600, tags: ["Documents"])
    awaited(id: Int = 1): String
      @cached(maxAge: 10, staleWhileRevalidate: 600, refresh: FOREGROUND, tags: ["Documents"])
    lasting(id: Int = 1): String @cached(maxAge: 10, neverExpires: true)
  }
`;

const notFound = (): Error => new GraphQLError("no such document", { extensions: { code: "NOT_FOUND" } });

/** A source of documents that throws as soon as it is told to. */
function createSource() {
  const source = { loads: 0, throws: undefined as (() => unknown) | undefined, loadGate: gate() };
  source.loadGate.open();
  const load = async (): Promise<string> => {
    const nth = ++source.loads;
    await source.loadGate.passed;
    if (source.throws !== undefined) throw source.throws();
    return `document ${nth}`;
  };
  return { source, resolvers: { Query: { ifError: load, revalidated: load, awaited: load, lasting: load } } };
}

/** Returns the value of a field, or the message of its error. */
async function read({ ask }: Pick<Process, "ask">, field: string): Promise<unknown> {
  const { data, errors } = await ask(`{ value: ${field} }`, {});
  return errors?.[0]?.message ?? data?.value;
}

/** One process on a fake clock. */
function createSite(options: CacheOptions<never> = {}) {
  const clock = new FakeClock();
  const { source, resolvers } = createSource();
  const world = memoryWorld(() => memoryStore({ clock }));
  const start = () => world.process(typeDefs, resolvers, { testing: { clock }, ...options });
  return { clock, source, start, ...start() };
}

it("passes on the error of an overdue load although it throws when it is looked at", async () => {
  const clock = new FakeClock();
  const { cache, events } = memoryWorld(() => memoryStore({ clock })).process("type Query { unused: Int }", {}, {
    testing: { clock },
    loads: { loadTimeoutMs: 1_000, maxConcurrentLoads: 1 },
  } as never);
  const failing = gate();
  const find = cache.wrap({
    name: "find",
    maxAge: 60,
    load: async (id: number) => {
      if (id === 2) return id;
      await failing.passed;
      throw Object.defineProperty(new Error("odd"), "name", { get: () => assert.fail("nobody reads it") });
    },
  });
  const overdue = expect(find(1)).rejects.toMatchObject({ code: "CACHED_LOAD_TIMEOUT" });
  await vi.waitFor(() => expect(events.some(({ name }) => name === "load.started")).toBe(true));
  await clock.advance(1_000);
  await overdue;
  failing.open();
  // Its slot is free again.
  expect(await find(2)).toBe(2);
  const closed = cache.close();
  await settle();
  await expect(closed).resolves.toBeUndefined();
});

onEachStore("a value that its source no longer has", (world) => {
  it("is no longer served, in any process, when its refresh has found that out", async () => {
    const { source, resolvers } = createSource();
    const shared = world();
    const [first, second] = [shared.process(typeDefs, resolvers), shared.process(typeDefs, resolvers)];
    expect(await read(first, "revalidated")).toBe("document 1");
    await waitForStores(first);
    source.throws = notFound;
    await first.cache.invalidateTags(["Documents"], { soft: true });
    expect(await read(second, "revalidated")).toBe("document 1");
    await vi.waitFor(async () => expect(await read(second, "revalidated")).toBe("no such document"), 5_000);
    expect(await read(first, "revalidated")).toBe("no such document");
  });

  it("is not served to the caller that has loaded, nor to others who wait, in any process", async () => {
    const { source, resolvers } = createSource();
    const shared = world();
    const [first, second] = [shared.process(typeDefs, resolvers), shared.process(typeDefs, resolvers)];
    expect(await read(first, "awaited")).toBe("document 1");
    await waitForStores(first);
    source.throws = notFound;
    source.loadGate = gate();
    await first.cache.invalidateTags(["Documents"], { soft: true });
    const winner = read(first, "awaited");
    await vi.waitFor(() => expect(source.loads).toBe(2));
    // Those who do not load are served the old value as long as the refresh runs.
    expect(await read(second, "awaited")).toBe("document 1");
    source.loadGate.open();
    expect(await winner).toBe("no such document");
    await vi.waitFor(async () => expect(await read(second, "awaited")).toBe("no such document"), 5_000);
  });
});

describe("a stale value", () => {
  it.each(ANSWERS)("is not served if the source answers that there is none: %s", async (_, make) => {
    const site = createSite();
    await read(site, "ifError");
    await site.clock.advance(11_000);
    site.source.throws = make;
    const messages = await Promise.all([read(site, "ifError"), read(site, "ifError"), read(site.start(), "ifError")]);
    expect(messages).not.toContain("document 1");
    await settle();
    expect(await read(site, "ifError")).not.toBe("document 1");
    // An error of a class that is not in `types` is loaded once by each process.
    const error = make();
    const isOfClass = [error, Object(error).originalError].some(
      (one) => ![undefined, "Error", "GraphQLError", "Object"].includes(one?.constructor.name),
    );
    expect(site.source.loads).toBe(isOfClass ? 3 : 2);
  });

  it.each(FAILURES)("is served if the source is in trouble: %s", async (_, make) => {
    const site = createSite();
    await read(site, "ifError");
    await site.clock.advance(11_000);
    site.source.throws = make;
    const other = site.start();
    expect(await Promise.all([read(site, "ifError"), read(site, "ifError"), read(other, "ifError")])).toEqual(
      Array(3).fill("document 1"),
    );
    expect(site.source.loads).toBe(2);
  });

  it("is not served to waiters in another process if the source answers that there is none", async () => {
    const site = createSite();
    await read(site, "ifError");
    await site.clock.advance(11_000);
    site.source.throws = notFound;
    site.source.loadGate = gate();
    const messages = [site, site.start(), site.start()].map((process) => read(process, "ifError"));
    while (site.source.loads < 2) await settle();
    await site.clock.advance(50);
    site.source.loadGate.open();
    await settle();
    await site.clock.advance(500);
    expect(await Promise.all(messages)).toEqual(Array(3).fill("no such document"));
    expect(site.source.loads).toBe(2);
  });

  it("that never expires is gone when its source answers that there is none", async () => {
    const site = createSite();
    await read(site, "lasting");
    await site.clock.advance(11_000);
    site.source.throws = notFound;
    expect(await read(site, "lasting")).toBe("document 1");
    await settle();
    expect(await read(site, "lasting")).toBe("no such document");
    site.source.throws = undefined;
    await site.clock.advance(1_001);
    expect(await read(site, "lasting")).toBe("document 3");
  });

  it("of a loader is not served if its source answers that there is none", async () => {
    const { clock, cache, source } = createSite();
    const documents = cache.loader<number, string>({
      name: "Document",
      maxAge: 10,
      staleIfError: 600,
      batch: async (ids) =>
        ids.map((id) => (source.throws === undefined ? `document ${id}` : (source.throws() as Error))),
    });
    expect(await documents({}).load(7)).toBe("document 7");
    await settle();
    await clock.advance(11_000);
    source.throws = notFound;
    await expect(documents({}).load(7)).rejects.toThrow("no such document");
    source.throws = () => new Error("the source is away");
    await settle();
    await expect(documents({}).load(7)).rejects.toThrow("no such document");
  });

  it.each([
    ["answers that there is none", false, "over quota"],
    ["is in trouble", true, "document 1"],
  ])("is served as the option isSourceFailure says: the source %s", async (_, isFailure, expected) => {
    const calls: string[] = [];
    const isSourceFailure = (error: unknown, coordinate: string): boolean => {
      calls.push(`${coordinate}: ${(error as Error).message}`);
      return isFailure;
    };
    const site = createSite({ loads: { isSourceFailure } });
    await read(site, "ifError");
    await site.clock.advance(11_000);
    site.source.throws = () => new Error("over quota");
    expect(await read(site, "ifError")).toBe(expected);
    await settle();
    expect(await read(site, "ifError")).toBe(expected);
    expect(calls).toEqual(["Query.ifError: over quota"]);
  });
});

describe("the breaker", () => {
  it.each(ANSWERS)("stays closed if the source answers that it has no value for some keys: %s", async (_, make) => {
    const site = createSite({ loads: { breakerThreshold: 2 } });
    site.source.throws = make;
    for (let id = 1; id <= 10; id++) await read(site, `ifError(id: ${id})`);
    site.source.throws = undefined;
    expect(await read(site, "ifError(id: 11)")).toBe("document 11");
  });

  it.each(FAILURES)("opens if the source is in trouble: %s", async (_, make) => {
    const site = createSite({ loads: { breakerThreshold: 2 } });
    site.source.throws = make;
    for (let id = 1; id <= 10; id++) await read(site, `ifError(id: ${id})`);
    expect(site.source.loads).toBe(2);
    expect(await read(site, "ifError(id: 11)")).toContain("the load was refused: its last loads have all failed");
  });
});
