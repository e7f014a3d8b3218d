import { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS, type ServerName, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  directive @auth on FIELD_DEFINITION | OBJECT | INTERFACE | UNION | ENUM | SCALAR | ARGUMENT_DEFINITION | INPUT_OBJECT | INPUT_FIELD_DEFINITION | SCHEMA
  type Query {
    page: Page @cacheControl(maxAge: 600)
    open: Int @cacheControl(maxAge: 600, scope: PUBLIC)
    cached: Int @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 600)
    mine: String @cached(maxAge: 60, scope: PRIVATE) @cacheControl(maxAge: 600, scope: PRIVATE)
    mixed: Mixed @cacheControl(maxAge: 600, scope: PUBLIC)
    typed: Typed
  }
  type Page @cacheControl(maxAge: 600) { title: String nested: Page }
  type Typed @cacheControl(maxAge: 600, scope: PUBLIC) { user: String }
  type Mixed { plain: Int own: String @cacheControl(maxAge: 600) }
`;

type Read = (context: never) => unknown;

/** A site whose titles are what `read` returns of the context, and which notes what it executes. */
function open(server: ServerName, read: Read = () => "Home", { cache, ...options }: Partial<SiteOptions> = {}) {
  const executions: string[] = [];
  const running =
    <T>(name: string, value: (context: Context) => T) =>
    (_: unknown, __: unknown, context: Context): T => (executions.push(name), value(context));
  const title = (_: unknown, __: unknown, context: Context) => read(context as never);
  const resolvers = {
    Query: {
      page: running("page", () => ({})),
      open: running("open", ({ token }) => (token === undefined ? 0 : 1)),
      cached: running("cached", ({ user }) => (user === undefined ? 0 : 1)),
      mine: running("mine", ({ user }) => user),
      mixed: running("mixed", () => ({ plain: 1 })),
      typed: running("typed", ({ user }) => ({ user })),
    },
    Page: { title, nested: () => ({}) },
    Mixed: { own: (_: unknown, __: unknown, { user }: Context) => user },
  };
  return { ...openSite({ typeDefs, resolvers, server, ...options, ...(cache && { cache }) }), executions };
}

const HOME = "{ page { title } }";
const titled = (title: unknown) => ({ page: { title } });
const homeOf = ({ user }: Context) => `Home of ${user ?? "guests"}`;
const byText = (one: string, other: string): number => one.localeCompare(other);
const PUBLIC = { scope: "PUBLIC" } as const;
const PRIVATE = { scope: "PRIVATE" } as const;

describe.each(SERVERS)("the scope of responses on %s", (server) => {
  it.each([PUBLIC, PRIVATE])(
    "does not take the hint PUBLIC of a type for that of its fields: %j",
    async (responses) => {
      const { ask } = open(server, undefined, { responses });
      for (const user of ["ann", "ann", "bob"])
        expect((await ask("{ typed { user } }", { user })).data).toEqual({ typed: { user } });
    },
  );

  it("PRIVATE stores no response with a part that belongs to another identity than its own", async () => {
    const identities = { ofRequest: ({ tenant }: Context) => tenant as string, ofPart: ({ user }: Context) => user };
    const { ask, lines } = openSite({
      typeDefs: "type Query { home: String @cacheControl(maxAge: 60) }",
      resolvers: (cache) => {
        const home = cache.wrap({
          name: "home",
          scope: "PRIVATE",
          maxAge: 60,
          context: (context: Context) => context,
          identify: identities.ofPart,
          key: () => 1,
          load: homeOf,
        });
        return { Query: { home: (_: unknown, __: unknown, context: Context) => home(context) } };
      },
      server,
      responses: PRIVATE,
      cache: { identify: identities.ofRequest },
    });
    for (const user of ["ann", "ann", "bob"])
      expect((await ask("{ home }", { user, tenant: "acme" })).data).toEqual({ home: `Home of ${user}` });
    expect(lines.filter((line) => line.includes("was read for another identity"))).toHaveLength(1);
  });

  it.each<[string, Read]>([
    ["a property", homeOf],
    ["a property, later", async (context: Context) => `Home of ${await Promise.resolve().then(() => context.user)}`],
    ["a copy of the context", (context: Context) => homeOf({ ...context })],
  ])("PUBLIC stores no response whose execution reads %s of the context, and says which once", async (_, read) => {
    const { ask, lines, executions } = open(server, read);
    for (const user of ["ann", "bob", "bob"])
      expect((await ask(HOME, { user })).data).toEqual(titled(`Home of ${user}`));
    expect(executions).toEqual(["page", "page", "page"]);
    expect(lines.filter((line) => line.includes("context.user") && line.includes("responses.scope"))).toHaveLength(1);
  });

  it.each([
    ["in production either", HOME, (title: string) => titled(title), false],
    [
      "with an execution below another one",
      "{ page { nested { title } } }",
      (title: string) => ({ page: { nested: { title } } }),
      true,
    ],
  ])("PUBLIC stores no response that depends on the context %s", async (_, query, data, warnOnContextReads) => {
    const { ask } = open(server, homeOf, { cache: { privacy: { warnOnContextReads } } });
    for (const user of ["ann", "bob"]) expect((await ask(query, { user })).data).toEqual(data(`Home of ${user}`));
  });

  it("PUBLIC stores a response that depends on what all callers share, or on what is in its key", async () => {
    const { ask, executions } = open(server, ({ extra, locale }: Context) => `${extra} ${locale}`, {
      cache: { privacy: { sharedContextKeys: ["extra"] } },
      responses: { ...PUBLIC, key: ["$context.locale"] },
    });
    for (const [user, locale] of [
      ["ann", "de"],
      ["bob", "de"],
      ["bob", "en"],
    ] as const)
      expect((await ask(HOME, { user, locale, extra: "of all" })).data).toEqual(titled(`of all ${locale}`));
    expect(executions).toEqual(["page", "page"]);
  });

  it("PUBLIC leaves what a PRIVATE part reads to the callers whose response it is", async () => {
    const { ask, executions, lines } = open(server);
    for (const user of ["ann", "bob", "ann"]) expect((await ask("{ mine }", { user })).data).toEqual({ mine: user });
    expect(executions).toEqual(["mine", "mine"]);
    expect(lines.filter((line) => line.includes("a response is not kept"))).toEqual([]);
  });

  it("PUBLIC does not watch what every field says that it is", async () => {
    const { ask, executions } = open(server, undefined, { responses: PUBLIC });
    for (const user of ["ann", "bob"]) await ask("{ cached open }", { user });
    expect(executions.toSorted(byText)).toEqual(["cached", "open"]);
  });

  it("PRIVATE keeps the responses of each identity apart, and stores none for guests", async () => {
    const { ask, executions } = open(server, homeOf, { responses: PRIVATE });
    for (const user of ["ann", "bob", "ann", "bob"])
      expect((await ask(HOME, { user })).data).toEqual(titled(`Home of ${user}`));
    expect(executions).toHaveLength(2);
    for (const _ of [1, 2]) await ask(HOME);
    expect(executions).toHaveLength(4);
  });

  it("PRIVATE shares what every field in it says to be PUBLIC, and nothing else", async () => {
    const { ask, executions } = open(server, undefined, { responses: PRIVATE });
    const users = ["ann", "bob"];
    for (const user of users) await ask("{ open }", { user });
    expect(executions).toEqual(["open"]);
    for (const user of users) await ask("{ open mixed { plain } }", { user });
    expect(executions.toSorted(byText)).toEqual(["mixed", "open", "open"]);
    for (const user of users) expect((await ask("{ mixed { own } }", { user })).data).toEqual({ mixed: { own: user } });
  });

  it.each([
    ["a misspelt path", "$context.locle", {}],
    ["a path without a value for this caller", "$context.locale", {}],
    ["a path that leads to null", "$context.locale", { locale: null }],
    ["a path through a missing object", "$context.extra.locale", {}],
  ])("stores nothing, and says so once, with a key of %s", async (_, path, context) => {
    const { ask, lines, executions } = open(server, () => `Home ${executions.length}`, {
      responses: { key: [path] },
      cache: { privacy: { sharedContextKeys: ["extra"] } },
    });
    for (let nth = 1; nth <= 3; nth++)
      expect((await ask(HOME, context as Context)).data).toEqual(titled(`Home ${nth}`));
    expect(executions).toHaveLength(3);
    expect(lines.filter((line) => line.includes(path))).toHaveLength(1);
  });
});

describe.each(SERVERS)("a PUBLIC response on %s", (server) => {
  it("that was made without a property of the context is not given to a caller who has it", async () => {
    const { ask } = open(server, ({ locale = "en" }: Context) => locale);
    await ask(HOME, {});
    expect((await ask(HOME, { locale: "de" })).data).toEqual(titled("de"));
  });

  it("that asked whether the context has a property is not given to a caller whose has it", async () => {
    const { ask } = open(server, (context: Context) => ("admin" in context ? "all" : "some"));
    await ask(HOME, { user: "ann" });
    expect((await ask(HOME, { user: "bob", admin: true })).data).toEqual(titled("all"));
  });

  it("that read another property of an object in its key is not given to another caller", async () => {
    const { ask } = open(server, ({ session }: { session: { name: string } }) => session.name, {
      responses: { ...PUBLIC, key: ["$context.session.locale"] },
    });
    for (const user of ["ann", "bob"])
      expect((await ask(HOME, { user, session: { locale: "de", name: user } })).data).toEqual(titled(user));
  });

  it("in which a field has one property of an object in its key says nothing of the others of that object", async () => {
    const session =
      (name: "locale" | "name") => (_: unknown, __: unknown, context: { session?: { locale: string; name: string } }) =>
        context.session?.[name];
    const { ask } = openSite({
      typeDefs: `type Query {
        text: String @cached(maxAge: 60, key: ["$context.session.locale"]) @cacheControl(maxAge: 600)
        name: String @cacheControl(maxAge: 600)
      }`,
      resolvers: { Query: { text: session("locale"), name: session("name") } },
      server,
    });
    for (const name of ["ann", "bob"])
      expect((await ask("{ text name }", { user: name, session: { locale: "de", name } })).data).toEqual({
        text: "de",
        name,
      });
  });

  it("of a caller for whom `identify` fails is not given to guests, nor theirs to that caller", async () => {
    const identify = ({ token }: Context) => {
      if (token === "broken") throw new Error("broken");
      return token;
    };
    const { ask, executions } = open(server, undefined, { cache: { identify } as never, responses: PUBLIC });
    expect((await ask("{ open }", {})).data).toEqual({ open: 0 });
    expect((await ask("{ open }", { token: "broken" })).data).toEqual({ open: 1 });
    expect(executions).toHaveLength(2);
  });

  it("to a caller whose identity appears during the execution is not given to another one", async () => {
    const { ask } = open(server, homeOf);
    await ask(HOME, { user: "ann" });
    expect((await ask(HOME)).data).toEqual(titled("Home of guests"));
  });
});

const GUESTS = { ...PRIVATE, guests: "PUBLIC" } as const;

describe.each(SERVERS)("the guests of %s, who share responses,", (server) => {
  it("get what they have asked for, although it depends on their context, which is logged", async () => {
    const { ask, lines } = open(server, ({ cart }: Context) => cart, { responses: GUESTS });
    for (const cart of ["A", "B", "C"]) expect((await ask(HOME, { cart })).data).toEqual(titled(cart));
    expect(lines.some((line) => line.includes("context.cart"))).toBe(true);
  });

  it("share a response whose execution asks who they are, and only among them, since none has an identity", async () => {
    const { ask, executions } = open(server, homeOf, { responses: GUESTS });
    for (const user of [undefined, "ann", undefined, undefined, "ann"])
      expect((await ask(HOME, { user } as Context)).data).toEqual(titled(`Home of ${user ?? "guests"}`));
    expect(executions).toHaveLength(2);
  });

  it("do not get what belongs to callers whose identity is looked for in the wrong place", async () => {
    const cache = { identify: ({ userId }: Context) => userId } as never;
    const { ask } = open(server, ({ cart }: Context) => cart, { responses: GUESTS, cache });
    for (const user of ["ann", "bob"]) expect((await ask(HOME, { user, cart: user })).data).toEqual(titled(user));
  });

  it("are told apart by what `key` names", async () => {
    const { ask, executions } = open(server, ({ locale }: Context) => locale, {
      responses: { ...GUESTS, key: ["$context.locale"] },
    });
    for (const locale of ["de", "en", "de", "en"]) expect((await ask(HOME, { locale })).data).toEqual(titled(locale));
    expect(executions).toHaveLength(2);
  });
});

describe.each(SERVERS)("the responses of one identity on %s", (server) => {
  it("are reported, outside of production, if what their executions read differs between its contexts", async () => {
    const { ask, lines } = open(server, ({ locale }: Context) => locale, { responses: GUESTS });
    await ask(HOME, { user: "ann", locale: "en" });
    await ask("{ page { title nested { title } } }", { user: "ann", locale: "de" });
    expect(lines.filter((line) => line.includes("contexts of one identity"))).toEqual([
      expect.stringContaining('add "$context.locale" to `responses.key`'),
    ]);
    expect(lines.join()).not.toContain("context.user`");
  });
});

