import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify, { type FastifyInstance } from "fastify";
import { parse } from "graphql";
import {
  applyCached,
  CachedError,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  type EdgeOptions,
  memoryStore,
  type ResponsesOptions,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { mercurius } from "mercurius";
import { describe, expect, it, onTestFinished } from "vitest";
import { acceptsThisGraphql } from "../support/graphql-17.js";
import { HINTS, knowOperations } from "./site.js";

interface Headers {
  readonly [name: string]: string;
}
interface Setup {
  readonly typeDefs?: string;
  readonly resolvers?: object;
  readonly cache?: CacheOptions<never>;
  readonly edge?: boolean | EdgeOptions;
  readonly responses?: boolean | ResponsesOptions;
  /** Further plugins, before and after that of the cache. */
  readonly before?: readonly object[];
  readonly after?: readonly object[];
  readonly context?: (headers: Headers) => object;
}

const SERVERS = ["Apollo Server", "GraphQL Yoga", "Mercurius"] as const;
type Server = (typeof SERVERS)[number];

const TYPES = /* GraphQL */ `
  type Query {
    movie: String @cached(maxAge: 60, tags: ["movie"]) @cacheControl(maxAge: 60)
    greeting: String @cacheControl(maxAge: 60)
    both: String @cached(maxAge: 60, staleWhileRevalidate: 60) @cacheControl(maxAge: 60)
  }
  type Mutation { rename: String @invalidates(tags: ["movie"]) }
`;

async function serve(server: Server, setup: Setup = {}) {
  const { edge = true, responses, before = [], after = [], context = () => ({}) } = setup;
  knowOperations();
  const cache = createCache<never>({
    defaultScope: "PUBLIC",
    onEvent: () => undefined,
    logger: { info: () => undefined, warn: () => undefined },
    ...setup.cache,
    defaults: { jitter: 0, earlyRefresh: 0, ...setup.cache?.defaults },
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, HINTS, setup.typeDefs ?? TYPES],
      resolvers: (setup.resolvers ?? {
        Query: { movie: () => "Ran", greeting: () => "Hello", both: () => "x" },
      }) as never,
    }),
    cache,
  );
  let url: string;
  let app: FastifyInstance | undefined;
  if (server === "Apollo Server") {
    const apollo = new ApolloServer({
      schema,
      plugins: [...before, cachedPlugin(cache as never, { edge, ...(responses && { responses }) }), ...after] as never,
      csrfPrevention: false,
    });
    const { url: started } = await startStandaloneServer(apollo, {
      listen: { port: 0, host: "127.0.0.1" },
      context: async ({ req }) => context(req.headers as Headers),
    });
    onTestFinished(() => apollo.stop());
    url = started;
  } else if (server === "GraphQL Yoga") {
    const yoga = createYoga({
      schema,
      logging: false,
      context: (({ request }: { request: Request }) => context(Object.fromEntries(request.headers))) as never,
      plugins: [...before, useCached(cache as never, { edge, ...(responses && { responses }) }), ...after] as never,
    });
    const http = createServer(yoga as never);
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void (http.close(), http.closeAllConnections()));
    url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/graphql`;
  } else {
    const opened = fastify({ forceCloseConnections: true });
    app = opened;
    onTestFinished(() => opened.close());
    await app.register(mercurius, {
      schema,
      context: (({ headers }: { headers: Headers }) => context(headers)) as never,
    });
    cachedHooks(app as never, cache as never, { edge });
    // A route that chooses one operation of its own document.
    app.get("/own", async (_, reply) =>
      (reply as never as { graphql(...given: unknown[]): Promise<object> }).graphql(
        "query A { movie } query B { movie mine }",
        null,
        {},
        "B",
      ),
    );
    // Routes that make one body of two operations, the second one of documents for which no `preParsing` is called.
    type Runs = { graphql(source: unknown): Promise<object> };
    app.get("/both", async (_, reply) => [
      await (reply as never as Runs).graphql("{ mine }"),
      await (reply as never as Runs).graphql("{ movie }"),
    ]);
    // Routes that answer with the result of their only operation, or with a body made of it.
    const made: Readonly<Record<string, (result: object) => unknown>> = {
      "/same": (result) => result,
      "/around": (result) => ({ ...result, me: "ann" }),
      "/added": (result) => Object.assign(result, { me: "ann" }),
      "/text": (result) => JSON.stringify({ ...result, me: "ann" }),
    };
    for (const [path, make] of Object.entries(made))
      app.get(path, async (_, reply) => {
        reply.type("application/json");
        return make(await (reply as never as Runs).graphql("{ movie }"));
      });
    app.get("/both-parsed", (_, reply) =>
      Promise.all(["{ mine }", "{ movie }"].map((source) => (reply as never as Runs).graphql(parse(source)))),
    );
    url = `${await app.listen({ port: 0, host: "127.0.0.1" })}/graphql`;
  }
  const ask = async (query: string, headers: Headers = {}, method = "GET", further = "") => {
    const all = { accept: "application/json", "content-type": "application/json", ...headers };
    const response = await fetch(
      method === "POST" ? url : `${url}?query=${encodeURIComponent(query)}${further}`,
      method === "POST" ? { method, headers: all, body: JSON.stringify({ query }) } : { method, headers: all },
    );
    const body = await response.text();
    await settle();
    const of = (name: string) => response.headers.get(name);
    return {
      status: response.status,
      body,
      control: of("cache-control"),
      vary: of("vary"),
      tags: of("cache-tag"),
      etag: of("etag"),
    };
  };
  return { ask, app, url };
}

const isPublic = (control: string | null) => control === null || /public|s-maxage/.test(control);

describe.each(SERVERS)("at the edge, behind %s", (server) => {
  it("what is read of an object that `identify` reads too is not for all", async () => {
    const { ask } = await serve(server, {
      cache: { identify: (({ req }: { req: Headers }) => req.authorization) as never },
      context: (req) => ({ req }),
      resolvers: {
        Query: {
          greeting: (_: unknown, __: unknown, { req }: { req: Headers }) => (req["x-tenant"] === "a" ? "A" : "B"),
        },
      },
    });
    const { body, control, vary } = await ask("{ greeting }", { "x-tenant": "a" });
    expect(body).toContain("A");
    expect([isPublic(control), vary]).toEqual([false, expect.anything()]);
  });

  it.each(server === "Mercurius" ? [false] : [false, true])(
    "what may depend on a property that this request lacks, and others have, is not for all (stored: %j)",
    async (responses) => {
      const { ask } = await serve(server, {
        responses,
        context: (req) => (req["x-tenant"] === undefined ? {} : { tenant: req["x-tenant"] }),
        resolvers: {
          Query: { greeting: (_: unknown, __: unknown, { tenant }: { tenant?: string }) => tenant ?? "default" },
        },
      });
      await ask("{ greeting }", { "x-tenant": "a" });
      // Executed, and then a stored one.
      for (let nth = 0; nth < 2; nth++) expect(isPublic((await ask("{ greeting }")).control)).toBe(false);
    },
  );

  it.each(server === "Mercurius" ? [false] : [false, true])(
    "the property that a request lacks is named once, unless only callers with an identity have it (stored: %j)",
    async (responses) => {
      const lines: string[] = [];
      const logger = { info: () => undefined, warn: (line: string) => void lines.push(line) };
      const { ask } = await serve(server, {
        cache: { logger, identify: (({ user }: { user?: string }) => user) as never },
        responses,
        context: (req) => ({
          ...(req["x-user"] === undefined ? {} : { user: req["x-user"], role: "admin" }),
          ...(req["x-tenant"] === undefined ? {} : { tenant: req["x-tenant"] }),
        }),
      });
      await ask("{ greeting }", { "x-user": "ann" });
      for (let nth = 0; nth < 3; nth++) expect(isPublic((await ask("{ greeting }")).control)).toBe(true);
      expect(isPublic((await ask("{ greeting }", { "x-tenant": "a" })).control)).toBe(true);
      expect(lines).toEqual([]);
      for (let nth = 0; nth < 2; nth++) expect(isPublic((await ask("{ greeting }")).control)).toBe(false);
      expect(lines).toEqual([expect.stringContaining('"$context.tenant" in `edge.contextHeaders`')]);
    },
  );

  it.each(server === "Mercurius" ? [false] : [false, true])(
    "a request may lack a property that a header decides (stored: %j)",
    async (isStored) => {
      const lines: string[] = [];
      const logger = { info: () => undefined, warn: (line: string) => void lines.push(line) };
      const { ask } = await serve(server, {
        cache: { logger },
        edge: { contextHeaders: { "$context.tenant": "X-Tenant" } },
        responses: isStored && { scope: "PUBLIC" },
        context: (req) => (req["x-tenant"] === undefined ? {} : { tenant: req["x-tenant"] }),
      });
      const requests: Headers[] = [{ "x-tenant": "a" }, {}, {}];
      for (const headers of requests) {
        const { control, vary } = await ask("{ greeting }", headers);
        expect([control, vary]).toEqual([expect.stringContaining("s-maxage"), expect.stringContaining("X-Tenant")]);
      }
      expect(lines).toEqual([]);
    },
  );

  it("a mistake is for nobody, also when it is made again", async () => {
    const { ask } = await serve(server);
    for (const query of [
      "{ nothing }",
      "{ nothing }",
      "{",
      "{",
      "{ movie { x } }",
      "query A { movie } query B { movie }",
    ])
      expect([query, isPublic((await ask(query)).control)]).toEqual([query, false]);
    for (let nth = 0; nth < 2; nth++)
      expect(isPublic((await ask("query A { movie }", {}, "GET", "&operationName=unknown")).control)).toBe(false);
    // Mercurius tells no hook of variables that are no JSON.
    for (const variables of [...(server === "Mercurius" ? [] : ["%7B"]), "[]", "7", "null"]) {
      const { status, control, body } = await ask("{ movie }", {}, "GET", `&variables=${variables}`);
      expect([variables, status, isPublic(control), body]).toEqual([
        variables,
        status,
        status === 200 && !body.includes("errors"),
        body,
      ]);
    }
  });

  it("HEAD is as GET or for nobody, and what is no query is for nobody", async () => {
    const { ask } = await serve(server);
    const head = await ask("{ movie }", {}, "HEAD");
    expect(head.status === 200 || !isPublic(head.control)).toBe(true);
    const mutation = await ask("mutation { rename }");
    expect(isPublic(mutation.control)).toBe(false);
    const subscription = await ask("subscription { x }");
    expect(isPublic(subscription.control)).toBe(false);
  });
});

interface Sent {
  readonly body: { singleResult: { data: { movie: string }; errors?: object[] | undefined; extensions?: object } };
  readonly http: { readonly headers: Map<string, string> };
}
const willSend = (change: (response: Sent) => void) => ({
  requestDidStart: async () => ({ willSendResponse: async ({ response }: { response: never }) => change(response) }),
});
const changes = {
  "replaces the data": willSend(({ body }) => {
    body.singleResult.data = { movie: "own" };
  }),
  "replaces the result": willSend(({ body }) => {
    body.singleResult = { data: { movie: "own" } };
  }),
  "changes the data in place": willSend(({ body }) => {
    body.singleResult.data.movie = "own";
  }),
  "adds errors": willSend(({ body }) => {
    body.singleResult.errors = [{ message: "own" }];
  }),
  "adds extensions": willSend(({ body }) => {
    body.singleResult.extensions = { me: "own" };
  }),
};

for (const [name, plugin] of Object.entries(changes))
  for (const place of ["before", "after"] as const)
    for (const responses of [false, true])
      it(`at the edge, behind Apollo Server, a response of which a plugin that comes ${place} ${name} is not for all (stored: ${responses})`, async () => {
        const { ask } = await serve("Apollo Server", { [place]: [plugin], responses });
        for (let nth = 0; nth < 2; nth++) {
          const { body, control } = await ask("{ movie }");
          expect([nth, body.includes("own"), isPublic(control)]).toEqual([nth, true, false]);
        }
      });

for (const said of ["no-store", "private", "max-age=5, public"])
  for (const place of ["before", "after"] as const)
    for (const responses of [false, true])
      it(`at the edge, behind Apollo Server, a response of which a plugin that comes ${place} says \`${said}\` is not for more (stored: ${responses})`, async () => {
        const plugin = willSend(({ http }) => void http.headers.set("cache-control", said));
        const { ask } = await serve("Apollo Server", { [place]: [plugin], responses });
        for (let nth = 0; nth < 2; nth++) {
          const { control, tags } = await ask("{ movie }");
          const expected = said.includes("public")
            ? ["max-age=0, s-maxage=5, public", expect.anything()]
            : [said, null];
          expect([nth, control, tags]).toEqual([nth, ...expected]);
        }
      });

