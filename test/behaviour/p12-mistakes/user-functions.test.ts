import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { graphql } from "graphql";
import { applyCached, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { AbortListeners } from "../../../src/core/tier/request/waiters.js";
import { listen, schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld } from "../../support/world.js";

const fails =
  (reason: unknown = new Error("secret")) =>
  () => {
    throw reason;
  };
const rejects = (): never => Promise.reject(new Error("secret")) as never;
const batch = async (ids: readonly number[]) => [...ids];
const cacheWith = (options: object = {}) => memoryWorld().process("type Query { unused: Int }", {}, options).cache;

describe("a loader whose key cannot be built", () => {
  class Id {}
  const threw = (what: string): string => `${what} threw an exception, the cause of this error`;

  it.each<readonly [what: string, id: object, functions: object, problem: string]>([
    [
      "its id is an instance of a class",
      new Id(),
      {},
      "key input: expected plain data, got an instance of Id, which needs an entry with `keyOf` in createCache({ types }) to be part of a key; return plain data from `cacheKeyFn`",
    ],
    ["its `cacheKeyFn` throws", {}, { cacheKeyFn: fails() }, threw("`cacheKeyFn`")],
    ["its `tags` throw", {}, { tags: fails() }, threw("`tags`")],
    ["one of both throws", {}, { tags: fails(), cacheKeyFn: () => 1 }, threw("`cacheKeyFn` or `tags`")],
    ["its id throws", Object.defineProperty({}, "id", { get: fails(), enumerable: true }), {}, threw("reading the id")],
  ])("is reported once, with the remedy: %s", async (_, id, functions, problem) => {
    const { cache, warnings } = listen();
    const load = cache.loader({ name: "L", maxAge: 1, batch: async (ids: readonly object[]) => ids, ...functions });
    for (let request = 0; request < 2; request++) await load({}).load(id);
    expect(warnings).toEqual([`cache.loader("L"): a value is not cached: ${problem}`]);
  });

  const strings = "strings, got ";
  const tag = (what: string): string => `non-empty strings, got an array with ${what} for an id; return tags such as`;
  it.each<readonly [tags: unknown, given: string]>([
    [async () => ["Film:1"], strings],
    [rejects, strings],
    [() => new Set(["Film:1"]), strings],
    [() => "Film:1", strings],
    [() => undefined, strings],
    [() => ["secret", 7], tag("a number")],
    [() => ["secret", 7n], tag("a bigint")],
    [() => ["secret", Symbol("secret")], tag("a symbol")],
    [() => ["secret", undefined], tag("undefined")],
    [() => ["secret", null], tag("null")],
    [() => ["secret", ["secret"]], tag("an array")],
    [() => ["secret", new String("secret")], tag("an instance of String")],
    [() => ["secret", ""], tag("an empty string")],
  ])("stores nothing that its tags could not invalidate, and is reported once: %s", async (tags, given) => {
    const warnings: string[] = [];
    const cache = cacheWith({ logger: { info: () => undefined, warn: (line: string) => warnings.push(line) } });
    let version = 0;
    const films = cache.loader({ name: "L", maxAge: 60, batch: async () => [++version], tags: tags as never });
    for (const expected of [1, 2]) {
      expect(await films({}).load(1)).toBe(expected);
      await settle();
    }
    const problem = 'cache.loader("L"): a value is not cached: `tags`: expected a function that returns an array of';
    expect(warnings).toEqual([expect.stringContaining(`${problem} ${given}`)]);
    expect(warnings[0]).not.toContain("secret");
  });
});

describe("an identify function that returns no identity", () => {
  const ask = async (identify: unknown): Promise<readonly string[]> => {
    const { cache, warnings } = listen({ identify: identify as never });
    const schema = applyCached(schemaOf("type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }"), cache);
    for (let request = 0; request < 3; request++) await graphql({ schema, source: "{ me }", contextValue: {} });
    await cache.loader({ name: "Mine", maxAge: 1, scope: "PRIVATE", batch })({}).load(1);
    return warnings;
  };
  const textOfNothing = "got a string that stands for a missing value; return a user id";

  it.each([
    ["a promise", async () => "alice", "got a promise; resolve the identity while the context is created"],
    ["an object", () => ({ id: 7 }), "got an object; return a user id"],
    ["the text of a missing value", () => "undefined", textOfNothing],
    ["a text with a part that is missing", () => `user:${undefined}`, textOfNothing],
    ["an exception", fails(), "it threw an exception, the cause of this error"],
  ])("is reported once for each field and loader: %s", async (_, identify, problem) => {
    const expected = (coordinate: string): string =>
      `createCache: \`identify\`: expected a string, number, bigint, null or undefined, ${problem}; until then PRIVATE fields such as \`${coordinate}\` are not cached`;
    expect(await ask(identify)).toEqual([expected("Query.me"), expected("Mine")]);
  });

  it("is not reported if the caller is anonymous", async () => {
    for (const anonymous of [undefined, null]) expect(await ask(() => anonymous)).toEqual([]);
  });
});

it("`allow` that throws denies access, and is reported once", async () => {
  const { cache, warnings } = listen();
  const resolvers = inspectionResolvers(cache, { allow: fails() });
  const schema = schemaOf(`${inspectionTypeDefs} type Query { a: Int }`, resolvers);
  for (let request = 0; request < 2; request++) {
    const { errors } = await graphql({ schema, source: "{ cacheInspection { policies { coordinate } } }" });
    expect(errors?.[0]?.extensions.code).toBe("CACHED_INSPECTION_DENIED");
  }
  expect(warnings).toEqual(["inspectionResolvers: `allow` threw, which denies access: secret"]);
});

it.each([
  ["throws", fails(new Error("no\nmetrics")), ": no\\nmetrics"],
  ["rejects", () => Promise.reject(new Error("no\nmetrics")), ": no\\nmetrics"],
  ["throws what has no text", fails(Object.create(null)), ": "],
  ["has a message that is no text", fails(Object.assign(new Error(), { message: { code: 7 } })), ": "],
  ["has a message that cannot be read", fails(Object.defineProperty(new Error(), "message", { get: fails() })), ": "],
])("`onEvent` that %s fails nothing, and is reported once", async (_, onEvent, reason) => {
  const { cache, warnings } = listen({ onEvent: onEvent as () => void });
  const sdl = "type Query { movie(id: ID!): ID @cached(maxAge: 60) }";
  const schema = applyCached(schemaOf(sdl, { Query: { movie: (_: unknown, { id }: { id: string }) => id } }), cache);
  for (let request = 0; request < 2; request++)
    expect(await graphql({ schema, source: "{ movie(id: 7) }", contextValue: {} })).toEqual({ data: { movie: "7" } });
  await vi.waitFor(() => expect(warnings).not.toEqual([]));
  expect(warnings).toEqual([expect.stringContaining(`a listener of events, such as \`onEvent\`, has failed${reason}`)]);
});

it.each([
  ["throws", fails()],
  ["returns a promise of false", async () => false],
  ["returns a promise that rejects", rejects],
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
      {
        loads: { breakerThreshold: 2, isSourceFailure: isSourceFailure as never },
        testing: { clock: new FakeClock() },
      },
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
  ["a promise that rejects", rejects],
])("isCallerError that returns %s keeps no reader from sharing a failure", async (_, isCallerError) => {
  let loads = 0;
  const numbers = cacheWith({ loads: { isCallerError } }).loader({
    name: "Number",
    maxAge: 60,
    batch: async (): Promise<number[]> => {
      loads++;
      throw new Error("the database is away");
    },
  });
  const results = await Promise.allSettled(Array.from({ length: 10 }, () => numbers({}).load(1)));
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
    { Query: { count: () => ++loads }, Mutation: { change: () => Object.defineProperty({}, "id", { get: fails() }) } },
    { logger: { info: () => undefined, warn: fails() } },
  );
  await dataOf(ask("{ count }"));
  await settle();
  expect(await dataOf(ask("mutation { change { __typename } }"))).toEqual({ change: { __typename: "Film" } });
  expect(await dataOf(ask("{ count }"))).toEqual({ count: 2 });
});