describe.each(SERVERS)("under an auth mark, on %s,", (server) => {
  const user = (_: unknown, __: unknown, context: Context) => context.user ?? "nobody";
  const secret = (...args: Parameters<typeof user>) => ({ __typename: "Secret", id: user(...args) });
  const marked = {
    typeDefs: `${typeDefs}
      extend type Query {
        level: Level @cacheControl(maxAge: 60)
        token: Token @cacheControl(maxAge: 60)
        byArg(of: Int @auth): String @cacheControl(maxAge: 60)
        node: Node @cacheControl(maxAge: 60)
        any: Any @cacheControl(maxAge: 60)
        deep: Deep @cacheControl(maxAge: 60)
        checked: Int @auth @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
      }
      enum Level @auth { LOW HIGH }
      scalar Token @auth
      interface Node { id: String }
      type Secret implements Node @auth { id: String }
      union Any = Secret
      type Deep { node: Node @cacheControl(maxAge: 60) list: [Any!] @cacheControl(maxAge: 60) }`,
    resolvers: {
      Query: {
        level: (_: unknown, __: unknown, context: Context) => (context.user === "ann" ? "HIGH" : "LOW"),
        token: user,
        byArg: user,
        node: secret,
        any: secret,
        deep: () => ({}),
        checked: () => 1,
      },
      Deep: { node: secret, list: (...args: Parameters<typeof user>) => [secret(...args)] },
    },
    server,
  };

  it.each([
    "{ level }",
    "{ token }",
    "{ byArg(of: 1) }",
    "{ node { id } }",
    "{ node { ... on Secret { id } } }",
    "{ any { ... on Node { id } } }",
    "{ deep { node { id } } }",
    "{ deep { list { ...F } } } fragment F on Any { ... on Secret { id } }",
  ])("%s is not shared, but kept for its caller", async (query) => {
    const { ask } = openSite(marked);
    const answers: Awaited<ReturnType<typeof ask>>[] = [];
    for (const context of [{ user: "ann" }, { user: "bob" }, {}, { user: "ann" }])
      answers.push(await ask(query, context));
    const [first, ...others] = answers.map(({ data }) => JSON.stringify(data));
    const again = others.pop();
    expect(others).not.toContain(first);
    expect(again).toBe(first);
    if (server !== "cache.execute") expect(answers[3]?.extensions).toEqual({ cached: { responses: { hit: 1 } } });
  });

  it("a response is kept for its caller although the value in it is PUBLIC, since a hit skips the check", async () => {
    const { ask } = openSite(marked);
    const traces: unknown[] = [];
    for (const user of ["ann", "bob", "bob", "eve"]) {
      const { data, extensions } = await ask("{ checked }", { user });
      expect(data).toEqual({ checked: 1 });
      traces.push(extensions?.cached);
    }
    if (server !== "cache.execute")
      expect(traces.slice(2)).toEqual([
        { responses: { hit: 1 } },
        expect.objectContaining({ "Query.checked": { hit: 1 } }),
      ]);
  });
});

