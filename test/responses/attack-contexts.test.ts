import { settle } from "@graphql-cached/testing";
import { parse } from "graphql";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 600)
    open: Int @cacheControl(maxAge: 600, scope: PUBLIC)
  }
  type Page @cacheControl(maxAge: 600) { title: String }
`;
const HOME = "{ page { title } }";

function open(server: SiteOptions["server"], of: (context: never) => unknown, options: Partial<SiteOptions> = {}) {
  const lines: string[] = [];
  const executions: string[] = [];
  const resolvers = {
    Query: {
      page: () => {
        executions.push("page");
        return {};
      },
      open: (_: unknown, __: unknown, context: never) => {
        executions.push("open");
        return of(context);
      },
    },
    Page: { title: (_: unknown, __: unknown, context: never) => of(context) },
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
  const ask = site.ask as (query: string, context?: object) => ReturnType<typeof site.ask>;
  return { ...site, ask, lines, executions };
}

describe.each(SERVERS)("a PUBLIC response on %s", (server) => {
  it("that was made without a property of the context is not given to a caller who has it", async () => {
    const { ask } = open(server, ({ locale = "en" }: { locale?: string }) => locale);
    await ask(HOME, {});
    expect((await ask(HOME, { locale: "de" })).data).toEqual({ page: { title: "de" } });
  });

  it("that asked whether the context has a property is not given to a caller whose has it", async () => {
    const { ask } = open(server, (context: object) => ("admin" in context ? "all" : "some"));
    await ask(HOME, { user: "ann" });
    expect((await ask(HOME, { user: "bob", admin: true })).data).toEqual({ page: { title: "all" } });
  });

  it("that read another property of an object in its key is not given to another caller", async () => {
    const { ask } = open(server, ({ session }: { session: { name: string } }) => session.name, {
      responses: { scope: "PUBLIC", key: ["$context.session.locale"] },
    });
    await ask(HOME, { user: "ann", session: { locale: "de", name: "ann" } });
    expect((await ask(HOME, { user: "bob", session: { locale: "de", name: "bob" } })).data).toEqual({
      page: { title: "bob" },
    });
  });

  it("of a caller for whom `identify` fails is not given to guests, nor theirs to that caller", async () => {
    const identify = ({ token }: { token?: string }) => {
      if (token === "broken") throw new Error("broken");
      return token;
    };
    const { ask, executions } = open(server, ({ token }: { token?: string }) => (token === undefined ? 0 : 1), {
      cache: { identify: identify as never },
      responses: { scope: "PUBLIC" },
    });
    expect((await ask("{ open }", {})).data).toEqual({ open: 0 });
    expect((await ask("{ open }", { token: "broken" })).data).toEqual({ open: 1 });
    expect(executions).toHaveLength(2);
  });
});

const USER = Symbol("user");
/** Who is asking, as an AsyncLocalStorage would say. */
let current = "";

describe("a PUBLIC response of cache.execute", () => {
  class BySymbol {
    readonly #user: string;
    constructor(user: string) {
      this.#user = user;
    }
    get [USER](): string {
      return this.#user;
    }
    static userOf(context: BySymbol): string {
      return context.#user;
    }
  }
  const kinds: Readonly<Record<string, readonly [(user: string) => object, (context: never) => unknown]>> = {
    "a getter of a class whose name is a symbol": [(user) => new BySymbol(user), (context: BySymbol) => context[USER]],
    "the members of a Map": [
      (user) => new Map([["user", user]]),
      (context: Map<string, string>) => [...context][0]?.[1],
    ],
    "a Map by name": [(user) => new Map([["user", user]]), (context: Map<string, string>) => context.get("user")],
    "a list": [(user) => [user], (context: string[]) => context[0]],
    "a property of the prototype by a symbol": [
      (user) => Object.create({ [USER]: user }) as object,
      (context: { [USER]: string }) => context[USER],
    ],
    "a context that inherits from another": [
      (user) => Object.create({ user }, { own: { value: 1, enumerable: true } }) as object,
      ({ user }: { user: string }) => user,
    ],
    "a copy by Object.create": [
      (user) => ({ user }),
      (context: object) => (Object.create(context) as { user: string }).user,
    ],
    descriptors: [
      (user) => ({ user }),
      (context: object) => {
        const { user } = Object.getOwnPropertyDescriptors(context) as unknown as {
          user: { value?: string; get?(): string };
        };
        return user.value ?? user.get?.();
      },
    ],
    "a property that the execution adds from elsewhere": [
      (user) => {
        current = user;
        return {};
      },
      (context: { viewer?: string }) => {
        context.viewer ??= current;
        return context.viewer;
      },
    ],
    "a property that is deleted and added": [
      (user) => {
        current = user;
        return { viewer: "" };
      },
      (context: { viewer?: string }) => {
        delete context.viewer;
        context.viewer = current;
        return context.viewer;
      },
    ],
    "the names of its properties": [(user) => ({ [user]: true }), (context: object) => Object.keys(context)[0]],
  };

  it.each(Object.entries(kinds))("is not made of the caller in %s", async (_, [make, read]) => {
    const { cache, schema } = open("cache.execute", read, { cache: { privacy: { warnOnContextReads: false } } });
    const ask = async (user: string) => {
      const args = { schema, document: parse(HOME), contextValue: make(user) };
      const { data } = await cache.execute(args, { scope: "PUBLIC" });
      await settle();
      return JSON.stringify(data);
    };
    expect(await ask("ann")).toContain("ann");
    expect(await ask("bob")).toContain("bob");
  });
});
