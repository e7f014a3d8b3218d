import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { expect, it, onTestFinished } from "vitest";
import { openSite } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { page: String @cacheControl(maxAge: 600) }
`;
const resolvers = { Query: { page: (_: unknown, __: unknown, { user }: { user?: string }) => `Home of ${user}` } };

it.each([
  ["that is executed for the first time", { knowsOperations: false }, {}],
  ["that bypasses the cache", {}, { override: "BYPASS" as const }],
  ["whose key lacks a value", { responses: { scope: "PRIVATE" as const, key: ["$context.locale"] } }, {}],
])("a PRIVATE response %s says so on Apollo Server, as the others do", async (_, options, context) => {
  const { ask } = openSite({
    typeDefs,
    resolvers,
    server: "Apollo Server",
    responses: { scope: "PRIVATE" },
    ...options,
  });
  for (let nth = 0; nth < 3; nth++)
    expect((await ask("{ page }", { user: "ann", ...context })).cacheControl).toBe("max-age=600, private");
});

it("a PRIVATE response to all requests at once says so on Apollo Server, executed or waited for", async () => {
  const { ask } = openSite({ typeDefs, resolvers, server: "Apollo Server", responses: { scope: "PRIVATE" } });
  const answers = await Promise.all([1, 2, 3].map(() => ask("{ page }", { user: "ann" })));
  for (const { cacheControl } of answers) expect(cacheControl).toBe("max-age=600, private");
});

it("a PRIVATE response to GET says so on GraphQL Yoga, since some proxies keep what says nothing", async () => {
  const { cache, schema } = openSite({ typeDefs, resolvers, server: "cache.execute" });
  const yoga = createYoga({
    schema,
    logging: false,
    context: ({ request }) => ({ user: request.headers.get("user") }),
    plugins: [useCached(cache as never, { responses: { scope: "PRIVATE" } }) as never],
  });
  onTestFinished(() => void yoga.dispose());
  for (let nth = 0; nth < 3; nth++) {
    const response = await yoga.fetch("http://localhost/graphql?query=%7Bpage%7D", { headers: { user: "ann" } });
    expect(await response.text()).toContain("of ann");
    expect([nth, response.headers.get("cache-control")]).toEqual([nth, expect.stringMatching(/private|no-store/)]);
  }
});
