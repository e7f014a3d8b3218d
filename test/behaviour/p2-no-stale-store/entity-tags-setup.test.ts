import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import { GraphQLID, GraphQLInt, GraphQLList, GraphQLObjectType, GraphQLSchema, graphql } from "graphql";
import { type ApplyCachedOptions, applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";

/** Applies a schema with entity tags. Returns what is logged. */
function logOf(
  sdl: string,
  resolvers: IResolvers = {},
  entityTags: ApplyCachedOptions["entityTags"] = true,
): readonly string[] {
  const lines: string[] = [];
  const logger = {
    info: (line: string) => void lines.push(`info ${line}`),
    warn: (line: string) => void lines.push(`warn ${line}`),
  };
  const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers });
  applyCached(schema, createCache({ defaultScope: "PUBLIC", logger }), { entityTags });
  return lines;
}

const UNTAGGED = "warn graphql-cached: applyCached: entities without tags:";
const NOT_COVERED = "info graphql-cached: applyCached: changes that entity tags do not cover:";

describe("applyCached with entity tags reports", () => {
  const movie = "type Query { movie: Movie @cached(maxAge: 60) } type Mutation { rate: Movie }";

  it("types whose id has a resolver", () => {
    const resolvers = { Movie: { id: () => "7" }, Director: { id: () => "3" }, Studio: { id: () => "1" } };
    const types = "type Movie { id: ID director: Director } type Director { id: ID } type Studio { id: ID }";
    expect(logOf(`${movie} ${types}`, resolvers)).toEqual([
      `${UNTAGGED}
- \`Director\`: its \`id\` has a resolver, and values contain what it is made from; remove the resolver and return objects with the \`id\`, or use tags such as Director:{$args.id} in @cached and @invalidates
- \`Movie\`: its \`id\` has a resolver, and values contain what it is made from; remove the resolver and return objects with the \`id\`, or use tags such as Movie:{$args.id} in @cached and @invalidates`,
      `${NOT_COVERED}
- \`Mutation.rate\`: it returns no entity, so it invalidates nothing; add @invalidates if it changes one`,
    ]);
    expect(logOf(`${movie} ${types}`, resolvers, { exceptTypes: ["Movie", "Director"] })).toHaveLength(1);
    expect(logOf(`${movie} ${types}`)).toEqual([]);
  });

  it("interfaces and unions whose members only resolveType tells apart", () => {
    const types =
      "interface Node { id: ID } type Film implements Node { id: ID } type Serial implements Node { id: ID }";
    const sdl = `type Query { node: Node @cached(maxAge: 60) } ${types}`;
    const resolveType = { __resolveType: () => "Film" };
    expect(logOf(sdl, { Node: resolveType, Serial: { __isTypeOf: () => false } })).toEqual([
      `${UNTAGGED}
- \`Node\`: the walk does not call its \`resolveType\`; return Film with \`__typename\`, or give them a synchronous isTypeOf`,
    ]);
    expect(logOf(sdl)).toEqual([]);
  });

  it("lists of entities without a tag that an insert could invalidate", () => {
    const sdl = /* GraphQL */ `
      type Query {
        bare: [Movie] @cached(maxAge: 60)
        results: [Movie] @cached(maxAge: 60, tags: ["Movie:{$result[].id}"])
        connection: Connection @cached(maxAge: 60)
        tagged: [Movie] @cached(maxAge: 60, tags: ["Movies"])
        names: [String] @cached(maxAge: 60)
        movie: Movie @cached(maxAge: 60)
      }
      type Connection { edges: [Edge] }
      type Edge { node: Movie }
      type Movie { id: ID similar: [Movie] @cached(maxAge: 60) names: [String] }
      type Mutation { add: Movie @invalidates(tags: ["Movies"]) }
    `;
    const what =
      "a mutation that adds to the list does not invalidate it; give it a tag, and @invalidates with this tag to the mutation";
    expect(logOf(sdl, { Movie: { similar: () => [] } })).toEqual([
      `${NOT_COVERED}\n${["bare", "results", "connection"].map((field) => `- \`Query.${field}\`: ${what}`).join("\n")}`,
    ]);
  });

  it("mutations that return no entity and have no @invalidates", () => {
    const sdl = /* GraphQL */ `
      type Query { movie: Movie @cached(maxAge: 60) }
      type Movie { id: ID }
      type Mutation {
        remove: ID
        removed: ID @invalidates(tags: ["Movie:{$result}"])
        rate: Payload
        login: LoginPayload
        movies: MovieMutations
      }
      type Payload { movie: Movie }
      type LoginPayload { token: String }
      type MovieMutations { add: Movie remove: Boolean }
    `;
    const what = "it returns no entity, so it invalidates nothing; add @invalidates if it changes one";
    const resolvers = { MovieMutations: { add: () => null, remove: () => true } };
    expect(logOf(sdl, resolvers)).toEqual([
      `${NOT_COVERED}\n${["Mutation.remove", "Mutation.login", "MovieMutations.remove"].map((field) => `- \`${field}\`: ${what}`).join("\n")}`,
    ]);
  });

  it("no tags of @invalidates that entities have, nor tags of fields that mutations invalidate", () => {
    const sdl = /* GraphQL */ `
      type Query {
        movie(id: ID): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
        top: Int @cached(maxAge: 60, tags: ["Top"])
      }
      type Movie { id: ID director: Director }
      type Director { id: ID }
      type Mutation {
        rate: Movie
        fire: Int @invalidates(tags: ["Director:3"])
        hire: Int @invalidates(tags: ["Directors"])
      }
    `;
    expect(logOf(sdl)).toEqual([
      "warn graphql-cached: @invalidates on `Mutation.hire`: no cached field has a tag like `Directors`; known tags: `Movie:{$args.id}`, `Top`, `Movie:{$result.id}`, `Director:{$result.id}`; correct it, unless the tags of a loader or of another schema match",
    ]);
  });
});

describe("the option entityTags", () => {
  const sdl = "type Query { movie: Movie } type Movie { id: ID } type Money { amount: Int } input In { id: ID }";
  const mistakes: readonly (readonly [given: unknown, message: string])[] = [
    ["Movie", '`entityTags`: expected true, false or an object of options, got "Movie"'],
    [["Movie"], "`entityTags`: expected true, false or an object of options, got an array"],
    [{ types: ["Movie"] }, "`entityTags.types`: unknown option; the only one is `exceptTypes`"],
    [{ exceptTypes: "Movie" }, '`entityTags.exceptTypes`: expected an array of names of object types, got "Movie"'],
    ...["Movies", "Money", "In", 7].map(
      (name) =>
        [
          { exceptTypes: [name] },
          `\`entityTags.exceptTypes\`: expected names of object types of the schema that have a field \`id\` or \`idFields\`, got ${JSON.stringify(name)}`,
        ] as const,
    ),
  ];
  it.each(mistakes)("is refused as %j", (given, message) => {
    expect(() => logOf(sdl, {}, given as never)).toThrow(`applyCached: ${message}`);
  });

  it("works with code-first schemas", async () => {
    let stars = 1;
    const Movie = new GraphQLObjectType({
      name: "Movie",
      fields: { id: { type: GraphQLID }, stars: { type: GraphQLInt } },
    });
    const movies = () => [{ id: 7, stars }];
    const extensions = { cached: { maxAge: 60 } };
    const schema = applyCached(
      new GraphQLSchema({
        query: new GraphQLObjectType({
          name: "Query",
          fields: { movies: { type: new GraphQLList(Movie), resolve: movies, extensions } },
        }),
        mutation: new GraphQLObjectType({
          name: "Mutation",
          fields: { rate: { type: Movie, resolve: () => ({ id: "7", stars: ++stars }) } },
        }),
      }),
      createCache({ defaultScope: "PUBLIC", logger: { info: () => undefined, warn: () => undefined } }),
      { entityTags: true },
    );
    const ask = async (source: string) => {
      const { data } = await graphql({ schema, source, contextValue: {} });
      await settle();
      return JSON.parse(JSON.stringify(data)) as unknown;
    };
    expect(await ask("{ movies { stars } }")).toEqual({ movies: [{ stars: 1 }] });
    await ask("mutation { rate { id } }");
    expect(await ask("{ movies { stars } }")).toEqual({ movies: [{ stars: 2 }] });
  });
});