const yogaChanges = {
  "onResultProcess: setResult": {
    onResultProcess: ({ setResult }: { setResult(result: object): void }) => setResult({ data: { movie: "own" } }),
  },
  "onExecuteDone: setResult": {
    onExecute: () => ({
      onExecuteDone: ({ setResult }: { setResult(result: object): void }) => setResult({ data: { movie: "own" } }),
    }),
  },
  "onExecuteDone: in place": {
    onExecute: () => ({
      onExecuteDone: ({ result }: { result: { data: { movie: string } } }) => {
        result.data.movie = "own";
      },
    }),
  },
  "onResultProcess: in place": {
    onResultProcess: ({ result }: { result: { data: { movie: string } } }) => {
      result.data.movie = "own";
    },
  },
  "onResultProcess: errors": {
    onResultProcess: ({ result }: { result: object }) => void Object.assign(result, { errors: [{ message: "own" }] }),
  },
  "onResultProcess: extensions": {
    onResultProcess: ({ result }: { result: object }) => void Object.assign(result, { extensions: { me: "own" } }),
  },
  "onExecuteDone: extensions": {
    onExecute: () => ({
      onExecuteDone: ({ result, setResult }: { result: object; setResult(result: object): void }) =>
        setResult({ ...result, extensions: { me: "own" } }),
    }),
  },
};
for (const [name, plugin] of Object.entries(yogaChanges))
  for (const place of ["before", "after"] as const)
    for (const responses of [false, true])
      it(`at the edge, behind GraphQL Yoga, a response that a plugin that comes ${place} changes is not for all (${name}, stored: ${responses})`, async () => {
        const { ask } = await serve("GraphQL Yoga", { [place]: [plugin], responses });
        for (let nth = 0; nth < 2; nth++) {
          const { body, control } = await ask("{ movie }");
          expect([nth, body.includes("own"), isPublic(control)]).toEqual([nth, true, false]);
        }
      });

