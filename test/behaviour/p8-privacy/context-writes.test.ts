import { gate } from "@graphql-cached/testing";
import type { CacheOptions } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { memoryWorld } from "../../support/world.js";

type Context = Record<string, unknown> & { userId: string };
type Write = (context: Context) => unknown;

const TYPE_DEFS =
  "type Query { field: Int @cached(maxAge: 60) own: Int @cached(maxAge: 60, scope: PRIVATE) loaded: Int uncached: Int }";

/** Returns the properties that were reported as written, by coordinate, after `query` was asked for with a context. */
async function writtenBy(write: Write, query: string, context: object, options: CacheOptions<Context> = {}) {
  const load = async (_: unknown, __: unknown, given: Context) => (await write(given), 1);
  const loaded = (_: unknown, __: unknown, given: Context) => counted(given).load("a");
  const { cache, ask, events, warnings } = memoryWorld().process(
    TYPE_DEFS,
    { Query: { field: load, own: load, loaded, uncached: load } },
    {
      identify: ({ userId }: Context) => userId,
      ...options,
    } as never,
  );
  const counted = cache.loader<string, number, Context>({
    name: "Counted",
    maxAge: 60,
    batch: async (ids, given) => (await write(given), ids.map(() => 1)),
  });
  const contextValue: Context = Object.assign(context, { userId: "ann" });
  for (let nth = 0; nth < 2; nth++) expect((await ask(query, contextValue)).errors).toBeUndefined();
  await cache.close();
  const written = events.flatMap((one) =>
    one.name === "context.written" ? [`${one.coordinate} ${one.property}`] : [],
  );
  return { written, lines: warnings.filter((line) => line.includes("is written by")), context: contextValue };
}

/** The next turn of the event loop. */
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

const QUERIES = [
  ["a PUBLIC field", "{ field }", "Query.field"],
  ["a PRIVATE field", "{ own }", "Query.own"],
  ["a loader", "{ loaded }", "Counted"],
] as const;

const WRITES: readonly (readonly [what: string, context: () => object, write: Write, property: string])[] = [
  ["sets a property", () => ({ lifetime: 60 }), (context) => (context.lifetime = 5), "lifetime"],
  ["adds a property", () => ({}), (context) => (context.lifetime = 5), "lifetime"],
  [
    "adds a property later",
    () => ({}),
    async (context) => {
      await nextTurn();
      context.lifetime = 5;
    },
    "lifetime",
  ],
  ["pushes to a list", () => ({ warnings: [] }), (context) => (context.warnings as string[]).push("old"), "warnings"],
  ["adds to a Set", () => ({ seen: new Set() }), (context) => (context.seen as Set<string>).add("a"), "seen"],
  ["sets in a Map", () => ({ seen: new Map() }), (context) => (context.seen as Map<string, 1>).set("a", 1), "seen"],
  ["sets a member of a list", () => ({ list: [0] }), (context) => ((context.list as number[])[0] = 1), "list"],
  ["reverses a list", () => ({ list: [2, 1] }), (context) => (context.list as number[]).reverse(), "list"],
  ["empties a list", () => ({ list: [2, 1] }), (context) => ((context.list as number[]).length = 0), "list"],
  [
    "sets a property of a nested object",
    () => ({ stats: { loads: { count: 0 } } }),
    (context) => (context.stats as { loads: { count: number } }).loads.count++,
    "stats",
  ],
  [
    "deletes a property of a nested object",
    () => ({ stats: { count: 0 } }),
    (context) => delete (context.stats as { count?: number }).count,
    "stats",
  ],
  [
    "pushes to a nested list after it has waited",
    () => ({ state: { warnings: [] } }),
    async (context) => {
      const { warnings } = context.state as { warnings: string[] };
      await nextTurn();
      warnings.push("old");
    },
    "state",
  ],
  [
    "adds to a Set in a Map",
    () => ({ seen: new Map([["a", new Set()]]) }),
    (context) => (context.seen as Map<string, Set<string>>).get("a")?.add("b"),
    "seen",
  ],
  ["deletes a property", () => ({ lifetime: 60 }), (context) => delete context.lifetime, "lifetime"],
  [
    "calls a setter of the context's class",
    () =>
      new (class {
        #age = 0;
        get age() {
          return this.#age;
        }
        set age(age: number) {
          this.#age = age;
        }
      })(),
    (context) => (context.age = 7),
    "age",
  ],
];

