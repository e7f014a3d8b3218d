import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { buildSchema, parse } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
  cachedTypeDefs,
  createCache,
  memoryStore,
  type ResponsesOptions,
} from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";
import { HINTS, knowOperations, openSite, SERVERS } from "./site.js";

describe.each(SERVERS)("the key of a response on %s", (server) => {
  const typeDefs = /* GraphQL */ `
    type Query {
      now: Int @cacheControl(maxAge: 60)
      sets(name: String!, to: String!): Int @cacheControl(maxAge: 60)
    }
  `;

  function open(responses?: ResponsesOptions) {
    let executions = 0;
    const resolvers = {
      Query: {
        now: () => ++executions,
        sets: (_: unknown, { name, to }: { name: string; to: string }, context: Record<string, unknown>) => {
          context[name] = to;
          return executions;
        },
      },
    };
    return { ...openSite({ typeDefs, resolvers, server, responses: responses ?? true }), executions: () => executions };
  }

  // What all share is refused as soon as its execution writes to the context; what one caller has is not.
  it.each([
    ["nobody", "ann", "PUBLIC", {}],
    ["ann", "bob", "PRIVATE", { user: "ann" }],
  ] as const)(
    "is not used for a response during whose execution the caller changes from %s to %s (%s)",
    async (_, to, scope, context) => {
      const { ask, executions } = open({ scope });
      for (const _ of [1, 2]) await ask(`{ now sets(name: "user", to: "${to}") }`, context);
      expect(executions()).toBe(2);
    },
  );

  it("is used for a response during whose execution the context has changed in what it does not contain", async () => {
    const { ask, executions } = open();
    for (const _ of [1, 2]) await ask('{ now sets(name: "locale", to: "de") }', { user: "ann", locale: "en" });
    expect(executions()).toBe(1);
  });

  it.each(["locale", "region"])(
    "is not used for a response during whose execution `%s` of the context has changed, which it contains",
    async (name) => {
      // The fields of which they are part of the key notice a change themselves.
      const { ask, executions } = open({ scope: "PRIVATE", key: ["$context.locale", "$context.region"] });
      const context = { user: "ann", locale: "en", region: "eu" };
      for (const _ of [1, 2]) await ask(`{ now sets(name: "${name}", to: "us") }`, context);
      expect(executions()).toBe(2);
      for (const _ of [1, 2]) await ask(`{ now sets(name: "other", to: "us") }`, context);
      expect(executions()).toBe(3);
    },
  );

  it("tells guests from callers with an identity, who share a PUBLIC response", async () => {
    const { ask, executions } = open({ scope: "PUBLIC" });
    // Which properties a context has is a part of the key: they are the same here.
    for (const user of [undefined, undefined, "ann", "bob"]) await ask("{ now }", { user } as object);
    expect(executions()).toBe(2);
  });
});

describe("the responses of two schemas of one cache", () => {
  type Price = (source: unknown, args: unknown, context: { readonly locale?: string }) => unknown;

  /** Returns what adds schemas, and asks the one that was added for its price. */
  function openSchemas() {
    knowOperations();
    const cache = createCache({ defaultScope: "PUBLIC", logger: { info: () => undefined, warn: () => undefined } });
    onTestFinished(() => cache.close());
    const other = () => 1;
    return (price: Price, field: string, options?: ApplyCachedOptions) => {
      const sdl = `type Query { price: ${field} other: Int @cached(maxAge: 60) }`;
      const made = makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, sdl] });
      const fields = made.getQueryType()?.getFields();
      // Not as resolvers of graphql-tools, which binds each.
      Object.assign(fields?.price as object, { resolve: price });
      Object.assign(fields?.other as object, { resolve: other });
      const schema = applyCached(made, cache, options);
      return async (query: string, contextValue: object = {}): Promise<unknown> => {
        const { data } = await cache.execute({ schema, document: parse(query), contextValue });
        await settle();
        return data?.price;
      };
    };
  }

  it("are not shared, although the operations have the same text", async () => {
    const add = openSchemas();
    const shop = add(() => 7, "Int @cacheControl(maxAge: 60)");
    const office = add(() => "7 less 2", "String @cacheControl(maxAge: 60)");
    for (let round = 0; round < 3; round++) {
      expect(await shop("{ price }")).toBe(7);
      expect(await office("{ price }")).toBe("7 less 2");
    }
  });

  it("are not kept with a field that only the other one caches", async () => {
    const add = openSchemas();
    let price = 0;
    add(() => 0, "Int @cached(maxAge: 60, scope: PUBLIC)");
    const ask = add(() => ++price, "Int");
    expect([await ask("{ price other }"), await ask("{ price other }")]).toEqual([1, 2]);
  });

  it("are not kept with a field for which only the other one has a policy that caches it", async () => {
    const add = openSchemas();
    let price = 0;
    const off = add(() => ++price, "Int @cacheControl(maxAge: 60)", { policies: { "Query.price": { maxAge: 0 } } });
    add(() => 0, "Int @cacheControl(maxAge: 60)", { policies: { "Query.price": { maxAge: 60 } } });
    expect([await off("{ price other }"), await off("{ price other }")]).toEqual([1, 2]);
  });

  it("have what the keys of their own fields contain of the context, which is less in the other one", async () => {
    const add = openSchemas();
    const price: Price = (_, __, { locale }) => locale;
    const ask = add(price, 'String @cached(maxAge: 60, scope: PUBLIC, key: ["$context.locale"])');
    add(price, "String @cached(maxAge: 60, scope: PUBLIC)");
    for (const locale of ["de", "en", "de", "en"]) expect(await ask("{ price }", { locale })).toBe(locale);
  });
});