it("a response is one caller's if the load of one of its values has set the hint PRIVATE on another server", async () => {
  let [loads, executions] = [0, 0];
  const clock = new FakeClock();
  const shared = {
    typeDefs: `type Query {
      hinted: Int @cached(maxAge: 600, scope: PUBLIC) @cacheControl(maxAge: 600)
      now: Int @cacheControl(maxAge: 600)
    }`,
    resolvers: {
      Query: {
        hinted: (
          ...[, , , info]: [unknown, unknown, unknown, { cacheControl?: { setCacheHint(hint: object): void } }]
        ) => {
          info.cacheControl?.setCacheHint({ scope: "PRIVATE" });
          return ++loads;
        },
        now: () => ++executions,
      },
    },
    store: memoryStore({ clock }),
    clock,
  };
  await openSite({ ...shared, server: "Apollo Server", responses: false }).ask("{ hinted }");
  const { ask } = openSite(shared);
  const seen: unknown[] = [];
  for (const user of ["ann", "ann", "ann", "bob", "bob"]) seen.push((await ask("{ hinted now }", { user })).data?.now);
  expect(seen).toEqual([1, 2, 2, 3, 3]);
  expect(loads).toBe(1);
});

describe("a response that all callers share", () => {
  const USER = Symbol("user");
  class Caller {
    readonly #user: string;
    constructor(user: string) {
      this.#user = user;
    }
    get user(): string {
      return this.#user;
    }
    get [USER](): string {
      return this.#user;
    }
    name(): string {
      return this.#user;
    }
  }
  const userIn = ({ user }: { user: string }): string => user;
  const bySymbol = (context: { [USER]: string }): string => context[USER];
  /** Who is asking, as an AsyncLocalStorage would say. */
  let current = "";
  const noting = (user: string, context: object): object => {
    current = user;
    return context;
  };
  const KINDS: Readonly<Record<string, readonly [make: (user: string) => object, read: Read]>> = {
    "a getter": [(user) => Object.defineProperty({}, "user", { get: () => user, configurable: true }), userIn],
    "a getter of a class": [(user) => new Caller(user), userIn],
    "a getter of a class whose name is a symbol": [(user) => new Caller(user), bySymbol],
    "a method of a class": [(user) => new Caller(user), (context: Caller) => context.name()],
    "a prototype": [(user) => Object.create({ user }) as object, userIn],
    "a prototype by a symbol": [(user) => Object.create({ [USER]: user }) as object, bySymbol],
    "a context that inherits from another": [
      (user) => Object.create({ user }, { own: { value: 1, enumerable: true } }) as object,
      userIn,
    ],
    "a copy by Object.create": [(user) => ({ user }), (context: object) => userIn(Object.create(context) as never)],
    "an object without a prototype": [(user) => Object.assign(Object.create(null) as object, { user }), userIn],
    "a symbol": [(user) => ({ [USER]: user }), bySymbol],
    "a proxy": [(user) => new Proxy({ user }, {}), userIn],
    "a proxy that refuses definitions": [(user) => new Proxy({ user }, { defineProperty: () => false }), userIn],
    "a frozen object": [(user) => Object.freeze({ user }), userIn],
    "a sealed object": [(user) => Object.seal({ user }), userIn],
    "a frozen instance": [(user) => Object.freeze(new Caller(user)), userIn],
    "its text": [(user) => ({ user }), (context) => JSON.stringify(context)],
    "the names of its properties": [(user) => ({ [user]: true }), (context: object) => Object.keys(context)[0]],
    "the members of a Map": [
      (user) => new Map([["user", user]]),
      (context: Map<string, string>) => [...context][0]?.[1],
    ],
    "a Map by name": [(user) => new Map([["user", user]]), (context: Map<string, string>) => context.get("user")],
    "a list": [(user) => [user], (context: string[]) => context[0]],
    descriptors: [
      (user) => ({ user }),
      (context: object) => {
        const { user } = Object.getOwnPropertyDescriptors(context) as never as { user: PropertyDescriptor };
        return user.value ?? user.get?.();
      },
    ],
    "a property that is added from another": [
      (user) => ({ request: { user } }),
      (context: { user?: string; request: { user: string } }) => (context.user ??= context.request.user),
    ],
    "a property that the execution adds from elsewhere": [
      (user) => noting(user, {}),
      (context: { viewer?: string }) => (context.viewer ??= current),
    ],
    "a property that is deleted and added": [
      (user) => noting(user, { viewer: "" }),
      (context: { viewer?: string }) => {
        delete context.viewer;
        context.viewer = current;
        return context.viewer;
      },
    ],
  };

  it.each(Object.entries(KINDS))("is not made of the caller in %s of the context", async (_, [make, read]) => {
    const { execute } = open("cache.execute", read, { cache: { privacy: { warnOnContextReads: false } } });
    for (const user of ["ann", "bob"]) expect(JSON.stringify(await execute(HOME, make(user), PUBLIC))).toContain(user);
  });
});

describe("the options of the scope", () => {
  const refused =
    (responses: object, cache: object = {}) =>
    () =>
      open("Apollo Server", undefined, { responses: responses as never, cache: cache as never });

  it("have to say a scope, unless the cache does", () => {
    const missing = /`responses`\.`scope`: expected PUBLIC if .* got undefined/;
    expect(refused({}, { defaultScope: undefined })).toThrow(missing);
    expect(refused({ scope: "EVERYBODY" })).toThrow(/`scope`: expected PUBLIC/);
  });

  it("need `identify` for PRIVATE, and PRIVATE for `guests`", () => {
    expect(refused(PRIVATE, { identify: undefined })).toThrow(/`scope`: .*identify/);
    expect(refused({ guests: "PUBLIC" })).toThrow(/`guests`: expected PUBLIC or undefined, with the scope PRIVATE/);
    expect(refused({ ...PRIVATE, guests: "PRIVATE" })).toThrow(/`guests`/);
  });
});
