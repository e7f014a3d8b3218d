import { GraphQLError, GraphQLScalarType } from "graphql";
import { inspectionResolvers, type RefreshJob } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { until } from "../../support/redis-lab.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

/** An id as a database driver returns it, such as MongoDB's `ObjectId`. */
class DatabaseId {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toJSON(): string {
    return this.#text;
  }
}

/** Spellings of one id that GraphQL serialises alike. */
const SPELLINGS: Readonly<Record<string, readonly unknown[]>> = {
  "a number and its string": [7, "7"],
  "a bigint and its string": [7n, "7"],
  "an object of the database driver and its string": [new DatabaseId("5f1e"), "5f1e"],
  "a String object and its string": [new String("a"), "a"],
};

const movieTypes = /* GraphQL */ `
  input Filter { id: ID ids: [ID!] genre: Genre }
  enum Genre { DRAMA COMEDY }
  type Query {
    movie: Movie
    search(filter: Filter!, n: Int = 3): String @cached(maxAge: 60, tags: ["Search:{$args.n}"])
    part(filter: Filter!): String @cached(maxAge: 60, key: ["$args.filter.id", "$args.filter.genre"])
  }
  type Director { id: ID! }
  type Movie {
    id: ID!
    director: Director!
    awards: [ID!]!
    stars: Int @cached(maxAge: 60)
    country: String @cached(maxAge: 60, key: ["$source.director.id"])
    prizes: String @cached(maxAge: 60, key: ["$source.awards"])
    studio: String @cached(maxAge: 60, key: ["$source.director"], tags: ["Movie:{$source.id}"])
  }
`;
const CHILDREN = ["stars", "country", "prizes", "studio"];

/** A process whose query `movie` returns an object in which `state.id` is every id. */
function movieSite(world: World, options: object = {}) {
  const loads: string[] = [];
  const state: { id: unknown } = { id: 7 };
  const load = (name: string) => () => (loads.push(name), loads.length);
  const resolvers = {
    Genre: { DRAMA: 1, COMEDY: { isObject: true } },
    Query: {
      movie: () => ({ id: state.id, director: { id: state.id }, awards: [state.id] }),
      search: load("search"),
      part: load("part"),
    },
    Movie: Object.fromEntries(CHILDREN.map((name) => [name, load(name)])),
  };
  return { ...world.process(movieTypes, resolvers, options as never), loads, state };
}

