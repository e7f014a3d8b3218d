import { runInNewContext } from "node:vm";
import { settle } from "@graphql-cached/testing";
import { GraphQLScalarType } from "graphql";
import type { CacheOptions } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { ReadReport } from "../../../src/core/tier/request/request.js";
import {
  dataOf,
  memoryWorld,
  onEachStore,
  type Process,
  pair,
  timedWorld,
  type World,
  waitForStores,
} from "../../support/world.js";

type Row = Readonly<Record<string, unknown>>;

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60)
    movies: [Movie!] @cached(maxAge: 60)
    mine: [Movie!] @cached(maxAge: 60, scope: PRIVATE)
    director(id: ID!): Director @cached(maxAge: 60)
    rating: Rating @cached(maxAge: 60)
    known(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    count: Int @cached(maxAge: 60, tags: ["Movies"])
  }
  type Mutation {
    rate(id: ID!): Movie
    rateAll(ids: [ID!]!): [Movie]
    rateOf(id: ID!): Rating
    add(id: ID!): Movie @invalidates(tags: ["Movies"])
    fail(id: ID!): Movie
    none: Movie
    stars: Int
    nested: Nested!
  }
  type Nested { rate(id: ID!): Rating }
  type Movie { id: ID! stars: Int director: Director critics: Int @cached(maxAge: 60) broken: Int }
  type Director { id: ID! movies: [Movie!] }
  type Rating { movie: Movie }
