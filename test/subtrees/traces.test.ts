import { ApolloServer } from "@apollo/server";
import { settle } from "@graphql-cached/testing";
import { cachedPlugin } from "graphql-cached/apollo";
import { collectMetrics } from "graphql-cached/prometheus";
import { Registry } from "prom-client";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Context, watchedSite } from "./watched-site.js";

/** A server that answers with the trace and the headers of each response. */
function tracedSite(options: Parameters<typeof watchedSite>[0] = {}) {
  const site = watchedSite(options);
  const server = new ApolloServer<Context>({
    schema: site.schema,
    plugins: [cachedPlugin(site.cache, { allow: () => true })],
  });
  onTestFinished(() => server.stop());
  const ask = async (query: string, cached: true | "REFRESH" | "BYPASS" = true) => {
    const { body, http } = await server.executeOperation({ query, extensions: { cached } }, { contextValue: {} });
    await settle();
    if (body.kind !== "single") throw new Error("expected one result");
    return {
      data: body.singleResult.data,
      trace: body.singleResult.extensions?.cached,
      status: http.headers.get("cache-status"),
      timing: http.headers.get("server-timing"),
    };
  };
  return { ...site, ask };
}

describe("the trace of a response", () => {
  it("shows a subtree once, and the entry of its field only if the subtree was loaded", async () => {
    const { ask } = tracedSite();
    expect(await ask("{ posts { id } top }")).toMatchObject({
      trace: { "Query.posts (subtree)": { loaded: 1 }, "Query.posts": { loaded: 1 }, "Query.top": { loaded: 1 } },
    });
    expect(await ask("{ posts { id } top }")).toMatchObject({
      trace: { "Query.posts (subtree)": { hit: 1 }, "Query.top": { hit: 1 } },
    });
    const { trace } = await ask("{ posts { id } }");
    expect(trace).toEqual({ "Query.posts (subtree)": { hit: 1 } });
  });

  it("shows a hole's way through the entry of the field besides the subtree", async () => {
    const { ask } = tracedSite();
    await ask("{ posts { id liked } }");
    const { trace, data } = await ask("{ posts { id liked } }");
    expect(trace).toEqual({ "Query.posts (subtree)": { hit: 1 }, "Query.posts": { hit: 1 } });
    expect(data).toMatchObject({ posts: [{ id: "0", liked: false }, {}] });
  });

  it("names the invalidation for which a subtree was loaded", async () => {
    const { ask, cache } = tracedSite();
    await ask("{ posts { id } }");
    await cache.invalidateTags(["Posts"]);
    const { trace } = await ask("{ posts { id } }");
    const invalidatedBy = [expect.objectContaining({ via: "cache.invalidateTags", reads: 1 })];
    expect(trace).toEqual({
      "Query.posts (subtree)": { loaded: 1, invalidatedBy },
      "Query.posts": { loaded: 1, invalidatedBy },
    });
  });
});

describe("the headers of a response", () => {
  it("count a hit of a subtree once, and name subtrees by a token", async () => {
    const { ask } = tracedSite();
    const first = await ask("{ posts { id } }");
    expect(first.status).toContain('fwd=miss; ttl=60; stored; detail="loaded 2"');
    expect(first.timing).toContain('Query.posts.subtree;dur=0.0;desc="loaded 1"');
    const second = await ask("{ posts { id } }");
    expect(second.status).toBe('graphql-cached; hit; ttl=60; detail="hit 1"');
    expect(second.timing).toBe('Query.posts.subtree;desc="hit 1"');
  });
});

describe("metrics", () => {
  it("have the attribute subtree for what concerns subtrees, and count requests without one by reason", async () => {
    const register = new Registry();
    const { ask, cache } = watchedSite();
    collectMetrics(cache, { register });
    for (let nth = 0; nth < 3; nth++) await ask("{ posts { id } }");
    for (let nth = 0; nth < 2; nth++) await ask("{ notes { text isMine } }");
    const lines = (await register.metrics()).split("\n");
    const of = (name: string) =>
      lines.filter((line) => line.startsWith(`graphql_cached_${name}`) && !line.endsWith(" 0"));
    expect(of("reads_total").filter((line) => line.includes("posts"))).toEqual([
      'graphql_cached_reads_total{cache="watched",coordinate="Query.posts",outcome="loaded"} 1',
      'graphql_cached_reads_total{cache="watched",coordinate="Query.posts",subtree="true",outcome="hit"} 2',
      'graphql_cached_reads_total{cache="watched",coordinate="Query.posts",subtree="true",outcome="loaded"} 1',
    ]);
    expect(of("load_duration_seconds_count").filter((line) => line.includes("posts"))).toEqual([
      'graphql_cached_load_duration_seconds_count{cache="watched",coordinate="Query.posts"} 1',
      'graphql_cached_load_duration_seconds_count{cache="watched",coordinate="Query.posts",subtree="true"} 1',
    ]);
    expect(of("subtree_skips_total")).toEqual([
      'graphql_cached_subtree_skips_total{cache="watched",coordinate="Query.notes",reason="LIST_WITHOUT_ID"} 2',
    ]);
  });
});
