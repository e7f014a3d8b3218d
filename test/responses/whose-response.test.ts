import { settle } from "@graphql-cached/testing";
import { parse } from "graphql";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 600)
    open: Int @cacheControl(maxAge: 600, scope: PUBLIC)
    cached: Int @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 600)
    mine: String @cached(maxAge: 60, scope: PRIVATE) @cacheControl(maxAge: 600, scope: PRIVATE)
    mixed: Mixed @cacheControl(maxAge: 600, scope: PUBLIC)
  }
  type Page @cacheControl(maxAge: 600) { title: String nested: Page }
  type Mixed { plain: Int own: String @cacheControl(maxAge: 600) }
`;

interface Told {
  readonly user?: string;
  readonly locale?: string | null;
  readonly extra?: unknown;
}

function open(server: SiteOptions["server"], options: Partial<SiteOptions> = {}) {
  const lines: string[] = [];
  const executions: string[] = [];
  /** How a title is made from the context. */
  const title = { of: (_: Told): unknown => "Home" };
  const run = (name: string): void => void executions.push(name);
  const resolvers = {
    Query: {
      page: () => {
        run("page");
        return {};
      },
      open: () => {
        run("open");
        return 1;
      },
      cached: (_: unknown, __: unknown, { user }: Told) => {
        run("cached");
        return user === undefined ? 0 : 1;
      },
      mine: (_: unknown, __: unknown, { user }: Told) => {
        run("mine");
        return user;
      },
      mixed: () => {
        run("mixed");
        return { plain: 1 };
      },
    },
    Page: {
      title: (_: unknown, __: unknown, context: Told) => title.of(context),
      nested: () => ({}),
    },
    Mixed: { own: (_: unknown, __: unknown, { user }: Told) => user },
  };
  const site = openSite({
    typeDefs,
    resolvers,
    server,
    ...options,
    cache: {
      logger: { warn: (line: string) => void lines.push(line), info: () => undefined },
      ...options.cache,
    } as never,
  });
  return {
    ...site,
    title,
    lines,
    executions,
    ask: site.ask as (query: string, context?: Told) => ReturnType<typeof site.ask>,
  };
}

const HOME = "{ page { title } }";
const USER = Symbol("user");
const userIn = ({ user }: { user: string }): string => user;

describe.each(SERVERS)("the scope of responses on %s", (server) => {
  it.each([
    ["a property", ({ user }: Told) => `Home of ${user}`],
    ["a property, later", async (context: Told) => `Home of ${await Promise.resolve().then(() => context.user)}`],
    ["a copy of the context", (context: Told) => `Home of ${{ ...context }.user}`],
  ])("PUBLIC stores no response whose execution reads %s of the context, and says which once", async (_, of) => {
    const { ask, title, lines, executions } = open(server);
    title.of = of;
    expect((await ask(HOME, { user: "ann" })).data).toEqual({ page: { title: "Home of ann" } });
    expect((await ask(HOME, { user: "bob" })).data).toEqual({ page: { title: "Home of bob" } });
    expect((await ask(HOME, { user: "bob" })).data).toEqual({ page: { title: "Home of bob" } });
    expect(executions).toEqual(["page", "page", "page"]);
    expect(lines.filter((line) => line.includes("context.user") && line.includes("responses.scope"))).toHaveLength(1);
  });

  it("PUBLIC stores no response that depends on the context in production either", async () => {
    const { ask, title } = open(server, { cache: { privacy: { warnOnContextReads: false } } });
    title.of = ({ user }) => `Home of ${user}`;
    await ask(HOME, { user: "ann" });
    expect((await ask(HOME, { user: "bob" })).data).toEqual({ page: { title: "Home of bob" } });
  });

  it("PUBLIC watches the context with every execution, also a nested one", async () => {
    const { ask, title } = open(server);
    const query = "{ page { nested { title } } }";
    title.of = ({ user }) => `Home of ${user}`;
    for (const user of ["ann", "bob"])
      expect((await ask(query, { user })).data).toEqual({ page: { nested: { title: `Home of ${user}` } } });
  });

  it("PUBLIC stores a response that depends on what all callers share, or on what is in its key", async () => {
    const { ask, title, executions } = open(server, {
      cache: { privacy: { sharedContextKeys: ["extra"] } },
      responses: { scope: "PUBLIC", key: ["$context.locale"] },
    });
    title.of = ({ extra, locale }) => `${extra} ${locale}`;
    await ask(HOME, { user: "ann", locale: "de", extra: "of all" });
    expect((await ask(HOME, { user: "bob", locale: "de", extra: "of all" })).data).toEqual({
      page: { title: "of all de" },
    });
    expect((await ask(HOME, { user: "bob", locale: "en", extra: "of all" })).data).toEqual({
      page: { title: "of all en" },
    });
    expect(executions).toEqual(["page", "page"]);
  });

  it("PUBLIC leaves what a PRIVATE part reads to the callers whose response it is", async () => {
    const { ask, executions, lines } = open(server);
    for (const user of ["ann", "bob", "ann"]) expect((await ask("{ mine }", { user })).data).toEqual({ mine: user });
    expect(executions).toEqual(["mine", "mine"]);
    expect(lines.filter((line) => line.includes("a response is not kept"))).toEqual([]);
  });

  it("PUBLIC does not watch what every field says that it is", async () => {
    const { ask, executions } = open(server, { responses: { scope: "PUBLIC" } });
    await ask("{ cached open }", { user: "ann" });
    await ask("{ cached open }", { user: "bob" });
    expect([...executions].sort((one, other) => one.localeCompare(other))).toEqual(["cached", "open"]);
  });

  it("PRIVATE keeps the responses of each identity apart, and stores none for guests", async () => {
    const { ask, title, executions } = open(server, { responses: { scope: "PRIVATE" } });
    title.of = ({ user }) => `Home of ${user}`;
    for (const user of ["ann", "bob", "ann", "bob"])
      expect((await ask(HOME, { user })).data).toEqual({ page: { title: `Home of ${user}` } });
    expect(executions).toHaveLength(2);
    await ask(HOME);
    await ask(HOME);
    expect(executions).toHaveLength(4);
  });

  it("PRIVATE shares what every field in it says to be PUBLIC, and nothing else", async () => {
    const { ask, executions } = open(server, { responses: { scope: "PRIVATE" } });
    for (const user of ["ann", "bob"]) await ask("{ open }", { user });
    expect(executions).toEqual(["open"]);
    for (const user of ["ann", "bob"]) await ask("{ open mixed { plain } }", { user });
    expect([...executions].sort((one, other) => one.localeCompare(other))).toEqual(["mixed", "open", "open"]);
    for (const user of ["ann", "bob"])
      expect((await ask("{ mixed { own } }", { user })).data).toEqual({ mixed: { own: user } });
  });

  it("PRIVATE shares the responses of guests with `guests: PUBLIC`, and only among them", async () => {
    const { ask, title, executions } = open(server, { responses: { scope: "PRIVATE", guests: "PUBLIC" } });
    title.of = ({ user }) => `Home of ${user ?? "guests"}`;
    for (const user of [undefined, "ann", undefined, "ann"])
      expect((await ask(HOME, user === undefined ? {} : { user })).data).toEqual({
        page: { title: `Home of ${user ?? "guests"}` },
      });
    expect(executions).toHaveLength(2);
  });

  it.each([
    ["a misspelt path", { key: ["$context.locle"] }, {}],
    ["a path without a value for this caller", { key: ["$context.locale"] }, {}],
    ["a path that leads to null", { key: ["$context.locale"] }, { locale: null }],
    ["a path through a missing object", { key: ["$context.extra.locale"] }, {}],
  ])("stores nothing, and says so once, with a key of %s", async (_, responses, context) => {
    const { ask, title, lines, executions } = open(server, {
      responses,
      cache: { privacy: { sharedContextKeys: ["extra"] } },
    });
    let nth = 0;
    title.of = () => `Home ${++nth}`;
    for (const expected of ["Home 1", "Home 2", "Home 3"])
      expect((await ask(HOME, context)).data).toEqual({ page: { title: expected } });
    expect(executions).toHaveLength(3);
    expect(lines.filter((line) => line.includes(responses.key[0] as string))).toHaveLength(1);
  });
});

describe("a response that all callers share", () => {
  class Caller {
    readonly #user: string;
    constructor(user: string) {
      this.#user = user;
    }
    get user(): string {
      return this.#user;
    }
    name(): string {
      return this.#user;
    }
  }
  const kinds: Readonly<Record<string, readonly [(user: string) => object, (context: never) => unknown]>> = {
    "a getter": [(user) => Object.defineProperty({}, "user", { get: () => user, configurable: true }), userIn],
    "a getter of a class": [(user) => new Caller(user), userIn],
    "a method of a class": [(user) => new Caller(user), (context: Caller) => context.name()],
    "a prototype": [(user) => Object.create({ user }) as object, userIn],
    "an object without a prototype": [(user) => Object.assign(Object.create(null) as object, { user }), userIn],
    "a symbol": [(user) => ({ [USER]: user }), (context: { [USER]: string }) => context[USER]],
    "a proxy": [(user) => new Proxy({ user }, {}), userIn],
    "a proxy that refuses definitions": [(user) => new Proxy({ user }, { defineProperty: () => false }), userIn],
    "a frozen object": [(user) => Object.freeze({ user }), userIn],
    "a sealed object": [(user) => Object.seal({ user }), userIn],
    "a frozen instance": [(user) => Object.freeze(new Caller(user)), userIn],
    "its text": [(user) => ({ user }), (context) => JSON.stringify(context)],
    "a property that is added from another": [
      (user) => ({ request: { user } }),
      (context: { user?: string; request: { user: string } }) => {
        context.user ??= context.request.user;
        return context.user;
      },
    ],
  };

  it.each(Object.entries(kinds))("is not made of the caller in %s of the context", async (_, [make, read]) => {
    const { cache, schema, title } = open("cache.execute", { cache: { privacy: { warnOnContextReads: false } } });
    title.of = read as never;
    const ask = async (user: string) => {
      const args = { schema, document: parse(HOME), contextValue: make(user) };
      const { data } = await cache.execute(args, { scope: "PUBLIC" });
      await settle();
      return JSON.stringify(data);
    };
    await ask("ann");
    expect(await ask("bob")).toContain("bob");
  });
});

describe("the options of the scope", () => {
  const refused = (responses: object, cache: object = {}) => {
    expect(() => open("Apollo Server", { responses: responses as never, cache: cache as never }));
    return () => open("Apollo Server", { responses: responses as never, cache: cache as never });
  };

  it("have to say a scope, unless the cache does", () => {
    expect(refused({}, { defaultScope: undefined })).toThrow(
      /`responses`\.`scope`: expected PUBLIC if .* got undefined/,
    );
    expect(refused({ scope: "EVERYBODY" })).toThrow(/`scope`: expected PUBLIC/);
  });

  it("need `identify` for PRIVATE, and PRIVATE for `guests`", () => {
    expect(refused({ scope: "PRIVATE" }, { identify: undefined })).toThrow(/`scope`: .*identify/);
    expect(refused({ guests: "PUBLIC" })).toThrow(/`guests`: expected PUBLIC or undefined, with the scope PRIVATE/);
    expect(refused({ scope: "PRIVATE", guests: "PRIVATE" })).toThrow(/`guests`/);
  });
});
