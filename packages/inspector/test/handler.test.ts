import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { type InspectorOptions, inspectorHandler } from "@graphql-cached/inspector";
import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { call, PAGE_HEADERS, PAGE_URL, post, type Reply } from "../../../test/support/inspector-calls.js";
import { afterCaches } from "../../../test/support/world.js";
import { INSPECTOR_CSP, INSPECTOR_PAGE } from "../src/generated/inspector-page.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): String @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    secret(text: String!): String @cached(maxAge: 60)
  }
`;

interface Site {
  readonly cache: Cache;
  readonly lines: string[];
  loads: number;
  ask(source: string): Promise<unknown>;
}

function createSite(): Site {
  const lines: string[] = [];
  const logger = { info: () => undefined, warn: (line: string) => void lines.push(line) };
  const cache = createCache({ defaultScope: "PUBLIC", logger, defaults: { jitter: 0, earlyRefresh: 0 } });
  afterCaches(() => cache.close());
  const site: Site = {
    cache,
    lines,
    loads: 0,
    ask: async (source) => {
      const { data, errors } = await graphql({ schema, source, contextValue: {} });
      expect(errors).toBeUndefined();
      await settle();
      return data;
    },
  };
  const load = (): string => `value ${++site.loads}`;
  const resolvers = { Query: { movie: load, secret: load } };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  return site;
}

const yes = (): boolean => true;

describe("the inspector page", () => {
  const { cache } = createSite();
  const handler = inspectorHandler({ cache, allow: yes });
  const get = (method = "GET") => handler(new Request(PAGE_URL, { method }));

  it("is one HTML file of less than 100 KB compressed", async () => {
    const response = await get();
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const page = await response.text();
    expect(page).toBe(INSPECTOR_PAGE);
    expect(gzipSync(page).byteLength).toBeLessThan(100_000);
    expect(page).not.toMatch(/<(?:script|link|img|iframe)[^>]*\s(?:src|href)="(?!data:,")/);
  });

  it("allows its own script and styles by their hashes, and nothing else", async () => {
    const { headers } = await get();
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toBe(INSPECTOR_CSP);
    const directives = new Map(
      policy.split("; ").map((one) => [one.slice(0, one.indexOf(" ")), one.slice(one.indexOf(" ") + 1)]),
    );
    const hashOf = (element: string): string => {
      const found = [...INSPECTOR_PAGE.matchAll(new RegExp(`<${element}>([\\s\\S]*?)</${element}>`, "g"))];
      expect(found).toHaveLength(1);
      return `'sha256-${createHash("sha256")
        .update(found[0]?.[1] ?? "")
        .digest("base64")}'`;
    };
    expect(directives.get("default-src")).toBe("'none'");
    expect(directives.get("script-src")).toBe(hashOf("script"));
    expect(directives.get("style-src")).toBe(hashOf("style"));
    expect(directives.get("connect-src")).toBe("'self'");
    expect(directives.get("frame-ancestors")).toBe("'none'");
    expect(directives.get("require-trusted-types-for")).toBe("'script'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(INSPECTOR_PAGE).not.toMatch(/<[^>]+\s(?:style|on\w+)=/);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("cache-control")).toBe("no-store");
  });

  it("contains the licences of what it is made of", () => {
    for (const name of ["preact"]) expect(INSPECTOR_PAGE).toMatch(new RegExp(`${name} \\d+\\.\\d+`));
    expect(INSPECTOR_PAGE.match(/Permission is hereby granted/g)?.length).toBe(1);
  });

  it("answers HEAD without a body, and names the methods for others", async () => {
    const head = await get("HEAD");
    expect([head.status, await head.text(), head.headers.get("content-type")]).toEqual([
      200,
      "",
      "text/html; charset=utf-8",
    ]);
    for (const method of ["PUT", "DELETE", "OPTIONS"]) {
      const response = await get(method);
      expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD, POST"]);
      expect(response.headers.get("access-control-allow-origin")).toBeNull();
    }
  });
});

