import { settle } from "@graphql-cached/testing";
import { GraphQLID, GraphQLInt, GraphQLList, GraphQLObjectType, GraphQLSchema, graphql } from "graphql";
import { type ApplyCachedOptions, applyCached } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld } from "../../support/world.js";

/** Applies a schema with entity tags. Returns what is logged. */
function logOf(sdl: string, resolvers: object = {}, applied: ApplyCachedOptions = {}): readonly string[] {
  const { cache, infos, warnings } = listen();
  applyCached(schemaOf(sdl, resolvers), cache, { entityTags: true, ...applied });
  return [...warnings.map((line) => `warn ${line}`), ...infos.map((line) => `info ${line}`)];
}

const UNTAGGED = "warn applyCached: entities without tags:";
const NOT_COVERED = "info applyCached: changes that entity tags do not cover:";
const listOf = (coordinates: readonly string[], what: string): string =>
  coordinates.map((coordinate) => `\n- \`${coordinate}\`: ${what}`).join("");

describe("applyCached with entity tags reports", () => {
  it("types whose id has a resolver", () => {
    const movie = "type Query { movie: Movie @cached(maxAge: 60) } type Mutation { rate: Movie }";
    const resolvers = { Movie: { id: () => "7" }, Director: { id: () => "3" }, Studio: { id: () => "1" } };
    const types = "type Movie { id: ID director: Director } type Director { id: ID } type Studio { id: ID }";
    const what = (type: string): string =>
      `\n- \`${type}\`: its \`id\` has a resolver, and values contain what it is made from; remove the resolver and return objects with the \`id\`, or use tags such as ${type}:{$args.id} in @cached and @invalidates`;
    expect(logOf(`${movie} ${types}`, resolvers)).toEqual([
      `${UNTAGGED}${what("Director")}${what("Movie")}`,
      `${NOT_COVERED}\n- \`Mutation.rate\`: it returns no entity, so it invalidates nothing; add @invalidates if it changes one`,
    ]);
    const exceptTypes = ["Movie", "Director"];
    expect(logOf(`${movie} ${types}`, resolvers, { entityTags: { exceptTypes } })).toHaveLength(1);
    expect(logOf(`${movie} ${types}`)).toEqual([]);
  });

  it("interfaces and unions whose members only resolveType tells apart", () => {
    const types =
      "interface Node { id: ID } type Film implements Node { id: ID } type Serial implements Node { id: ID }";
    const sdl = `type Query { node: Node @cached(maxAge: 60) } ${types}`;
    const resolveType = { __resolveType: () => "Film" };
    expect(logOf(sdl, { Node: resolveType, Serial: { __isTypeOf: () => false } })).toEqual([
      `${UNTAGGED}\n- \`Node\`: the walk does not call its \`resolveType\`; return Film with \`__typename\`, or give them a synchronous isTypeOf`,
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
    const fields = ["Query.bare", "Query.results", "Query.connection"];
    expect(logOf(sdl, { Movie: { similar: () => [] } })).toEqual([`${NOT_COVERED}${listOf(fields, what)}`]);
  });

  it("mutations that return no entity, or whose payload has a resolver for it, and have no @invalidates", () => {
    const sdl = /* GraphQL */ `
      type Query { movie: Movie @cached(maxAge: 60, tags: ["A"]) }
      type Movie { id: ID }
      type Mutation {
        remove: ID
        removed: ID @invalidates(tags: ["Movie:{$result}"])
        rate: Payload
        login: LoginPayload
        movies: MovieMutations
        hidden: Rated
        said: Rated @invalidates(tags: ["A"])
      }
      type Payload { movie: Movie }
      type Rated { movie: Movie sequel: Movie query: Query }
      type LoginPayload { token: String }
      type MovieMutations { add: Movie remove: Boolean }
    `;
    const resolvers = {
      MovieMutations: { add: () => null, remove: () => true },
      Rated: { movie: () => ({ id: 7 }), query: () => ({}) },
    };
    const none = "it returns no entity, so it invalidates nothing; add @invalidates if it changes one";
    const hidden =
      "`Rated.movie` has a resolver, so its entities are not seen; return them as properties, or add @invalidates";
    const lines = logOf(sdl, resolvers).flatMap((line) => line.split("\n"));
    const others = listOf(["Mutation.login", "Mutation.remove", "MovieMutations.remove"], none);
    const expected = `${NOT_COVERED}${listOf(["Mutation.hidden"], hidden)}${others}`.split("\n");
    expect(lines.toSorted()).toEqual(expected.toSorted());
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
      "warn @invalidates on `Mutation.hire`: no cached field has a tag like `Directors`; known tags: `Movie:{$args.id}`, `Top`, `Movie:{$result.id}`, `Director:{$result.id}`; correct it, unless the tags of a loader or of another schema match",
    ]);
  });
});

