import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 600)
    uncached: Int
  }
  type Page @cacheControl(maxAge: 600) { title: String }
`;

function open(server: SiteOptions["server"], options: Partial<SiteOptions> = {}) {
  const source = { title: "Ran", executions: 0 };
  let shared: object | undefined;
  const resolvers = {
    Query: {
      page: () => {
        source.executions++;
        return {};
      },
      uncached: (_: unknown, __: unknown, context: object) => {
        shared ??= context;
        return 1;
      },
    },
    Page: {
      title: (_: unknown, __: unknown, context: object) => titles((shared ?? context) as Context).load(1),
    },
  };
  const site = openSite({ typeDefs, resolvers, server, ...options });
  const titles = site.cache.loader<number, string>({
    name: "Title",
    maxAge: 60,
    cache: false,
    tags: (id) => [`Title:${id}`],
    batch: async (ids) => ids.map(() => source.title),
  });
  return { ...site, source };
}

describe.each(SERVERS)("a response on %s", (server) => {
  it("is invalidated if it was read with the context of a request that has ended, as by a DataLoader that serves all requests", async () => {
    const { ask, cache, source } = open(server);
    await ask("{ uncached }");
    const query = "{ page { title } }";
    await ask(query);
    await ask(query);
    source.title = "Ran, restored";
    await cache.invalidateTags(["Title:1"]);
    expect((await ask(query)).data).toEqual({ page: { title: "Ran, restored" } });
  });
});