`;

interface Args {
  readonly id: string;
}

/** A source of films whose stars change with every mutation, and its loads. */
function films(count = 2) {
  const stars = new Map<string, number>();
  const loads: string[] = [];
  const starsOf = (id: unknown): number => stars.get(String(id)) ?? 1;
  const movie = (id: unknown): Row => ({ id: Number(id), stars: starsOf(id), director: { id: 3 } });
  const rate = (_: unknown, { id }: Args): Row => movie(stars.set(id, starsOf(id) + 1) && id);
  const load = <Value>(what: string, value: Value): Value => (loads.push(what), value);
  const movies = () => Array.from({ length: count }, (_, nth) => movie(7 + nth));
  const fail = (message: string) => () => {
    throw new Error(message);
  };
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: Args) => load(`movie ${id}`, movie(id)),
      movies: (): unknown => load("movies", movies()),
      mine: () => load("mine", movies()),
      director: (_: unknown, { id }: Args) => load(`director ${id}`, { id, movies: [movie(7)] }),
      rating: () => load("rating", { movie: movie(7) }),
      known: (_: unknown, { id }: Args) => load(`known ${id}`, stars.has(id) ? movie(id) : null),
      count: () => load("count", stars.size),
    },
    Movie: { critics: ({ id }: Args) => load(`critics ${id}`, starsOf(id)), broken: fail("broken") },
    Mutation: {
      rate,
      rateAll: () => [null, new Error("not found"), Promise.reject(new Error("rejected")), rate(0, { id: "7" })],
      rateOf: (_: unknown, args: Args) => ({ movie: rate(_, args) }),
      add: rate,
      fail: (_: unknown, args: Args): unknown => rate(_, args) && fail("failed")(),
      none: () => null,
      stars: () => 1,
      nested: () => ({}),
    },
    Nested: { rate: (_: unknown, args: Args) => ({ movie: rate(_, args) }) },
  };
  return { resolvers, loads };
}

interface Options extends CacheOptions<never> {
  readonly world?: World;
}

function start(sdl: string, resolvers: object, { world = memoryWorld(), ...options }: Options = {}): Process {
  const identify = ((context: { user?: string }) => context.user) as never;
  return world.process(sdl, resolvers, { identify, ...options }, { entityTags: true });
}

/** Asks, and waits until what was loaded is stored. */
async function read(process: Process, source: string): Promise<unknown> {
  const data = await dataOf(process.ask(source, {}));
  await settle();
  return data;
}

const CACHED = "{ movies { stars } }";
const moviesWith = (stars: number) => ({ movies: [{ stars }, { stars: 1 }] });

onEachStore("entity tags", (world) => {
  it("let a mutation invalidate what it returns, wherever it is cached, in every process", async () => {
    const shared = world();
    const source = films();
    const [reader, writer] = pair(() => start(typeDefs, source.resolvers, { world: shared }));
    const QUERY =
      "{ seven: movie(id: 7) { stars } eight: movie(id: 8) { stars } movies { stars } director(id: 3) { movies { stars } } rating { movie { stars } } }";
    await dataOf(reader.ask(QUERY, {}));
    await waitForStores(reader, 5);
    source.loads.length = 0;
    await dataOf(writer.ask('mutation { rate(id: "7") { stars } }'));
    expect(await dataOf(reader.ask(QUERY, {}))).toEqual({
      seven: { stars: 2 },
      eight: { stars: 1 },
      ...moviesWith(2),
      director: { movies: [{ stars: 2 }] },
      rating: { movie: { stars: 2 } },
    });
    // `eight` contains the same director, which the mutation has returned as well.
    expect(new Set(source.loads)).toEqual(new Set(["director 3", "movie 7", "movie 8", "movies", "rating"]));
  });
});

describe("a mutation with entity tags", () => {
  it("invalidates before the selection below it is resolved", async () => {
    const process = start(typeDefs, films().resolvers);
    await read(process, "{ movie(id: 7) { critics } }");
    expect(await read(process, 'mutation { rate(id: "7") { critics } }')).toEqual({ rate: { critics: 2 } });
  });

  it("invalidates the cached fields of an entity, whatever they return", async () => {
    const source = films();
    const process = start(typeDefs, source.resolvers);
    const QUERY = "{ seven: movie(id: 7) { critics } eight: movie(id: 8) { critics } }";
    await read(process, QUERY);
    await read(process, 'mutation { rate(id: "7") { id } }');
    source.loads.length = 0;
    expect(await read(process, QUERY)).toEqual({ seven: { critics: 2 }, eight: { critics: 1 } });
    expect(source.loads.filter((load) => load.startsWith("critics"))).toEqual(["critics 7"]);
  });

  it.each<[string, string, string[], number]>([
    ["what its resolver has returned, selected or not", 'rateOf(id: "7") { __typename }', [], 2],
    ["what it has returned although a field below it fails", 'rate(id: "7") { broken }', ["broken"], 2],
    ["those in a list beside null and errors", "rateAll(ids: []) { stars }", ["not found", "rejected"], 2],
    ["what a nested mutation field with a resolver returns", 'nested { rate(id: "7") { movie { id } } }', [], 2],
    ["nothing if it fails", 'fail(id: "7") { id }', ["failed"], 1],
    ["nothing if it returns null, or no entity", "none { id } stars", [], 1],
  ])("invalidates %s", async (_, mutation, failures, stars) => {
    const source = films();
    const process = start(typeDefs, source.resolvers);
    await read(process, CACHED);
    const { errors = [] } = await process.ask(`mutation { ${mutation} }`);
    expect(errors.map(({ message }) => message)).toEqual(failures);
    expect(await read(process, CACHED)).toEqual(moviesWith(stars));
    expect(source.loads).toHaveLength(stars);
  });

  it("succeeds while the store is unavailable, and invalidates when it is back", async () => {
    const world = timedWorld();
    const process = start(typeDefs, films().resolvers, { world });
    await read(process, CACHED);
    world.chaos.mode = "throws";
    expect(await read(process, 'mutation { rate(id: "7") { stars } }')).toEqual({ rate: { stars: 2 } });
    world.chaos.mode = undefined;
    await world.clock.advance(15_000);
    expect(await read(process, CACHED)).toEqual(moviesWith(2));
  });

  it("invalidates the tags of its @invalidates as well, and null for an entity if the field has its tag", async () => {
    const process = start(typeDefs, films().resolvers);
    const QUERY = "{ movies { stars } count known(id: 7) { stars } }";
    expect(await read(process, QUERY)).toEqual({ ...moviesWith(1), count: 0, known: null });
    await read(process, 'mutation { add(id: "7") { id } }');
    expect(await read(process, QUERY)).toEqual({ ...moviesWith(2), count: 1, known: { stars: 2 } });
  });

  it("invalidates the entities that a value had when it was loaded, even if its source changes the object meanwhile", async () => {
    const source = films();
    // Large values are compressed in the thread pool.
    const shelf = [{ id: 7, stars: 1, title: "Metropolis".repeat(50_000) }];
    source.resolvers.Query.movies = () => {
      void (async () => {
        for (let job = 0; job < 100; job++) await undefined;
        shelf.length = 0;
      })();
      return shelf;
    };
    const process = start(typeDefs, source.resolvers, { storage: { compressAboveBytes: 1 } });
    expect(await dataOf(process.ask(CACHED, {}))).toEqual({ movies: [{ stars: 1 }] });
    await waitForStores(process);
    await read(process, 'mutation { rate(id: "7") { id } }');
    expect(await read(process, CACHED)).toEqual({ movies: [] });
  });

  it("has no such effect unless the schema asks for it, or the type is excepted", async () => {
    for (const [entityTags, stars] of [
      [undefined, 1],
      [false, 1],
      [{ exceptTypes: ["Movie", "Director"] }, 1],
      [{ exceptTypes: ["Director"] }, 2],
    ] as const) {
      const process = memoryWorld().process(typeDefs, films().resolvers, { identify: () => 1 }, { entityTags });
      await read(process, CACHED);
      await read(process, 'mutation { rate(id: "7") { id } }');
      expect(await read(process, CACHED)).toEqual(moviesWith(stars));
    }
  });

  it("leaves the entries of a release without entity tags alone, which lack the tags", async () => {
    const world = memoryWorld();
    const source = films();
    await read(world.process(typeDefs, source.resolvers, { identify: () => 1 }), CACHED);
    await read(start(typeDefs, source.resolvers, { world }), CACHED);
    expect(source.loads).toEqual(["movies", "movies"]);
  });

  it("invalidates values of every identity", async () => {
    const process = start(typeDefs, films(1).resolvers);
    const mine = async () =>
      Promise.all(["a", "b"].map(async (user) => dataOf(process.ask("{ mine { stars } }", { user }))));
    const both = (stars: number) => [{ mine: [{ stars }] }, { mine: [{ stars }] }];
    expect(await mine()).toEqual(both(1));
    await settle();
    await process.ask('mutation { rate(id: "7") { id } }', { user: "a" });
    expect(await mine()).toEqual(both(2));
  });

  it("costs no further round trip on a hit", async () => {
    for (const entityTags of [false, true]) {
      const { process: startProcess, chaos } = timedWorld();
      const process = startProcess(typeDefs, films().resolvers, { identify: () => 1 }, { entityTags });
      await read(process, CACHED);
      chaos.calls.clear();
      await read(process, CACHED);
      expect([...chaos.calls]).toEqual([["read", 1]]);
    }
  });
});

/** A schema with one cached field and one mutation, whose values are given. */
function exchange(types: string, cached: object, changed: () => unknown, resolvers: object = {}) {
  let loads = 0;
  const world = timedWorld();
  const process = start(
    `type Query { cached: Cached @cached(maxAge: 60) } type Mutation { change: Changed } ${types}`,
    { Query: { cached: () => (loads++, cached) }, Mutation: { change: changed }, ...resolvers },
    { world },
  );
  const { warnings } = process;
  const change = () => process.ask("mutation { change { __typename } }", {});
  /** Returns whether the mutation invalidates the cached value. */
  const isInvalidated = async (): Promise<boolean> => {
    await process.ask("{ cached { __typename } }", {});
    await settle();
    await process.ask("{ cached { __typename } }", {});
    expect(loads).toBe(1);
    const changing = change();
    await settle();
    // A promise that never settles is waited for.
    await world.clock.advance(10_000);
    await changing;
    await process.ask("{ cached { __typename } }", {});
    return loads === 2;
  };
  return { isInvalidated, change, warnings };
}

const MOVIE =
  "type Cached { movie: Movie } type Changed { movie: Movie movies: [Movie] } type Movie { id: ID self: Movie }";

const seven = { movie: { id: 7 } };
const failToRead = (message = "no connection"): never => {
  throw new Error(message);
};

describe("an entity is recognised", () => {
  class Model {
    readonly row: Row;
    constructor(row: Row) {
      this.row = row;
    }
    get id(): unknown {
      return this.row.id;
    }
    get movie(): unknown {
      return this.row.movie;
    }
  }
  const withGetter = (get: () => unknown): object => Object.defineProperty({}, "movie", { get, enumerable: true });
  const cyclic = (): object => {
    const movie: Record<string, unknown> = { id: 7 };
    movie.self = movie;
    return { movie };
  };

  const same: Readonly<Record<string, () => unknown>> = {
    "by a number and by a string": () => ({ movie: { id: "7" } }),
    "by a bigint": () => ({ movie: { id: 7n } }),
    "by an object that serialises as an ID": () => ({ movie: { id: { toJSON: () => "7" } } }),
    "in an instance of a class with getters": () => new Model({ movie: new Model({ id: 7 }) }),
    "through a Proxy": () => new Proxy({}, { get: (_, name) => (name === "movie" ? { id: 7 } : undefined) }),
    "in a promise": () => ({ movie: Promise.resolve({ id: 7 }) }),
    "in a promise in a promise": async () => ({ movie: Promise.resolve(Promise.resolve({ id: 7 })) }),
    "in a promise of another realm": () => ({ movie: runInNewContext("Promise.resolve({ id: 7 })") }),
    "in a list of promises": () => ({ movies: [{ id: 6 }, Promise.resolve({ id: 7 })] }),
    "in a promise of a list": () => ({ movies: Promise.resolve([{ id: 6 }, { id: 7 }]) }),
    "in a Set": () => ({ movies: new Set([{ id: 6 }, { id: 7 }]) }),
    "in an iterable collection": () => ({ movies: { [Symbol.iterator]: () => [{ id: 7 }].values() } }),
    "beside null and primitive values": () => ({ movie: null, movies: [null, 7, "7", undefined, { id: 7 }] }),
    "in a value that contains itself": cyclic,
  };
  it.each(Object.entries(same))("%s", async (_, changed) => {
    const { isInvalidated, warnings } = exchange(MOVIE, seven, changed);
    expect([await isInvalidated(), warnings]).toEqual([true, []]);
  });

  const AT_MOVIE = "expected the entities at `Changed.movie`, got";
  const PROMISE_OF_GETTER = `\`Mutation.change\`: entityTags: ${AT_MOVIE} a promise of a getter; they are not invalidated; return them as objects, or name their tags in @invalidates`;
  const READ_ONCE = "expected the entities at `Changed.movies`, got a list that can be read once only";
  // biome-ignore lint/suspicious/noThenProperty: such objects are what the test is about
  const thenable = () => ({ movie: { then: (resolve: (value: unknown) => void) => resolve({ id: 7 }) } });
  const pending = () => ({ movie: new Promise(() => undefined) });
  const other: Readonly<Record<string, readonly [changed: () => unknown, warning?: string]>> = {
    "if its id is null": [() => ({ movie: { id: null } }), "got an object without `id`"],
    "if its id is no ID": [() => ({ movie: { id: { seven: true } } }), "got an object without `id`"],
    "if it is another one": [() => ({ movie: { id: 70 } })],
    "in a method, which only GraphQL calls": [() => ({ movie: () => ({ id: 7 }) }), "got a method"],
    "in a promise of a getter": [() => withGetter(() => Promise.resolve({ id: 7 })), PROMISE_OF_GETTER],
    "in a getter that fails": [() => withGetter(() => failToRead()), `${AT_MOVIE} an error (no connection)`],
    "in an object with a method then": [
      thenable,
      `${AT_MOVIE} an object with a method \`then\`, which is not a Promise`,
    ],
    "in a generator": [() => ({ movies: [{ id: 7 }].values() }), READ_ONCE],
    "in a promise that never settles": [pending, `${AT_MOVIE} a promise that was pending for 10000 ms`],
  };
  it.each(Object.entries(other))("not %s, and is reported once if it may be one", async (_, [changed, warning]) => {
    const { isInvalidated, change, warnings } = exchange(MOVIE, seven, changed);
    expect(await isInvalidated()).toBe(false);
    if (changed !== pending) await change();
    expect(warnings).toEqual(warning === undefined ? [] : [expect.stringContaining(warning)]);
  });

  it("in values that are 20,000 levels deep", async () => {
    let movie: Record<string, unknown> = { id: 7 };
    for (let level = 0; level < 20_000; level++) movie = { level, self: movie };
    expect(await exchange(MOVIE, seven, () => ({ movie })).isInvalidated()).toBe(true);
  });

  it("not inside custom scalars, nor below fields with a resolver", async () => {
    const types =
      "scalar JSON type Cached { movie: Movie } type Changed { data: JSON child: Movie } type Movie { id: ID }";
    const changed = () => ({ data: { __typename: "Movie", id: 7 }, child: { id: 7 } });
    const resolvers = { JSON: new GraphQLScalarType({ name: "JSON" }), Changed: { child: () => null } };
    expect(await exchange(types, seven, changed, resolvers).isInvalidated()).toBe(false);
  });

  it("by an id that is a custom scalar", async () => {
    const uuid = { text: "u-7", toJSON: () => "u-7" };
    const UUID = new GraphQLScalarType({ name: "UUID", serialize: (value) => (value as typeof uuid).text ?? value });
    const types =
      "scalar UUID type Cached { movie: Movie } type Changed { movie: Movie } type Movie { id: UUID! title: String }";
    const changed = () => ({ movie: { id: uuid } });
    expect(await exchange(types, { movie: { id: "u-7" } }, changed, { UUID }).isInvalidated()).toBe(true);
  });
});