describe("access to the inspector", () => {
  it("is denied unless allow returns true, with a sentence and no error of HTTP", async () => {
    const { cache } = createSite();
    for (const answer of [false, undefined, 1, "yes", Promise.resolve(false)]) {
      const handler = inspectorHandler({ cache, allow: () => answer as boolean });
      const response = await post(handler, { operation: "overview" });
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual({
        error: { code: "CACHED_INSPECTION_DENIED", message: expect.stringContaining("`allow`") },
      });
    }
  });

  it("is denied and logged once if allow throws", async () => {
    const { cache, lines } = createSite();
    const allow = (): never => {
      throw new Error("no session");
    };
    const handler = inspectorHandler({ cache, allow });
    for (let nth = 0; nth < 2; nth++)
      expect((await call(handler, "policies")).error?.code).toBe("CACHED_INSPECTION_DENIED");
    expect(lines.filter((line) => line.includes("inspectorHandler"))).toEqual([
      "graphql-cached: inspectorHandler: `allow` threw, which denies access: no session",
    ]);
  });

  it("is decided by the request, once for each", async () => {
    const { cache } = createSite();
    const seen: unknown[] = [];
    const handler = inspectorHandler({
      cache,
      allow: (request: Request) => {
        seen.push(request.headers.get("authorization"));
        return request.headers.get("authorization") === "Bearer operator";
      },
    });
    expect((await call(handler, "policies", {}, { authorization: "Bearer operator" })).data?.policies).toBeDefined();
    expect((await call(handler, "policies")).error?.code).toBe("CACHED_INSPECTION_DENIED");
    expect(seen).toEqual(["Bearer operator", null]);
  });

  it("is decided before the body of a request is read", async () => {
    const { cache } = createSite();
    const handler = inspectorHandler({ cache, allow: () => false });
    let pulled = 0;
    const body = new ReadableStream(
      {
        pull: (controller) => {
          pulled++;
          controller.enqueue(new Uint8Array(1_024));
        },
      },
      { highWaterMark: 0 },
    );
    const request = new Request(PAGE_URL, {
      method: "POST",
      headers: PAGE_HEADERS,
      body,
      duplex: "half",
    } as RequestInit);
    const reply = (await (await handler(request)).json()) as Reply;
    expect([reply.error?.code, pulled]).toEqual(["CACHED_INSPECTION_DENIED", 0]);
  });
});

describe("the questions of the page", () => {
  it("are answered by the inspection of this process", async () => {
    const { cache, ask } = createSite();
    const handler = inspectorHandler({ cache, allow: yes });
    await ask("{ movie(id: 7) }");
    await ask("{ movie(id: 7) }");
    const overview = await call(handler, "overview");
    const counts = { reads: 2, hit: 1, loaded: 1, loads: 1, bypassedOnPurpose: 0 };
    expect(overview.data).toMatchObject({
      counts: {
        processes: 1,
        total: { sinceStart: counts, minutes: [{ count: counts }] },
        fields: [{ coordinate: "Query.movie", sinceStart: counts }],
      },
      processes: [{ isThis: true, isComplete: true }],
      missing: null,
      events: [],
    });
    const { data: known } = await call(handler, "policies");
    expect(known?.policies).toContainEqual(
      expect.objectContaining({
        coordinate: "Query.movie",
        invalidatedBy: [],
        policy: expect.objectContaining({ maxAge: 60 }),
      }),
    );
    const { data } = await call(handler, "entry", { coordinate: "Query.movie", args: { id: 7 } });
    expect(data?.entry).toMatchObject({
      state: "VALUE",
      use: "FRESH",
      reasons: [],
      tags: [{ text: "Movie:7", invalidatedAt: null }],
    });
    expect(JSON.stringify([overview, known, data])).not.toContain("value 1");
  });

  it("say why an entry cannot be named", async () => {
    const handler = inspectorHandler({ cache: createSite().cache, allow: yes });
    const { error } = await call(handler, "entry", { coordinate: "Query.movei" });
    expect(error).toEqual({ code: "CACHED_COORDINATE_UNKNOWN", message: expect.stringContaining("Query.movei") });
  });

  it("name who has invalidated an entry, and when", async () => {
    const { cache, ask } = createSite();
    const handler = inspectorHandler({ cache, allow: yes });
    await ask("{ movie(id: 7) }");
    await cache.invalidateTags(["Movie:7"]);
    const { data } = await call(handler, "entry", { coordinate: "Query.movie", args: { id: 7 } });
    const invalidation = { via: "cache.invalidateTags", mutation: null, isConfirmed: true };
    expect(data?.entry).toMatchObject({
      use: "NONE",
      reasons: [{ reason: "TAG_INVALIDATED", tag: "Movie:7", invalidation: { invalidation } }],
      tags: [{ text: "Movie:7", invalidatedAt: expect.stringMatching(/^\d{4}-.*Z$/) }],
    });
    expect((await call(handler, "overview")).data?.events).toMatchObject([
      { name: "invalidation.finished", at: expect.any(String), invalidation },
    ]);
  });

  it("are refused if they are none of the page's, so that nothing else can be executed", async () => {
    const handler = inspectorHandler({ cache: createSite().cache, allow: yes });
    for (const body of [
      "{",
      "null",
      "[]",
      { query: "{ cacheInspection { missing } }" },
      { operation: "constructor" },
      { operation: "overview", variables: { more: 1 } },
      { operation: "overview", variables: [] },
    ]) {
      const response = await post(handler, body);
      expect([response.status, await response.json()], JSON.stringify(body)).toEqual([
        400,
        { error: { code: "BAD_REQUEST", message: expect.stringMatching(/^expected /) } },
      ]);
    }
    expect((await post(handler, { operation: "x".repeat(70_000) })).status).toBe(413);
  });
});

