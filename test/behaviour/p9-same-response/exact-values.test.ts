import { settle } from "@graphql-cached/testing";
import { type GraphQLFieldResolver, graphql } from "graphql";
import type { CacheOptions } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { msgpackrCodec } from "../../support/msgpackr-codec.js";
import { dataOf, memoryWorld, onEachStore } from "../../support/world.js";

/** As in Pothos: `brandWithType` marks objects with a symbol property that is not enumerable. */
const BRAND = Symbol.for("Pothos.typeBrandKey");
const KIND = Symbol.for("kind");
const OWN: unique symbol = Symbol("own");
const branded = <T extends object>(value: T, type: string): T => Object.defineProperty(value, BRAND, { value: type });

const PATIENT: CacheOptions<never> = { storage: { storeTimeoutMs: 5_000 } };

describe("properties that JSON does not show", () => {
  const kindOf = (film: { kind: string }) => film.kind;
  const ownOf = (film: { [OWN]: string }) => film[OWN];
  const counting = () => {
    let reads = 0;
    return {
      get reads() {
        return ++reads;
      },
    };
  };
  /** Values with a property that a child resolver can see, and what it sees. */
  const HIDDEN: Readonly<Record<string, readonly [make: () => object, see: (value: never) => unknown]>> = {
    "a registered symbol": [() => ({ [KIND]: "Film" }), (film: object) => Reflect.get(film, KIND)],
    "a symbol of its own": [() => ({ [OWN]: "Film" }), ownOf],
    "a property that is not enumerable": [() => Object.defineProperty({}, "kind", { value: "Film" }), kindOf],
    "an extra property of an array": [() => Object.assign(["a"], { kind: "Film" }), kindOf],
    "a symbol property of an array": [() => Object.assign(["a"], { [OWN]: "Film" }), ownOf],
    "an extra property of a Date": [() => Object.assign(new Date(0), { kind: "Film" }), kindOf],
    "an extra property of a Map": [() => Object.assign(new Map(), { kind: "Film" }), kindOf],
    "an extra property of a Buffer": [() => Object.assign(Buffer.from("a"), { kind: "Film" }), kindOf],
    "a property that only a Proxy returns": [
      () => new Proxy({}, { get: (_, name) => (name === "kind" ? "Film" : undefined) }),
      kindOf,
    ],
    "an object without a prototype": [
      () => Object.assign(Object.create(null), { a: 1 }),
      (film: object) => (Object.getPrototypeOf(film) === null ? "Film" : "an ordinary object"),
    ],
    "a hole in an array": [() => new Array(3), (film: number[]) => (1 in film ? "a member" : "Film")],
    "a getter": [
      counting,
      (film: { reads: number }) => ([film.reads, film.reads].join() === "1,2" ? "Film" : "a copy of one read"),
    ],
  };
  for (const [what, [make, see]] of Object.entries(HIDDEN))
    for (const [format, options] of Object.entries({ JSON: {}, msgpackr: { codec: msgpackrCodec() } }))
      it(`shows a child resolver the same on a hit as without the cache, with ${format}: ${what}`, async () => {
        const process = memoryWorld().process(
          "type Query { film: Film @cached(maxAge: 60) } type Film { seen: String }",
          { Query: { film: () => ({ value: make() }) }, Film: { seen: ({ value }: { value: never }) => see(value) } },
          options as CacheOptions<never>,
        );
        for (let round = 0; round < 3; round++) {
          expect(await dataOf(process.ask("{ film { seen } }"))).toEqual({ film: { seen: "Film" } });
          await settle();
        }
      });

  it("refuses a value with a getter without calling the getter, and reports where it is", async () => {
    let reads = 0;
    const film = {
      get lazy() {
        reads++;
        return 1;
      },
    };
    const process = memoryWorld().process("type Query { film: Film @cached(maxAge: 60) } type Film { id: ID }", {
      Query: { film: () => [{ film }] },
    });
    await process.ask("{ film { id } }");
    const refused = process.events.filter(({ name }) => name === "value.refused");
    expect(reads).toBe(0);
    expect(refused).toMatchObject([
      { error: { message: expect.stringContaining("a getter or setter at `result[0].film.lazy`") } },
    ]);
  });

  it("offers an object with hidden properties to the value types before it refuses it", async () => {
    const types = {
      Film: {
        is: (value: object) => OWN in value,
        encode: (value: object) => Reflect.get(value, OWN),
        decode: (kind: string) => ({ [OWN]: kind }),
      },
    };
    let loads = 0;
    const film = (): unknown => (loads++, { [OWN]: "Ran" });
    const process = memoryWorld().process(
      "type Query { film: Film @cached(maxAge: 60) } type Film { kind: String }",
      { Query: { film }, Film: { kind: (parent: object) => Reflect.get(parent, OWN) } },
      { types } as CacheOptions<never>,
    );
    for (let round = 0; round < 2; round++) {
      expect(await dataOf(process.ask("{ film { kind } }"))).toEqual({ film: { kind: "Ran" } });
      await settle();
    }
    expect(loads).toBe(1);
  });
});