it("a place where a mutation cannot look into its results is reported once, although each error has another message", async () => {
  let rows = 0;
  const get = (): never => failToRead(`the movie of row ${++rows} was not loaded`);
  const { change, warnings } = exchange(MOVIE, seven, () => Object.defineProperty({}, "movie", { get }));
  for (let n = 0; n < 3; n++) await change();
  expect([rows, warnings]).toEqual([
    3,
    [expect.stringContaining("got an error (the movie of row 1 was not loaded); they are not invalidated")],
  ]);
});

/** A value that cannot even be asked whether it is a list. */
function revokedList(): unknown {
  const { proxy, revoke } = Proxy.revocable([], {});
  revoke();
  return proxy;
}

it.each<[what: string, movies: () => unknown]>([
  ["a list whose iterator cannot be made", () => ({ [Symbol.iterator]: () => failToRead() })],
  ["a list whose iterator fails", () => ({ [Symbol.iterator]: () => ({ next: () => failToRead() }) })],
  ["a list behind a revoked Proxy", revokedList],
])("a mutation invalidates what it returns beside %s, which is reported once", async (_, movies) => {
  const changed = () => ({ movie: { id: 7 }, movies: movies() });
  const { isInvalidated, warnings } = exchange(MOVIE, seven, changed);
  expect([await isInvalidated(), warnings]).toEqual([
    true,
    [expect.stringContaining("expected the entities at `Changed.movies`, got an error (")],
  ]);
});

