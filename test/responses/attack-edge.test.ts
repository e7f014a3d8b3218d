import { FakeClock, gate } from "@graphql-cached/testing";
import type { FastifyInstance } from "fastify";
import { parse } from "graphql";
import { CachedError, memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { acceptsThisGraphql } from "../support/graphql-17.js";
import { type Headers, serve as serveSite } from "./http.js";

const KINDS = ["Apollo Server", "GraphQL Yoga", "Mercurius"] as const;
type Kind = (typeof KINDS)[number];

const typeDefs = /* GraphQL */ `
  type Query {
    movie: String @cached(maxAge: 60, tags: ["movie"]) @cacheControl(maxAge: 60)
    greeting: String @cacheControl(maxAge: 60)
    both: String @cached(maxAge: 60, staleWhileRevalidate: 60) @cacheControl(maxAge: 60)
    mine: String @cacheControl(maxAge: 60, scope: PRIVATE)
  }
  type Mutation { rename: String @invalidates(tags: ["movie"]) }
`;
const QUERY = { movie: () => "Ran", greeting: () => "Hello", both: () => "x", mine: () => "own" };

/** Serves a site for CDNs. */
const serve = (kind: Kind, { cache, ...setup }: Partial<Parameters<typeof serveSite>[1]> = {}) =>
  serveSite(kind, {
    typeDefs,
    resolvers: { Query: QUERY },
    edge: true,
    ...setup,
    cache: { onEvent: () => undefined, identify: undefined, ...cache },
  });
const greetingOf = (greeting: (context: never) => unknown) => ({
  Query: { ...QUERY, greeting: (_: unknown, __: unknown, context: never) => greeting(context) },
});
/** The context has a tenant if there is a header that says so. */
const tenantIn = (headers: Headers) => (headers["x-tenant"] === undefined ? {} : { tenant: headers["x-tenant"] });

const isPublic = (control: unknown): boolean => control === null || /public|s-maxage/.test(String(control));

describe.each(KINDS)("at the edge, behind %s", (kind) => {
  const STORED = kind === "Mercurius" ? [false] : [false, true];

  it("what is read of an object that `identify` reads too is not for all", async () => {
    const { ask } = await serve(kind, {
      cache: { identify: (({ req }: { req: Headers }) => req.authorization) as never },
      context: (req) => ({ req }),
      resolvers: greetingOf(({ req }: { req: Headers }) => (req["x-tenant"] === "a" ? "A" : "B")),
    });
    const { text, control, vary } = await ask("{ greeting }", { "x-tenant": "a" });
    expect(text).toContain("A");
    expect([isPublic(control), vary]).toEqual([false, expect.anything()]);
  });

  it.each(STORED)(
    "what may depend on a property that this request lacks, and others have, is not for all (stored: %j)",
    async (responses) => {
      const resolvers = greetingOf(({ tenant }: { tenant?: string }) => tenant ?? "default");
      const { ask } = await serve(kind, { responses, context: tenantIn, resolvers });
      await ask("{ greeting }", { "x-tenant": "a" });
      // Executed, and then a stored one.
      for (let nth = 0; nth < 2; nth++) expect(isPublic((await ask("{ greeting }")).control)).toBe(false);
    },
  );

  it.each(STORED)(
    "the property that a request lacks is named once, unless only callers with an identity have it (stored: %j)",
    async (responses) => {
      const { ask, lines } = await serve(kind, {
        cache: { identify: ({ user }) => user },
        responses,
        context: (req) => ({
          ...(req["x-user"] === undefined ? {} : { user: req["x-user"], role: "admin" }),
          ...tenantIn(req),
        }),
      });
      const isForAll = async (headers: Headers = {}) => isPublic((await ask("{ greeting }", headers)).control);
      await ask("{ greeting }", { "x-user": "ann" });
      for (const headers of [{}, {}, {}, { "x-tenant": "a" }] as Headers[]) expect(await isForAll(headers)).toBe(true);
      expect(lines).toEqual([]);
      for (let nth = 0; nth < 2; nth++) expect(await isForAll()).toBe(false);
      expect(lines).toEqual([expect.stringContaining('"$context.tenant" in `edge.contextHeaders`')]);
    },
  );

  it.each(STORED)("a request may lack a property that a header decides (stored: %j)", async (isStored) => {
    const { ask, lines } = await serve(kind, {
      edge: { contextHeaders: { "$context.tenant": "X-Tenant" } },
      responses: isStored && { scope: "PUBLIC" },
      context: tenantIn,
    });
    for (const headers of [{ "x-tenant": "a" }, {}, {}] as Headers[]) {
      const { control, vary } = await ask("{ greeting }", headers);
      expect([control, vary]).toEqual([expect.stringContaining("s-maxage"), expect.stringContaining("X-Tenant")]);
    }
    expect(lines).toEqual([]);
  });

  it("a mistake is for nobody, also when it is made again", async () => {
    const { ask } = await serve(kind);
    for (const query of ["{ nothing }", "{", "{ movie { x } }", "query A { movie } query B { movie }"])
      for (const _ of [1, 2]) expect([query, isPublic((await ask(query)).control)]).toEqual([query, false]);
    for (let nth = 0; nth < 2; nth++)
      expect(isPublic((await ask("query A { movie }", {}, "GET", "&operationName=unknown")).control)).toBe(false);
    // Mercurius tells no hook of variables that are no JSON.
    for (const variables of [...(kind === "Mercurius" ? [] : ["%7B"]), "[]", "7", "null"]) {
      const { status, control, text } = await ask("{ movie }", {}, "GET", `&variables=${variables}`);
      const isAnswered = status === 200 && !text.includes("errors");
      expect([variables, isPublic(control), text]).toEqual([variables, isAnswered, text]);
    }
  });

  it("HEAD is as GET or for nobody, and what is no query is for nobody", async () => {
    const { ask } = await serve(kind);
    const head = await ask("{ movie }", {}, "HEAD");
    expect(head.status === 200 || !isPublic(head.control)).toBe(true);
    for (const query of ["mutation { rename }", "subscription { x }"])
      expect(isPublic((await ask(query)).control)).toBe(false);
  });
});

const own = { movie: "own" };
interface Result {
  data: { movie: string };
  errors?: object[] | undefined;
  extensions?: object;
}
type Set = { setResult(result: object): void };
interface Sent {
  readonly body: { singleResult: Result };
  readonly http: { readonly headers: Map<string, string> };
}
const willSend = (change: (body: Sent["body"], http: Sent["http"]) => unknown) => ({
  requestDidStart: async () => ({
    willSendResponse: async ({ response }: { response: Sent }) => void change(response.body, response.http),
  }),
});
const whenProcessed = (change: (processed: Set & { result: Result }) => unknown) => ({
  onResultProcess: (processed: Set & { result: Result }) => void change(processed),
});
const whenDone = (change: (done: Set & { result: Result }) => unknown) => ({
  onExecute: () => ({ onExecuteDone: (done: Set & { result: Result }) => void change(done) }),
});

/** What plugins do to a response. */
const CHANGES: readonly (readonly ["Apollo Server" | "GraphQL Yoga", what: string, plugin: object])[] = [
  ["Apollo Server", "replaces the data", willSend(({ singleResult }) => (singleResult.data = own))],
  ["Apollo Server", "replaces the result", willSend((body) => (body.singleResult = { data: own }))],
  ["Apollo Server", "changes the data in place", willSend((body) => (body.singleResult.data.movie = "own"))],
  ["Apollo Server", "adds errors", willSend(({ singleResult }) => (singleResult.errors = [{ message: "own" }]))],
  ["Apollo Server", "adds extensions", willSend(({ singleResult }) => (singleResult.extensions = { me: "own" }))],
  [
    "GraphQL Yoga",
    "sets another result when it is processed",
    whenProcessed(({ setResult }) => setResult({ data: own })),
  ],
  [
    "GraphQL Yoga",
    "changes the data in place when it is processed",
    whenProcessed(({ result }) => (result.data.movie = "own")),
  ],
  [
    "GraphQL Yoga",
    "adds errors when it is processed",
    whenProcessed(({ result }) => (result.errors = [{ message: "own" }])),
  ],
  [
    "GraphQL Yoga",
    "adds extensions when it is processed",
    whenProcessed(({ result }) => (result.extensions = { me: "own" })),
  ],
  ["GraphQL Yoga", "sets another result when it is executed", whenDone(({ setResult }) => setResult({ data: own }))],
  [
    "GraphQL Yoga",
    "changes the data in place when it is executed",
    whenDone(({ result }) => (result.data.movie = "own")),
  ],
  [
    "GraphQL Yoga",
    "adds extensions when it is executed",
    whenDone(({ result, setResult }) => setResult({ ...result, extensions: { me: "own" } })),
  ],
];

for (const place of ["before", "after"])
  for (const responses of [false, true])
    it.each(CHANGES)(
      `at the edge, behind %s, a response of which a plugin that comes ${place} %s is for nobody (stored: ${responses})`,
      async (kind, _what, plugin) => {
        const { ask } = await serve(kind, { [place]: [plugin], responses });
        for (let nth = 0; nth < 2; nth++) {
          const { text, control, tags } = await ask("{ movie }");
          expect([nth, text.includes("own"), tags]).toEqual([nth, true, null]);
          expect(control).toMatch(/no-store/);
        }
      },
    );

for (const said of ["no-store", "private", "max-age=5, public"])
  for (const place of ["before", "after"])
    for (const responses of [false, true])
      it(`at the edge, behind Apollo Server, a response of which a plugin that comes ${place} says \`${said}\` is not for more (stored: ${responses})`, async () => {
        const saying = willSend((_, { headers }) => headers.set("cache-control", said));
        const { ask } = await serve("Apollo Server", { [place]: [saying], responses });
        const isForAll = said.includes("public");
        for (let nth = 0; nth < 2; nth++) {
          const { control, tags } = await ask("{ movie }");
          const expected = isForAll ? ["max-age=0, s-maxage=5, public", expect.anything()] : [said, null];
          expect([nth, control, tags]).toEqual([nth, ...expected]);
        }
      });

const HIDING = {
  "Apollo Server": willSend(({ singleResult }) => (singleResult.errors = undefined)),
  "GraphQL Yoga": whenProcessed(({ result }) => (result.errors = undefined)),
};
for (const [kind, hiding] of Object.entries(HIDING))
  it.each(["before", "after"])(
    `at the edge, behind ${kind}, a response of which a plugin that comes %s hides the errors is for nobody`,
    async (place) => {
      const resolvers = greetingOf(() => {
        throw new Error("down");
      });
      const { ask } = await serve(kind as Kind, { resolvers, [place]: [hiding] });
      const { text, control } = await ask("{ movie greeting }");
      expect([JSON.parse(text), isPublic(control)]).toEqual([{ data: { movie: "Ran", greeting: null } }, false]);
    },
  );

describe.each(["Apollo Server", "GraphQL Yoga"] as const)("at the edge, behind %s,", (kind) => {
  it("a hit has no other stale-while-revalidate than the execution", async () => {
    const { ask } = await serve(kind, { responses: { scope: "PUBLIC", staleWhileRevalidate: 60 } });
    const [first, hit] = [await ask("{ both greeting }"), await ask("{ both greeting }")];
    expect(hit.control?.includes("stale-while")).toBe(first.control?.includes("stale-while"));
  });

  it("a batch is for nobody", async () => {
    const { url } = await serve(kind);
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify([{ query: "{ movie }" }, { query: "{ greeting }" }]),
    });
    expect(isPublic(response.headers.get("cache-control"))).toBe(false);
  });

  it("a stored response that outlived loadTimeoutMs is for no CDN, since nobody noted what it read afterwards", async () => {
    const clock = new FakeClock();
    const [reached, held] = [gate(), gate()];
    const page = async () => {
      reached.open();
      await held.passed;
      return {};
    };
    const { ask } = await serve(kind, {
      typeDefs: `${typeDefs} extend type Query { page: Page @cacheControl(maxAge: 60) }
        type Page { late: String @cached(maxAge: 60, key: [], tags: ["late"]) @cacheControl(maxAge: 60) }`,
      resolvers: { Query: { ...QUERY, page }, Page: { late: () => "Kagemusha" } },
      clock,
      store: memoryStore({ clock }),
      cache: { loads: { loadTimeoutMs: 1_000 } },
      responses: { scope: "PUBLIC" },
    });
    const asked = ask("{ movie page { late } }");
    await reached.passed;
    await clock.advance(2_000);
    held.open();
    const { text, control } = await asked;
    expect([text.includes("Kagemusha"), isPublic(control)]).toEqual([true, false]);
  });
});