describe("objects marked with a symbol", () => {
  it("stores the mark of Pothos' brandWithType, so that Relay nodes resolve their type on a miss and on a hit", async () => {
    let loads = 0;
    const process = memoryWorld().process(
      "interface Node { id: ID! } type Film implements Node { id: ID! } type Query { node(id: ID!): Node @cached(maxAge: 60) }",
      {
        Query: { node: (_: unknown, { id }: { id: string }) => (loads++, branded({ id }, "Film")) },
        Node: { __resolveType: (node: object) => Reflect.get(node, BRAND) },
      },
      PATIENT,
    );
    for (let round = 0; round < 3; round++) {
      expect(await dataOf(process.ask('{ node(id: "7") { __typename id } }'))).toEqual({
        node: { __typename: "Film", id: "7" },
      });
      await settle();
    }
    await expect.poll(() => process.outcomes()).toMatchObject({ loaded: 1 });
    expect(loads).toBe(1);
  });
});

describe("a generator", () => {
  function* numbers() {
    yield* [1, 2, 3];
  }
  async function* later() {
    yield* [1, 2, 3];
  }

  it("is loaded for each alias, so that every alias gets all items", async () => {
    const collect = async ({ items }: { items: AsyncIterable<number> }): Promise<number[]> => {
      const all: number[] = [];
      for await (const item of items) all.push(item);
      return all;
    };
    const process = memoryWorld().process(
      "type Query { sync: [Int] @cached(maxAge: 60) async: Feed @cached(maxAge: 60) } type Feed { items: [Int] }",
      {
        Query: { sync: numbers, async: () => ({ items: later() }) },
        Feed: { items: collect },
      },
      PATIENT,
    );
    for (let round = 0; round < 2; round++)
      expect(await dataOf(process.ask("{ a: sync b: sync c: async { items } d: async { items } }"))).toEqual({
        a: [1, 2, 3],
        b: [1, 2, 3],
        c: { items: [1, 2, 3] },
        d: { items: [1, 2, 3] },
      });
  });

  it("is loaded for each request of a process that misses in the same tick", async () => {
    const process = memoryWorld().process(
      "type Query { items: [Int] @cached(maxAge: 60) }",
      { Query: { items: numbers } },
      PATIENT,
    );
    const answers = await Promise.all([1, 2, 3].map(() => dataOf(process.ask("{ items }"))));
    expect(answers).toEqual([1, 2, 3].map(() => ({ items: [1, 2, 3] })));
  });
});

const COUNTED = "type Query { film: Film @cached(maxAge: 60) } type Film { bump: Int }";
const bump = (film: { count: number }): number => ++film.count;

describe("aliases of one field", () => {
  const ALIASES = "{ a: film { bump } b: film { bump } c: film { bump } }";
  const EACH = { a: { bump: 2 }, b: { bump: 2 }, c: { bump: 2 } };

  it("share one read and one load, and get an object each, so that a child resolver may change its parent", async () => {
    let loads = 0;
    const film = (): unknown => (loads++, { count: 1 });
    const process = memoryWorld().process(COUNTED, { Query: { film }, Film: { bump } }, PATIENT);
    for (let round = 0; round < 3; round++) {
      expect(await dataOf(process.ask(ALIASES))).toEqual(EACH);
      // They share one read of the store and one load.
      if (round === 0) expect([loads, process.outcomes()]).toEqual([1, { loaded: 1 }]);
      await settle();
    }
    expect(loads).toBeLessThanOrEqual(2);
  });

  it("get an object each when the value is too large to be stored", async () => {
    let loads = 0;
    const film = (): unknown => (loads++, { count: 1, text: "x".repeat(2_000) });
    const options = { storage: { storeTimeoutMs: 5_000, maxValueBytes: 1_000 } };
    const process = memoryWorld().process(COUNTED, { Query: { film }, Film: { bump } }, options);
    expect(await dataOf(process.ask(ALIASES))).toEqual(EACH);
    expect(loads).toBe(1);
  });
});