it.each(["before", "after"] as const)(
  "a response of which a plugin that comes %s hides the errors is for nobody",
  async (place) => {
    const resolvers = {
      Query: {
        movie: () => "Ran",
        greeting: () => {
          throw new Error("down");
        },
      },
    };
    const hiding = willSend(({ body }) => {
      body.singleResult.errors = undefined;
    });
    const hidingOfYoga = {
      onResultProcess: ({ result }: { result: object }) => void Object.assign(result, { errors: undefined }),
    };
    for (const [server, plugin] of [
      ["Apollo Server", hiding],
      ["GraphQL Yoga", hidingOfYoga],
    ] as const) {
      const { ask } = await serve(server, { resolvers, [place]: [plugin] });
      const { body, control } = await ask("{ movie greeting }");
      expect([server, JSON.parse(body), isPublic(control)]).toEqual([
        server,
        { data: { movie: "Ran", greeting: null } },
        false,
      ]);
    }
  },
);

it.each(["Apollo Server", "GraphQL Yoga"] as const)(
  "behind %s, a hit has no other stale-while-revalidate than the execution",
  async (server) => {
    const { ask } = await serve(server, { responses: { scope: "PUBLIC", staleWhileRevalidate: 60 } });
    const first = await ask("{ both greeting }");
    const hit = await ask("{ both greeting }");
    expect(hit.control?.includes("stale-while")).toBe(first.control?.includes("stale-while"));
  },
);