describe("an option of entity tags", () => {
  const sdl = /* GraphQL */ `
    type Query { movie: Movie color: Color }
    type Movie { id: ID slug(upper: Boolean): String tags: [String] self: Movie code: ID color: Color }
    type Money { amount: Int }
    input In { id: ID }
    enum Color { RED }
    interface Node { id: ID }
  `;
  const OBJECT = 'expected an object of fields by type, such as { Movie: "slug", Rating: ["movieId", "userId"] }';
  const ENTITIES = "expected names of object types of the schema that have a field `id` or `idFields`, got";
  const TYPE = "expected the name of an object type of the schema that is no root type, got";
  const NAMES = "expected names of fields of the type, got";
  const IT_HAS = "it has id, slug, tags, self, code, color";
  const TWICE = "expected the name of a field, or several different ones, got none or one twice";
  const INTERNAL = "expected fields whose objects have what clients get, got `color`, an enum with internal values";
  const SCALAR = "expected fields without arguments that return a scalar or an enum, got";
  it.each<[option: "entityTags" | "idFields", given: unknown, at: string, message: string]>([
    ["entityTags", "Movie", "", 'expected true, false or an object of options, got "Movie"'],
    ["entityTags", ["Movie"], "", "expected true, false or an object of options, got an array"],
    ["entityTags", { types: ["Movie"] }, ".types", "unknown option; the only one is `exceptTypes`"],
    ["entityTags", { exceptTypes: "Movie" }, ".exceptTypes", 'expected an array of names of object types, got "Movie"'],
    ["entityTags", { exceptTypes: ["Movies"] }, ".exceptTypes", `${ENTITIES} "Movies"`],
    ["entityTags", { exceptTypes: ["Money"] }, ".exceptTypes", `${ENTITIES} "Money"`],
    ["entityTags", { exceptTypes: ["In"] }, ".exceptTypes", `${ENTITIES} "In"`],
    ["entityTags", { exceptTypes: [7] }, ".exceptTypes", `${ENTITIES} 7`],
    ["idFields", "slug", "", `${OBJECT}, got "slug"`],
    ["idFields", ["slug"], "", `${OBJECT}, got an array`],
    ["idFields", { Movies: "slug" }, ".Movies", `${TYPE} the name of no type; did you mean \`Movie\`?`],
    ["idFields", { Query: "movie" }, ".Query", `${TYPE} that of a root type`],
    ["idFields", { Node: "id" }, ".Node", `${TYPE} that of another type`],
    ["idFields", { Movie: "sluq" }, ".Movie", `${NAMES} "sluq"; ${IT_HAS}`],
    ["idFields", { Movie: 7 }, ".Movie", `${NAMES} 7; ${IT_HAS}`],
    ["idFields", { Movie: ["code", "__proto__"] }, ".Movie", `${NAMES} "__proto__"; ${IT_HAS}`],
    ["idFields", { Movie: [] }, ".Movie", TWICE],
    ["idFields", { Movie: ["code", "code"] }, ".Movie", TWICE],
    ["idFields", { Movie: "slug" }, ".Movie", `${SCALAR} \`slug\`, one with arguments`],
    ["idFields", { Movie: "tags" }, ".Movie", `${SCALAR} \`tags\`, one of the type [String]`],
    ["idFields", { Movie: "self" }, ".Movie", `${SCALAR} \`self\`, one of the type Movie`],
    ["idFields", { Movie: ["code", "color"] }, ".Movie", INTERNAL],
  ])("is refused if %s is %j", (option, given, at, message) => {
    expect(() => logOf(sdl, { Color: { RED: 1 } }, { [option]: given } as never)).toThrow(
      `applyCached: \`${option}${at}\`: ${message}`,
    );
  });
});