describe("the type of an entity of an interface or union", () => {
  const types = /* GraphQL */ `
    type Cached { node: Node }
    type Changed { any: Any }
    interface Node { id: ID }
    union Any = Film | Serial
    type Film implements Node { id: ID }
    type Serial implements Node { id: ID }
  `;
  const isFilm = (value: unknown): boolean => (value as { film?: unknown }).film === true;
  const film = { id: 7, film: true };
  const named = { ...film, __typename: "Film" };
  const typeOf = (__isTypeOf: unknown) => ({ Film: { __isTypeOf }, Serial: { __isTypeOf: () => false } });
  const failForFilm = (value: object): boolean => {
    if (isFilm(value) && !Object.hasOwn(value, "__typename")) throw new Error("no type");
    return true;
  };

  it.each<[what: string, changed: object, resolvers: object, isInvalidated: boolean]>([
    ["is its `__typename`", named, {}, true],
    ["is the one in `__typename`, not another with the same id", { id: 7, __typename: "Serial" }, {}, false],
    ["is found by a synchronous isTypeOf", film, typeOf(isFilm), true],
    ["is unknown if only `resolveType` knows it", film, { Any: { __resolveType: () => "Film" } }, false],
    ["is unknown if isTypeOf is asynchronous", film, typeOf(async () => true), false],
    ["is unknown if isTypeOf rejects", film, typeOf(() => Promise.reject(new Error("no type"))), false],
    ["is unknown if isTypeOf throws", film, typeOf(failForFilm), false],
  ])("%s", async (_, changed, resolvers, expected) => {
    const { isInvalidated } = exchange(types, { node: named }, () => ({ any: changed }), resolvers);
    expect(await isInvalidated()).toBe(expected);
  });
});