describe("keys of ids", () => {
  for (const [how, [one, other]] of Object.entries(SPELLINGS)) {
    it(`shares the entries of fields whose parents spell an ID as ${how}`, async () => {
      const site = movieSite(memoryWorld());
      const query = `{ movie { ${CHILDREN.join(" ")} } }`;
      site.state.id = one;
      const first = await dataOf(site.ask(query, {}));
      await waitForStores(site, CHILDREN.length);
      site.state.id = other;
      expect(await dataOf(site.ask(query, {}))).toEqual(first);
      expect(site.loads).toHaveLength(CHILDREN.length);
    });

    it(`invalidates the entry of an ID that the parent spells otherwise: ${how}`, async () => {
      for (const [stored, given] of [
        [one, other],
        [other, one],
      ]) {
        const site = movieSite(memoryWorld());
        site.state.id = stored;
        const query = `{ movie { ${CHILDREN.join(" ")} } }`;
        await site.ask(query, {});
        await waitForStores(site, CHILDREN.length);
        site.loads.length = 0;
        const source = { id: given, director: { id: given }, awards: [given] };
        for (const name of CHILDREN) await site.cache.invalidate({ coordinate: `Movie.${name}`, source });
        await dataOf(site.ask(query, {}));
        expect(new Set(site.loads)).toEqual(new Set(CHILDREN));
      }
    });

    it(`gives an entry the tag of its parent's ID, spelled as ${how}`, async () => {
      const site = movieSite(memoryWorld());
      site.state.id = one;
      await site.ask("{ movie { studio } }", {});
      await waitForStores(site);
      await site.cache.invalidateTags([`Movie:${String(other)}`]);
      await site.ask("{ movie { studio } }", {});
      expect(site.loads).toEqual(["studio", "studio"]);
    });
  }

  it("finds the entry of arguments with ids and enum values in input objects, however they are written", async () => {
    const site = movieSite(memoryWorld());
    const ask = (filter: string) => dataOf(site.ask(`{ search(filter: ${filter}) part(filter: ${filter}) }`, {}));
    await ask('{ id: 7, ids: [7, "8"], genre: COMEDY }');
    await waitForStores(site, 2);
    await ask('{ genre: COMEDY, ids: ["7", 8], id: "7" }');
    expect(site.loads).toHaveLength(2);
    const args = { filter: { id: 7, ids: 7, genre: "COMEDY" } };
    await site.cache.invalidate({ coordinate: "Query.part", args });
    await site.cache.invalidate({ coordinate: "Query.search", args: { filter: { ...args.filter, ids: ["7", 8] } } });
    await ask('{ id: 7, ids: [7, "8"], genre: COMEDY }');
    expect(site.loads.slice(2).toSorted((a, b) => (a < b ? -1 : 1))).toEqual(["part", "search"]);
  });

  it("runs a refresh job under the key of the request, whatever the spelling of the ID", async () => {
    const jobs: RefreshJob[] = [];
    const shared = memoryWorld();
    const typeDefs = /* GraphQL */ `
      scalar JSON
      type Query { movie: Movie }
      type Movie { id: ID! stars(by: JSON): Int @cached(maxAge: 1, staleWhileRevalidate: 600) }
    `;
    const resolvers = (id: unknown) => ({ Query: { movie: () => ({ id }) }, Movie: { stars: () => 4 } });
    const refreshQueue = (job: RefreshJob): void => void jobs.push(JSON.parse(JSON.stringify(job)) as RefreshJob);
    const web = shared.process(typeDefs, resolvers(7), { loads: { refreshQueue } });
    const worker = shared.process(typeDefs, resolvers("7"));
    const query = "{ movie { stars(by: { z: 1, a: 2 }) } }";
    await web.ask(query, {});
    await until("the refresh is queued", async () => (await web.ask(query, {}), jobs.length === 1));
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
  });
});

onEachStore("keys of identities", (world) => {
  const typeDefs = /* GraphQL */ `
    type Query { me: Int @cached(maxAge: 60, scope: PRIVATE) }
  `;
  const site = (shared: World) => {
    const loads: unknown[] = [];
    const me = (_: unknown, __: unknown, { userId }: { userId: unknown }) => loads.push(userId);
    const identify = ({ userId }: { userId: unknown }): unknown => userId;
    const process = shared.process(typeDefs, { Query: { me } }, { identify } as never);
    return { ...process, loads };
  };

  it("shares private entries between spellings of one identity", async () => {
    const process = site(world());
    for (const userId of [7, "7", 7n]) {
      expect(await dataOf(process.ask("{ me }", { userId }))).toEqual({ me: 1 });
      await waitForStores(process);
    }
    expect(await dataOf(process.ask("{ me }", { userId: "07" }))).toEqual({ me: 2 });
    expect(process.loads).toEqual([7, "07"]);
  });

  it("invalidates the private entry of an identity that identify spells otherwise", async () => {
    for (const [owner, given] of [
      [7, "7"],
      ["7", 7],
      [7n, 7],
      ["7", 7n],
    ] as const) {
      const process = site(world());
      await process.ask("{ me }", { userId: owner });
      await waitForStores(process);
      await process.cache.invalidate({ coordinate: "Query.me", private: given });
      await process.ask("{ me }", { userId: owner });
      expect(process.loads).toEqual([owner, owner]);
    }
  });

  it("does not cache a private value for a number that is too large to be exact", async () => {
    const process = site(world());
    for (const userId of [2 ** 53, String(2 ** 53), 2 ** 53]) await process.ask("{ me }", { userId });
    expect(process.outcomes()).toEqual({ "bypassed(NO_IDENTITY)": 2, loaded: 1 });
  });
});

