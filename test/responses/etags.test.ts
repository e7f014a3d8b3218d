import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { cachedPlugin, stringifyResult } from "graphql-cached/apollo";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Context, openSite } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) @cacheControl(maxAge: 60)
    me: String @cached(maxAge: 60, scope: PRIVATE) @cacheControl(maxAge: 60, scope: PRIVATE)
  }
  type Movie { title: String }
`;

const KINDS = ["Apollo Server", "Apollo Server, as text", "GraphQL Yoga"] as const;

/** Plugins that replace the data of what is sent by something of their own. */
const replacing = {
  yoga: {
    onExecute: () => ({
      onExecuteDone: ({ setResult }: { setResult(result: object): void }) => setResult({ data: { movie: "own" } }),
    }),
  },
  apollo: {
    requestDidStart: async () => ({
      willSendResponse: async ({ response }: { response: { body: { singleResult: { data: unknown } } } }) => {
        response.body.singleResult.data = { movie: "own" };
      },
    }),
  },
} as never as { readonly yoga: never; readonly apollo: never };

/** Serves on HTTP. Returns a function that asks with GET. */
async function serve(kind: (typeof KINDS)[number], replaces = false) {
  const titles = new Map<string, string>();
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => ({ title: titles.get(id) ?? `Movie ${id}` }),
      me: (_: unknown, __: unknown, { user }: Context) => user,
    },
  };
  const { cache, schema } = openSite({ typeDefs, resolvers, server: "cache.execute" });
  const contextOf = (user: unknown): Context => (typeof user === "string" ? { user } : {});
  let url: string;
  if (kind === "GraphQL Yoga") {
    const yoga = createYoga({
      schema,
      logging: false,
      context: ({ request }) => contextOf(request.headers.get("user")),
      plugins: [useCached(cache, { responses: true }) as never, ...(replaces ? [replacing.yoga] : [])],
    });
    const server = createServer((request, response) => void yoga(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
  } else {
    const apollo = new ApolloServer<Context>({
      schema,
      plugins: [...(replaces ? [replacing.apollo] : []), cachedPlugin(cache, { responses: true })],
      ...(kind === "Apollo Server, as text" ? { stringifyResult } : {}),
    });
    const started = await startStandaloneServer(apollo, {
      listen: { port: 0, host: "127.0.0.1" },
      context: async ({ req }) => contextOf(req.headers.user),
    });
    onTestFinished(() => apollo.stop());
    url = started.url;
  }
  const ask = async (query: string, headers: Readonly<Record<string, string>> = {}, method = "GET") => {
    const all = { "content-type": "application/json", "apollo-require-preflight": "1", ...headers };
    const response = await fetch(
      method === "GET" ? `${url}?query=${encodeURIComponent(query)}` : url,
      method === "GET" ? { headers: all } : { method, headers: all, body: JSON.stringify({ query }) },
    );
    return {
      status: response.status,
      etag: response.headers.get("etag"),
      text: await response.text(),
      control: response.headers.get("cache-control"),
    };
  };
  return { ask, cache, titles };
}

describe.each(KINDS)("the entity tag of a stored response on %s", (kind) => {
  const QUERY = "{ movie(id: 1) { title } }";

  it("answers a client that has the response with 304 and no body", async () => {
    const { ask } = await serve(kind);
    await ask(QUERY);
    const hit = await ask(QUERY);
    expect(hit).toMatchObject({ status: 200, etag: expect.stringMatching(/^W\/"[\w-]{22}"$/) });
    for (const known of [hit.etag, `"other", ${hit.etag}`, (hit.etag as string).slice(2), "*"])
      expect(await ask(QUERY, { "if-none-match": known as string })).toMatchObject({
        status: 304,
        etag: hit.etag,
        text: "",
      });
    expect(await ask(QUERY, { "if-none-match": '"other"' })).toMatchObject({ status: 200, text: hit.text });
  });

  it("changes with the response", async () => {
    const { ask, cache, titles } = await serve(kind);
    await ask(QUERY);
    const { etag } = await ask(QUERY);
    titles.set("1", "Renamed");
    await cache.invalidateTags(["Movie:1"]);
    const changed = await ask(QUERY, { "if-none-match": etag as string });
    expect([changed.status, changed.text.includes("Renamed")]).toEqual([200, true]);
    const again = await ask(QUERY, { "if-none-match": etag as string });
    expect([again.status, again.text.includes("Renamed")]).toEqual([200, true]);
    expect(again.etag).not.toBe(etag);
  });

  it("of one caller does not answer another", async () => {
    const { ask } = await serve(kind);
    for (const user of ["ann", "ann", "bob", "bob"]) await ask("{ me }", { user });
    const { etag } = await ask("{ me }", { user: "ann" });
    expect(etag).not.toBeNull();
    const other = await ask("{ me }", { user: "bob", "if-none-match": etag as string });
    expect([other.status, other.text.includes("bob")]).toEqual([200, true]);
  });

  it("is not sent with what another plugin has replaced", async () => {
    const { ask } = await serve(kind, true);
    for (let time = 0; time < 2; time++) await ask(QUERY);
    const answer = await ask(QUERY, { "if-none-match": "*" });
    // Express, which Apollo Server 4 brings, adds a weak one of what it sends.
    const etag = answer.etag?.startsWith("W/") ? null : answer.etag;
    expect([answer.status, etag, answer.text.includes("own")]).toEqual([200, null, true]);
  });

  it("is not sent with POST, nor with what was executed", async () => {
    const { ask } = await serve(kind);
    const first = await ask(QUERY, { "if-none-match": "*" });
    expect([first.status, first.text.includes("Movie 1")]).toEqual([200, true]);
    const posted = await ask(QUERY, { "if-none-match": "*" }, "POST");
    expect([posted.status, posted.text.includes("Movie 1")]).toEqual([200, true]);
  });
});
