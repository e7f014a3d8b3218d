import { runInNewContext } from "node:vm";
import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { GraphQLScalarType } from "graphql";
import { type CacheOptions, memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { ReadReport } from "../../../src/core/tier/request/request.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

type Row = Readonly<Record<string, unknown>>;

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60)
    movies: [Movie!] @cached(maxAge: 60)
    director(id: ID!): Director @cached(maxAge: 60)
    rating: Rating @cached(maxAge: 60)
  }
  type Mutation {
    rate(id: ID!): Movie
    rateAll(ids: [ID!]!): [Movie]
    rateOf(id: ID!): Rating
    fail(id: ID!): Movie
    none: Movie
    stars: Int
  }
  type Movie {
    id: ID!
    stars: Int
    director: Director
    critics: Int @cached(maxAge: 60)
    broken: Int
  }
  type Director { id: ID! movies: [Movie!] }
  type Rating { movie: Movie }
`;

/** A source of films whose stars change with every mutation, and the number of its loads. */
function films() {
  const stars = new Map<string, number>();
  const loads: string[] = [];
  const movie = (id: string): Row => ({ id: Number(id), stars: stars.get(id) ?? 1, director: { id: 3 } });
  const rate = (id: string): Row => {
    stars.set(id, (stars.get(id) ?? 1) + 1);
    return movie(id);
  };
  const load = (what: string, value: unknown): unknown => {
    loads.push(what);
    return value;
  };
  type Args = { readonly id: string; readonly ids: readonly string[] };
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: Args) => load(`movie ${id}`, movie(id)),
      movies: () => load("movies", [movie("7"), movie("8")]),
      director: (_: unknown, { id }: Args) => load(`director ${id}`, { id, movies: [movie("7")] }),
      rating: () => load("rating", { movie: movie("7") }),
    },
    Movie: {
      critics: ({ id }: { id: number }) => load(`critics ${id}`, stars.get(String(id)) ?? 1),
      broken: () => {
        throw new Error("broken");
      },
    },
    Mutation: {
      rate: (_: unknown, { id }: Args): unknown => rate(id),
      rateAll: (_: unknown, { ids }: Args): unknown => ids.map(rate),
      rateOf: (_: unknown, { id }: Args): unknown => ({ movie: rate(id) }),
      fail: (_: unknown, { id }: Args): unknown => {
        rate(id);
        throw new Error("failed");
      },
      none: (): unknown => null,
      stars: () => 1,
    },
  };
  return { resolvers, loads, stars };
}

const ON = { entityTags: true };

function start(
  sdl: string,
  resolvers: object,
  { world = memoryWorld(), ...options }: CacheOptions<never> & { world?: World } = {},
): Process {
  return world.process(sdl, resolvers, options, ON);
}

/** Asks, and waits until what was loaded is stored. */
async function read(process: Process, source: string): Promise<unknown> {
  const data = await dataOf(process.ask(source, {}));
  await settle();
  return data;
}

/** A logger that keeps its lines. */
function log() {
  const lines: string[] = [];
  const logger = {
    info: (line: string) => void lines.push(`info ${line}`),
    warn: (line: string) => void lines.push(`warn ${line}`),
  };
  return { lines, logger };
}

onEachStore("entity tags", (world) => {
  it("let a mutation invalidate what it returns, wherever it is cached, in every process", async () => {
    const shared = world();
    const source = films();
    const [reader, writer] = [
      start(typeDefs, source.resolvers, { world: shared }),
      start(typeDefs, source.resolvers, { world: shared }),
    ];
    const QUERY =
      "{ seven: movie(id: 7) { stars } eight: movie(id: 8) { stars } movies { stars } director(id: 3) { movies { stars } } rating { movie { stars } } }";
    await dataOf(reader.ask(QUERY, {}));
    await waitForStores(reader, 5);
    source.loads.length = 0;
    await dataOf(writer.ask('mutation { rate(id: "7") { stars } }'));
    expect(await dataOf(reader.ask(QUERY, {}))).toEqual({
      seven: { stars: 2 },
      eight: { stars: 1 },
      movies: [{ stars: 2 }, { stars: 1 }],
      director: { movies: [{ stars: 2 }] },
      rating: { movie: { stars: 2 } },
    });
    // `eight` contains the same director, which the mutation has returned as well.
    expect(source.loads.toSorted((one, other) => (one < other ? -1 : 1))).toEqual([
      "director 3",
      "movie 7",
      "movie 8",
      "movies",
      "rating",
    ]);
  });

  it("keep a load that began before the mutation from being stored", async () => {
    const { passed, open } = gate();
    const source = films();
    const { movies } = source.resolvers.Query;
    let isHeld = true;
    const held = async () => {
      const value = movies();
      if (isHeld) await passed;
      return value;
    };
    const shared = world();
    const resolvers = { ...source.resolvers, Query: { ...source.resolvers.Query, movies: held } };
    const [reader, writer] = [
      start(typeDefs, resolvers, { world: shared }),
      start(typeDefs, resolvers, { world: shared }),
    ];
    const early = dataOf(reader.ask("{ movies { stars } }", {}));
    await expect.poll(() => source.loads).toEqual(["movies"]);
    await dataOf(writer.ask('mutation { rate(id: "7") { stars } }'));
    isHeld = false;
    open();
    expect(await early).toEqual({ movies: [{ stars: 1 }, { stars: 1 }] });
    await waitForStores(reader);
    expect(await dataOf(writer.ask("{ movies { stars } }", {}))).toEqual({ movies: [{ stars: 2 }, { stars: 1 }] });
  });
});

describe("a mutation with entity tags", () => {
  const CACHED = "{ movies { stars } }";
  const OLD = { movies: [{ stars: 1 }, { stars: 1 }] };

  it("invalidates before the selection below it is resolved", async () => {
    const source = films();
    const process = start(typeDefs, source.resolvers);
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

  it("invalidates what its resolver has returned, whether the client selects it or not", async () => {
    const source = films();
    const process = start(typeDefs, source.resolvers);
    await read(process, CACHED);
    await read(process, 'mutation { rateOf(id: "7") { __typename } }');
    expect(await read(process, CACHED)).toEqual({ movies: [{ stars: 2 }, { stars: 1 }] });
  });

  it("invalidates nothing if it fails, returns null, or returns no entity", async () => {
    const source = films();
    const process = start(typeDefs, source.resolvers);
    await read(process, CACHED);
    const failed = await process.ask('mutation { fail(id: "7") { id } }');
    expect(failed.errors?.map(({ message }) => message)).toEqual(["failed"]);
    await read(process, "mutation { none { id } stars }");
    expect(await read(process, CACHED)).toEqual(OLD);
    expect(source.loads).toEqual(["movies"]);
  });

  it("invalidates the entities of a list in which others are null, errors or rejected", async () => {
    const source = films();
    const { rate } = source.resolvers.Mutation;
    const rateAll = (): unknown => [
      null,
      new Error("not found"),
      Promise.reject(new Error("rejected")),
      rate(undefined, { id: "7", ids: [] }),
    ];
    const process = start(typeDefs, { ...source.resolvers, Mutation: { ...source.resolvers.Mutation, rateAll } });
    await read(process, CACHED);
    const { data, errors } = await process.ask('mutation { rateAll(ids: ["7"]) { stars } }');
    expect([data, errors?.length]).toEqual([{ rateAll: [null, null, null, { stars: 2 }] }, 2]);
    expect(await read(process, CACHED)).toEqual({ movies: [{ stars: 2 }, { stars: 1 }] });
  });

  it("invalidates although a field below it fails", async () => {
    const source = films();
    const process = start(typeDefs, source.resolvers);
    await read(process, CACHED);
    const { errors } = await process.ask('mutation { rate(id: "7") { broken } }');
    expect(errors?.map(({ message }) => message)).toEqual(["broken"]);
    expect(await read(process, CACHED)).toEqual({ movies: [{ stars: 2 }, { stars: 1 }] });
  });

  it("succeeds while the store is unavailable, and invalidates when it is back", async () => {
    const store = chaosStore(memoryStore());
    const clock = new FakeClock();
    const source = films();
    const process = start(typeDefs, source.resolvers, { world: memoryWorld(() => store), testing: { clock } });
    await read(process, CACHED);
    store.chaos.mode = "throws";
    expect(await read(process, 'mutation { rate(id: "7") { stars } }')).toEqual({ rate: { stars: 2 } });
    store.chaos.mode = undefined;
    await clock.advance(60_000 / 4);
    expect(await read(process, CACHED)).toEqual({ movies: [{ stars: 2 }, { stars: 1 }] });
  });

  it("invalidates the tags of its @invalidates as well", async () => {
    const sdl = /* GraphQL */ `
      type Query {
        movie: Movie @cached(maxAge: 60)
        count: Int @cached(maxAge: 60, tags: ["Movies"])
      }
      type Mutation { add: Movie @invalidates(tags: ["Movies"]) }
      type Movie { id: ID! stars: Int }
    `;
    let version = 0;
    const movie = () => ({ id: 7, stars: version });
    const process = start(sdl, {
      Query: { movie, count: () => version },
      Mutation: { add: () => ({ id: 7, stars: ++version }) },
    });
    const QUERY = "{ movie { stars } count }";
    await read(process, QUERY);
    await read(process, "mutation { add { id } }");
    expect(await read(process, QUERY)).toEqual({ movie: { stars: 1 }, count: 1 });
  });

  it("counts nested mutation fields with a resolver", async () => {
    const sdl = /* GraphQL */ `
      type Query { movie: Movie @cached(maxAge: 60) }
      type Mutation { movies: MovieMutations! }
      type MovieMutations { rate: RatePayload }
      type RatePayload { movie: Movie }
      type Movie { id: ID! stars: Int }
    `;
    let stars = 1;
    const process = start(sdl, {
      Query: { movie: () => ({ id: 7, stars }) },
      Mutation: { movies: () => ({}) },
      MovieMutations: { rate: () => ({ movie: { id: "7", stars: ++stars } }) },
    });
    await read(process, "{ movie { stars } }");
    await read(process, "mutation { movies { rate { movie { stars } } } }");
    expect(await read(process, "{ movie { stars } }")).toEqual({ movie: { stars: 2 } });
  });

  it("invalidates null for an entity if the field has its tag", async () => {
    const sdl = /* GraphQL */ `
      type Query { movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) }
      type Mutation { add(id: ID!): Movie }
      type Movie { id: ID! }
    `;
    const known = new Set<string>();
    const movie = (_: unknown, { id }: { id: string }) => (known.has(id) ? { id } : null);
    const add = (_: unknown, { id }: { id: string }) => ({ id: Number([...known.add(id)].at(-1)) });
    const process = start(sdl, { Query: { movie }, Mutation: { add } });
    expect(await read(process, "{ movie(id: 7) { id } }")).toEqual({ movie: null });
    await read(process, "mutation { add(id: 7) { id } }");
    expect(await read(process, "{ movie(id: 7) { id } }")).toEqual({ movie: { id: "7" } });
  });

  it("invalidates the entities that a value had when it was loaded, even if its source changes the object meanwhile", async () => {
    const sdl = /* GraphQL */ `
      type Query { movies: [Movie!] @cached(maxAge: 60) }
      type Mutation { rate: Movie }
      type Movie { id: ID! }
    `;
    // Large values are compressed in the thread pool.
    const shelf = [{ id: 7, title: "Metropolis".repeat(50_000) }];
    const movies = () => {
      const change = async (): Promise<void> => {
        for (let job = 0; job < 100; job++) await undefined;
        shelf.length = 0;
      };
      void change();
      return shelf;
    };
    const resolvers = { Query: { movies }, Mutation: { rate: () => ({ id: 7 }) } };
    const process = start(sdl, resolvers, { storage: { compressAboveBytes: 1 } });
    expect(await dataOf(process.ask("{ movies { id } }", {}))).toEqual({ movies: [{ id: "7" }] });
    await waitForStores(process);
    await read(process, "mutation { rate { id } }");
    expect(await read(process, "{ movies { id } }")).toEqual({ movies: [] });
  });

  it("has no such effect unless the schema asks for it, or the type is excepted", async () => {
    for (const [entityTags, stars] of [
      [undefined, 1],
      [false, 1],
      [{ exceptTypes: ["Movie", "Director"] }, 1],
      [{ exceptTypes: ["Director"] }, 2],
    ] as const) {
      const process = memoryWorld().process(typeDefs, films().resolvers, {}, { entityTags });
      await read(process, CACHED);
      await read(process, 'mutation { rate(id: "7") { id } }');
      expect(await read(process, CACHED)).toEqual({ movies: [{ stars }, { stars: 1 }] });
    }
  });

  it("leaves the entries of a release without entity tags alone, which lack the tags", async () => {
    const world = memoryWorld();
    const source = films();
    const old = world.process(typeDefs, source.resolvers);
    const process = start(typeDefs, source.resolvers, { world });
    await read(old, CACHED);
    await read(process, CACHED);
    expect(source.loads).toEqual(["movies", "movies"]);
  });

  it("invalidates values of every identity", async () => {
    const sdl = /* GraphQL */ `
      type Query { mine: [Movie!] @cached(maxAge: 60, scope: PRIVATE) }
      type Mutation { rate: Movie }
      type Movie { id: ID! stars: Int }
    `;
    let stars = 1;
    const options = { identify: (context: { user: string }) => context.user } as CacheOptions<never>;
    const process = start(
      sdl,
      { Query: { mine: () => [{ id: 7, stars }] }, Mutation: { rate: () => ({ id: 7, stars: ++stars }) } },
      options,
    );
    const mine = async (user: string): Promise<unknown> => dataOf(process.ask("{ mine { stars } }", { user }));
    for (const user of ["a", "b"]) await mine(user);
    await settle();
    await process.ask("mutation { rate { id } }", { user: "a" });
    expect([await mine("a"), await mine("b")]).toEqual([{ mine: [{ stars: 2 }] }, { mine: [{ stars: 2 }] }]);
  });
});

/** A schema with one cached field and one mutation, whose values are given. */
function exchange(types: string, cached: () => unknown, changed: () => unknown, resolvers: object = {}) {
  const { lines, logger } = log();
  let loads = 0;
  const clock = new FakeClock();
  const process = start(
    `type Query { cached: Cached @cached(maxAge: 60) } type Mutation { change: Changed } ${types}`,
    {
      Query: {
        cached: () => {
          loads++;
          return cached();
        },
      },
      Mutation: { change: changed },
      ...resolvers,
    },
    { logger, testing: { clock } },
  );
  /** Returns whether the mutation invalidates the cached value. */
  const isInvalidated = async (): Promise<boolean> => {
    await process.ask("{ cached { __typename } }", {});
    await settle();
    await process.ask("{ cached { __typename } }", {});
    expect(loads).toBe(1);
    let isOver = false;
    const changing = process.ask("mutation { change { __typename } }", {}).finally(() => {
      isOver = true;
    });
    await settle();
    if (!isOver) await clock.advance(10_000);
    await changing;
    await process.ask("{ cached { __typename } }", {});
    return loads === 2;
  };
  return { isInvalidated, lines, process };
}

const MOVIE =
  "type Cached { movie: Movie } type Changed { movie: Movie movies: [Movie] } type Movie { id: ID self: Movie }";

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
  const lazily = (value: unknown): object =>
    Object.defineProperty({}, "movie", { get: () => Promise.resolve(value), enumerable: true });
  const cyclic = (): object => {
    const movie: Record<string, unknown> = { id: 7 };
    movie.self = movie;
    return { movie };
  };
  const seven = { movie: { id: 7 } };

  const same: Readonly<Record<string, readonly [cached: unknown, changed: () => unknown]>> = {
    "by a number and by a string": [seven, () => ({ movie: { id: "7" } })],
    "by a bigint": [seven, () => ({ movie: { id: 7n } })],
    "by an object that serialises as an ID": [seven, () => ({ movie: { id: { toJSON: () => "7" } } })],
    "in an instance of a class with getters": [seven, () => new Model({ movie: new Model({ id: 7 }) })],
    "through a Proxy": [seven, () => new Proxy({}, { get: (_, name) => (name === "movie" ? { id: 7 } : undefined) })],
    "in a promise": [seven, () => ({ movie: Promise.resolve({ id: 7 }) })],
    "in a promise in a promise": [seven, async () => ({ movie: Promise.resolve(Promise.resolve({ id: 7 })) })],
    "in a promise of another realm": [seven, () => ({ movie: runInNewContext("Promise.resolve({ id: 7 })") })],
    "in a list of promises": [seven, () => ({ movies: [{ id: 6 }, Promise.resolve({ id: 7 })] })],
    "in a promise of a list": [seven, () => ({ movies: Promise.resolve([{ id: 6 }, { id: 7 }]) })],
    "in a Set": [seven, () => ({ movies: new Set([{ id: 6 }, { id: 7 }]) })],
    "in an iterable collection": [seven, () => ({ movies: { [Symbol.iterator]: () => [{ id: 7 }].values() } })],
    "beside null and primitive values": [seven, () => ({ movie: null, movies: [null, 7, "7", undefined, { id: 7 }] })],
    "in a value that contains itself": [seven, cyclic],
  };
  for (const [what, [cached, changed]] of Object.entries(same))
    it(what, async () => {
      const { isInvalidated, lines } = exchange(MOVIE, () => cached, changed);
      expect(await isInvalidated()).toBe(true);
      expect(lines.filter((line) => line.startsWith("warn"))).toEqual([]);
    });

  const other: Readonly<Record<string, readonly [changed: () => unknown, warning?: string]>> = {
    "if its id is null": [() => ({ movie: { id: null } }), "got an object without `id`"],
    "if its id is no ID": [() => ({ movie: { id: { seven: true } } }), "got an object without `id`"],
    "if it is another one": [() => ({ movie: { id: 70 } })],
    "in a method, which only GraphQL calls": [() => ({ movie: () => ({ id: 7 }) }), "got a method"],
    "in a promise of a getter, which is reported": [
      () => lazily({ id: 7 }),
      "`Mutation.change`: entityTags: expected the entities at `Changed.movie`, got a promise of a getter; they are not invalidated; return them as objects, or name their tags in @invalidates",
    ],
    "in a getter that fails, which is reported": [
      () =>
        Object.defineProperty({}, "movie", {
          get: () => {
            throw new Error("no connection");
          },
        }),
      "expected the entities at `Changed.movie`, got an error (no connection)",
    ],
    "in an object with a method then, which is reported": [
      // biome-ignore lint/suspicious/noThenProperty: such objects are what the test is about
      () => ({ movie: { then: (resolve: (value: unknown) => void) => resolve({ id: 7 }) } }),
      "expected the entities at `Changed.movie`, got an object with a method `then`, which is not a Promise",
    ],
    "in a generator, which is reported": [
      () => ({ movies: [{ id: 7 }].values() }),
      "expected the entities at `Changed.movies`, got a list that can be read once only",
    ],
    "in a promise that never settles, which is reported": [
      () => ({ movie: new Promise(() => undefined) }),
      "expected the entities at `Changed.movie`, got a promise that was pending for 10000 ms",
    ],
  };
  for (const [what, [changed, warning]] of Object.entries(other))
    it(`not ${what}`, async () => {
      const { isInvalidated, lines, process } = exchange(MOVIE, () => seven, changed);
      expect(await isInvalidated()).toBe(false);
      const warnings = (): string[] => lines.filter((line) => line.startsWith("warn"));
      expect(warnings()).toEqual(warning === undefined ? [] : [expect.stringContaining(warning)]);
      if (what.includes("never settles")) return;
      await process.ask("mutation { change { __typename } }", {});
      expect(warnings()).toHaveLength(warning === undefined ? 0 : 1);
    });

  it("in values that are 20,000 levels deep", async () => {
    let movie: Record<string, unknown> = { id: 7 };
    for (let level = 0; level < 20_000; level++) movie = { level, next: movie };
    const types = "type Cached { movie: Movie } type Changed { movie: Movie } type Movie { id: ID next: Movie }";
    const { isInvalidated } = exchange(
      types,
      () => seven,
      () => ({ movie }),
    );
    expect(await isInvalidated()).toBe(true);
  });

  it("not inside custom scalars, nor below fields with a resolver", async () => {
    const JSONScalar = new GraphQLScalarType({ name: "JSON" });
    const types =
      "scalar JSON type Cached { movie: Movie } type Changed { data: JSON child: Movie } type Movie { id: ID }";
    const changed = () => ({ data: { __typename: "Movie", id: 7 }, child: { id: 7 } });
    const resolvers = { JSON: JSONScalar, Changed: { child: () => null } };
    const { isInvalidated } = exchange(types, () => seven, changed, resolvers);
    expect(await isInvalidated()).toBe(false);
  });

  it("by an id that is a custom scalar", async () => {
    class Uuid {
      readonly text: string;
      constructor(text: string) {
        this.text = text;
      }
      toJSON(): string {
        return this.text;
      }
    }
    const UUID = new GraphQLScalarType({ name: "UUID", serialize: (value) => (value as Uuid).text ?? value });
    const types =
      "scalar UUID type Cached { movie: Movie } type Changed { movie: Movie } type Movie { id: UUID! title: String }";
    const { isInvalidated } = exchange(
      types,
      () => ({ movie: { id: "u-7" } }),
      () => ({ movie: { id: new Uuid("u-7") } }),
      { UUID },
    );
    expect(await isInvalidated()).toBe(true);
  });
});

it("a place where a mutation cannot look into its results is reported once, although each error has another message", async () => {
  let rows = 0;
  const changed = () =>
    Object.defineProperty({}, "movie", {
      get: () => {
        throw new Error(`the movie of row ${++rows} was not loaded`);
      },
    });
  const { lines, process } = exchange(MOVIE, () => ({ movie: { id: 7 } }), changed);
  for (let n = 0; n < 3; n++) await process.ask("mutation { change { __typename } }", {});
  expect(rows).toBe(3);
  expect(lines.filter((line) => line.startsWith("warn"))).toEqual([
    expect.stringContaining("got an error (the movie of row 1 was not loaded); they are not invalidated"),
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
  const resolveType = { __resolveType: () => "Film" };

  const cases: Readonly<Record<string, readonly [changed: unknown, resolvers: object, isInvalidated: boolean]>> = {
    "is its `__typename`": [named, {}, true],
    "is the one in `__typename`, not another with the same id": [{ id: 7, __typename: "Serial" }, {}, false],
    "is found by a synchronous isTypeOf": [
      film,
      { Film: { __isTypeOf: isFilm }, Serial: { __isTypeOf: () => false } },
      true,
    ],
    "is unknown if only `resolveType` knows it": [film, { Any: resolveType }, false],
    "is unknown if isTypeOf is asynchronous": [film, { Film: { __isTypeOf: async () => true } }, false],
    "is unknown if isTypeOf rejects": [
      film,
      { Film: { __isTypeOf: () => Promise.reject(new Error("no type")) } },
      false,
    ],
    "is unknown if isTypeOf throws": [
      film,
      {
        Film: {
          __isTypeOf: (value: unknown) => {
            if (isFilm(value) && !Object.hasOwn(value as object, "__typename")) throw new Error("no type");
            return true;
          },
        },
      },
      false,
    ],
  };
  for (const [what, [changed, resolvers, expected]] of Object.entries(cases))
    it(what, async () => {
      const { isInvalidated } = exchange(
        types,
        () => ({ node: named }),
        () => ({ any: changed }),
        resolvers,
      );
      expect(await isInvalidated()).toBe(expected);
    });
});

describe("a value with many entities", () => {
  const sdl = /* GraphQL */ `
    type Query {
      movies(n: Int!): [Movie!] @cached(maxAge: 60)
      mixed: Mixed @cached(maxAge: 60)
    }
    type Mutation { rate(id: ID!): Movie write(id: ID!): Writer touch(id: ID!): Int @invalidates(tags: ["Movie:{$args.id}"]) }
    type Mixed { movies: [Movie!] writers: [Writer!] }
    type Movie { id: ID! }
    type Writer { id: ID! }
  `;
  const list = (n: number): Row[] => Array.from({ length: n }, (_, id) => ({ id }));

  /** Counts the tags of the values that a process reads. */
  async function tagsOf({ ask, cache }: Process, query: string): Promise<number> {
    const context = {};
    let count = 0;
    const onRead = (_: string, report: ReadReport): void => {
      if (report.outcome !== "bypassed") count = report.subjects.length;
    };
    partsOf(cache, "test").requestStates.observe(context, { onRead });
    await dataOf(ask(query, context));
    return count;
  }

  function many(world = memoryWorld()) {
    const loads: string[] = [];
    const entity = (_: unknown, { id }: { id: string }) => ({ id });
    const resolvers = {
      Query: {
        movies: (_: unknown, { n }: { n: number }) => {
          loads.push(`movies ${n}`);
          return list(n);
        },
        mixed: () => {
          loads.push("mixed");
          return { movies: list(150), writers: list(60) };
        },
      },
      Mutation: { rate: entity, write: entity, touch: () => 1 },
    };
    return { loads, resolvers, process: start(sdl, resolvers, { world }) };
  }

  it("has at most 100 tags: beyond that, one for the type", async () => {
    const { process } = many();
    const queries = [99, 100, 101, 1_000].map((n) => `{ movies(n: ${n}) { id } }`);
    const counts: number[] = [];
    for (const query of [...queries, "{ mixed { movies { id } } }"]) counts.push(await tagsOf(process, query));
    // Those of the types as well: `Movie`, `Writer`.
    expect(counts).toEqual([100, 101, 2, 2, 63]);
  });

  it("is invalidated by every invalidation of the type, in whichever process, and by no other", async () => {
    const world = memoryWorld();
    const { process, loads, resolvers } = many(world);
    const without = world.process(sdl, resolvers);
    const QUERY = "{ movies(n: 1000) { id } }";
    const changes: readonly (() => Promise<unknown>)[] = [
      () => read(process, "mutation { rate(id: 5000) { id } }"),
      () => read(process, "mutation { touch(id: 3) }"),
      () => process.cache.invalidateTags(["Movie:4"]),
      () => without.cache.invalidateTags(["Movie:4"]),
      () => read(without, "mutation { touch(id: 3) }"),
      () => process.cache.mutate({ tags: ["Movie:4"] }, () => undefined),
    ];
    for (const [nth, change] of changes.entries()) {
      await read(process, QUERY);
      expect(loads).toHaveLength(nth + 1);
      await change();
      await read(process, "mutation { write(id: 3) { id } }");
      await process.cache.invalidateTags(["Movies:4", "Movies"]);
    }
    await read(process, QUERY);
    expect(loads).toHaveLength(changes.length + 1);
  });

  it("keeps the tags of the types with fewer entities", async () => {
    const { process, loads } = many();
    const QUERY = "{ mixed { movies { id } } }";
    await read(process, QUERY);
    await read(process, "mutation { write(id: 60) { id } }");
    await read(process, QUERY);
    expect(loads).toEqual(["mixed"]);
    await read(process, "mutation { write(id: 59) { id } }");
    await read(process, QUERY);
    await read(process, "mutation { rate(id: 5000) { id } }");
    await read(process, QUERY);
    expect(loads).toEqual(["mixed", "mixed", "mixed"]);
  });

  it("invalidates each of them if a mutation returns it", async () => {
    const { process, loads } = exchangeMany();
    for (const id of [0, 500, 999]) await read(process, `{ movie(id: ${id}) { id } }`);
    await read(process, "mutation { rateAll { id } }");
    for (const id of [0, 500, 999]) await read(process, `{ movie(id: ${id}) { id } }`);
    expect(loads).toEqual(["0", "500", "999", "0", "500", "999"]);
  });

  function exchangeMany() {
    const loads: string[] = [];
    const movie = (_: unknown, { id }: { id: string }) => {
      loads.push(id);
      return { id };
    };
    const process = start(
      "type Query { movie(id: ID!): Movie @cached(maxAge: 60) } type Mutation { rateAll: [Movie] } type Movie { id: ID! }",
      { Query: { movie }, Mutation: { rateAll: () => list(1_000) } },
    );
    return { process, loads };
  }

  it("is not stored while a write to one of them runs", async () => {
    const { process, loads } = many();
    await process.cache.mutate({ tags: ["Movie:4"] }, async () => {
      await read(process, "{ movies(n: 1000) { id } }");
      await read(process, "{ movies(n: 1000) { id } }");
    });
    expect(loads).toHaveLength(2);
  });
});

describe("the cost of entity tags", () => {
  it("is no further round trip on a hit", async () => {
    for (const entityTags of [false, true]) {
      const store = chaosStore(memoryStore());
      const process = memoryWorld(() => store).process(typeDefs, films().resolvers, {}, { entityTags });
      await read(process, "{ movies { stars } }");
      store.chaos.calls.clear();
      await read(process, "{ movies { stars } }");
      expect([...store.chaos.calls]).toEqual([["read", 1]]);
    }
  });
});