describe("the inspection of an entry", () => {
  it("finds entries whatever the spelling of ids and identities, with the defaults and enum values of their tags", async () => {
    const typeDefs = /* GraphQL */ `
      enum Genre { DRAMA }
      type Query {
        movie: Movie
        top(n: Int = 3, genre: Genre = DRAMA): Int @cached(maxAge: 60, tags: ["Top:{$args.n}:{$args.genre}"])
      }
      type Movie {
        id: ID!
        stars: Int @cached(maxAge: 60)
        mine: Int @cached(maxAge: 60, scope: PRIVATE)
      }
    `;
    const resolvers = {
      Genre: { DRAMA: 1 },
      Query: { movie: () => ({ id: 7 }), top: () => 1 },
      Movie: { stars: () => 4, mine: () => 5 },
    };
    const world = memoryWorld();
    const site = world.process(typeDefs, resolvers, { identify: () => 8 });
    await site.ask("{ top movie { stars mine } }", {});
    await waitForStores(site, 3);
    const { entry } = inspectionResolvers(site.cache, { allow: () => true }).CacheInspection;
    const source = { id: "7" };
    for (const target of [
      { coordinate: "Movie.stars", source },
      { coordinate: "Movie.mine", source, private: "8" },
      { coordinate: "Query.top", args: null },
      { coordinate: "Query.top", args: { n: 3, genre: "DRAMA" } },
    ])
      expect(await entry({} as never, target as never, {})).toMatchObject({ state: "VALUE", use: "FRESH" });
  });
});

/** Instances of subclasses, by what a client sends. */
class Money extends Date {}
class Pairs extends Map {}
class Group extends Set {}
class Bytes extends Uint8Array {}
class List extends Array {}
const UNUSUAL: Readonly<Record<string, () => unknown>> = {
  Date: () => new Money(0),
  Map: () => new Pairs(),
  Set: () => new Group(),
  Uint8Array: () => new Bytes(),
  Array: () => new List(),
  Buffer: () => Object.setPrototypeOf(Buffer.from("a"), class extends Uint8Array {}.prototype) as unknown,
};

const scalarTypes = /* GraphQL */ `
  scalar JSON
  scalar Exotic
  input Sort { by: JSON n: Int m: Int }
  type Query {
    find(sort: JSON): String @cached(maxAge: 60)
    findBy(sort: Sort): String @cached(maxAge: 60)
    part(sort: Sort): String @cached(maxAge: 60, key: ["$args.sort.by"])
    exotic(value: Exotic): String @cached(maxAge: 60)
    tenant: String @cached(maxAge: 60, key: ["$context.tenant"])
  }
`;

function scalarSite(world: World): Process & { readonly loads: unknown[] } {
  const loads: unknown[] = [];
  const show = (_: unknown, args: object): string => (loads.push(args), JSON.stringify(args));
  const Exotic = new GraphQLScalarType({
    name: "Exotic",
    parseValue: (name) => {
      const make = UNUSUAL[name as string];
      if (make === undefined) throw new GraphQLError("unknown");
      return make();
    },
  });
  const Query = { find: show, findBy: show, part: show, exotic: show, tenant: show };
  return { ...world.process(scalarTypes, { Exotic, Query }), loads };
}

describe("keys of custom scalars", () => {
  it("does not share values between objects of a custom scalar that differ in the order of their fields", async () => {
    const site = scalarSite(memoryWorld());
    for (const field of ["find(sort: ", "findBy(sort: { by: ", "part(sort: { by: "]) {
      const ask = (value: string) => dataOf(site.ask(`{ v: ${field}${value}${field.includes("{") ? "}" : ""}) }`, {}));
      const [one, other] = [await ask("{ age: -1, name: 1 }"), await ask("{ name: 1, age: -1 }")];
      expect(other).not.toEqual(one);
      expect(await ask("{ age: -1, name: 1 }")).toEqual(one);
    }
    expect(site.loads).toHaveLength(6);
  });

  it("invalidates only the entry whose custom scalar has the given order of fields", async () => {
    const site = scalarSite(memoryWorld());
    const query = "{ a: find(sort: { age: -1, name: 1 }) b: find(sort: { name: 1, age: -1 }) }";
    await site.ask(query, {});
    await waitForStores(site, 2);
    await site.cache.invalidate({ coordinate: "Query.find", args: { sort: { name: 1, age: -1 } } });
    await site.ask(query, {});
    expect(site.loads.map((args) => JSON.stringify(args))).toEqual([
      '{"sort":{"age":-1,"name":1}}',
      '{"sort":{"name":1,"age":-1}}',
      '{"sort":{"name":1,"age":-1}}',
    ]);
  });

  it("shares values between input objects that differ in the order of their fields", async () => {
    const site = scalarSite(memoryWorld());
    const first = await dataOf(site.ask("{ findBy(sort: { n: 1, m: 2 }) }", {}));
    await waitForStores(site);
    expect(await dataOf(site.ask("{ findBy(sort: { m: 2, n: 1 }) }", {}))).toEqual(first);
    expect(site.loads).toHaveLength(1);
  });

  for (const name of Object.keys(UNUSUAL))
    it(`resolves a field uncached when an argument is an instance of a subclass of ${name}`, async () => {
      const site = scalarSite(memoryWorld());
      for (let nth = 0; nth < 2; nth++) await dataOf(site.ask(`{ exotic(value: "${name}") }`, {}));
      expect(site.outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 2 });
      const [event] = site.events.filter((one) => one.name === "resolver.bypassed");
      expect(event).toMatchObject({
        error: { code: "CACHED_KEY_UNSERIALIZABLE", message: expect.stringContaining("subclass") as string },
      });
    });
});