onEachStore("values that are fresh for no time", (world) => {
  it("stores no empty result with negativeMaxAge 0, and drops the value that it replaces", async () => {
    const process = world().process(
      "type Query { film(id: ID!): String @cached(maxAge: 60, negativeMaxAge: 0, staleWhileRevalidate: 60) }",
      { Query: { film: () => (loads++, null) } },
      PATIENT,
    );
    let loads = 0;
    for (let round = 1; round <= 3; round++) {
      expect(await dataOf(process.ask('{ film(id: "1") }'))).toEqual({ film: null });
      await expect.poll(() => process.events.filter(({ name }) => name === "write.finished").length).toBe(round);
      expect(loads).toBe(round);
    }
    expect(process.outcomes()).toEqual({ loaded: 3 });
  });

  it("turns a loader with maxAge 0 into a plain DataLoader", async () => {
    const process = world().process("type Query { a: Int }", {}, PATIENT);
    const batches: (readonly number[])[] = [];
    const films = process.cache.loader<number, number>({
      name: "Film",
      maxAge: 0,
      batch: async (ids) => (batches.push(ids), ids.map((id) => 2 * id)),
    });
    for (let request = 0; request < 2; request++) {
      const loader = films({});
      expect(await Promise.all([loader.load(1), loader.load(1), loader.loadMany([2])])).toEqual([2, 2, [4]]);
      expect(await loader.prime(3, 9).load(3)).toBe(9);
      await settle();
    }
    expect(batches).toEqual([
      [1, 2],
      [1, 2],
    ]);
    expect(process.events).toEqual([]);
  });
});

describe("a cached value that GraphQL refuses", () => {
  const typeDefs = `
    enum Genre { DRAMA COMEDY }
    interface Work { id: ID }
    type Film implements Work { id: ID genre: Genre title: String! cast: [String!]! }
    type Book implements Work { id: ID }
    type Query {
      film: Film @cached(maxAge: 60)
      films: [Film!]! @cached(maxAge: 60)
      work: Work @cached(maxAge: 60)
      genre: Genre @cached(maxAge: 60)
      required: Int! @cached(maxAge: 60)
    }
  `;
  const good = { __typename: "Film", id: "1", genre: "DRAMA", title: "Ran", cast: ["a"] };
  const CASES: Readonly<Record<string, readonly [query: string, bad: unknown, good: unknown]>> = {
    "null for a non-null field": ["{ required }", null, 7],
    "null for a non-null field of an object": ["{ film { title } }", { ...good, title: null }, good],
    "null in a list of non-null items": ["{ films { id } }", [good, null], [good]],
    "null in a nested list": ["{ film { cast } }", { ...good, cast: ["a", null] }, good],
    "an unknown enum value": ["{ genre }", "WESTERN", "DRAMA"],
    "an unknown enum value of an object": [
      "{ films { ... on Film { ...F } } } fragment F on Film { genre }",
      [{ ...good, genre: "WESTERN" }],
      [good],
    ],
    "an unknown type": ["{ work { id } }", { ...good, __typename: "Song" }, good],
  };
  for (const [what, [query, bad, fixed]] of Object.entries(CASES))
    it(`is not stored, so that the next request loads again: ${what}`, async () => {
      let value = bad;
      const resolve = (): unknown => value;
      const resolvers = { film: resolve, films: resolve, work: resolve, genre: resolve, required: resolve };
      const process = memoryWorld().process(typeDefs, { Query: resolvers }, PATIENT);
      expect((await process.ask(query)).errors).toHaveLength(1);
      await settle();
      expect(process.events.map(({ name }) => name)).not.toContain("write.finished");
      value = fixed;
      await expect.poll(async () => (await process.ask(query)).errors).toBeUndefined();
      expect(process.outcomes()).not.toHaveProperty("hit");
      expect(process.events.filter(({ name }) => name === "value.refused")).toMatchObject([
        { error: { code: "CACHED_VALUE_INVALID" } },
      ]);
    });

  it("is loaded again when a query asks for the field that fails, and reported", async () => {
    let value: unknown = { ...good, title: null };
    let loads = 0;
    const process = memoryWorld().process(typeDefs, { Query: { film: () => (loads++, value) } }, PATIENT);
    expect(await dataOf(process.ask("{ film { id } }"))).toEqual({ film: { id: "1" } });
    await expect.poll(() => process.events.filter(({ name }) => name === "write.finished").length).toBe(1);
    expect(await dataOf(process.ask("{ film { id title @include(if: false) } }"))).toEqual({ film: { id: "1" } });
    expect(loads).toBe(1);
    value = good;
    expect(await dataOf(process.ask("{ film { title } }"))).toEqual({ film: { title: "Ran" } });
    expect(loads).toBe(2);
    expect(process.events.filter(({ name }) => name === "entry.corrupt")).toMatchObject([
      { error: { message: expect.stringContaining("null for the non-null field `Film.title`") } },
    ]);
  });
});

