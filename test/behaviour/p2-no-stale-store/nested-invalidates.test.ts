import { settle } from "@graphql-cached/testing";
import { GraphQLInt, GraphQLObjectType, GraphQLSchema, graphql } from "graphql";
import { applyCached } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { listen, mistakeIn, schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    stars(id: ID!): Int @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    rating: Rating
    movie: Movie
  }
  type Mutation { movies: MovieMutations! movie(id: ID!): MovieMutations! }
  type MovieMutations {
    id: ID
    rate(id: ID!): Rating @invalidates(tags: ["Movie:{$args.id}"])
    touch: Rating @invalidates(tags: ["Movie:{$source.id}", "Movie:{$result.movie}"])
    rateAgain(id: ID): Rating
    rateMovie: Movie
  }
  type Rating @cached(maxAge: 60, key: ["$args"]) { movie: ID stars: Int }
  type Movie @cached(maxAge: 60) { id: ID stars: Int }
`;

/** `broken`: whether the resolver of \`touch\` returns what a tag cannot be made of. */
function start({ broken = false } = {}) {
  let stars = 1;
  const rate = () => ({ movie: 7, stars: ++stars });
  const touch = () => ({
    get movie(): number {
      if (broken) throw new Error("no such film");
      return 7;
    },
    stars: ++stars,
  });
  const { ask, outcomes, warnings } = memoryWorld().process(typeDefs, {
    Query: { stars: () => stars },
    Mutation: { movies: () => ({ id: 1 }), movie: (_: unknown, { id }: { id: string }) => ({ id }) },
    MovieMutations: { rate, touch, rateAgain: rate, rateMovie: rate },
  });
  const mutate = async (mutation: string) => [await dataOf(ask(`mutation { ${mutation} }`, {})), await settle()][0];
  const starsOf = async (...ids: number[]) => {
    const data = await dataOf(ask(`{ ${ids.map((id) => `s${id}: stars(id: ${id})`).join(" ")} }`));
    return Object.values(data as object);
  };
  return { mutate, starsOf, warnings, outcomes };
}

describe("@invalidates on a nested mutation field", () => {
  it.each([
    ["invalidates its tags after its resolver has succeeded", "movies { rate(id: 7) { stars } }", [2, 1, 1]],
    ["can use the parent object and the result in its tags", "movie(id: 8) { touch { stars } }", [2, 2, 1]],
  ])("%s", async (_, mutation, stars) => {
    const { mutate, starsOf } = start();
    expect(await starsOf(7, 8, 9)).toEqual([1, 1, 1]);
    await mutate(mutation);
    expect(await starsOf(7, 8, 9)).toEqual(stars);
  });

  it("does not fail when a tag cannot be computed: the rest is invalidated, and the mistake is reported", async () => {
    const { mutate, starsOf, warnings } = start({ broken: true });
    expect(await starsOf(8)).toEqual([1]);
    expect(await mutate("movie(id: 8) { touch { stars } }")).toEqual({ movie: { touch: { stars: 2 } } });
    expect(await starsOf(8)).toEqual([2]);
    expect(warnings.filter((warning) => warning.includes("no such film"))).toEqual([
      "`MovieMutations.touch`: @invalidates: expected tags of `Movie:{$result.movie}`, got an error, so these are not invalidated: no such film",
    ]);
  });

  const throwIt = (): never => {
    throw new Error("no such film");
  };
  it.each<[what: string, rate: () => unknown]>([
    ["returns an error", () => new Error("no such film")],
    ["returns the promise of one", async () => new Error("no such film")],
    ["returns one that is not native", () => new DOMException("no such film")],
    ["throws", throwIt],
  ])("invalidates nothing and reports no tag if its resolver %s", async (_, rate) => {
    let loads = 0;
    const { ask, events } = memoryWorld().process(
      `type Query { stars: Int @cached(maxAge: 60, tags: ["Movie:7"]) }
       type Mutation { rate(id: ID!): Rating @invalidates(tags: ["Movie:{$args.id}", "Movie:{$result.movie}"]) }
       type Rating { movie: ID }`,
      { Query: { stars: () => ++loads }, Mutation: { rate } },
    );
    await dataOf(ask("{ stars }"));
    await settle();
    const { errors = [] } = await ask("mutation { rate(id: 7) { movie } }");
    expect(errors.map(({ message }) => message)).toEqual(["no such film"]);
    expect(await dataOf(ask("{ stars }"))).toEqual({ stars: 1 });
    expect(events.filter(({ name }) => name === "invalidation.finished" || name === "tag.mistaken")).toEqual([]);
  });

  it.each(["rateAgain(id: 7)", "rateMovie"])(
    "is not needed for a mutation to run each time: the policy of the type that it returns does not apply: %s",
    async (field) => {
      const { mutate, outcomes } = start();
      for (const stars of [2, 3])
        expect(await mutate(`movies { rate: ${field} { stars } }`)).toEqual({ movies: { rate: { stars } } });
      expect(outcomes()).toEqual({});
    },
  );

  it("works in extensions.invalidates as well", async () => {
    let stars = 1;
    const type = GraphQLInt;
    const object = (name: string, field: string, config: object) =>
      new GraphQLObjectType({ name, fields: { [field]: config as { type: typeof type } } });
    const rate = { type, resolve: () => ++stars, extensions: { invalidates: { tags: ["Stars"] } } };
    const movies = { type: object("MovieMutations", "rate", rate), resolve: () => ({}) };
    const cached = { type, resolve: () => stars, extensions: { cached: { maxAge: 60, tags: ["Stars"] } } };
    const [query, mutation] = [object("Query", "stars", cached), object("Mutation", "movies", movies)];
    const schema = applyCached(new GraphQLSchema({ query, mutation }), listen().cache);
    const ask = async (source: string) => (await graphql({ schema, source, contextValue: {} })).data;
    expect(await ask("{ stars }")).toEqual({ stars: 1 });
    await ask("mutation { movies { rate } }");
    expect(await ask("{ stars }")).toEqual({ stars: 2 });
  });

  const MOVE = "move it to a field of the mutation type, or call cache.invalidateTags in the resolver";
  it.each([
    [
      "a type that a query reaches as well",
      'Query { movie: Movie } type Mutation { movie: Movie } type Movie { rate: Int @invalidates(tags: ["T"]) }',
      `@invalidates on \`Movie.rate\`: expected a field that only mutations can ask for, but queries and subscriptions reach \`Movie\` as well; ${MOVE}`,
    ],
    [
      "a type that no operation reaches",
      'Query { top: Int } type Mutation { rate: Int } type Movie { rate: Int @invalidates(tags: ["T"]) }',
      `@invalidates on \`Movie.rate\`: expected a field that only mutations can ask for, but \`Movie\` cannot be reached from the mutation type; ${MOVE}`,
    ],
    [
      "a type that a query reaches through a union",
      'Query { any: Any } union Any = Movie type Mutation { movie: Movie } type Movie { rate: Int @invalidates(tags: ["T"]) }',
      "queries and subscriptions reach `Movie` as well",
    ],
    [
      "a type that a query reaches through an interface",
      'Query { any: Any } interface Any { rate: Int } type Mutation { movie: Movie } type Movie implements Any { rate: Int @invalidates(tags: ["T"]) }',
      "queries and subscriptions reach `Movie` as well",
    ],
    [
      "a field that is cached",
      'Query { top: Int } type Mutation { movie: Movie } type Movie { id: ID rate: Int @cached(maxAge: 9) @invalidates(tags: ["T"]) }',
      "@invalidates on `Movie.rate`: the field is cached as well, and a hit would invalidate nothing; remove `@cached`",
    ],
  ])("is refused on %s", (_, sdl, message) => expect(mistakeIn(`type ${sdl}`)).toContain(message));

  it("is reported if no field has what it invalidates", () => {
    const sdl =
      'type Query { top: Int @cached(maxAge: 9, tags: ["Movie:{$result}"]) } type Mutation { movies: Movies } type Movies { rate(id: ID): Int @invalidates(tags: ["Movies:{$args.id}"]) }';
    const { cache, warnings } = listen();
    applyCached(schemaOf(sdl), cache);
    expect(warnings[0]).toContain("@invalidates on `Movies.rate`: no cached field has a tag like `Movies:{$args.id}`");
  });
});