it("an argument with the name of a method of all objects has the same keys as any other", async () => {
  const { ask, outcomes } = memoryWorld().process(
    'type Query { find(constructor: Int, toString: Int): Int @cached(maxAge: 60, key: ["$args.constructor", "$args.toString"]) }',
    { Query: { find: () => 1 } },
  );
  for (const source of ["{ find }", "{ find(constructor: 1) }", "{ find(constructor: 1, toString: 1) }"])
    for (let nth = 0; nth < 2; nth++) await dataOf(ask(source, {}));
  expect(outcomes()).toEqual({ loaded: 3, hit: 3 });
});

describe("an invalidation that names no entry", () => {
  const typeDefs = /* GraphQL */ `
    input Filter { id: ID! }
    type Query {
      movie(id: ID!): Movie @cached(maxAge: 60)
      part(id: ID!, n: Int): Int @cached(maxAge: 60, key: ["$args.n"])
      find(filter: Filter!): Int @cached(maxAge: 60)
      page(n: Int! = 1, of: Int): Int @cached(maxAge: 60)
      me: Int @cached(maxAge: 60, scope: PRIVATE)
      local: Int @cached(maxAge: 60, key: ["$context.locale"])
    }
    type Movie { id: ID! stars: Int @cached(maxAge: 60) }
  `;
  const site = (): Process => memoryWorld().process(typeDefs, {}, { identify: () => "me" });
  const ofNobody = "`private`: expected nothing, since the entries of the field belong to no identity; leave it out";
  it.each<[what: string, target: object, message: string, code?: string]>([
    ["args without a required argument", { coordinate: "Query.movie", args: {} }, "got nothing"],
    [
      "an undefined required argument",
      { coordinate: "Query.movie", args: { id: undefined } },
      "argument `id`: expected a value of type `ID!`, got undefined",
    ],
    ["a null required argument", { coordinate: "Query.movie", args: { id: null } }, "`id`"],
    ["a required input field missing", { coordinate: "Query.find", args: { filter: {} } }, "filter"],
    ["no identity", { coordinate: "Query.me", args: {} }, "`private`"],
    ["an identity that stands for none", { coordinate: "Query.me", private: "undefined" }, "`private`"],
    ["an identity for a PUBLIC field", { coordinate: "Query.movie", args: { id: 7 }, private: "me" }, ofNobody],
    ["an identity alone for a PUBLIC field", { coordinate: "Query.movie", private: "me" }, ofNobody],
    ["no parent", { coordinate: "Movie.stars", args: {} }, "`$source.id`"],
    ["no context", { coordinate: "Query.local", args: {} }, "`$context.locale`"],
    ["a list as args", { coordinate: "Query.page", args: [1] }, "args`: expected", "CACHED_OPTION_INVALID"],
    ["an unknown property", { coordinate: "Query.page", arg: {} }, "arg`: unknown", "CACHED_OPTION_INVALID"],
  ])("is rejected: %s", async (_, target, message, code = "CACHED_KEY_UNUSABLE") => {
    const { cache } = site();
    const expected = { code, message: expect.stringContaining(message) as string };
    await expect(cache.invalidate(target as never)).rejects.toMatchObject(expected);
    await expect(cache.mutate({ entries: [target as never] }, () => 1)).rejects.toMatchObject(expected);
  });

  for (const property of ["args", "source", "context", "private"])
    for (const value of [undefined, null])
      it(`is rejected with CACHED_OPTION_INVALID if \`${property}\` is present and ${value}`, async () => {
        const { cache } = site();
        let writes = 0;
        const target = { coordinate: "Query.page", [property]: value } as never;
        const refusal = (place: string) => ({
          code: "CACHED_OPTION_INVALID",
          message: expect.stringMatching(
            new RegExp(`^cache\\.${place}${property}\`: expected .*, got ${value}; `),
          ) as string,
        });
        await expect(cache.invalidate(target)).rejects.toMatchObject({
          coordinate: "Query.page",
          ...refusal("invalidate: `"),
        });
        const entries = [{ coordinate: "Query.page", args: {} }, target];
        const written = cache.mutate({ entries }, () => ++writes);
        await expect(written).rejects.toMatchObject(refusal("mutate: `entries\\[1\\]\\."));
        expect(writes).toBe(0);
      });

  it("is accepted without arguments if the key needs none", async () => {
    const { cache } = site();
    await cache.invalidate({ coordinate: "Query.page", args: {} });
    await cache.invalidate({ coordinate: "Query.part", args: { n: 1 } });
    await cache.invalidate({ coordinate: "Query.page", args: { of: undefined } });
  });
});