describe("a value with objects whose types are resolved by a function", () => {
  const typeDefs = /* GraphQL */ `
    interface Node { id: ID! }
    type Movie implements Node { id: ID! }
    type Show implements Node { id: ID! }
    union Found = Movie | Show
    type Page { found: [Found!]! }
    type Query {
      node: Node @cached(maxAge: 60)
      page: Page @cached(maxAge: 60)
    }
  `;
  const QUERY = "{ node { __typename id } page { found { __typename } } }";
  const DATA = { node: { __typename: "Movie", id: "1" }, page: { found: [{ __typename: "Show" }] } };
  /** Returns a process whose loads are counted, and in which `kinds` knows the types of the objects that it loads. */
  const start = (resolversOf: (kinds: WeakMap<object, string>) => object) => {
    const kinds = new WeakMap<object, string>();
    const counted = { loads: 0 };
    const load = (kind: string) => {
      counted.loads++;
      const object = { id: 1, kind };
      kinds.set(object, kind);
      return object;
    };
    const Query = { node: () => load("Movie"), page: () => ({ found: [load("Show")] }) };
    const process = memoryWorld().process(typeDefs, { Query, ...resolversOf(kinds) }, PATIENT);
    const ask = async () => dataOf(process.ask(QUERY));
    const refused = (): unknown[] => process.events.filter(({ name }) => name === "value.refused");
    return { ...process, ask, counted, refused };
  };
  const byIdentity: Readonly<Record<string, (kinds: WeakMap<object, string>) => object>> = {
    "a __resolveType knows no copies of the objects": (kinds) => {
      const resolve = { __resolveType: (object: object) => kinds.get(object) };
      return { Node: resolve, Found: resolve };
    },
    "a __resolveType takes copies of the objects for another type": (kinds) => {
      const resolveAs = (other: string) => ({ __resolveType: (object: object) => kinds.get(object) ?? other });
      return { Node: resolveAs("Show"), Found: resolveAs("Movie") };
    },
    "an __isTypeOf knows no copies of the objects": (kinds) => {
      const isOf = (kind: string) => ({ __isTypeOf: (object: object) => kinds.get(object) === kind });
      return { Movie: isOf("Movie"), Show: isOf("Show") };
    },
  };
  for (const [how, resolversOf] of Object.entries(byIdentity))
    it(`is passed on and not stored if ${how}`, async () => {
      const { ask, counted, refused } = start(resolversOf);
      for (let round = 1; round <= 2; round++) {
        expect(await Promise.all([ask(), ask()])).toEqual([DATA, DATA]);
        await settle();
      }
      expect(counted.loads).toBe(8);
      // While a key counts as uncacheable, its values are not encoded.
      expect(refused()).toHaveLength(2);
      expect(refused()).toMatchObject(Array(2).fill({ error: { code: "CACHED_VALUE_UNSERIALIZABLE" } }));
    });

  it("is stored if the function decides by the data", async () => {
    const resolve = { __resolveType: ({ kind }: { kind: string }) => kind };
    const { ask, counted, refused } = start(() => ({ Node: resolve, Found: resolve }));
    for (let round = 1; round <= 2; round++) {
      expect(await ask()).toEqual(DATA);
      await settle();
    }
    expect(counted.loads).toBe(2);
    expect(refused()).toEqual([]);
  });

  it("is reported with its field, the types and what to do", async () => {
    const messagesOf = async (how: string): Promise<unknown[]> => {
      const { ask, refused } = start(byIdentity[how] as () => object);
      await ask();
      return refused().map((event) => (event as { error: Error }).error.message);
    };
    const remedy =
      "let resolveType and isTypeOf decide by the data, such as `__typename`, and enums have plain internal values";
    expect(await messagesOf("a __resolveType knows no copies of the objects")).toEqual([
      `\`Query.node\`: the value is not cached: expected a value that has the same types when it is restored, got an object whose type cannot be resolved to one of \`Node\` at \`node\`; ${remedy}`,
      `\`Query.page\`: the value is not cached: expected a value that has the same types when it is restored, got an object whose type cannot be resolved to one of \`Found\` at \`Page.found\`; ${remedy}`,
    ]);
    expect(await messagesOf("a __resolveType takes copies of the objects for another type")).toEqual([
      `\`Query.node\`: the value is not cached: expected a value that has the same types when it is restored, got a \`Movie\` that becomes a \`Show\`; ${remedy}`,
      `\`Query.page\`: the value is not cached: expected a value that has the same types when it is restored, got a \`Show\` that becomes a \`Movie\`; ${remedy}`,
    ]);
  });
});

