import { parse } from "graphql";
import { describe, expect, it } from "vitest";
import { type Context, openSite, yogaOf } from "./site.js";

const typeDefs = "type Query { page: String @cacheControl(maxAge: 600) }";
const resolvers = { Query: { page: (_: unknown, __: unknown, { user }: Context) => `Home of ${user}` } };
const responses = { scope: "PRIVATE" } as const;

describe("a PRIVATE response", () => {
  it.each([
    ["that is executed for the first time", { knowsOperations: false }, {}],
    ["that bypasses the cache", {}, { override: "BYPASS" as const }],
    ["whose key lacks a value", { responses: { ...responses, key: ["$context.locale"] } }, {}],
  ])("%s says so on Apollo Server, as the others do", async (_, options, context) => {
    const { ask } = openSite({ typeDefs, resolvers, server: "Apollo Server", responses, ...options });
    for (let nth = 0; nth < 3; nth++)
      expect((await ask("{ page }", { user: "ann", ...context })).cacheControl).toBe("max-age=600, private");
  });

  it("to all requests at once says so on Apollo Server, executed or waited for", async () => {
    const { ask } = openSite({ typeDefs, resolvers, server: "Apollo Server", responses });
    const answers = await Promise.all([1, 2, 3].map(() => ask("{ page }", { user: "ann" })));
    for (const { cacheControl } of answers) expect(cacheControl).toBe("max-age=600, private");
  });

  it("to GET says so on GraphQL Yoga, since some proxies keep what says nothing", async () => {
    const context = ({ request }: { request: Request }) => ({ user: request.headers.get("user") });
    const yoga = yogaOf(openSite({ typeDefs, resolvers }), { responses, context });
    for (let nth = 0; nth < 3; nth++) {
      const response = await yoga.fetch("http://localhost/graphql?query=%7Bpage%7D", { headers: { user: "ann" } });
      expect(await response.text()).toContain("of ann");
      expect([nth, response.headers.get("cache-control")]).toEqual([nth, expect.stringMatching(/private|no-store/)]);
    }
  });
});

describe("Cache-Control of Apollo Server without stored responses", () => {
  type Mine = { load(id: number): Promise<string>; prime(id: number, value: string): unknown };

  /** Returns the header of a page whose resolver does something with a PRIVATE loader. */
  async function headerAfter(
    maxAge: number,
    read: (mine: Mine, context: Context, site: ReturnType<typeof openSite>) => unknown,
  ): Promise<string | undefined> {
    const site: ReturnType<typeof openSite> = openSite({
      typeDefs: `type Query { page: String @cacheControl(maxAge: 60) other: Int @cached(maxAge: 60) @cacheControl(maxAge: 60) }`,
      resolvers: {
        Query: {
          other: () => 7,
          page: (_: unknown, __: unknown, context: Context) => read(mine(context) as unknown as Mine, context, site),
        },
      },
      server: "Apollo Server",
      responses: false,
    });
    const mine = site.cache.loader<number, string>({
      name: "Mine",
      maxAge,
      scope: "PRIVATE",
      batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
    });
    return (await site.ask("{ page }", { user: "ann" })).cacheControl;
  }

  it("is private after a read of a PRIVATE loader that is not cached", async () => {
    expect(await headerAfter(0, (mine) => mine.load(0))).toBe("max-age=60, private");
  });

  it("is private after a read of a PRIVATE loader that a resolver has primed", async () => {
    expect(await headerAfter(60, (mine) => (mine.prime(0, "ann"), mine.load(0)))).toBe("max-age=60, private");
  });

  it.each(["PUBLIC", "PRIVATE"] as const)(
    "is private after a read of a PRIVATE loader that comes after a %s cache.execute in the same context",
    async (scope) => {
      const header = await headerAfter(60, async (mine, contextValue, { cache, schema }) => {
        await cache.execute({ schema, document: parse("{ other }"), contextValue }, { scope });
        return mine.load(0);
      });
      expect(header).toBe("max-age=60, private");
    },
  );
});