it("requests that wait for one load do not share its object if the codec cannot decode what it has encoded", async () => {
  const codec = { id: "broken", encode: (value: unknown) => JSON.stringify(value), decode: fails() };
  const { passed, open } = gate();
  const films = cacheWith({ codec }).loader({
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

describe("an `exists` guard", () => {
  const line = (place: string, got: string): string =>
    `${place}: expected \`has\` to return an array with true or false for each id, in their order, got ${got}; meanwhile ids count as existing; return true where the answer is not known`;
  /** Loads ids one after the other with a guard, and returns what was logged. */
  const warningsWith = async (has: unknown, ids: readonly number[] = [1, 2]): Promise<readonly string[]> => {
    const { cache, warnings } = listen();
    const films = cache.loader({ name: "Film", maxAge: 60, exists: { has: has as never }, batch });
    for (const id of ids) expect(await films({}).load(id)).toBe(id);
    return warnings;
  };

  type Ids = readonly number[];
  const WRONG: readonly (readonly [what: string, has: unknown, got: string])[] = [
    ["throws", fails(new TypeError("secret")), "an exception (TypeError)"],
    ["rejects", rejects, "an exception (Error)"],
    ["returns nothing", () => undefined, "undefined"],
    ["returns a set", async (ids: Ids) => new Set(ids), "an instance of Set"],
    ["returns a text", () => "secret", "a string"],
    ["returns another number of answers", async () => [], "an array of another length"],
    ["returns promises", (ids: Ids) => ids.map(rejects), "an array with an instance of Promise"],
    ["returns numbers", async (ids: Ids) => ids.map(() => 0), "an array with a number"],
    ["returns rows", async (ids: Ids) => ids.map((id) => ({ id })), "an array with an object"],
    ["takes the ids from their list", (ids: number[]) => ids.splice(0).map(() => true), "an exception (TypeError)"],
  ];

  it.each(WRONG)("that %s is reported once, and its ids are loaded", async (_, has, got) => {
    expect(await warningsWith(has)).toEqual([line('cache.loader("Film"): `exists`', got)]);
  });

  it.each(WRONG)("of a field that %s is reported once, and its ids are loaded", async (_, has, got) => {
    const { cache, warnings } = listen();
    const sdl = "type Query { film(id: Int!): Int @cached(maxAge: 60) }";
    const schema = applyCached(schemaOf(sdl, { Query: { film: (_: unknown, { id }: { id: number }) => id } }), cache, {
      exists: { "Query.film": { id: "$args.id", guard: { has: has as never } } },
    });
    for (const id of [1, 2])
      expect(await graphql({ schema, source: `{ film(id: ${id}) }`, contextValue: {} })).toEqual({
        data: { film: id },
      });
    expect(warnings).toEqual([line('applyCached: `exists["Query.film"].guard`', got)]);
  });

  it.each([
    ["cannot reach its store", [fails(Object.assign(new Error("secret"), { code: "ECONNREFUSED" }))]],
    ["runs into a time limit of its own", [fails(new DOMException("secret", "TimeoutError"))]],
    ["fails after it has answered", [(ids: Ids) => ids.map(() => true), rejects]],
  ] as const)("that %s is not reported", async (_, answers) => {
    let calls = 0;
    const has = (ids: Ids): unknown => (answers[Math.min(calls++, answers.length - 1)] as (ids: Ids) => unknown)(ids);
    expect(await warningsWith(has, [1, 2, 3])).toEqual([]);
  });

  it("that changes the list of ids is reported in production, where it can", async () => {
    vi.stubEnv("NODE_ENV", "production");
    onTestFinished(() => void vi.unstubAllEnvs());
    const { cache, warnings } = listen();
    const exists = { has: async (ids: Ids) => (ids as number[]).reverse().map(() => false) };
    const films = cache.loader({ name: "Film", maxAge: 60, exists, batch });
    expect(await films({}).loadMany([1, 2])).toEqual([1, 2]);
    expect(warnings).toEqual([line('cache.loader("Film"): `exists`', "a list of ids that it has changed")]);
  });

  it("that takes too long is not reported", async () => {
    const clock = new FakeClock();
    const { cache, warnings } = listen({ testing: { clock }, leases: { leaseWaitMs: 1_000 } });
    const exists = { has: () => new Promise<never>(() => undefined) };
    const value = cache.loader({ name: "Film", maxAge: 60, exists, batch })({}).load(1);
    await clock.advance(1_100);
    expect(await value).toBe(1);
    expect(warnings).toEqual([]);
  });
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
  const cache = cacheWith({ loads: { abortSignal: ({ signal }: { signal: AbortSignal }) => signal } });
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
  const { cache } = listen();
  const apply = (sdl: string, value: object) =>
    applyCached(schemaOf(sdl, { Query: { film: async () => value } }), cache);
  const policy = '@cached(maxAge: 60, tags: ["Film"])';
  const older = apply(`type Query { film: Film ${policy} } type Film { title: String }`, { title: "Heat" });
  const newer = apply(`type Query { film: Film ${policy} } type Film { year: Int! }`, { year: 1995 });
  const { passed, open } = gate();
  const writing = cache.mutate({ tags: ["Film"] }, () => passed);
  await settle();
  const results = await Promise.all([
    graphql({ schema: older, source: "{ film { title } }", contextValue: {} }),
    graphql({ schema: newer, source: "{ film { year } }", contextValue: {} }),
  ]);
  open();
  await writing;
  expect(results.map(({ data, errors }) => ({ data, errors }))).toEqual([
    { data: { film: { title: "Heat" } }, errors: undefined },
    { data: { film: { year: 1995 } }, errors: undefined },
  ]);
});

it("a batch function gets ids that cannot be changed outside of production", async () => {
  const changes: readonly ((ids: number[]) => unknown)[] = [
    (ids) => ids.reverse(),
    (ids) => ids.pop(),
    (ids) => ids.push(1),
  ];
  for (const change of changes)
    for (const maxAge of [60, 0]) {
      const batch = async (ids: readonly number[]) => change(ids as number[]) as number[];
      const films = cacheWith().loader({ name: "Film", maxAge, batch });
      for (const result of await films({}).loadMany([3, 1])) expect(result).toBeInstanceOf(TypeError);
    }
});