it("behind Apollo Server, an answer to an operation that the document does not have is for nobody, and an error", async () => {
  const { ask } = await serve("Apollo Server", { responses: true });
  for (let nth = 0; nth < 2; nth++) await ask("{ movie }");
  const { body, control } = await ask("{ movie }", {}, "GET", "&operationName=unknown");
  expect([body.includes("Unknown operation"), isPublic(control)]).toEqual([true, false]);
});

const itBehindMercurius = it.runIf(acceptsThisGraphql("mercurius")); // it accepts graphql 16 only

itBehindMercurius(
  "behind Mercurius, a PRIVATE field of an operation that a route has chosen is not for all",
  async () => {
    const typeDefs = /* GraphQL */ `
    type Query {
      movie: String @cached(maxAge: 60)
      mine: String @cacheControl(maxAge: 60, scope: PRIVATE)
    }
  `;
    const { url, app } = await serve("Mercurius", {
      typeDefs,
      resolvers: { Query: { movie: () => "Ran", mine: () => "own" } },
    });
    const answer = await (app as FastifyInstance).inject({ method: "GET", url: "/own" });
    expect([url.length > 0, answer.body.includes("own"), isPublic(String(answer.headers["cache-control"]))]).toEqual([
      true,
      true,
      false,
    ]);
  },
);

