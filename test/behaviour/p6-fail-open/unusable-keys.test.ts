import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

/** Asks `query` twice. Returns the log lines and the errors of the bypasses. */
async function bypassesOf(typeDefs: string, resolvers: object, query: string, makeContext: () => object = () => ({})) {
  const { ask, events, warnings } = memoryWorld().process(typeDefs, resolvers);
  for (let nth = 0; nth < 2; nth++) await dataOf(ask(query, makeContext()));
  return { warnings, errors: events.flatMap((event) => (event.name === "resolver.bypassed" ? [event.error] : [])) };
}

describe("a field whose key or tags are read from a getter that throws", () => {
  const typeDefs = /* GraphQL */ `
    type Query {
      byContext: Int @cached(maxAge: 60, key: ["$context.tenant.id"])
      movie: Movie
    }
    type Movie {
      keyed: Int @cached(maxAge: 60, key: ["$source.code"])
      keyedByTwo: Int @cached(maxAge: 60, key: ["$source.code", "$source.title"])
      tagged: Int @cached(maxAge: 60, key: [], tags: ["Movie:{$source.code}"])
    }
  `;
  const failing = {
    get code(): never {
      throw new Error("column `code` was not loaded for alice@example.com");
    },
    get id(): never {
      throw new Error("no tenant");
    },
  };
  const Movie = { keyed: () => 1, keyedByTwo: () => 1, tagged: () => 1 };
  const resolvers = { Query: { byContext: () => 1, movie: () => failing }, Movie };
  it.each([
    ["Query.byContext", "{ byContext }"],
    ["Movie.keyed", "{ movie { keyed } }"],
    ["Movie.keyedByTwo", "{ movie { keyedByTwo } }"],
    ["Movie.tagged", "{ movie { tagged } }"],
  ])(
    "is resolved without the cache, which is logged once and published with its cause: %s",
    async (coordinate, query) => {
      const { warnings, errors } = await bypassesOf(typeDefs, resolvers, query, () => ({ tenant: failing }));
      const message = `\`${coordinate}\` is not cached: expected values in \`key\` and \`tags\` that can be read, got an exception, the cause of this error; correct the getter that threw it, or name other values`;
      expect(warnings).toEqual([message]);
      const error = { code: "CACHED_KEY_UNSERIALIZABLE", message, coordinate, cause: { name: "Error" } };
      expect(errors).toMatchObject([error, error]);
    },
  );
});

describe("a field whose key lacks a part", () => {
  const typeDefs = /* GraphQL */ `
    scalar JSON
    type Query {
      byContext: Int @cached(maxAge: 60, key: ["$context.tenant.id"])
      byArgument(filter: JSON): Int @cached(maxAge: 60, key: ["$args.filter.id"])
      movie: Movie
    }
    type Movie { bySource: Int @cached(maxAge: 60, key: ["$source.code"]) }
  `;
  const Query = { byContext: () => 1, byArgument: () => 1, movie: () => ({}) };
  const resolvers = { Query, Movie: { bySource: () => 1 } };
  const FILTER = { filter: [7] };
  it.each([
    ["$context.tenant.id", "{ byContext }", "Query.byContext", {}, "set it in the server's context function"],
    ["$args.filter.id", "{ byArgument(filter: [7]) }", "Query.byArgument", FILTER, "pass an object that contains it"],
    ["$source.code", "{ movie { bySource } }", "Movie.bySource", {}, "return it from the parent's resolver"],
  ])(
    "is logged once with the way to supply it, and an invalidation without it rejects: %s",
    async (part, query, coordinate, args, remedy) => {
      const missing = `its key needs \`${part}\`, which is missing`;
      const { warnings } = await bypassesOf(typeDefs, resolvers, query);
      expect(warnings).toEqual([`\`${coordinate}\` is not cached: ${missing}; ${remedy}, or set another \`key\``]);
      const { cache } = memoryWorld().process(typeDefs, resolvers);
      await expect(cache.invalidate({ coordinate, args })).rejects.toMatchObject({
        code: "CACHED_KEY_UNUSABLE",
        message: `\`${coordinate}\`: ${missing}; pass it in \`${part.slice(1).split(".")[0]}\``,
      });
    },
  );
});
