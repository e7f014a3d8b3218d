import { gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { expect, it, onTestFinished, vi } from "vitest";
import { AbortListeners } from "../../../src/core/tier/request/waiters.js";
import { dataOf, memoryWorld } from "../../support/world.js";

it.each([
  ["a promise", async () => ["Film:1"]],
  ["a promise that rejects", () => Promise.reject(new Error("unavailable"))],
  ["a set", () => new Set(["Film:1"])],
  ["a string", () => "Film:1"],
  ["nothing", () => undefined],
])(
  "tags of a loader that are %s are reported, and nothing is stored that they could not invalidate",
  async (_, tags) => {
    const warnings: string[] = [];
    const { cache } = memoryWorld().process(
      "type Query { unused: Int }",
      {},
      { logger: { info: () => undefined, warn: (message) => warnings.push(message) } },
    );
    let version = 1;
    const films = cache.loader({ name: "Film", maxAge: 60, batch: async () => [version], tags: tags as never });
    expect(await films({}).load(1)).toBe(1);
    await settle();
    version = 2;
    expect(await films({}).load(1)).toBe(2);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("`tags`: expected a function that returns an array of strings, got ");
  },
);

it("a listener and a key function that reject leave no unhandled rejection", async () => {
  const { cache } = memoryWorld().process(
    "type Query { unused: Int }",
    {},
    { onEvent: (() => Promise.reject(new Error("listener"))) as never },
  );
  const films = cache.loader({
    name: "Film",
    maxAge: 60,
    batch: async (ids: readonly number[]) => [...ids],
    cacheKeyFn: () => Promise.reject(new Error("key")),
  });
  // An unhandled rejection fails the test run.
  expect(await films({}).load(1)).toBe(1);
  await settle();
});

it.each([
  [
    "throws",
    () => {
      throw new TypeError("a mistake in the function");
    },
  ],
  ["returns a promise of false", async () => false],
  ["returns a promise that rejects", () => Promise.reject(new TypeError("a mistake in the function"))],
  ["returns nothing", () => undefined],
])(
  "isSourceFailure that %s counts the error as a failure of the source, which the caller gets",
  async (_, isSourceFailure) => {
    const started: number[] = [];
    const { ask } = memoryWorld().process(
      "type Query { page(id: Int!): Int @cached(maxAge: 60) }",
      {
        Query: {
          page: (__: unknown, { id }: { id: number }) => {
            started.push(id);
            throw new Error("the database is away");
          },
        },
      },
      { loads: { breakerThreshold: 2, isSourceFailure: isSourceFailure as never } },
    );
    const messages: (string | undefined)[] = [];
    for (const id of [1, 2, 3]) messages.push((await ask(`{ page(id: ${id}) }`)).errors?.[0]?.message);
    expect(messages.slice(0, 2)).toEqual(["the database is away", "the database is away"]);
    expect(messages[2]).toContain("its last loads have all failed");
    expect(started).toEqual([1, 2]);
  },
);

it.each([
  ["a promise, which is true for every error,", async () => false],
  ["a promise that rejects", () => Promise.reject(new Error("a mistake in the function"))],
])("isCallerError that returns %s keeps no reader from sharing a failure", async (_, isCallerError) => {
  let loads = 0;
  const { cache } = memoryWorld().process(
    "type Query { unused: Int }",
    {},
    { loads: { isCallerError: isCallerError as never } },
  );
  const numbers = cache.loader({
    name: "Number",
    maxAge: 60,
    batch: async (): Promise<number[]> => {
      loads++;
      throw new Error("the database is away");
    },
  });
  const read = Array.from({ length: 10 }, () => numbers({}).load(1));
  const results = await Promise.allSettled(read);
  expect(results.every(({ status }) => status === "rejected")).toBe(true);
  expect(loads).toBe(1);
});

it("a logger that throws neither fails a mutation that has succeeded nor keeps its tags from being invalidated", async () => {
  let loads = 0;
  const { ask } = memoryWorld().process(
    `
      type Query { count: Int @cached(maxAge: 60, tags: ["Count"]) }
      type Film { id: ID }
      type Mutation { change: Film @invalidates(tags: ["Count", "Film:{$result.id}"]) }
    `,
    {
      Query: { count: () => ++loads },
      Mutation: {
        change: () => ({
          get id(): string {
            throw new Error("the getter fails");
          },
        }),
      },
    },
    {
      logger: {
        info: () => undefined,
        warn: () => {
          throw new Error("the logger fails");
        },
      },
    },
  );
  await dataOf(ask("{ count }"));
  await settle();
  expect(await dataOf(ask("mutation { change { __typename } }"))).toEqual({ change: { __typename: "Film" } });
  expect(await dataOf(ask("{ count }"))).toEqual({ count: 2 });
});

it("requests that wait for one load do not share its object if the codec cannot decode what it has encoded", async () => {
  const codec = {
    id: "broken",
    encode: (value: unknown) => JSON.stringify(value),
    decode: (): unknown => {
      throw new Error("the codec fails");
    },
  };
  const { cache } = memoryWorld().process("type Query { unused: Int }", {}, { codec });
  const { passed, open } = gate();
  const films = cache.loader({
    name: "Film",
    maxAge: 60,
    batch: async (ids: readonly number[]) => {
      await passed;
      return ids.map((id) => ({ id }));
    },
  });
  const reading = [1, 2, 3].map(() => films({}).load(7));
  await settle();
  open();
  const read = await Promise.all(reading);
  expect(read).toEqual([{ id: 7 }, { id: 7 }, { id: 7 }]);
  expect(new Set(read).size).toBe(3);
});

it("reads of values that do not exist leave nothing that listens to the signal of their request", async () => {
  const add = AbortListeners.prototype.add;
  let listening = 0;
  const spy = vi.spyOn(AbortListeners.prototype, "add").mockImplementation(function (this: AbortListeners, ...given) {
    listening++;
    const cancel = add.apply(this, given);
    return () => {
      listening--;
      cancel();
    };
  });
  onTestFinished(() => spy.mockRestore());
  const { cache } = memoryWorld().process(
    "type Query { unused: Int }",
    {},
    { loads: { abortSignal: ({ signal }: { signal: AbortSignal }) => signal } },
  );
  const numbers = cache.loader({
    name: "Number",
    maxAge: 60,
    exists: { has: async (ids: readonly number[]) => ids.map(() => false) },
    batch: async (ids: readonly number[], _context: { signal: AbortSignal }) => [...ids],
  });
  const { signal } = new AbortController();
  for (let id = 0; id < 10; id++) expect(await numbers({ signal }).load(id)).toBe(null);
  await settle();
  expect(spy).toHaveBeenCalled();
  expect(listening).toBe(0);
});

it("schemas of one cache in which a field has different types do not share its loads while nothing can be leased", async () => {
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: memoryStore(),
    logger: { info: () => undefined, warn: () => undefined },
  });
  const schemaOf = (sdl: string, value: object) =>
    applyCached(
      makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers: { Query: { film: async () => value } } }),
      cache,
    );
  const policy = '@cached(maxAge: 60, tags: ["Film"])';
  const older = schemaOf(`type Query { film: Film ${policy} } type Film { title: String }`, { title: "Heat" });
  const newer = schemaOf(`type Query { film: Film ${policy} } type Film { year: Int! }`, { year: 1995 });
  const { passed, open } = gate();
  const writing = cache.mutate({ tags: ["Film"] }, () => passed);
  await settle();
  const results = await Promise.all([
    graphql({ schema: older, source: "{ film { title } }", contextValue: {} }),
    graphql({ schema: newer, source: "{ film { year } }", contextValue: {} }),
  ]);
  open();
  await writing;
  await cache.close();
  expect(results.map(({ data, errors }) => ({ data, errors }))).toEqual([
    { data: { film: { title: "Heat" } }, errors: undefined },
    { data: { film: { year: 1995 } }, errors: undefined },
  ]);
});