describe("at the edge, behind Apollo Server,", () => {
  it("an answer to an operation that the document does not have is for nobody, and an error", async () => {
    const { ask } = await serve("Apollo Server", { responses: true });
    for (let nth = 0; nth < 2; nth++) await ask("{ movie }");
    const { text, control } = await ask("{ movie }", {}, "GET", "&operationName=unknown");
    expect([text.includes("Unknown operation"), isPublic(control)]).toEqual([true, false]);
  });

  it("an error of the cache in the context function is for nobody", async () => {
    const context = (): never => {
      throw new CachedError("CACHED_LOAD_TIMEOUT", "the user was not loaded in time");
    };
    const { ask } = await serve("Apollo Server", { context });
    expect(await ask("{ movie }")).toMatchObject({ status: 500, control: "no-store" });
  });
});

type Run = (source: unknown, context?: unknown, variables?: object, operationName?: string) => Promise<object>;
/** Routes that make one body of operations. No `preParsing` is called for documents. */
const ROUTES: Readonly<Record<string, (run: Run) => Promise<unknown>>> = {
  "an operation that it chooses of its own document": (run) =>
    run("query A { movie } query B { movie mine }", null, {}, "B"),
  "two operations, one after the other": async (run) => [await run("{ mine }"), await run("{ movie }")],
  "two documents at once": (run) => Promise.all(["{ mine }", "{ movie }"].map((source) => run(parse(source)))),
};

