import { createRequire } from "node:module";
import { ApolloServer } from "@apollo/server";
import { buildSubgraphSchema } from "@apollo/subgraph";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify from "fastify";
import { type GraphQLSchema, parse, print } from "graphql";
import { applyCached, type CacheEvent, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { mercurius } from "mercurius";
import { describe, expect, it, onTestFinished } from "vitest";
import { acceptsThisGraphql } from "../support/graphql-17.js";
import { subgraphTypeDefs } from "../support/subgraph.js";

interface Answer {
  readonly data?: Readonly<Record<string, unknown>> | null;
  readonly errors?: readonly { readonly message: string; readonly path?: readonly unknown[] }[];
  readonly cacheControl?: string | undefined;
}
type Ask = (query: string, variables?: object, user?: string) => Promise<Answer>;

interface Context {
  user?: string | undefined;
}

const typeDefs = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
  type Query {
    page(n: Int): Page @cached(maxAge: 100, subtree: true) @cacheControl(maxAge: 100)
    plain: Int @cacheControl(maxAge: 1000)
    shelf: Shelf
    books: [Book!]
  }
  type Shelf { id: ID! books: [Book] best: Shelf }
  type Book @cached(maxAge: 100, subtree: true) { id: ID! title: String fails: String must: String! }
  type Page {
    id: ID!
    title: String @cacheControl(inheritMaxAge: true)
    short: Part @cacheControl(maxAge: 9)
    price: Int @cached(maxAge: 50) @cacheControl(maxAge: 500)
    dynamic: Part
    none: Part
    mine: String @cached(maxAge: 60, scope: PRIVATE) @cacheControl(maxAge: 60, scope: PRIVATE)
    fails: String
    must: String!
  }
  type Part { text: String }
`;

function createSite() {
  const calls: string[] = [];
  const events: CacheEvent[] = [];
  const clock = new FakeClock();
  const cache = createCache<Context>({
    testing: { clock },
    defaults: { jitter: 0, earlyRefresh: 0 },
    identify: ({ user }) => user,
    logger: { info: () => undefined, warn: () => undefined },
    onEvent: (event) => events.push(event),
  });
  onTestFinished(() => cache.close());
  const resolvers = {
    Query: {
      page: (_: unknown, { n }: { n?: number }) => {
        calls.push("page");
        return { id: n ?? 1 };
      },
      plain: () => 1,
      shelf: () => ({ id: 1, best: { id: 2 } }),
      books: () => [{ id: 1 }, { id: 4 }],
    },
    Shelf: { books: async () => [{ id: 1 }, { id: 2 }, { id: 3 }] },
    Book: {
      title: ({ id }: { id: number }) => {
        calls.push(`book ${id}`);
        return `book ${id}`;
      },
      fails: ({ id }: { id: number }) => {
        if (id === 2) throw new Error("postgres://admin:secret@db");
        return "fine";
      },
      must: ({ id }: { id: number }) => {
        if (id > 2) throw new Error("postgres://admin:secret@db");
        return "fine";
      },
    },
    Page: {
      title: () => {
        calls.push("title");
        return `title ${calls.filter((call) => call === "title").length}`;
      },
      short: () => ({ text: "short" }),
      price: () => 7,
      dynamic: (
        _: unknown,
        __: unknown,
        ___: unknown,
        info: { cacheControl?: { setCacheHint(hint: object): void } },
      ) => {
        info.cacheControl?.setCacheHint({ maxAge: 30 });
        return { text: "dynamic" };
      },
      none: () => ({ text: "none" }),
      mine: (_: unknown, __: unknown, { user }: Context) => `mine of ${user}`,
      fails: () => {
        throw new Error("postgres://admin:secret@db");
      },
      must: () => {
        throw new Error("postgres://admin:secret@db");
      },
    },
  };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  return { cache, clock, schema, calls, events };
}

type Site = ReturnType<typeof createSite>;

const servers: Readonly<Record<string, (site: Site) => Promise<Ask>>> = {
  "Apollo Server": async ({ cache, schema }) => {
    const server = new ApolloServer<Context>({
      schema,
      plugins: [cachedPlugin(cache)],
      formatError: (error) => ({ ...error, message: "masked" }),
    });
    onTestFinished(() => server.stop().catch(() => undefined));
    return async (query, variables = {}, user) => {
      const { body, http } = await server.executeOperation(
        { query, variables: variables as never },
        { contextValue: { user } },
      );
      await settle();
      if (body.kind !== "single") throw new Error("expected a single result");
      return {
        ...(JSON.parse(JSON.stringify(body.singleResult)) as Answer),
        cacheControl: http.headers.get("cache-control"),
      };
    };
  },
  "GraphQL Yoga": async ({ cache, schema }) => {
    let user: string | undefined;
    const yoga = createYoga({
      schema,
      logging: false,
      maskedErrors: { errorMessage: "masked" },
      context: () => ({ user }),
      plugins: [useCached(cache) as never],
    });
    onTestFinished(() => void yoga.dispose());
    return async (query, variables = {}, caller) => {
      user = caller;
      const response = await yoga.fetch("http://shop/graphql", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ query, variables }),
      });
      await settle();
      return (await response.json()) as Answer;
    };
  },
  Mercurius: (site) => startMercurius(site, 0),
  "Mercurius with jit": (site) => startMercurius(site, 1),
  "cache.execute": async ({ cache, schema }) => {
    const documents = new Map<string, ReturnType<typeof parse>>();
    return async (query, variables = {}, user) => {
      const document = documents.get(query) ?? parse(query);
      documents.set(query, document);
      const result = await cache.execute(
        { schema, document, variableValues: variables as never, contextValue: { user } },
        false,
      );
      await settle();
      const { data, errors } = JSON.parse(JSON.stringify(result)) as Answer;
      return {
        data: data ?? null,
        ...(errors === undefined ? {} : { errors: errors.map((one) => ({ ...one, message: "masked" })) }),
      };
    };
  },
};

async function startMercurius({ cache, schema }: Site, jit: number): Promise<Ask> {
  const app = fastify();
  await app.register(mercurius, {
    schema,
    jit,
    context: (request) => ({ user: request.headers["x-user"] as string | undefined }) as never,
    errorFormatter: (execution) => ({
      statusCode: 200,
      response: {
        data: execution.data ?? null,
        errors: execution.errors?.map((error) => ({ ...error.toJSON(), message: "masked" })) as never,
      },
    }),
  });
  cachedHooks(app as never, cache);
  onTestFinished(async () => app.close());
  return async (query, variables = {}, user) => {
    const response = await app.inject({
      method: "POST",
      url: "/graphql",
      headers: { ...(user === undefined ? {} : { "x-user": user }) },
      payload: { query, variables },
    });
    await settle();
    return response.json() as Answer;
  };
}

const runnable = Object.entries(servers).filter(
  ([name]) => !name.startsWith("Mercurius") || acceptsThisGraphql("mercurius"),
);

describe.each(runnable)("subtrees on %s", (name, start) => {
  it("are answered without executing anything below the field", async () => {
    const site = createSite();
    const ask = await start(site);
    const query = "query ($n: Int) { page(n: $n) { id ...F } plain } fragment F on Page { t: title price }";
    const expected = { page: { id: "3", t: "title 1", price: 7 }, plain: 1 };
    for (let time = 0; time < 4; time++) expect((await ask(query, { n: 3 })).data).toEqual(expected);
    expect(site.calls).toEqual(["page", "title"]);
    expect(site.events.filter((event) => event.name === "subtree.skipped")).toEqual([]);
  });

  it("leave nothing but what was asked for in the answer, in its order", async () => {
    const site = createSite();
    const ask = await start(site);
    for (let time = 0; time < 3; time++)
      expect(JSON.stringify((await ask("{ plain page { title id } last: plain }")).data)).toBe(
        '{"plain":1,"page":{"title":"title 1","id":"1"},"last":1}',
      );
  });

  it("have their errors masked, on a miss and after it", async () => {
    const site = createSite();
    const ask = await start(site);
    for (let time = 0; time < 3; time++) {
      const { data, errors } = await ask("{ a: page(n: 1) { id fails } b: page(n: 2) { must } plain }");
      expect(data).toEqual({ a: { id: "1", fails: null }, b: null, plain: 1 });
      expect(
        errors?.map(({ message, path }) => `${message} ${path?.join(".")}`).sort((a, b) => (a < b ? -1 : 1)),
      ).toEqual(["masked a.fails", "masked b.must"]);
    }
  });

  it("give each caller its own value in a hole", async () => {
    const site = createSite();
    const ask = await start(site);
    for (let time = 0; time < 2; time++)
      for (const user of ["ann", "bob"])
        expect((await ask("{ page { id title mine } }", {}, user)).data).toEqual({
          page: { id: "1", title: "title 1", mine: `mine of ${user}` },
        });
  });

  it("are reached by an invalidation of a part", async () => {
    const site = createSite();
    const ask = await start(site);
    const query = "{ page { title price } }";
    for (let time = 0; time < 2; time++) await ask(query);
    await site.cache.invalidate({ coordinate: "Page.price" });
    await settle();
    expect((await ask(query)).data).toEqual({ page: { title: "title 2", price: 7 } });
  });

  it("are objects of lists, whose errors are masked in their places", async () => {
    const site = createSite();
    const ask = await start(site);
    const query =
      "{ shelf { id books { id title fails } best { id books { ...B must } } } books { id must } plain } fragment B on Book { t: title }";
    for (let time = 0; time < 4; time++) {
      const { data, errors } = await ask(query);
      const books = [1, 2, 3].map((n) => ({ id: `${n}`, title: `book ${n}`, fails: n === 2 ? null : "fine" }));
      const best = [1, 2, 3].map((n) => (n === 3 ? null : { t: `book ${n}`, must: "fine" }));
      expect(JSON.stringify(data)).toBe(
        JSON.stringify({ shelf: { id: "1", books, best: { id: "2", books: best } }, books: null, plain: 1 }),
      );
      expect(errors?.map(({ message, path }) => `${message} ${path?.join(".")}`).sort()).toEqual([
        "masked books.1.must",
        "masked shelf.best.books.2.must",
        "masked shelf.books.1.fails",
      ]);
    }
    expect(site.calls.filter((call) => call === "book 1")).toHaveLength(2);
  });

  if (name === "Apollo Server")
    it.each([
      ["{ page { id } }", "max-age=100, public"],
      ["{ page { id title } plain }", "max-age=100, public"],
      ["{ page { short { text } } }", "no-store"],
      ["{ page { price } }", "max-age=50, public"],
      ["{ page { none { text } } }", "no-store"],
      ["{ page { dynamic { text } } }", "no-store"],
      ["{ page { mine } }", "max-age=60, private"],
    ])("have the hints of all their fields: %s", async (query) => {
      const site = createSite();
      const ask = await start(site);
      // Of a schema of its own: a server replaces the resolvers of its schema.
      const uncached = new ApolloServer<Context>({ schema: createSite().schema });
      onTestFinished(() => uncached.stop());
      const { http } = await uncached.executeOperation({ query }, { contextValue: { user: "ann" } });
      const maxAgeOf = (header: string | undefined): [number, boolean] => [
        Number(/max-age=(\d+)/.exec(header ?? "")?.[1] ?? 0),
        header?.includes("private") === true,
      ];
      const [, isPrivate] = maxAgeOf(http.headers.get("cache-control"));
      await site.cache.clear();
      const miss = await ask(query, {}, "ann");
      const hit = await ask(query, {}, "ann");
      expect(hit.cacheControl).toBe(miss.cacheControl);
      expect(maxAgeOf(miss.cacheControl)[1]).toBe(isPrivate);
      await site.clock.advance(5_000);
      const later = await ask(query, {}, "ann");
      const [missAge] = maxAgeOf(miss.cacheControl);
      expect(maxAgeOf(later.cacheControl)).toEqual([Math.max(0, missAge === 0 ? 0 : missAge - 5), isPrivate]);
    });
});

describe("other plugins of Apollo Server", () => {
  it("see the document of the client after the execution, and no field that it has not asked for", async () => {
    const { cache, schema } = createSite();
    const seen: string[] = [];
    const note = (document: Parameters<typeof print>[0] | undefined, data: unknown): void => {
      seen.push(`${document === undefined ? "" : print(document).replace(/\s+/g, " ")} ${JSON.stringify(data)}`);
    };
    const spy = {
      requestDidStart: async () => ({
        willSendResponse: async (one: {
          document?: never;
          response: { body: { singleResult?: { data?: unknown } } };
        }) => note(one.document, one.response.body.singleResult?.data),
      }),
    };
    for (const plugins of [
      [spy, cachedPlugin(cache)],
      [cachedPlugin(cache), spy],
      [spy, cachedPlugin(cache, { responses: true })],
    ]) {
      const server = new ApolloServer<Context>({ schema, plugins: plugins as never });
      onTestFinished(() => server.stop());
      for (let time = 0; time < 2; time++) {
        await server.executeOperation({ query: "{ page { id } }" }, { contextValue: {} });
        await settle();
      }
    }
    expect(new Set(seen)).toEqual(new Set(['{ page { id } } {"page":{"id":"1"}}']));
  });
});

describe("cache.prepare", () => {
  it("returns a document for graphql-jit whose executions have subtrees", async () => {
    const { compileQuery, isCompiledQuery } = createRequire(import.meta.url)(
      "graphql-jit",
    ) as typeof import("graphql-jit");
    const { cache, schema, calls } = createSite();
    const prepared = cache.prepare(schema, parse("query ($n: Int) { page(n: $n) { id title } plain }"));
    const compiled = compileQuery(schema, prepared.document);
    if (!isCompiledQuery(compiled)) throw new Error("expected a compiled query");
    for (let time = 0; time < 3; time++) {
      const result = prepared.finish(await compiled.query(undefined, {}, { n: 2 }));
      await settle();
      expect(JSON.stringify(result)).toBe('{"data":{"page":{"id":"2","title":"title 1"},"plain":1}}');
    }
    expect(calls).toEqual(["page", "title"]);
  });

  it("returns a document for graphql-jit in which the objects of lists are entries", async () => {
    const { compileQuery, isCompiledQuery } = createRequire(import.meta.url)(
      "graphql-jit",
    ) as typeof import("graphql-jit");
    const { cache, schema, calls } = createSite();
    const prepared = cache.prepare(schema, parse("{ shelf { books { id title fails } best { books { title } } } }"));
    const compiled = compileQuery(schema, prepared.document);
    if (!isCompiledQuery(compiled)) throw new Error("expected a compiled query");
    for (let time = 0; time < 3; time++) {
      const result = prepared.finish(await compiled.query(undefined, {}, {}));
      await settle();
      const books = [1, 2, 3].map((n) => ({ id: `${n}`, title: `book ${n}`, fails: n === 2 ? null : "fine" }));
      const best = { books: books.map(({ title }) => ({ title })) };
      expect(JSON.parse(JSON.stringify(result.data))).toEqual({ shelf: { books, best } });
      expect(result.errors?.map(({ path }) => path)).toEqual([["shelf", "books", 1, "fails"]]);
    }
    expect(calls.filter((call) => call === "book 1")).toHaveLength(2);
  });

  it("returns a document for graphql-jit whose errors are those of the client's document", async () => {
    const { compileQuery, isCompiledQuery } = createRequire(import.meta.url)(
      "graphql-jit",
    ) as typeof import("graphql-jit");
    const { cache, schema } = createSite();
    const prepared = cache.prepare(schema, parse("{ page { id fails } plain }"));
    const compiled = compileQuery(schema, prepared.document);
    if (!isCompiledQuery(compiled)) throw new Error("expected a compiled query");
    const { data, errors } = prepared.finish(await compiled.query(undefined, {}, {}));
    expect(JSON.stringify(data)).toBe('{"page":{"id":"1","fails":null},"plain":1}');
    expect(errors?.map(({ path }) => path)).toEqual([["page", "fails"]]);
  });
});

describe("a root field of a federation subgraph", () => {
  it("has subtrees, and references below other fields are resolved as usual", async () => {
    let [pages, titles, references] = [0, 0, 0];
    const cache = createCache({ logger: { info: () => undefined, warn: () => undefined } });
    onTestFinished(() => cache.close());
    const schema: GraphQLSchema = applyCached(
      buildSubgraphSchema([
        {
          typeDefs: parse(
            subgraphTypeDefs(/* GraphQL */ `
              type Query { page: Page @cached(maxAge: 60, subtree: true) }
              type Page @key(fields: "id") { id: ID! title: String }
            `),
          ),
          resolvers: {
            Query: { page: () => ({ id: ++pages }) },
            Page: {
              __resolveReference: ({ id }: { id: string }) => {
                references++;
                return { id };
              },
              title: () => `title ${++titles}`,
            },
          } as never,
        },
      ]),
      cache,
    );
    const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache as never)] });
    onTestFinished(() => server.stop());
    const ask = async (query: string): Promise<string> => {
      const { body } = await server.executeOperation({ query }, { contextValue: {} });
      await settle();
      return body.kind === "single" ? JSON.stringify(body.singleResult.data) : "";
    };
    const query =
      '{ page { title } _entities(representations: [{ __typename: "Page", id: "7" }]) { ... on Page { id } } _service { sdl } }';
    const first = await ask(query);
    expect(first).toContain('"page":{"title":"title 1"}');
    expect(Object.keys(JSON.parse(first) as object)).toEqual(["page", "_entities", "_service"]);
    expect(await ask(query)).toBe(first);
    expect([pages, titles, references]).toEqual([1, 1, 2]);
  });
});