for (const path of ["/both", "/both-parsed"])
  itBehindMercurius(`behind Mercurius, what a route makes of two operations is not for all (${path})`, async () => {
    const { app } = await serve("Mercurius", {
      typeDefs: `type Query {
        movie: String @cached(maxAge: 60)
        mine: String @cacheControl(maxAge: 60, scope: PRIVATE)
      }`,
      resolvers: { Query: { movie: () => "Ran", mine: () => "own" } },
    });
    const answer = await (app as FastifyInstance).inject({ method: "GET", url: path });
    expect(answer.json()).toEqual([{ data: { mine: "own" } }, { data: { movie: "Ran" } }]);
    expect(isPublic(String(answer.headers["cache-control"]))).toBe(false);
  });

itBehindMercurius("behind Mercurius, extensions that another hook adds are not for all", async () => {
  const { ask, app } = await serve("Mercurius");
  const graphql = (
    app as never as { graphql: { addHook(name: string, hook: (result: object) => Promise<void>): void } }
  ).graphql;
  graphql.addHook("onResolution", async (result) => void Object.assign(result, { extensions: { me: "own" } }));
  const { body, control } = await ask("{ movie }");
  expect([body.includes("own"), isPublic(control)]).toEqual([true, false]);
});

itBehindMercurius("behind Mercurius, what a route makes of its only operation is not for all", async () => {
  const { app } = await serve("Mercurius");
  for (const path of ["/same", "/around", "/added", "/text"]) {
    const answer = await (app as FastifyInstance).inject({ method: "GET", url: path });
    const expected = path === "/same" ? { data: { movie: "Ran" } } : { data: { movie: "Ran" }, me: "ann" };
    expect([path, answer.json(), isPublic(String(answer.headers["cache-control"]))]).toEqual([
      path,
      expected,
      path === "/same",
    ]);
  }
});

it.each(["Apollo Server", "GraphQL Yoga"] as const)("behind %s, a batch is for nobody", async (server) => {
  const { url } = await serve(server);
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify([{ query: "{ movie }" }, { query: "{ greeting }" }]),
  });
  expect(isPublic(response.headers.get("cache-control"))).toBe(false);
});

describe.each(["Apollo Server", "GraphQL Yoga"] as const)("at the edge, behind %s with stored responses", (server) => {
  it("a response that outlived loadTimeoutMs is for no CDN, since nobody noted what it read afterwards", async () => {
    const clock = new FakeClock();
    const [reached, held] = [gate(), gate()];
    const { ask } = await serve(server, {
      typeDefs: `type Query {
        movie: String @cached(maxAge: 60, tags: ["movie"]) @cacheControl(maxAge: 60)
        page: Page @cacheControl(maxAge: 60)
      }
      type Page { late: String @cached(maxAge: 60, key: [], tags: ["late"]) @cacheControl(maxAge: 60) }`,
      resolvers: {
        Query: {
          movie: () => "Ran",
          async page() {
            reached.open();
            await held.passed;
            return {};
          },
        },
        Page: { late: () => "Kagemusha" },
      },
      cache: { store: memoryStore({ clock }), testing: { clock }, loads: { loadTimeoutMs: 1_000 } },
      responses: { scope: "PUBLIC" },
    });
    const asked = ask("{ movie page { late } }");
    await reached.passed;
    await clock.advance(2_000);
    held.open();
    const { body, control } = await asked;
    expect([body.includes("Kagemusha"), isPublic(control)]).toEqual([true, false]);
  });
});

it("at the edge, behind Apollo Server, an error of the cache in the context function is for nobody", async () => {
  const { ask } = await serve("Apollo Server", {
    context: () => {
      throw new CachedError("CACHED_LOAD_TIMEOUT", "the user was not loaded in time");
    },
  });
  expect(await ask("{ movie }")).toMatchObject({ status: 500, control: "no-store" });
});