describe("a loader", () => {
  /** A schema whose fields use a loader, and a mutation that returns a film. */
  function shop(settings: { readonly type?: string; readonly tags?: (id: string) => string[] }) {
    let stars = 1;
    const loads: string[] = [];
    const cache = createCache({ defaultScope: "PUBLIC", logger: { info: () => undefined, warn: () => undefined } });
    const movies = cache.loader<string, object>({
      name: "Movie",
      maxAge: 60,
      batch: async (ids) => {
        loads.push(...ids);
        return ids.map((id) => ({ id, stars }));
      },
      ...settings,
    });
    const movie = (_: unknown, { id }: { id: string }, context: object) => movies(context).load(id);
    const similar = ({ id }: { id: number }, _: unknown, context: object) => movies(context).load(String(id));
    const resolvers = {
      Query: { movie },
      Movie: { similar },
      Mutation: {
        rate: async (_: unknown, { id }: { id: string }, context: object) => {
          await movies(context).load(id);
          return { id: Number(id), stars: ++stars };
        },
      },
    };
    const sdl =
      "type Query { movie(id: ID!): Movie } type Movie { id: ID stars: Int similar: Movie } type Mutation { rate(id: ID!): Movie }";
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers }), cache, {
      entityTags: true,
    });
    const ask = async (source: string): Promise<unknown> => {
      const { data, errors } = await graphql({ schema, source, contextValue: {} });
      expect(errors).toBeUndefined();
      await settle();
      return JSON.parse(JSON.stringify(data));
    };
    return { ask, loads };
  }
  const READ = "{ seven: movie(id: 7) { stars } eight: movie(id: 8) { stars } }";

  it("with a `type` has the tags of the entities in its values", async () => {
    const { ask, loads } = shop({ type: "Movie" });
    await ask(READ);
    await ask('mutation { rate(id: "7") { id } }');
    expect(await ask(READ)).toEqual({ seven: { stars: 2 }, eight: { stars: 1 } });
    expect(loads).toEqual(["7", "8", "7"]);
  });

  it("with a `type` reads again, in the request of the mutation, what the mutation has returned", async () => {
    const { ask } = shop({ type: "Movie" });
    await ask(READ);
    expect(await ask('mutation { rate(id: "7") { similar { stars } } }')).toEqual({
      rate: { similar: { stars: 2 } },
    });
  });

  it("without a `type` has its own tags only, which mutations invalidate as well", async () => {
    for (const [settings, stars] of [
      [{}, 1],
      [{ tags: (id: string) => [`Movie:${id}`] }, 2],
    ] as const) {
      const { ask } = shop(settings);
      await ask(READ);
      await ask('mutation { rate(id: "7") { id } }');
      expect(await ask(READ)).toEqual({ seven: { stars }, eight: { stars: 1 } });
    }
  });
});