describe("a server with a field resolver of its own", () => {
  const fieldResolver: GraphQLFieldResolver<Record<string, unknown>, unknown> = (source, _, __, { fieldName }) =>
    source[fieldName.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];

  it("resolves a cached field and a mutation with it if it is their resolver, and the fields below by itself", async () => {
    const sdl = /* GraphQL */ `
      type Query { topFilm: Film @cached(maxAge: 60, tags: ["Top"]) }
      type Mutation { rateFilm: Film @invalidates(tags: ["Top"]) }
      type Film { releaseYear: Int! }
    `;
    const resolvers = { Query: { topFilm: fieldResolver }, Mutation: { rateFilm: fieldResolver } };
    const { schema } = memoryWorld().process(sdl, resolvers);
    const film = { release_year: 1985 };
    const rootValue = { top_film: film, rate_film: film };
    const ask = async (source: string) => (await graphql({ schema, source, rootValue, fieldResolver })).data;
    expect(await ask("{ topFilm { releaseYear } }")).toEqual({ topFilm: { releaseYear: 1985 } });
    expect(await ask("mutation { rateFilm { releaseYear } }")).toEqual({ rateFilm: { releaseYear: 1985 } });
  });

  it("keeps values whose properties are named differently from the fields", async () => {
    let loads = 0;
    const { schema } = memoryWorld().process(
      "type Query { film: Film @cached(maxAge: 60) } type Film { releaseYear: Int! }",
      { Query: { film: () => (loads++, { release_year: 1985 }) } },
    );
    for (let round = 0; round < 2; round++) {
      const { data } = await graphql({ schema, source: "{ film { releaseYear } }", fieldResolver });
      expect(data).toEqual({ film: { releaseYear: 1985 } });
      await settle();
    }
    expect(loads).toBe(1);
  });
});

it("a value of an enum whose internal values are objects, which no copy is, is passed on and not stored", async () => {
  const red = { r: 255 };
  const sdl = "enum Color { RED } type Car { color: Color } type Query { car: Car @cached(maxAge: 60) }";
  const resolvers = { Color: { RED: red }, Query: { car: () => ({ color: red }) } };
  const { ask, events } = memoryWorld().process(sdl, resolvers);
  for (let nth = 0; nth < 2; nth++) {
    expect(await dataOf(ask("{ car { color } }"))).toEqual({ car: { color: "RED" } });
    await settle();
  }
  const reported = events.filter(({ name }) => name === "value.refused" || name === "entry.corrupt");
  expect(reported).toMatchObject([{ name: "value.refused", error: { code: "CACHED_VALUE_UNSERIALIZABLE" } }]);
});