describe("the responses of two releases", () => {
  const directives = /* GraphQL */ `
    directive @shown(as: String) on FIELD_DEFINITION | OBJECT | INTERFACE
    directive @cached(maxAge: Int) on FIELD_DEFINITION
  `;
  const sdl = ({ field = "", type = "", interfaceField = "", extension = "" }): string => /* GraphQL */ `
    type Query { page: Page @cacheControl(maxAge: 60) }
    interface Titled { title: String ${interfaceField} }
    type Page implements Titled @cacheControl(maxAge: 60) ${type} { title: String ${field} }
    ${extension === "" ? "" : `extend type Page ${extension}`}
  `;

  it.each<[string, Parameters<typeof sdl>[0]]>([
    ["a field", { field: '@shown(as: "TITLE")' }],
    ["a type", { type: '@shown(as: "TITLE")' }],
    ["a field of an interface", { interfaceField: '@shown(as: "TITLE")' }],
    ["an extension of a type", { extension: '@shown(as: "TITLE")' }],
  ])("are not shared if they differ in a directive of %s, which can decide what is shown", async (_, change) => {
    knowOperations();
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const release = (title: string, made: Parameters<typeof sdl>[0]) => {
      const cache = createCache({
        defaultScope: "PUBLIC",
        store,
        testing: { clock },
        logger: { info: () => undefined, warn: () => undefined },
      });
      onTestFinished(() => cache.close());
      // Other builders of schemas merge extensions into the types.
      const built = buildSchema(`${directives}${HINTS}${sdl(made)}`);
      Object.assign(built.getQueryType()?.getFields().page as object, { resolve: () => ({ title }) });
      const schema = applyCached(built, cache);
      return async (): Promise<unknown> => {
        const result = await cache.execute({ schema, document: parse("{ page { title } }"), contextValue: {} });
        await settle();
        return result.data;
      };
    };
    const releases = [release("first", {}), release("first again", {}), release("next", change)];
    const answers: unknown[] = [];
    for (const ask of releases) answers.push(await ask());
    expect(answers).toEqual(["first", "first", "next"].map((title) => ({ page: { title } })));
  });
});

describe("the line about responses that nothing invalidates", () => {
  const typeDefs = /* GraphQL */ `
    type Query {
      cached: Int @cached(maxAge: 60) @cacheControl(maxAge: 60)
      kept: Int @cacheControl(maxAge: 60)
      unhinted: Int
      never: Int @cacheControl(maxAge: 0)
      page: Page @cacheControl(maxAge: 60)
    }
    type Page { id: ID! title: String }
  `;
  const resolvers = { Query: { page: () => ({ __typename: "Page", id: "1" }) } };

  async function linesAbout(sdl: string, applied: Parameters<typeof applyCached>[2]): Promise<readonly string[]> {
    const lines: string[] = [];
    const cache = createCache({
      defaultScope: "PUBLIC",
      logger: { info: (line) => lines.push(line), warn: () => undefined },
    });
    onTestFinished(() => cache.close());
    const made = makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, sdl], resolvers });
    const schema = applyCached(made, cache, applied);
    await cache.execute({ schema, document: parse("{ __typename }"), contextValue: {} });
    return lines.filter((line) => line.includes("whatever changes"));
  }

  it("names fields with a hint, and none that are cached or may not be kept", async () => {
    const [line, ...others] = await linesAbout(typeDefs, undefined);
    expect(line).toContain("`Query.kept`, `Query.page` are kept");
    expect(others).toEqual([]);
  });

  it("names none whose entities are tags of the response", async () => {
    expect(await linesAbout(typeDefs, { entityTags: true })).toEqual([
      expect.stringContaining("responses with `Query.kept` are kept"),
    ]);
  });

  it("is absent if there are no such fields", async () => {
    expect(await linesAbout(typeDefs.replace("kept: Int @cacheControl(maxAge: 60)", ""), { entityTags: true })).toEqual(
      [],
    );
  });
});