describe("a load that writes to its context", () => {
  for (const [who, query, coordinate] of QUERIES)
    it.each(WRITES)(`is reported once if the load of ${who} %s`, async (_what, context, write, property) => {
      const { written, lines } = await writtenBy(write, query, context());
      expect(written).toEqual([`${coordinate} ${property}`]);
      expect(lines).toEqual([
        expect.stringContaining(
          `\`context.${property}\` is written by the load of \`${coordinate}\`, which does not run on a hit; return it as a part of the value`,
        ),
      ]);
    });

  it.each(WRITES)("writes what it would without the cache: %s", async (_what, context, write) => {
    const { context: watched } = await writtenBy(write, "{ field }", context());
    const plain = Object.assign(context(), { userId: "ann" }) as Context;
    await write(plain);
    expect({ ...watched }).toEqual({ ...plain });
    expect(JSON.stringify(watched)).toBe(JSON.stringify(plain));
    for (const name of ["lifetime", "warnings", "seen", "age", "list", "stats", "state"])
      expect(watched[name]).toStrictEqual(plain[name]);
  });

  it.each([
    ["a resolver that is not cached writes", "{ uncached }", {}],
    ["the property is listed as shared", "{ field }", { privacy: { sharedContextKeys: ["warnings"] } }],
    ["reports are off, as in production", "{ field }", { privacy: { warnOnContextReads: false } }],
  ])("is not reported if %s", async (_why, query, options) => {
    const write: Write = (context) => (context.warnings as string[]).push("old");
    expect((await writtenBy(write, query, { warnings: [] }, options)).written).toEqual([]);
  });

  it("is found among loads that run at the same time, by what each does with what it has just read", async () => {
    // The resolver that is not cached is called first.
    let nth = 0;
    const write: Write = async (context) => {
      const isWriter = nth++ === 1;
      await nextTurn();
      if (isWriter) (context.warnings as string[]).push("old");
      else void (context.warnings as string[]).length;
      await nextTurn();
    };
    expect((await writtenBy(write, "{ field own uncached }", { warnings: [] })).written).toEqual([
      "Query.field warnings",
    ]);
  });

  it("is not told of what a resolver that is not cached does with what the load has read", async () => {
    let nth = 0;
    const write: Write = async (context) => {
      const isLoad = nth++ === 1;
      void (context.warnings as string[]).length;
      await nextTurn();
      if (!isLoad) (context.warnings as string[]).push("old");
      await nextTurn();
    };
    expect((await writtenBy(write, "{ field uncached }", { warnings: [] })).written).toEqual([]);
  });

  it("can return what it has read of the context, which stays as it is", async () => {
    const list = ["a"];
    const { cache, ask, warnings } = memoryWorld().process(
      "type Query { list: [String] @cached(maxAge: 60) me: User @cached(maxAge: 60) } type User { name: String }",
      {
        Query: {
          list: (_: unknown, __: unknown, context: Context) => context.list,
          me: (_: unknown, __: unknown, context: Context) => context.user,
        },
      },
      { privacy: { sharedContextKeys: ["list", "user"] } },
    );
    expect((await ask("{ list me { name } }", { list, user: { name: "ann" } })).errors).toBeUndefined();
    await cache.close();
    expect(warnings).toEqual([]);
    expect(Object.getOwnPropertyNames(list)).toEqual(["0", "length"]);
  });

  it("reads a list that cannot be watched as without the cache", async () => {
    const { proxy, revoke } = Proxy.revocable([], {});
    revoke();
    const list = new Proxy([1], {
      defineProperty: () => {
        throw new Error("a list that rejects definitions");
      },
    });
    const write: Write = (context) => void [context.proxy, (context.list as number[]).includes(1)];
    expect((await writtenBy(write, "{ field own loaded }", { proxy, list })).written).toEqual([]);
  });

  it("is not told of what another resolver adds to the context while it runs, nor of reads alone", async () => {
    const held = gate();
    let calls = 0;
    const write: Write = async (context) => {
      void context.warnings;
      void (context.list as unknown[]).includes(1);
      if (calls++ === 0) await held.passed;
      else held.open();
    };
    expect((await writtenBy(write, "{ field own }", { warnings: [], list: [1] })).written).toEqual([]);
  });
});