describe("a request of another site", () => {
  const { cache } = createSite();
  const handler = inspectorHandler({ cache, allow: yes });
  const question = { operation: "policies" };

  it.each([
    ["without the header of the page", { "x-graphql-cached-inspector": undefined }, 403],
    ["as a form sends it", { "content-type": "application/x-www-form-urlencoded" }, 415],
    ["as text, which needs no permission", { "content-type": "text/plain" }, 415],
    ["without a content type", { "content-type": undefined }, 415],
    ["that the browser calls cross-site", { "sec-fetch-site": "cross-site" }, 403],
    ["of another host below the same domain", { "sec-fetch-site": "same-site" }, 403],
    ["with another origin", { origin: "http://attacker.test" }, 403],
    ["with an opaque origin", { origin: "null" }, 403],
    ["with the origin of another port", { origin: "http://inspector.test:8080" }, 403],
  ])("%s is refused", async (_name, headers: Record<string, string | undefined>, status) => {
    const response = await post(handler, question, headers);
    expect(response.status).toBe(status);
    expect(((await response.json()) as { data?: unknown }).data).toBeUndefined();
  });

  it.each([
    ["the page itself", { "sec-fetch-site": "same-origin", origin: "https://public.test" }],
    ["the page over plain HTTP", { origin: "http://inspector.test" }],
    ["the page behind a proxy", { origin: "https://public.test", "x-forwarded-host": "public.test" }],
    ["a program", {}],
  ])("is not what %s sends", async (_name, headers) => {
    expect((await post(handler, question, headers)).status).toBe(200);
  });

  it("gets no action from GET", async () => {
    const url = `${PAGE_URL}?operation=policies&variables={}`;
    expect(await (await handler(new Request(url))).text()).toBe(INSPECTOR_PAGE);
  });
});

describe("mistakes in the options of inspectorHandler", () => {
  const { cache } = createSite();
  it.each([
    ["no options", undefined, "expected an object of options"],
    ["neither a cache nor an endpoint", { allow: yes }, "expected exactly one of them, got none"],
    ["both", { cache, endpoint: "http://a.test", allow: yes }, "expected exactly one of them, got both"],
    ["no allow", { cache }, "`allow`: expected a function that returns true or false for a request, got undefined"],
    ["an allow that is no function", { cache, allow: true }, "`allow`: expected a function"],
    ["something else than a cache", { cache: {}, allow: yes }, "expected a cache made by createCache()"],
    ["a path as endpoint", { endpoint: "/graphql", allow: yes }, "`endpoint`: expected the http or https URL"],
    ["credentials in the endpoint", { endpoint: "http://me:secret@a.test", allow: yes }, "without a user name"],
    ["headers for a cache", { cache, allow: yes, headers: {} }, "`headers`: expected none with `cache`"],
    ["headers that are text", { endpoint: "http://a.test", allow: yes, headers: "a" }, "`headers`: expected an object"],
    ["an unknown option", { cache, allows: yes }, "did you mean `allow`?"],
  ])("are named: %s", (_name, options, message) => {
    expect(() => inspectorHandler(options as unknown as InspectorOptions)).toThrow(
      expect.objectContaining({ code: "CACHED_OPTION_INVALID", message: expect.stringContaining(message) }),
    );
    try {
      inspectorHandler(options as unknown as InspectorOptions);
    } catch (error) {
      expect((error as Error).message).not.toContain("secret");
    }
  });
});
