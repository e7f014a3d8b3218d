import { graphql } from "graphql";
import { applyCached } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie: Movie @cached(maxAge: 60)
    movies: [Movie] @cached(maxAge: 60)
    shown: Shown @cached(maxAge: 60)
    hit: Hit @cached(maxAge: 60)
    rating: Rating @cached(maxAge: 60)
  }
  type Mutation { movie: Movie movies: [Movie] shown: Shown hit: Hit rating: Rating }
  type Movie { id: ID title: String sequel: Movie }
  type Shown { movie: Movie movies: [Movie] }
  union Hit = Movie | Shown
  type Rating { movieId: ID userId: ID stars: Int }
`;

class Film {
  readonly id = 7;
  sequel(): object {
    return { id: 8 };
  }
}

/** Executes `source` twice over resolvers that return `value` for every field, and returns what was logged about entities. */
async function linesOf(operation: "query" | "mutation", field: string, value: () => unknown): Promise<string[]> {
  const types = { Film: { is: (one: unknown) => one instanceof Film, encode: () => 0, decode: () => new Film() } };
  const { cache, warnings } = listen({ types });
  const root = operation === "query" ? "Query" : "Mutation";
  const source = schemaOf(typeDefs, { [root]: { [field]: value }, Hit: { __resolveType: () => "Movie" } });
  const schema = applyCached(source, cache, { entityTags: true, idFields: { Rating: ["movieId", "userId"] } });
  warnings.length = 0;
  for (let nth = 0; nth < 2; nth++)
    await graphql({ schema, source: `${operation} { ${field} { __typename } }`, contextValue: {} });
  return warnings;
}

const UNKNOWN_TYPE = "an object without `__typename`, whose type is not known";
const UNSEEN: readonly (readonly [what: string, field: string, value: () => unknown, at: string, got: string])[] = [
  ["without an id", "movie", () => ({ title: "Solaris" }), "X.movie", "an object without `id`"],
  ["whose id is null", "movie", () => ({ id: null }), "X.movie", "an object without `id`"],
  ["without an id in a list", "movies", () => [{ id: 7 }, {}], "X.movies", "an object without `id`"],
  [
    "without one of its id fields",
    "rating",
    () => ({ movieId: 7 }),
    "X.rating",
    "an object without `movieId` and `userId`",
  ],
  ["without an id in another object", "shown", () => ({ movie: {} }), "Shown.movie", "an object without `id`"],
  ["of a union whose type only resolveType knows", "hit", () => ({ id: 7 }), "X.hit", UNKNOWN_TYPE],
  ["that a method of a class returns", "movie", () => new Film(), "Movie.sequel", "a method"],
];

describe.each(["query", "mutation"] as const)("an entity that a %s returns", (operation) => {
  const root = operation === "query" ? "Query" : "Mutation";

  it.each(UNSEEN)("is reported once if it is one %s", async (_, field, value, at, got) => {
    const expected = `\`${root}.${field}\`: entityTags: expected the entities at \`${at.replace("X", root)}\`, got ${got}; `;
    expect(await linesOf(operation, field, value)).toEqual([expect.stringContaining(expected)]);
  });

  it.each([
    ["with its id", "movie", () => ({ id: 7, sequel: null })],
    ["with its fields", "rating", () => ({ movieId: 7, userId: 0 })],
    ["in a promise", "shown", () => ({ movie: Promise.resolve({ id: 7 }), movies: [Promise.resolve({ id: "8" })] })],
    ["that is null", "movies", () => [null, { id: 7 }]],
    ["with a __typename", "hit", () => ({ __typename: "Movie", id: 7 })],
  ])("is not reported if it is one %s", async (_, field, value) => {
    expect(await linesOf(operation, field, value)).toEqual([]);
  });
});

it.each([
  ["a method", "shown", () => ({ movie: () => ({ id: 7 }) }), "Shown.movie"],
  ["a method in a list", "movies", () => [() => ({ id: 7 })], "Mutation.movies"],
  ["a function in place of an object", "movie", () => () => ({ id: 7 }), "Mutation.movie"],
])("an entity that a mutation returns by %s is reported once", async (_, field, value, at) => {
  expect(await linesOf("mutation", field, value)).toEqual([
    `\`Mutation.${field}\`: entityTags: expected the entities at \`${at}\`, got a method; they are not invalidated; return them as objects, or name their tags in @invalidates`,
  ]);
});
