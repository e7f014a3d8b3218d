import { delegateToSchema } from "@graphql-tools/delegate";
import { stitchSchemas } from "@graphql-tools/stitch";
import { type GraphQLSchema, graphql } from "graphql";
import { applyCached, type Cache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60)
    movies: [Movie!] @cached(maxAge: 60)
    count(above: Int): Int @cached(maxAge: 60)
  }
  type Movie { id: ID! stars: Int @cached(maxAge: 60) }
`;
const query = /* GraphQL */ `
  query ($above: Int) { movie(id: 7) { id stars } movies { id stars } count(above: $above) two: count(above: 2) }
`;

/** Asks the schema that `made` returns twice. */
async function asked(made: (schema: GraphQLSchema, cache: Cache<unknown>) => GraphQLSchema) {
  const { cache, warnings: lines } = listen();
  const loads: string[] = [];
  const load = <T>(what: string, value: T): T => (loads.push(what), value);
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => load("movie", { id }),
      movies: () => load("movies", [{ id: "1" }]),
      count: (_: unknown, { above }: { above: number }) => load(`count ${above}`, above),
    },
    Movie: { stars: ({ id }: { id: string }) => load(`stars ${id}`, 5) },
  };
  const schema = made(schemaOf(typeDefs, resolvers), cache);
  for (const _ of [1, 2]) {
    const { data } = await graphql({ schema, source: query, variableValues: { above: 1 }, contextValue: {} });
    const movies = [{ id: "1", stars: 5 }];
    expect(data).toEqual({ movie: { id: "7", stars: 5 }, movies, count: 1, two: 2 });
    await cache.settled();
  }
  await cache.close();
  return { loads, lines };
}

const stitched = (schema: GraphQLSchema): GraphQLSchema => stitchSchemas({ subschemas: [{ schema }] });
const ADVICE = "cache the schemas, then stitch: pass what applyCached returns to stitchSchemas or delegateToSchema";

describe("stitched schemas", () => {
  it("are cached without a report if they are cached, then stitched", async () => {
    const { loads, lines } = await asked((schema, cache) => stitched(applyCached(schema, cache)));
    const expected = ["movie", "movies", "count 1", "count 2", "stars 7", "stars 1"];
    expect(loads).toHaveLength(expected.length);
    expect(loads).toEqual(expect.arrayContaining(expected));
    expect(lines).toEqual([]);
  });

  it("are told to be cached before if they are stitched, then cached, where only scalars are cached", async () => {
    const { loads, lines } = await asked((schema, cache) => applyCached(stitched(schema), cache));
    expect(loads.filter((what) => what.startsWith("count"))).toEqual(["count 1", "count 2"]);
    expect(loads.filter((what) => what === "movie")).toHaveLength(2);
    expect(lines).toEqual([expect.stringMatching(/`Query\.movie`/), expect.stringMatching(/`Query\.movies`/)]);
    for (const line of lines) expect(line).toContain(ADVICE);
  });

  it("are named in the advice for a resolver that delegates, also by a version whose symbols are its own", async () => {
    const { lines } = await asked((schema, cache) => {
      const movie = (_: unknown, args: Record<string, unknown>, context: unknown, info: never): unknown =>
        delegateToSchema({ schema, operation: "query", fieldName: "movie", args, context, info } as never);
      const key = typeDefs
        .replace("stars: Int @cached(maxAge: 60)", "stars: Int")
        .replace("@cached(maxAge: 60)", '@cached(maxAge: 60, key: ["$args", "$selection"])');
      const resolvers = {
        Query: { movie, movies: () => [{ id: "1", stars: 5 }], count: (_: unknown, { above }: never) => above },
      };
      return applyCached(schemaOf(key, resolvers), cache);
    });
    expect(lines).toEqual([expect.stringMatching(/`Query\.movie`/)]);
    expect(lines[0]).toContain(ADVICE);
  });
});
