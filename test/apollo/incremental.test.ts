import { ApolloServer, HeaderMap } from "@apollo/server";
import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type ExecutionArgs, execute, parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope) on FIELD_DEFINITION
  directive @defer(if: Boolean, label: String) on FRAGMENT_SPREAD | INLINE_FRAGMENT
  type Query {
    top: Int @cached(maxAge: 60, jitter: 0) @cacheControl(maxAge: 60)
    mine: Int @cached(maxAge: 60, jitter: 0, scope: PRIVATE) @cacheControl(maxAge: 60)
  }
`;

/** A server whose executor delivers `{ top ... @defer { mine } }` in parts. Apollo Server brings none for stable versions of graphql. */
function createSite() {
  const loads: string[] = [];
  const cache = createCache<object>({ defaultScope: "PUBLIC", identify: () => "user", defaults: { earlyRefresh: 0 } });
  onTestFinished(() => cache.close());
  const resolvers = { Query: { top: () => loads.push("top"), mine: () => loads.push("mine") } };
  // Apart, so that the file compiles with Apollo Server 4, which lacks the option.
  const executor = {
    legacyExperimentalExecuteIncrementally: async (args: ExecutionArgs) => {
      if (!JSON.stringify(args.document).includes("defer")) return execute(args);
      const part = async (source: string) => (await execute({ ...args, document: parse(source) })).data ?? null;
      return {
        initialResult: { data: await part("{ top }"), hasNext: true },
        subsequentResults: (async function* () {
          yield { incremental: [{ data: await part("{ mine }"), path: [] }], hasNext: false };
        })(),
      } as never;
    },
  };
  const server = new ApolloServer<object>({
    schema: applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache),
    plugins: [cachedPlugin(cache, { allow: () => true })],
    ...executor,
  });
  const ask = async (query: string, extensions?: object) => {
    const headers = new HeaderMap([["accept", "multipart/mixed; deferSpec=20220824"]]);
    const http = { method: "POST", headers, search: "", body: {} };
    const { body, http: head } = await server.executeOperation(
      { query, http, ...(extensions && { extensions }) },
      { contextValue: {} },
    );
    const parts: unknown[] = [];
    if (body.kind === "single") parts.push(body.singleResult);
    else {
      parts.push(body.initialResult);
      for await (const part of body.subsequentResults) parts.push(part);
    }
    await settle();
    return { parts: JSON.parse(JSON.stringify(parts)) as unknown[], header: head.headers.get("cache-control") };
  };
  return { ask, loads };
}

describe("a response that Apollo Server delivers in parts", () => {
  it("is never cacheable, since later parts can narrow what the first one has announced", async () => {
    const { ask, loads } = createSite();
    const parts = [
      { data: { top: 1 }, hasNext: true },
      { incremental: [{ data: { mine: 2 }, path: [] }], hasNext: false },
    ];
    for (let nth = 0; nth < 2; nth++)
      expect(await ask("{ top ... @defer { mine } }", { cached: true })).toEqual({ parts, header: "no-store" });
    expect((await ask("{ top }")).header).toMatch(/^max-age=\d+, public$/);
    expect((await ask("{ top mine }")).header).toMatch(/^max-age=\d+, private$/);
    expect(loads).toEqual(["top", "mine"]);
  });
});
