import { describe, expect, it } from "vitest";
import { type Context, type CookieSetter, openSite, SERVERS, type ServerName, type SiteOptions } from "./edge-site.js";
import { fetched, smallCdn } from "./small-cdn.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie: String @cached(maxAge: 60, tags: ["movie"]) @cacheControl(maxAge: 60)
    caller: String @cacheControl(maxAge: 60)
    broken: String @cacheControl(maxAge: 60)
  }
`;
const resolvers = {
  Query: {
    movie: () => "Metropolis",
    caller: (_: unknown, __: unknown, context: Context) => (context.setCookie?.(), context.user ?? "guest"),
    broken: () => {
      throw new Error("broken");
    },
  },
};

/** Starts a server for a CDN, and returns what makes the URL of a query. `nth`: another URL for the same. */
async function startOrigin(name: ServerName, options: SiteOptions = {}) {
  const { url } = await openSite(name, typeDefs, resolvers, { isDocumented: true, ...options });
  const urlOf = (query: string, nth = 0): string =>
    `${url}?${new URLSearchParams({ query: query.replace("{", `query Q${nth} {`) }).toString()}`;
  return { url, urlOf };
}

const ACCEPTS = [
  "application/json",
  "application/graphql-response+json",
  "application/graphql-response+json, application/json;q=0.9",
  "application/json;q=0, application/graphql-response+json",
  "multipart/mixed",
  "multipart/mixed, application/json",
  "text/event-stream",
  "text/html,application/xhtml+xml,*/*;q=0.8",
  "*/*",
  "image/png",
];
/** Apollo Server wants one of its headers with GET. */
const PREFLIGHT = { "apollo-require-preflight": "1" };
const accepting = (accept: string) => ({ ...PREFLIGHT, accept });
const as = (user: string) => ({ ...accepting("application/json"), ...(user === "" ? {} : { authorization: user }) });
const MODES = [
  ["that honours Vary", true],
  ["that ignores Vary", false],
] as const;

describe.each(SERVERS)("a CDN in front of %s", (name) => {
  /** Asks with each form after each other one. Returns how often the CDN has answered by itself. */
  async function hitsOf(honoursVary: boolean, expectedOf: (direct: object, isHit: boolean) => object): Promise<number> {
    const { urlOf } = await startOrigin(name);
    const send = smallCdn({ honoursVary });
    const directs = new Map<string, object>();
    for (const [nth, accept] of ACCEPTS.entries()) {
      const { isHit: _, ...direct } = (await fetched(urlOf("{ movie }", ACCEPTS.length ** 2 + nth), accepting(accept)))
        .answer;
      directs.set(accept, direct);
    }
    let hits = 0;
    for (const [nth, first] of ACCEPTS.entries())
      for (const [other, second] of ACCEPTS.entries()) {
        const url = urlOf("{ movie }", nth * ACCEPTS.length + other);
        await send(url, accepting(first));
        const { isHit, ...answer } = await send(url, accepting(second));
        expect([first, second, answer]).toEqual([first, second, expectedOf(directs.get(second) as object, isHit)]);
        if (isHit) hits++;
      }
    return hits;
  }

  it("that honours Vary gives every client the form that the server itself gives it", async () => {
    // Those that accept JSON, each after itself.
    expect(await hitsOf(true, (direct) => direct)).toBeGreaterThanOrEqual(4);
  });

  it("that ignores Vary keeps JSON only, so that no client gets a page or a body in parts for JSON", async () => {
    const json = {
      status: 200,
      type: expect.stringMatching(/^application\/json/),
      body: expect.stringMatching(/^\{"data":\{"movie":"Metropolis"\}\}/),
    };
    const hits = await hitsOf(false, (direct, isHit) => (isHit ? { ...direct, ...json } : direct));
    expect(hits).toBeGreaterThanOrEqual(4 * ACCEPTS.length);
  });

  it("may keep what is sent to clients that accept JSON, which is JSON, and nothing else", async () => {
    const { urlOf } = await startOrigin(name);
    const kept: string[] = [];
    for (const accept of ACCEPTS) {
      const { answer, headers } = await fetched(urlOf("{ movie }"), accepting(accept));
      if (!/s-maxage/.test(headers.get("cache-control") ?? "")) expect(headers.get("cache-tag")).toBe(null);
      else kept.push(`${accept}: ${answer.type}`);
    }
    const isKept = (accept: string): boolean =>
      /(?:application\/json|\*\/\*)(?!;q=0,)/.test(accept) &&
      !(name === "GraphQL Yoga" && accept.startsWith("text/html"));
    expect(kept).toEqual(ACCEPTS.filter(isKept).map((accept) => `${accept}: application/json; charset=utf-8`));
  });

  it.each(MODES)("%s gives nobody the answer of another identity", async (_mode, honoursVary) => {
    const { urlOf } = await startOrigin(name);
    const send = smallCdn({ honoursVary });
    const users = ["", "alice", "", "bob", "alice", ""];
    const answers: string[] = [];
    for (const user of users) {
      const { body } = await send(urlOf("{ caller }"), as(user));
      answers.push((JSON.parse(body) as { data: { caller: string } }).data.caller);
    }
    expect(answers).toEqual(users.map((user) => (user === "" ? "guest" : user)));
  });

  it.each(MODES)("%s keeps the answer to a guest for guests", async (_mode, honoursVary) => {
    const { urlOf } = await startOrigin(name);
    const send = smallCdn({ honoursVary });
    const hits: boolean[] = [];
    for (const user of ["", "", "alice", ""]) hits.push((await send(urlOf("{ caller movie }"), as(user))).isHit);
    expect(hits).toEqual([false, true, false, true]);
  });

  it.each<CookieSetter>([
    "later plugin",
    "earlier middleware",
    "resolver",
    "session",
    ...(name === "Apollo Server on Fastify" ? (["later hook"] as const) : []),
  ])("keeps nothing for which a cookie is set by: %s", async (cookie) => {
    const { urlOf } = await startOrigin(name, { cookie });
    const url = urlOf("{ caller movie }");
    const { answer, headers } = await fetched(url, as(""));
    expect([answer.cookies, headers.get("cache-control")]).toEqual([["session=1"], "private, no-store"]);
    expect([headers.get("cache-tag"), headers.get("surrogate-key")]).toEqual([null, null]);
    const send = smallCdn({ honoursVary: false });
    for (const _ of [1, 2]) expect((await send(url, as(""))).isHit).toBe(false);
  });

  it("keeps no answer but that to a query", async () => {
    const { url, urlOf } = await startOrigin(name);
    const json = { ...accepting("application/json"), "content-type": "application/json" };
    const html = { accept: "text/html,*/*" };
    const others: [what: string, url: string, headers: Record<string, string>, method?: string][] = [
      ["POST", url, json, "POST"],
      ["an error", urlOf("{ broken }"), json],
      ["what is not valid", urlOf("{ film }"), json],
      ["what cannot be parsed", urlOf("{ movie("), json],
      ["no acceptable form", urlOf("{ movie }"), accepting("image/png")],
      ["no query", url, json],
      ["a context that fails", urlOf("{ movie }"), as("nobody")],
    ];
    // Mercurius has neither at this URL, and for Fastify another method is another route.
    if (name !== "Mercurius") others.push(["a page", urlOf("{ movie }"), html]);
    if (!name.includes("Fastify") && name !== "Mercurius") others.push(["another method", url, json, "PUT"]);
    for (const [what, ...request] of others) {
      const { headers } = await fetched(...request);
      expect([what, headers.get("cache-control")]).toEqual([what, expect.stringMatching(/no-store/)]);
    }
  });
});

describe.each(SERVERS.filter((name) => name !== "Mercurius"))("a CDN in front of stored responses of %s", (name) => {
  it("is told by 304 that what it has is still valid, and may keep it on", async () => {
    const { urlOf } = await startOrigin(name, { responses: true });
    const url = urlOf("{ movie }");
    // Stored when it is asked for again.
    for (const _ of [1, 2]) await fetched(url, as(""));
    const etag = (await fetched(url, as(""))).headers.get("etag") ?? "none";
    const { answer, headers } = await fetched(url, { ...as(""), "if-none-match": etag });
    expect(answer).toMatchObject({ status: 304, body: "", cookies: [] });
    const sent = ["etag", "cache-control", "vary", "cache-tag"].map((one) => headers.get(one));
    const kept = [etag, expect.stringMatching(/s-maxage=\d+, public$/), "Accept, Authorization", expect.any(String)];
    expect(sent).toEqual(kept);
  });
});

describe.each(["Apollo Server on Express", "Apollo Server on Fastify"] as const)("a CDN in front of %s", (name) => {
  it("would keep a cookie if the context does not have the response", async () => {
    const { urlOf } = await startOrigin(name, { cookie: "earlier middleware", hidesResponse: true });
    const { answer, headers } = await fetched(urlOf("{ movie }"), as(""));
    expect([answer.cookies, headers.get("cache-control")]).toEqual([
      ["session=1"],
      expect.stringMatching(/s-maxage=\d+, public$/),
    ]);
  });
});

describe("a CDN in front of Apollo Server with its landing page", () => {
  it("would give the page to other clients, since no plugin sees it", async () => {
    const { urlOf } = await startOrigin("Apollo Server", { hasLandingPage: true });
    const { answer, headers } = await fetched(urlOf("{ movie }"), { accept: "text/html" });
    expect([answer.type, headers.get("cache-control")]).toEqual([expect.stringMatching(/^text\/html/), null]);
  });
});