onEachStore("keys with the selection", (world) => {
  const typeDefs = /* GraphQL */ `
    type Query {
      movie(id: ID!): Movie @cached(maxAge: 60, key: ["$args", "$selection"])
      mine(id: ID!): Movie @cached(maxAge: 60, key: ["$args.id", "$selection"], scope: PRIVATE, tags: ["Mine"])
    }
    type Movie { id: ID! title: String stars: Int }
  `;
  const site = (shared: World) => {
    const loads: unknown[] = [];
    const load =
      (name: string) =>
      (_: unknown, { id }: { id: string }) => {
        loads.push(`${name} ${id}`);
        return { id, title: "Alien", stars: loads.length };
      };
    const identify = ({ userId }: { userId?: unknown }): unknown => userId;
    const resolvers = { Query: { movie: load("movie"), mine: load("mine") } };
    return { ...shared.process(typeDefs, resolvers, { identify } as never), loads };
  };
  const QUERIES = ["{ movie(id: 7) { title } }", "{ movie(id: 7) { stars } }", "{ movie(id: 8) { title } }"];

  it("are invalidated by coordinate and arguments, for every selection and no other arguments", async () => {
    const shared = world();
    const [one, other] = [site(shared), site(shared)];
    for (const query of QUERIES) await one.ask(query, {});
    await waitForStores(one, 3);
    for (const query of QUERIES) await other.ask(query, {});
    expect(other.loads).toEqual([]);
    await other.cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } });
    for (const query of QUERIES) await one.ask(query, {});
    expect(one.loads).toEqual(["movie 7", "movie 7", "movie 8", "movie 7", "movie 7"]);
  });

  it("are invalidated for one identity if the field is PRIVATE", async () => {
    const process = site(world());
    const ask = async (userId: unknown) => dataOf(process.ask("{ mine(id: 7) { stars } }", { userId }));
    await ask(1);
    await ask(2);
    await waitForStores(process, 2);
    await process.cache.invalidate({ coordinate: "Query.mine", args: { id: "7" }, private: "1" });
    await ask(1);
    await ask(2);
    expect(process.loads).toHaveLength(3);
    await expect(process.cache.invalidate({ coordinate: "Query.mine", args: { id: "7" } })).rejects.toMatchObject({
      code: "CACHED_KEY_UNUSABLE",
    });
  });

  it("are protected by cache.mutate while the write runs", async () => {
    const process = site(world());
    await process.ask(QUERIES[0] as string, {});
    await waitForStores(process);
    const entries = [{ coordinate: "Query.movie", args: { id: 7 } }];
    await process.cache.mutate({ entries }, () => process.ask(QUERIES[0] as string, {}));
    await process.ask(QUERIES[0] as string, {});
    expect(process.loads).toEqual(["movie 7", "movie 7", "movie 7"]);
  });
});