describe("a value with many entities", () => {
  const sdl = /* GraphQL */ `
    type Query {
      movie(id: ID!): Movie @cached(maxAge: 60)
      movies(n: Int!): [Movie!] @cached(maxAge: 60)
      mixed: Mixed @cached(maxAge: 60)
    }
    type Mutation {
      rate(id: ID!): Movie
      rateMany: [Movie]
      write(id: ID!): Writer
      touch(id: ID!): Int @invalidates(tags: ["Movie:{$args.id}"])
    }
    type Mixed { movies: [Movie!] writers: [Writer!] }
    type Movie { id: ID! }
    type Writer { id: ID! }
  `;
  const list = (n: number): Row[] => Array.from({ length: n }, (_, id) => ({ id }));
  const MANY = "{ movies(n: 1000) { id } }";
  const MIXED = "{ mixed { movies { id } } }";

  function many() {
    const loads: string[] = [];
    const load = <Value>(what: string, value: Value): Value => (loads.push(what), value);
    const entity = (_: unknown, { id }: Args) => ({ id });
    const resolvers = {
      Query: {
        movie: (_: unknown, { id }: Args) => load(id, { id }),
        movies: (_: unknown, { n }: { n: number }) => load(`movies ${n}`, list(n)),
        mixed: () => load("mixed", { movies: list(150), writers: list(60) }),
      },
      Mutation: { rate: entity, rateMany: () => list(1_000), write: entity, touch: () => 1 },
    };
    const world = memoryWorld();
    return { loads, process: start(sdl, resolvers, { world }), without: world.process(sdl, resolvers) };
  }

  it("has at most 100 tags: beyond that, one for the type", async () => {
    const { ask, cache } = many().process;
    const counts: number[] = [];
    const onRead = (_: string, report: ReadReport): void => {
      if (report.outcome !== "bypassed") counts.push(report.subjects.length);
    };
    for (const query of [...[99, 100, 101, 1_000].map((n) => `{ movies(n: ${n}) { id } }`), MIXED]) {
      const context = {};
      partsOf(cache, "test").requestStates.observe(context, { onRead });
      await dataOf(ask(query, context));
    }
    // Those of the types as well: `Movie`, `Writer`.
    expect(counts).toEqual([100, 101, 2, 2, 63]);
  });

  it("is invalidated by every invalidation of the type, in whichever process, and by no other", async () => {
    const { process, without, loads } = many();
    const changes: readonly (() => Promise<unknown>)[] = [
      () => read(process, "mutation { rate(id: 5000) { id } }"),
      () => read(process, "mutation { touch(id: 3) }"),
      () => process.cache.invalidateTags(["Movie:4"]),
      () => without.cache.invalidateTags(["Movie:4"]),
      () => read(without, "mutation { touch(id: 3) }"),
      () => process.cache.mutate({ tags: ["Movie:4"] }, () => undefined),
      async () => undefined,
    ];
    for (const [nth, change] of changes.entries()) {
      await read(process, MANY);
      expect(loads).toHaveLength(nth + 1);
      await change();
      await read(process, "mutation { write(id: 3) { id } }");
      await process.cache.invalidateTags(["Movies:4", "Movies"]);
    }
    await read(process, MANY);
    expect(loads).toHaveLength(changes.length);
  });

  it("keeps the tags of the types with fewer entities", async () => {
    const { process, loads } = many();
    for (const [nth, mutation] of ["write(id: 60)", "write(id: 59)", "rate(id: 5000)"].entries()) {
      await read(process, MIXED);
      await read(process, `mutation { ${mutation} { id } }`);
      await read(process, MIXED);
      expect(loads).toHaveLength(nth + 1);
    }
  });

  it("invalidates each of them if a mutation returns it", async () => {
    const { process, loads } = many();
    const readSome = () =>
      read(process, "{ a: movie(id: 0) { id } b: movie(id: 500) { id } c: movie(id: 999) { id } }");
    await readSome();
    await read(process, "mutation { rateMany { id } }");
    await readSome();
    expect(loads).toEqual(["0", "500", "999", "0", "500", "999"]);
  });

  it("is not stored while a write to one of them runs", async () => {
    const { process, loads } = many();
    await process.cache.mutate({ tags: ["Movie:4"] }, async () => {
      for (let nth = 0; nth < 2; nth++) await read(process, MANY);
    });
    expect(loads).toHaveLength(2);
  });
});