it("entity tags work with code-first schemas", async () => {
  let stars = 1;
  const fields = { id: { type: GraphQLID }, stars: { type: GraphQLInt } };
  const Movie = new GraphQLObjectType({ name: "Movie", fields });
  const extensions = { cached: { maxAge: 60 } };
  const movies = { type: new GraphQLList(Movie), resolve: () => [{ id: 7, stars }], extensions };
  const rate = { type: Movie, resolve: () => ({ id: "7", stars: ++stars }) };
  const query = new GraphQLObjectType({ name: "Query", fields: { movies } });
  const mutation = new GraphQLObjectType({ name: "Mutation", fields: { rate } });
  const schema = applyCached(new GraphQLSchema({ query, mutation }), listen().cache, { entityTags: true });
  const ask = async (source: string) => {
    const data = await dataOf(graphql({ schema, source, contextValue: {} }) as never);
    await settle();
    return data;
  };
  expect(await ask("{ movies { stars } }")).toEqual({ movies: [{ stars: 1 }] });
  await ask("mutation { rate { id } }");
  expect(await ask("{ movies { stars } }")).toEqual({ movies: [{ stars: 2 }] });
});

describe("a loader", () => {
  /** A schema whose fields use a loader, and a mutation that returns a film. */
  function start(settings: { readonly type?: string; readonly tags?: (id: string) => string[] }) {
    let stars = 1;
    const loads: string[] = [];
    const movie = (_: unknown, { id }: { id: string }, context: object) => movies(context).load(id);
    const similar = ({ id }: { id: number }, _: unknown, context: object) => movies(context).load(String(id));
    const rate = async (_: unknown, { id }: { id: string }, context: object) => {
      await movies(context).load(id);
      return { id: Number(id), stars: ++stars };
    };
    const { ask, cache } = memoryWorld().process(
      "type Query { movie(id: ID!): Movie } type Movie { id: ID stars: Int similar: Movie } type Mutation { rate(id: ID!): Movie }",
      { Query: { movie }, Movie: { similar }, Mutation: { rate } },
      {},
      { entityTags: true },
    );
    const batch = async (ids: readonly string[]) => (loads.push(...ids), ids.map((id) => ({ id, stars })));
    const movies = cache.loader<string, object>({ name: "Movie", maxAge: 60, batch, ...settings });
    const read = async (source: string): Promise<unknown> => [await dataOf(ask(source, {})), await settle()][0];
    return { read, loads };
  }
  const READ = "{ seven: movie(id: 7) { stars } eight: movie(id: 8) { stars } }";

  it.each([
    ["with a `type` has the tags of the entities in its values", { type: "Movie" }, 2],
    ["with tags of its own has those, which mutations invalidate", { tags: (id: string) => [`Movie:${id}`] }, 2],
    ["without either has none", {}, 1],
  ])("%s", async (_, settings, stars) => {
    const { read, loads } = start(settings);
    await read(READ);
    await read('mutation { rate(id: "7") { id } }');
    expect(await read(READ)).toEqual({ seven: { stars }, eight: { stars: 1 } });
    expect(loads).toEqual(stars === 2 ? ["7", "8", "7"] : ["7", "8"]);
  });

  it("with a `type` reads again, in the request of the mutation, what the mutation has returned", async () => {
    const { read } = start({ type: "Movie" });
    await read(READ);
    expect(await read('mutation { rate(id: "7") { similar { stars } } }')).toEqual({ rate: { similar: { stars: 2 } } });
  });
});
