import "reflect-metadata";
import { AsyncLocalStorage } from "node:async_hooks";
import { createRequire } from "node:module";
import { ApolloServer } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { MapperKind, mapSchema } from "@graphql-tools/utils";
import SchemaBuilder from "@pothos/core";
import ScopeAuthPlugin from "@pothos/plugin-scope-auth";
import DataLoader from "dataloader";
import { defaultFieldResolver, type GraphQLSchema, parse, versionInfo } from "graphql";
import { applyCached, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { afterAll, afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { openSubtrees, type SubtreeSite, type SubtreeSiteOptions } from "../subtrees/site.js";
import { applyMiddleware, rule, shield } from "../support/graphql-shield.js";

/*
 * What belongs to one caller, one level below a field with `subtree: true`. In production, where the loads of single values are not
 * watched: builds are.
 */

interface Viewer {
  user?: string | undefined;
  isAdmin?: boolean;
}

beforeEach(() => void vi.stubEnv("NODE_ENV", "production"));
afterEach(() => void vi.unstubAllEnvs());

const typeDefs = (page: string, mine = ""): string => /* GraphQL */ `
  directive @auth on FIELD_DEFINITION | OBJECT | INTERFACE
  directive @federation__policy on FIELD_DEFINITION
  type Query { page: Page ${page} sibling: String }
  type Page { id: ID! mine: String ${mine} title: String }
`;
const PUBLIC = "@cached(maxAge: 60, subtree: true)";
const QUERY = "{ page { id mine } }";

const open = (mine: (context: never, info: never) => unknown, options: Partial<SubtreeSiteOptions> = {}): SubtreeSite =>
  openSubtrees({
    typeDefs: typeDefs(PUBLIC),
    resolvers: {
      Query: { page: () => ({ id: 1 }), sibling: () => "sibling" },
      Page: { mine: (_: unknown, __: unknown, context: never, info: never) => mine(context, info) },
    },
    ...options,
  });

const mineOf = ({ data }: { readonly data?: unknown }): unknown =>
  (data as { page?: { mine?: unknown } | null } | null | undefined)?.page?.mine;

/** Holds the user behind #private state. */
class Session {
  readonly #user: string | undefined;
  constructor(user: string | undefined) {
    this.#user = user;
  }
  name(): string | undefined {
    return this.#user;
  }
  get current(): string | undefined {
    return this.#user;
  }
}

const USER = Symbol("user");

/** How a context holds its user, how a resolver reads it, and which property keeps the subtree from being stored. */
const WAYS: Readonly<
  Record<string, readonly [make: (user: string | undefined) => object, read: (context: never) => unknown, name: string]>
> = {
  "a property": [(user) => ({ user }), ({ user }: Viewer) => user, "user"],
  "a property, after an await": [
    (user) => ({ user }),
    async (context: Viewer) => {
      await settle();
      return context.user;
    },
    "user",
  ],
  "a property, in a callback of a timer": [
    (user) => ({ user }),
    (context: Viewer) => new Promise((resolve) => setImmediate(() => resolve(context.user))),
    "user",
  ],
  "a property that the contexts of guests do not have": [
    (user) => (user === undefined ? {} : { user }),
    ({ user }: Viewer) => user,
    "user",
  ],
  "a property that is set while it is built": [
    (user) => ({ request: { user } }),
    (context: { viewer?: string | undefined; request: Viewer }) => {
      context.viewer ??= context.request.user;
      return context.viewer;
    },
    "viewer",
  ],
  "a symbol": [(user) => ({ [USER]: user }), (context: { [USER]?: string }) => context[USER], "Symbol(user)"],
  "a method that reads #private state": [(user) => new Session(user), (session: Session) => session.name(), "name"],
  "an accessor that reads #private state": [(user) => new Session(user), ({ current }: Session) => current, "current"],
  "a property that the context inherits": [(user) => Object.create({ user }), ({ user }: Viewer) => user, "user"],
  "a copy of the context": [(user) => ({ user }), (context: Viewer) => ({ ...context }).user, "user"],
};

describe.each(Object.entries(WAYS))("a resolver below a PUBLIC subtree that reads %s", (_, [make, read, name]) => {
  it.each([[["ann", "bob", undefined]], [[undefined, "bob", "ann"]], [["bob", undefined, "bob"]]])(
    "gives each caller its own value: %s",
    async (users) => {
      const { ask, skipped } = open(async (context) => (await read(context)) ?? "guest");
      const answers = [];
      for (const user of users) answers.push(mineOf(await ask(QUERY, make(user))));
      expect(answers).toEqual(users.map((user) => user ?? "guest"));
      expect(skipped()).toContain(`CONTEXT_READ ${name}`);
    },
  );

  it("gives each of several callers at once its own value", async () => {
    const { ask } = open(async (context) => (await read(context)) ?? "guest");
    const users = ["ann", undefined, "bob", "ann", undefined, "bob"];
    const answers = await Promise.all(users.map((user) => ask(QUERY, make(user))));
    expect(answers.map(mineOf)).toEqual(users.map((user) => user ?? "guest"));
  });
});

describe("an unusual context", () => {
  it.each<[string, (user: string) => object, string?]>([
    ["is frozen", (user) => Object.freeze({ user })],
    ["is sealed", (user) => Object.seal({ user })],
    ["cannot get properties", (user) => Object.preventExtensions({ user })],
    ["is a Proxy", (user) => new Proxy({ user }, {})],
    ["has a property that cannot be changed", (user) => Object.defineProperty({}, "user", { value: user })],
    [
      "is a frozen instance of a class, which cannot be watched",
      (user) =>
        Object.freeze(
          new (class {
            readonly user = user;
          })(),
        ),
      "CONTEXT_FROZEN Query.page",
    ],
  ])("gives each caller its own value if it %s, and nothing is stored", async (_, make, skip = "CONTEXT_READ user") => {
    const { ask, skipped } = open(({ user }: Viewer) => user);
    for (const user of ["ann", "bob", "ann"]) expect(mineOf(await ask(QUERY, make(user)))).toBe(user);
    expect(skipped()).toEqual([skip]);
  });

  it.each<[string, (context: object) => unknown]>([
    ["the names of its properties", (context) => Object.keys(context).join()],
    ["a copy of it", (context) => ({ ...context }) as Viewer],
    ["whether it has a property of its own", (context) => Object.hasOwn(context, "user")],
    ["the description of a property", (context) => Object.getOwnPropertyDescriptor(context, "user")?.value],
  ])("is watched for %s", async (_, read) => {
    const { ask, skipped } = open((context: object) => JSON.stringify(read(context)));
    await ask(QUERY, { user: "ann" });
    expect(mineOf(await ask(QUERY, { user: "bob" }))).toBe(JSON.stringify(read({ user: "bob" })));
    expect(skipped()).not.toEqual([]);
  });

  it("does not share what was made for an empty frozen context with the others", async () => {
    const { ask } = open(({ user }: Viewer) => user ?? "guest");
    expect(mineOf(await ask(QUERY, Object.freeze({})))).toBe("guest");
    expect(mineOf(await ask(QUERY, { user: "ann" }))).toBe("ann");
  });
});

it("what a context does not have is read as well: whether it has a property", async () => {
  const { ask, skipped } = open((context: object) => ("isAdmin" in context ? "secret" : "refused"));
  expect(mineOf(await ask(QUERY, {}))).toBe("refused");
  expect(mineOf(await ask(QUERY, { isAdmin: true }))).toBe("secret");
  expect(skipped()).toEqual(["CONTEXT_READ isAdmin"]);
});

it("what a context gets while a subtree is built is watched as well", async () => {
  const set = gate();
  const started = gate();
  const { ask, skipped } = open(() => undefined, {
    resolvers: {
      Query: {
        page: () => ({ id: 1 }),
        sibling: async (_: unknown, __: unknown, context: Viewer & { session: string }) => {
          await started.passed;
          context.user = context.session;
          set.open();
        },
      },
      Page: {
        mine: async (_: unknown, __: unknown, context: Viewer) => {
          started.open();
          await set.passed;
          return context.user;
        },
      },
    },
  });
  for (const session of ["ann", "bob"])
    expect(mineOf(await ask("{ page { mine } sibling }", { session }))).toBe(session);
  expect(skipped()).toEqual(["CONTEXT_READ user"]);
});

it("a watched context stays the same object, of the same class, for a WeakMap that is keyed by it", async () => {
  const known = new WeakMap<object, string>();
  const seen: unknown[] = [];
  const { ask } = open((context: Session) => {
    seen.push(known.get(context), context instanceof Session, Object.keys(context));
    return "x";
  });
  const session = new Session("ann");
  known.set(session, "known");
  await ask(QUERY, session);
  expect(seen).toEqual(["known", true, []]);
  expect([session instanceof Session, session.name()]).toEqual([true, "ann"]);
});

it("shared keys of the context do not keep a subtree from being stored", async () => {
  let builds = 0;
  const { ask } = open(({ locale }: { locale?: string }) => `${++builds} ${locale}`, {
    cache: { privacy: { sharedContextKeys: ["locale"] } },
  });
  for (const context of [{ locale: "en" }, { locale: "en" }, {}])
    expect(mineOf(await ask(QUERY, context))).toBe("1 en");
});

describe("an auth mark below a PUBLIC subtree", () => {
  /** With a mark below it, a field must say itself that it is PUBLIC. */
  const DECLARED = "@cached(maxAge: 60, scope: PUBLIC, subtree: true)";
  const isAdmin = ({ isAdmin }: Viewer): boolean => isAdmin === true;

  it.each([
    ["@auth on the field", typeDefs(DECLARED, "@auth")],
    ["@federation__policy on the field", typeDefs(DECLARED, "@federation__policy")],
    ["@auth on its type", typeDefs(DECLARED).replace("type Page", "type Page @auth")],
    [
      "@auth on an interface",
      typeDefs(DECLARED).replace("type Page", "interface Node @auth { id: ID! } type Page implements Node"),
    ],
  ])("is checked for each caller: %s", async (_, sdl) => {
    const session = new AsyncLocalStorage<boolean>();
    onTestFinished(() => session.disable());
    // Not from the context: only the mark shows that the value depends on the caller.
    const { ask } = open(() => (session.getStore() ? "secret" : "refused"), { typeDefs: sdl });
    for (const admin of [true, false, true, false])
      expect(mineOf(await session.run(admin, () => ask(QUERY)))).toBe(admin ? "secret" : "refused");
  });

  it("does not count if the field itself says that it is PUBLIC", async () => {
    let loads = 0;
    const { ask } = open(() => `secret ${++loads}`, {
      typeDefs: typeDefs(DECLARED, "@auth @cached(maxAge: 60, scope: PUBLIC)"),
    });
    for (let time = 0; time < 2; time++) expect(mineOf(await ask(QUERY))).toBe("secret 1");
  });

  const cached = { maxAge: 60, scope: "PUBLIC", subtree: true };
  type Place = "a field" | "an object" | "an interface";
  const pothos =
    (place: Place) =>
    (allowed: () => boolean): GraphQLSchema => {
      const builder = new SchemaBuilder<{ Context: Viewer; AuthScopes: { admin: boolean } }>({
        plugins: [ScopeAuthPlugin],
        scopeAuth: { authScopes: async () => ({ admin: allowed() }) },
      });
      const authScopes = { admin: true };
      const Node = builder.interfaceRef<object>("Node").implement({
        ...(place === "an interface" ? { authScopes } : {}),
        fields: (t) => ({ id: t.string({ resolve: () => "1" }) }),
      });
      const Page = builder.objectRef<object>("Page").implement({
        interfaces: [Node],
        isTypeOf: () => true,
        ...(place === "an object" ? { authScopes } : {}),
        fields: (t) => ({
          mine: t.string({ nullable: true, resolve: () => "secret", ...(place === "a field" ? { authScopes } : {}) }),
        }),
      });
      const extensions = { cached };
      builder.queryType({
        fields: (t) => ({ page: t.field({ type: Page, nullable: true, extensions, resolve: () => ({}) }) }),
      });
      return builder.toSchema();
    };

  const require = createRequire(import.meta.url);
  const nexus =
    () =>
    (allowed: () => boolean): GraphQLSchema => {
      const library = require("nexus") as typeof import("nexus");
      const Page = library.objectType({
        name: "Page",
        definition(t) {
          t.string("id");
          t.string("mine", { authorize: allowed, resolve: () => "secret" } as never);
        },
      });
      const Query = library.queryType({
        definition(t) {
          t.field("page", { type: "Page", resolve: () => ({ id: "1" }), extensions: { cached } } as never);
        },
      });
      return library.makeSchema({
        outputs: false,
        shouldGenerateArtifacts: false,
        plugins: [library.fieldAuthorizePlugin()],
        types: [Page, Query],
      }) as unknown as GraphQLSchema;
    };

  const typeGraphQL =
    () =>
    async (allowed: () => boolean): Promise<GraphQLSchema> => {
      const library = require("type-graphql") as typeof import("type-graphql");
      onTestFinished(() => library.getMetadataStorage().clear());
      class Page {}
      library.ObjectType("Page")(Page);
      library.Field(() => String)(Page.prototype, "id");
      library.Field(() => String, { nullable: true })(Page.prototype, "mine");
      library.Authorized("ADMIN")(Page.prototype, "mine");
      class Pages {
        page(): object {
          return Object.assign(new Page(), { id: "1", mine: "secret" });
        }
      }
      const method = [Pages.prototype, "page", Object.getOwnPropertyDescriptor(Pages.prototype, "page")] as const;
      Reflect.defineMetadata("design:paramtypes", [], Pages.prototype, "page");
      library.Query(() => Page, { nullable: true })(...(method as unknown as [object, string, PropertyDescriptor]));
      library.Extensions({ cached })(...(method as unknown as [object, string, never]));
      library.Resolver()(Pages);
      return library.buildSchema({ resolvers: [Pages as never], validate: false, authChecker: allowed });
    };

  const LIBRARIES: Readonly<Record<string, (allowed: () => boolean) => GraphQLSchema | Promise<GraphQLSchema>>> = {
    "authScopes of Pothos on a field": pothos("a field"),
    "authScopes of Pothos on an object": pothos("an object"),
    "authScopes of Pothos on an interface": pothos("an interface"),
    ...(versionInfo.major < 17 && { "authorize of Nexus": nexus() }),
    ...(versionInfo.major === 16 && versionInfo.minor >= 12 && { "@Authorized of TypeGraphQL": typeGraphQL() }),
  };

  it.each(Object.entries(LIBRARIES))("is checked for each caller: %s", async (_, build) => {
    const session = new AsyncLocalStorage<boolean>();
    onTestFinished(() => session.disable());
    const cache = createCache<Viewer>({
      identify: ({ user }) => user,
      logger: { info: () => undefined, warn: () => undefined },
    });
    onTestFinished(() => cache.close());
    const schema = applyCached(await build(() => session.getStore() === true), cache);
    const document = parse("{ page { mine } }");
    for (const admin of [true, false, true, false]) {
      const { data } = await session.run(admin, () => cache.execute({ schema, document, contextValue: {} }, false));
      await settle();
      expect(mineOf({ data }) ?? "refused").toBe(admin ? "secret" : "refused");
    }
  });

  it("is checked for each caller by graphql-shield around the applied schema", async () => {
    const isAllowed = rule({ cache: "no_cache" })((_parent, _args, context: Viewer) => isAdmin(context));
    const { schema, askOf, skipped } = open(() => "secret");
    const ask = askOf(applyMiddleware(schema, shield({ Page: { mine: isAllowed } })));
    for (const admin of [true, false, true, false])
      expect(mineOf(await ask(QUERY, { isAdmin: admin })) ?? "refused").toBe(admin ? "secret" : "refused");
    expect(skipped()).toEqual(["NO_TWIN Query.page"]);
  });

  it("is checked for each caller by a resolver that was replaced in place after applyCached", async () => {
    const session = new AsyncLocalStorage<boolean>();
    onTestFinished(() => session.disable());
    const { schema, ask, skipped, warnings } = open(() => "secret");
    const field = (
      schema.getType("Page") as unknown as { getFields(): Record<string, { resolve?: unknown }> }
    ).getFields().mine as { resolve?: unknown };
    const before = field.resolve as (...args: unknown[]) => unknown;
    field.resolve = (...args: unknown[]) => (session.getStore() === true ? before(...args) : "refused");
    for (const admin of [true, false, true, false])
      expect(mineOf(await session.run(admin, () => ask(QUERY)))).toBe(admin ? "secret" : "refused");
    expect(skipped()).toEqual(["CHANGED_RESOLVER Page.mine"]);
    expect(warnings).toEqual([expect.stringContaining("got another one for `Page.mine`")]);
  });

  it("is checked for each caller by graphql-shield inside of the applied schema, which a bundler hides", async () => {
    const isAllowed = rule({ cache: "contextual" })((_parent, _args, context: Viewer) => isAdmin(context));
    const outer = open(() => "secret");
    const cache = createCache<Viewer>({ logger: { info: () => undefined, warn: () => undefined } });
    onTestFinished(() => cache.close());
    const guarded = mapSchema(applyMiddleware(outer.schema, shield({ Page: { mine: isAllowed } })), {
      [MapperKind.OBJECT_FIELD]: (field) => {
        const { resolve = defaultFieldResolver } = field;
        return { ...field, resolve: (parent, args, context, info) => resolve(parent, args, context, info) };
      },
    });
    const schema = applyCached(guarded, cache);
    const document = parse(QUERY);
    for (const admin of [true, false, true, false]) {
      const { data } = await cache.execute({ schema, document, contextValue: { isAdmin: admin } }, false);
      await settle();
      expect(mineOf({ data }) ?? "refused").toBe(admin ? "secret" : "refused");
    }
  });
});

describe("a value of one caller below a PUBLIC subtree", () => {
  it.each([
    ["scope: PRIVATE", "@cached(maxAge: 60, scope: PRIVATE)", ["ann 1", "bob 2", "ann 1", "bob 2"]],
    ["maxAge: 0", "@cached(maxAge: 0)", ["ann 1", "bob 2", "ann 3", "bob 4"]],
  ])("is not part of the shared value if its field has %s, and the rest is", async (_, mine, expected) => {
    let loads = 0;
    let titles = 0;
    const { ask } = open(() => undefined, {
      typeDefs: typeDefs(PUBLIC, mine),
      resolvers: {
        Query: { page: () => ({ id: 1 }) },
        Page: {
          mine: (_: unknown, __: unknown, { user }: Viewer) => `${user} ${++loads}`,
          title: () => `title ${++titles}`,
        },
      },
    });
    const answers = [];
    for (const user of ["ann", "bob", "ann", "bob"])
      answers.push((await ask("{ page { id mine title } }", { user })).data?.page);
    expect(answers).toEqual(expected.map((own) => ({ id: "1", mine: own, title: "title 1" })));
  });

  it("is a hole in whichever of the nodes of the field it is", async () => {
    const { ask } = open(({ user }: Viewer) => user, {
      typeDefs: typeDefs(PUBLIC, "@cached(maxAge: 60, scope: PRIVATE)"),
    });
    const query = "{ page { id } ...F } fragment F on Query { page { mine } }";
    for (const user of ["ann", "bob", "ann"]) {
      const { data } = await ask(query, { user });
      expect(data).toEqual({ page: { id: "1", mine: user } });
    }
  });

  it.each(["a child", "a sibling root field", "both"])("is not shared if %s reads a PRIVATE loader", async (place) => {
    const readsIn = (one: string) => place === one || place === "both";
    let notes: (context: Viewer) => { load(id: number): Promise<string> };
    const { ask, cache } = open((context: Viewer) => (readsIn("a child") ? notes(context).load(1) : "shared"), {
      resolvers: {
        Query: {
          page: () => ({ id: 1 }),
          sibling: (_: unknown, __: unknown, context: Viewer) =>
            readsIn("a sibling root field") ? notes(context).load(1) : "shared",
        },
        Page: {
          mine: (_: unknown, __: unknown, context: Viewer) => (readsIn("a child") ? notes(context).load(1) : "shared"),
        },
      },
    });
    notes = cache.loader<number, string, Viewer>({
      name: "Note",
      scope: "PRIVATE",
      maxAge: 60,
      batch: async (ids, { user }) => ids.map((id) => `note ${id} of ${user}`),
    }) as never;
    for (const query of ["{ page { id mine } sibling }", "{ sibling page { id mine } }"])
      for (const user of ["ann", "bob", "ann"]) {
        const own = `note 1 of ${user}`;
        expect((await ask(query, { user })).data).toEqual({
          page: { id: "1", mine: readsIn("a child") ? own : "shared" },
          sibling: readsIn("a sibling root field") ? own : "shared",
        });
      }
  });

  it("is not shared if a child reads a PUBLIC loader that reads a PRIVATE one", async () => {
    let page: (context: Viewer) => { load(id: number): Promise<string> };
    const { ask, cache } = open((context: Viewer) => page(context).load(1));
    const notes = cache.loader<number, string, Viewer>({
      name: "Note",
      scope: "PRIVATE",
      maxAge: 60,
      batch: async (ids: readonly number[], { user }: Viewer) => ids.map(() => `note of ${user}`),
    } as never);
    page = cache.loader<number, string, Viewer>({
      name: "PageNote",
      maxAge: 60,
      batch: async (ids: readonly number[], context: Viewer) => notes(context as never).loadMany([...ids]),
    } as never) as never;
    for (const user of ["ann", "bob", "ann"]) expect(mineOf(await ask(QUERY, { user }))).toBe(`note of ${user}`);
  });

  it.each([
    ["sets the hint PRIVATE", (user: string | undefined) => `mine of ${user}`],
    ["sets it after an await", async (user: string | undefined) => `mine of ${user}`],
  ])("is not shared if its resolver %s", async (_, value) => {
    const session = new AsyncLocalStorage<string>();
    onTestFinished(() => session.disable());
    const { cache, schema, skipped } = open(
      async (_context, info: { cacheControl: { setCacheHint(h: object): void } }) => {
        const own = await value(session.getStore());
        info.cacheControl.setCacheHint({ maxAge: 60, scope: "PRIVATE" });
        return own;
      },
    );
    const server = new ApolloServer<Viewer>({ schema, plugins: [cachedPlugin(cache as never)] });
    onTestFinished(() => server.stop());
    for (const user of ["ann", "bob", "ann"]) {
      const { body, http } = await session.run(user, () =>
        server.executeOperation({ query: QUERY }, { contextValue: { user } }),
      );
      await settle();
      if (body.kind !== "single") throw new Error("expected a single result");
      expect(mineOf(body.singleResult)).toBe(`mine of ${user}`);
      expect(http.headers.get("cache-control") ?? "no-store").not.toContain("public");
    }
    expect(skipped()).toContain("PRIVATE Query.page");
  });
});

describe("a PRIVATE subtree", () => {
  const PRIVATE = "@cached(maxAge: 60, scope: PRIVATE, subtree: true)";

  it("is kept for each identity, and not for callers without one", async () => {
    let loads = 0;
    const { ask } = open(({ user }: Viewer) => `${user} ${++loads}`, { typeDefs: typeDefs(PRIVATE) });
    const answers = [];
    for (const user of ["ann", "bob", "ann", undefined, undefined, "bob"])
      answers.push(mineOf(await ask(QUERY, { user })));
    expect(answers).toEqual(["ann 1", "bob 2", "ann 1", "undefined 3", "undefined 4", "bob 2"]);
  });

  it("is not stored if the identity changes while it is built", async () => {
    const held = gate();
    const started = gate();
    let isHeld = true;
    const { ask } = open(
      async (context: Viewer) => {
        started.open();
        if (isHeld) await held.passed;
        return context.user;
      },
      { typeDefs: typeDefs(PRIVATE) },
    );
    const shared: Viewer = { user: "ann" };
    const asked = ask(QUERY, shared);
    await started.passed;
    shared.user = "bob";
    held.open();
    isHeld = false;
    await asked.catch(() => undefined);
    for (const user of ["ann", "bob"]) expect(mineOf(await ask(QUERY, { user }))).toBe(user);
  });
});

describe("with one context object for all requests, and the user in an AsyncLocalStorage", () => {
  const session = new AsyncLocalStorage<string>();
  afterAll(() => session.disable());
  const context = {};

  it.each([
    ["a PRIVATE field below a PUBLIC subtree", typeDefs(PUBLIC, "@cached(maxAge: 60, scope: PRIVATE)")],
    ["a PRIVATE subtree", typeDefs("@cached(maxAge: 60, scope: PRIVATE, subtree: true)")],
    ["a field with maxAge 0", typeDefs(PUBLIC, "@cached(maxAge: 0)")],
  ])("gives each caller its own value of %s", async (_, sdl) => {
    const { ask } = open(
      async () => {
        await settle();
        return session.getStore();
      },
      { typeDefs: sdl, cache: { identify: () => session.getStore() } },
    );
    const users = ["ann", "bob", "carl"];
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all(users.map((user) => session.run(user, () => ask(QUERY, context))));
      expect(answers.map(mineOf)).toEqual(users);
    }
  });
});

/** A sibling asks a DataLoader first, so that the batch runs in its asynchronous context, with an id of the build in it. */
function sharingBatch(viewer: (user: string) => Viewer) {
  const go = gate();
  const loaders = new WeakMap<object, DataLoader<number, string>>();
  const likesOf = (context: Viewer): DataLoader<number, string> => {
    const known = loaders.get(context);
    if (known !== undefined) return known;
    const made = new DataLoader<number, string>(async (ids) => ids.map((id) => `${id} of ${context.user}`));
    loaders.set(context, made);
    return made;
  };
  const site = openSubtrees({
    typeDefs: `type Query { early: String page: Page @cached(maxAge: 60, subtree: true) }
      type Page { id: ID! mine: String }`,
    resolvers: {
      Query: {
        page: () => ({ id: 1 }),
        early: async (_: unknown, __: unknown, context: Viewer) => {
          await go.passed;
          return likesOf(context).load(1);
        },
      },
      Page: {
        mine: async (_: unknown, __: unknown, context: Viewer) => {
          go.open();
          for (let turn = 0; turn < 2; turn++) await undefined;
          return likesOf(context).load(2);
        },
      },
    },
  });
  const ask = async (user: string): Promise<unknown> => {
    const { data } = await site.ask("{ early page { mine } }", viewer(user));
    return (data?.page as { readonly mine: unknown } | undefined)?.mine;
  };
  return { ask, skipped: site.skipped };
}

class ClassContext {
  readonly user: string;

  constructor(user: string) {
    this.user = user;
  }
}

describe("a DataLoader that is keyed by the context, and that a sibling field asks first", () => {
  it.each<[string, (user: string) => Viewer]>([
    ["an object", (user) => ({ user })],
    ["an instance of a class", (user) => new ClassContext(user)],
  ])("gives each caller its own value if the context is %s", async (_, viewer) => {
    const { ask, skipped } = sharingBatch(viewer);
    for (const user of ["ann", "bob", "ann"]) expect(await ask(user)).toBe(`2 of ${user}`);
    expect(skipped()).toEqual(["CONTEXT_READ user"]);
  });
});
