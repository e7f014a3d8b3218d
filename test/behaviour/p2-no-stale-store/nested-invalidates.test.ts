import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { GraphQLInt, GraphQLObjectType, GraphQLSchema, graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    stars(id: ID!): Int @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
  }
  type Mutation { movies: MovieMutations! movie(id: ID!): MovieMutations! }
  type MovieMutations {
    id: ID
    rate(id: ID!, stars: Int!): Rating @invalidates(tags: ["Movie:{$args.id}"])
    touch: Rating @invalidates(tags: ["Movie:{$source.id}", "Movie:{$result.movie}"])
  }
  type Rating { movie: ID stars: Int }
`;

describe("a nested mutation field", () => {
  it("runs each time, also if the type that it returns is cached", async () => {
    let rated = 0;
    const { ask } = memoryWorld().process(
      `type Query { rating(id: ID!): Rating }
       type Mutation { movies: Movies! }
       type Movies { rate(id: ID!): Rating }
       type Rating @cached(maxAge: 60, key: ["$args"]) { stars: Int }`,
      {
        Query: { rating: () => ({ stars: 0 }) },
        Mutation: { movies: () => ({}) },
        Movies: { rate: () => ({ stars: ++rated }) },
      },
    );
    for (let nth = 1; nth <= 2; nth++) {
      expect(await dataOf(ask("mutation { movies { rate(id: 7) { stars } } }"))).toEqual({
        movies: { rate: { stars: nth } },
      });
      await settle();
    }
  });
});

describe("@invalidates on a nested mutation field", () => {
  const start = () => {
    let stars = 1;
    const rate = () => ({ movie: 7, stars: ++stars });
    const process = memoryWorld().process(typeDefs, {
      Query: { stars: () => stars },
      Mutation: { movies: () => ({}), movie: (_: unknown, { id }: { id: string }) => ({ id }) },
      MovieMutations: { rate, touch: rate },
    });
    return { ...process, read: async (id: number) => dataOf(process.ask(`{ stars(id: ${id}) }`)) };
  };

  it("invalidates its tags after its resolver has succeeded", async () => {
    const { ask, read } = start();
    expect([await read(7), await read(8)]).toEqual([{ stars: 1 }, { stars: 1 }]);
    await dataOf(ask("mutation { movies { rate(id: 7, stars: 5) { stars } } }"));
    expect([await read(7), await read(8)]).toEqual([{ stars: 2 }, { stars: 1 }]);
  });

  it("does not fail when a tag cannot be computed: the rest is invalidated, and the mistake is reported", async () => {
    const warnings: string[] = [];
    const broken = {
      get movie(): never {
        throw new Error("no such film");
      },
      stars: 2,
    };
    let stars = 1;
    const { ask } = memoryWorld().process(
      typeDefs,
      {
        Query: { stars: () => stars },
        Mutation: { movie: (_: unknown, { id }: { id: string }) => ({ id }) },
        MovieMutations: { touch: () => (stars++, broken) },
      },
      { logger: { info: () => undefined, warn: (message: string) => void warnings.push(message) } },
    );
    await dataOf(ask("{ stars(id: 8) }"));
    expect(await dataOf(ask("mutation { movie(id: 8) { touch { stars } } }"))).toEqual({
      movie: { touch: { stars: 2 } },
    });
    expect(await dataOf(ask("{ stars(id: 8) }"))).toEqual({ stars: 2 });
    expect(warnings.filter((warning) => warning.includes("no such film"))).toEqual([
      "graphql-cached: `MovieMutations.touch`: @invalidates: expected tags of `Movie:{$result.movie}`, got an error, so these are not invalidated: no such film",
    ]);
  });

  it("can use the parent object and the result in its tags", async () => {
    const { ask, read } = start();
    for (const id of [7, 8, 9]) await read(id);
    await dataOf(ask("mutation { movie(id: 8) { touch { stars } } }"));
    expect([await read(7), await read(8), await read(9)]).toEqual([{ stars: 2 }, { stars: 2 }, { stars: 1 }]);
  });

  it("is not needed for a mutation to run: the policy of the type that it returns does not apply", async () => {
    let stars = 1;
    const process = memoryWorld().process(
      `type Query { movie: Movie } type Mutation { movies: MovieMutations }
      type MovieMutations { id: ID rate: Movie } type Movie @cached(maxAge: 60) { id: ID stars: Int }`,
      {
        Query: { movie: () => ({ stars }) },
        Mutation: { movies: () => ({ id: 1 }) },
        MovieMutations: { rate: () => ({ stars: ++stars }) },
      },
    );
    const MUTATION = "mutation { movies { rate { stars } } }";
    expect(await dataOf(process.ask(MUTATION, {}))).toEqual({ movies: { rate: { stars: 2 } } });
    await settle();
    expect(await dataOf(process.ask(MUTATION, {}))).toEqual({ movies: { rate: { stars: 3 } } });
    expect(process.outcomes()).toEqual({});
  });

  it("works in extensions.invalidates as well", async () => {
    let stars = 1;
    const movies = new GraphQLObjectType({
      name: "MovieMutations",
      fields: { rate: { type: GraphQLInt, resolve: () => ++stars, extensions: { invalidates: { tags: ["Stars"] } } } },
    });
    const cached = { cached: { maxAge: 60, tags: ["Stars"] } };
    const schema = applyCached(
      new GraphQLSchema({
        query: new GraphQLObjectType({
          name: "Query",
          fields: { stars: { type: GraphQLInt, resolve: () => stars, extensions: cached } },
        }),
        mutation: new GraphQLObjectType({
          name: "Mutation",
          fields: { movies: { type: movies, resolve: () => ({}) } },
        }),
      }),
      createCache({ defaultScope: "PUBLIC" }),
    );
    const ask = (source: string) => graphql({ schema, source, contextValue: {} });
    expect((await ask("{ stars }")).data).toEqual({ stars: 1 });
    await ask("mutation { movies { rate } }");
    expect((await ask("{ stars }")).data).toEqual({ stars: 2 });
  });

  const refused: Readonly<Record<string, readonly [sdl: string, message: string]>> = {
    "a type that a query reaches as well": [
      'type Query { movie: Movie } type Mutation { movie: Movie } type Movie { rate: Int @invalidates(tags: ["T"]) }',
      "@invalidates on `Movie.rate`: expected a field that only mutations can ask for, but queries and subscriptions reach `Movie` as well; move it to a field of the mutation type, or call cache.invalidateTags in the resolver",
    ],
    "a type that no operation reaches": [
      'type Query { top: Int } type Mutation { rate: Int } type Movie { rate: Int @invalidates(tags: ["T"]) }',
      "@invalidates on `Movie.rate`: expected a field that only mutations can ask for, but `Movie` cannot be reached from the mutation type; move it to a field of the mutation type, or call cache.invalidateTags in the resolver",
    ],
    "a type that a query reaches through a union": [
      'type Query { any: Any } union Any = Movie type Mutation { movie: Movie } type Movie { rate: Int @invalidates(tags: ["T"]) }',
      "queries and subscriptions reach `Movie` as well",
    ],
    "a type that a query reaches through an interface": [
      'type Query { any: Any } interface Any { rate: Int } type Mutation { movie: Movie } type Movie implements Any { rate: Int @invalidates(tags: ["T"]) }',
      "queries and subscriptions reach `Movie` as well",
    ],
    "a field that is cached": [
      'type Query { top: Int } type Mutation { movie: Movie } type Movie { id: ID rate: Int @cached(maxAge: 9) @invalidates(tags: ["T"]) }',
      "@invalidates on `Movie.rate`: the field is cached as well, and a hit would invalidate nothing; remove `@cached`",
    ],
    "a path into the parent of a field of the mutation type": [
      'type Query { top: Int } type Mutation { rate: Int @invalidates(tags: ["T:{$source.id}"]) }',
      "root fields have no parent object",
    ],
  };
  for (const [what, [sdl, message]] of Object.entries(refused))
    it(`is refused on ${what}`, () => {
      const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl] });
      expect(() => applyCached(schema, createCache({ defaultScope: "PUBLIC" }))).toThrow(message);
    });
});

describe("tags of a schema that do not match", () => {
  const logOf = (sdl: string): string[] => {
    const lines: string[] = [];
    const logger = {
      info: (line: string) => lines.push(`info ${line}`),
      warn: (line: string) => lines.push(`warn ${line}`),
    };
    applyCached(
      makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl] }),
      createCache({ defaultScope: "PUBLIC", logger }),
    );
    return lines;
  };

  it("are reported if nested mutation fields invalidate what no field has", () => {
    const sdl =
      'type Query { top: Int @cached(maxAge: 9, tags: ["Movie:{$result}"]) } type Mutation { movies: Movies } type Movies { rate(id: ID): Int @invalidates(tags: ["Movies:{$args.id}"]) }';
    expect(logOf(sdl)[0]).toContain(
      "@invalidates on `Movies.rate`: no cached field has a tag like `Movies:{$args.id}`",
    );
  });
});
