import type { ApolloServerPlugin, GraphQLRequestListener } from "@apollo/server";
import { gate } from "@graphql-cached/testing";
import { execute, type GraphQLFieldResolver, type GraphQLResolveInfo, parse } from "graphql";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, vi } from "vitest";
import { apolloOf, askApollo, type Context, openSite, type SiteOptions } from "../responses/site.js";

const typeDefs = "type Query { plain: Int @cached(maxAge: 60) }";

/** A site without stored responses that notes how its values are served. */
function openNoting(options: SiteOptions) {
  const events: string[] = [];
  const onEvent: NonNullable<NonNullable<SiteOptions["cache"]>["onEvent"]> = (event) =>
    void events.push(event.name === "entry.served" ? event.outcome : event.name);
  const outcomes = (): string[] => events.filter((event) => ["loaded", "hit"].includes(event));
  return { ...openSite({ ...options, cache: { ...options.cache, onEvent } }), events, outcomes };
}

describe("the Apollo plugin", () => {
  it("lets an execution forget what it has read once its response is complete, unless that has further parts", async () => {
    let info: GraphQLResolveInfo | undefined;
    const other: GraphQLFieldResolver<unknown, unknown> = (_source, _args, _context, own) => {
      info = own;
      return 2;
    };
    const { cache, schema, events, outcomes } = openNoting({
      typeDefs: "type Query { top: Int @cached(maxAge: 60) other: Int }",
      resolvers: { Query: { top: () => 1, other } },
      cache: { memory: false },
    });
    const contextValue = {};
    const start = cachedPlugin(cache).requestDidStart?.({ contextValue, request: {} } as never);
    const listener = (await start) as GraphQLRequestListener<object>;
    const respond = (kind: string) =>
      listener.willSendResponse?.({ contextValue, response: { body: { kind } } } as never);
    /** A field of the same execution, which is executed later. */
    const top = schema.getQueryType()?.getFields().top;
    const readLater = async () => top?.resolve?.({}, {}, contextValue, info as GraphQLResolveInfo);
    expect(await execute({ schema, contextValue, document: parse("{ top other }") })).toEqual({
      data: { top: 1, other: 2 },
    });
    await vi.waitFor(() => expect(events).toContain("write.finished"));
    expect(await readLater()).toBe(1);
    await respond("incremental");
    expect(await readLater()).toBe(1);
    expect(outcomes()).toEqual(["loaded"]);
    await respond("single");
    expect(await readLater()).toBe(1);
    expect(outcomes()).toEqual(["loaded", "hit"]);
  });

  it("lets no execution forget what it has read while another request with the same context ends", async () => {
    const later = gate();
    const resolvers = {
      Query: { first: () => ({}), later: async () => (await later.passed, {}) },
      Movie: { stars: () => 5 },
    };
    const sdl = "type Query { first: Movie later: Movie } type Movie { stars: Int @cached(maxAge: 60, key: []) }";
    const site = openNoting({ typeDefs: sdl, resolvers });
    const server = apolloOf(site, { responses: false });
    const contextValue = {};
    const ask = async (query: string) => (await askApollo(server, query, contextValue)).data;
    const slow = ask("{ first { stars } later { stars } }");
    expect(await ask("{ first { stars } }")).toMatchObject({ first: { stars: 5 } });
    later.open();
    expect(await slow).toMatchObject({ first: { stars: 5 }, later: { stars: 5 } });
    expect(site.outcomes()).toHaveLength(2);
  });

  it("adds no cache hint to a field without one", async () => {
    const server = apolloOf(openSite({ typeDefs }), { responses: false });
    const { http } = await askApollo(server, "{ plain }");
    expect(http.headers.get("cache-control")).toBe("no-store");
  });

  it("keeps the extensions that other plugins add to the response at the same time", async () => {
    const adding: ApolloServerPlugin<Context> = {
      requestDidStart: async () => ({
        async willSendResponse({ response: { body } }) {
          if (body.kind === "single") body.singleResult.extensions = { ...body.singleResult.extensions, cost: 1 };
        },
      }),
    };
    const server = apolloOf(openSite({ typeDefs }), { responses: false, after: [adding] });
    const { extensions } = await askApollo(server, "{ plain }", {}, { extensions: { cached: true } });
    expect(extensions).toEqual({ cached: { "Query.plain": { loaded: 1 } }, cost: 1 });
  });

  it("waits for loads in progress when the server stops, and leaves the cache open", async () => {
    const site = openSite({ typeDefs });
    const server = apolloOf(site, { responses: false });
    await askApollo(server, "{ plain }");
    await server.stop();
    await expect(site.cache.invalidate({ coordinate: "Query.plain" })).resolves.toBeUndefined();
  });
});