/** What a route answers with of the result of its only operation. */
const MADE: Readonly<Record<string, (result: object) => unknown>> = {
  "the result as it is": (result) => result,
  "a body around it": (result) => ({ ...result, me: "ann" }),
  "the result with a member more": (result) => Object.assign(result, { me: "ann" }),
  "the text of a body around it": (result) => JSON.stringify({ ...result, me: "ann" }),
};

describe("at the edge, behind Mercurius,", () => {
  const itBehindMercurius = it.runIf(acceptsThisGraphql("mercurius")); // it accepts graphql 16 only

  for (const [what, route] of Object.entries(ROUTES))
    itBehindMercurius(`what a route makes of ${what}, with a PRIVATE field in it, is not for all`, async () => {
      const app = (await serve("Mercurius", { routes: { "/own": route as never } })).app as FastifyInstance;
      const answer = await app.inject({ method: "GET", url: "/own" });
      expect(answer.body).toContain('"mine":"own"');
      expect(answer.body).toContain('"movie":"Ran"');
      expect(isPublic(answer.headers["cache-control"] ?? null)).toBe(false);
    });

  itBehindMercurius.each(Object.entries(MADE))(
    "what a route makes of its only operation is for all only if it is its result: %s",
    async (what, make) => {
      const { app } = await serve("Mercurius", {
        routes: {
          "/made": async (run, reply) => {
            reply.type("application/json");
            return make(await run("{ movie }"));
          },
        },
      });
      const answer = await (app as FastifyInstance).inject({ method: "GET", url: "/made" });
      const isSame = what === "the result as it is";
      expect(answer.json()).toEqual({ data: { movie: "Ran" }, ...(isSame ? {} : { me: "ann" }) });
      expect(isPublic(answer.headers["cache-control"] ?? null)).toBe(isSame);
    },
  );

  itBehindMercurius("extensions that another hook adds are not for all", async () => {
    const { ask, app } = await serve("Mercurius");
    type Hooked = { graphql: { addHook(name: string, hook: (result: object) => Promise<void>): void } };
    const adding = async (result: object) => void Object.assign(result, { extensions: { me: "own" } });
    (app as never as Hooked).graphql.addHook("onResolution", adding);
    const { text, control } = await ask("{ movie }");
    expect([text.includes("own"), isPublic(control)]).toEqual([true, false]);
  });
});
