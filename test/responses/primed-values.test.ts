import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { page: Page @cacheControl(maxAge: 600) }
  type Page @cacheControl(maxAge: 600) { version: Int }
`;

describe.each(SERVERS)("on %s", (server) => {
  it("a response is fresh for no longer than values of the loader that a resolver has primed", async () => {
    let version = 1;
    const resolvers = {
      Query: { page: () => ({}) },
      Page: {
        version: (_: unknown, __: unknown, context: Context) => versions(context).prime(1, version).load(1),
      },
    };
    const { ask, cache, clock } = openSite({ typeDefs, resolvers, server });
    const versions = cache.loader<number, number>({
      name: "Version",
      maxAge: 10,
      batch: async (ids) => ids.map(() => version),
    });
    await ask("{ page { version } }");
    version = 2;
    await clock.advance(60_000);
    expect((await ask("{ page { version } }")).data).toEqual({ page: { version: 2 } });
  });

  it("a response is not stored if a primed id has no key, since no invalidation would reach it", async () => {
    let version = 1;
    const resolvers = {
      Query: { page: () => ({}) },
      Page: {
        version: (_: unknown, __: unknown, context: Context) => versions(context).prime(1, version).load(1),
      },
    };
    const { ask, cache } = openSite({ typeDefs, resolvers, server });
    const versions = cache.loader<number, number>({
      name: "Version",
      maxAge: 10,
      cacheKeyFn: () => {
        throw new Error("no key");
      },
      batch: async (ids) => ids.map(() => version),
    });
    await ask("{ page { version } }");
    version = 2;
    await cache.invalidate({ loader: "Version" });
    expect((await ask("{ page { version } }")).data).toEqual({ page: { version: 2 } });
  });
});
