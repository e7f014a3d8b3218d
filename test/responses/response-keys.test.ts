import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { buildSchema, parse } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
  cachedTypeDefs,
  memoryStore,
  type ResponsesOptions,
} from "graphql-cached";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type Context, HINTS, openSite, SERVERS, type ServerName } from "./site.js";

describe.each(SERVERS)("the key of a response on %s", (server) => {
  const typeDefs = /* GraphQL */ `
    type Query {
      now: Int @cacheControl(maxAge: 60)
      sets(name: String!, to: String!): Int @cacheControl(maxAge: 60)
    }
  `;

  function open(responses: ResponsesOptions | true = true) {
    let executions = 0;
    const sets = (_: unknown, { name, to }: { name: string; to: string }, context: Record<string, unknown>) => {
      context[name] = to;
      return executions;
    };
    const resolvers = { Query: { now: () => ++executions, sets } };
    return { ...openSite({ typeDefs, resolvers, server, responses }), executions: () => executions };
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
    for (const user of [undefined, undefined, "ann", "bob"]) await ask("{ now }", { user } as Context);
    expect(executions()).toBe(2);
  });
});

describe("the responses of two schemas of one cache", () => {
  type Price = (source: unknown, args: unknown, context: { readonly locale?: string }) => unknown;

  /** Returns what adds schemas, and asks the one that was added for its price. */
  function openSchemas() {
    const { cache } = openSite({ typeDefs: "type Query { unused: Int }" });
    const other = () => 1;
    return (price: Price, field: string, options?: ApplyCachedOptions) => {
      const sdl = `type Query { price: ${field} other: Int @cached(maxAge: 60) }`;
      const made = makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, sdl] });
      const fields = made.getQueryType()?.getFields();
      // Not as resolvers of graphql-tools, which binds each.
      Object.assign(fields?.price as object, { resolve: price });
      Object.assign(fields?.other as object, { resolve: other });
      const schema = applyCached(made, cache, options);
      return async (query: string, contextValue: Context = {}): Promise<unknown> => {
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
    for (let round = 0; round < 3; round++)
      expect([await shop("{ price }"), await office("{ price }")]).toEqual([7, "7 less 2"]);
  });

  it.each([
    ["production", [1, 1, "staff 2", "staff 3"]],
    // A development server evaluates a changed module again.
    ["development", [1, 1, 1, 1]],
  ])("are not shared in production if a resolver of no cached field differs, in %s", async (env, expected) => {
    vi.stubEnv("NODE_ENV", env);
    onTestFinished(() => void vi.unstubAllEnvs());
    let calls = 0;
    const add = openSchemas();
    const shop = add(() => String(++calls), "String @cacheControl(maxAge: 60)");
    const answers = [await shop("{ price }"), await shop("{ price }")];
    const staff = add(() => `staff ${++calls}`, "String @cacheControl(maxAge: 60)");
    answers.push(await staff("{ price }"), await staff("{ price }"));
    expect(answers).toEqual(expected.map(String));
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

describe.each(SERVERS)("the line about responses that nothing invalidates, on %s,", (server) => {
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

  async function linesAbout(sdl: string, entityTags: boolean): Promise<readonly string[]> {
    const resolvers = { Query: { page: () => ({ __typename: "Page", id: "1" }) } };
    const { ask, infos } = openSite({ typeDefs: sdl, resolvers, server, applied: { entityTags } });
    await ask("{ __typename }");
    return infos.filter((line) => line.includes("whatever changes"));
  }

  it("names fields with a hint, and none that are cached or may not be kept", async () => {
    expect(await linesAbout(typeDefs, false)).toEqual([
      "graphql-cached: responses with `Query.kept`, `Query.page` are kept for their maxAge, whatever changes, unless their resolvers read cached fields or loaders; add @cached with tags to what mutations change",
    ]);
  });

  it("names none whose entities are tags of the response, and is absent if there are no other ones", async () => {
    expect(await linesAbout(typeDefs, true)).toEqual([expect.stringContaining("responses with `Query.kept` are kept")]);
    expect(await linesAbout(typeDefs.replace("kept: Int @cacheControl(maxAge: 60)", ""), true)).toEqual([]);
  });
});

/** Returns what opens sites on one store. */
function openShared(server: ServerName) {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const open = (typeDefs: string, resolvers: object, applied: ApplyCachedOptions = {}) =>
    openSite({ typeDefs, resolvers: resolvers as never, server, store, clock, applied });
  return { clock, open };
}

describe.each(SERVERS)("two releases on %s", (server) => {
  const greeting = (type: string, hint: string) => `type Query { greeting: ${type} @cacheControl(maxAge: 60${hint}) }`;

  it("share no response if one has made a field PRIVATE", async () => {
    const { open } = openShared(server);
    const resolvers = { Query: { greeting: (_: unknown, __: unknown, { user }: Context) => `Hello ${user}` } };
    await open(greeting("String", ""), resolvers).ask("{ greeting }", { user: "ann" });
    const after = open(greeting("String", ", scope: PRIVATE"), resolvers);
    for (const user of ["bob", "ann", "bob"])
      expect((await after.ask("{ greeting }", { user })).data).toEqual({ greeting: `Hello ${user}` });
  });

  it("share no response if a field has another type", async () => {
    const { open } = openShared(server);
    const before = open(greeting("String", ""), { Query: { greeting: () => "Hello" } });
    const after = open(greeting("Int", ""), { Query: { greeting: () => 1 } });
    const answers = [
      await before.ask("{ greeting }"),
      await after.ask("{ greeting }"),
      await before.ask("{ greeting }"),
    ];
    expect(answers.map(({ data }) => data?.greeting)).toEqual(["Hello", 1, "Hello"]);
  });

  it("share no response with an entry of a field after one has invalidated a key of it that the other one makes in another way", async () => {
    const { clock, open } = openShared(server);
    const release = (key: string) => {
      let executions = 0;
      const sdl = `type Query {
        movie(id: ID!, lang: String): String @cached(maxAge: 60${key}) @cacheControl(maxAge: 60)
        now: Int @cacheControl(maxAge: 60)
      }`;
      return open(sdl, { Query: { movie: () => "Heat", now: () => ++executions } });
    };
    const [old, next] = [release(""), release(', key: ["$args.id"]')];
    const entry = (id: number) => ({ coordinate: "Query.movie", args: { id } });
    const now = async (): Promise<unknown> => (await next.ask("{ now movie(id: 1) }")).data?.now;
    expect([await now(), await now()]).toEqual([1, 1]);
    await old.cache.invalidate(entry(1));
    expect([await now(), await now()]).toEqual([2, 2]);
    await old.cache.mutate({ entries: [entry(1)] }, async () => expect(await now()).toBe(3));
    // For how long a response that could not be stored is not tried again.
    await clock.advance(10_000);
    const kept = await now();
    expect(await now()).toBe(kept);
    await next.cache.invalidate(entry(2));
    expect(await now()).toBe(kept);
  });

  it.each<[ApplyCachedOptions, ApplyCachedOptions]>([
    [{}, { entityTags: true }],
    [{ entityTags: { exceptTypes: ["User"] } }, { entityTags: true }],
    [{ entityTags: true, idFields: { User: "name" } }, { entityTags: true }],
  ])("share no response if they tag entities in another way: %j and %j", async (before, after) => {
    const { open } = openShared(server);
    let title = "old";
    const sdl = `
      type Query { user: User @cacheControl(maxAge: 60) }
      type Mutation { rename: User }
      type User @cacheControl(maxAge: 60) { id: ID! name: String title: String }`;
    const resolvers = {
      Query: { user: () => ({ id: "1", name: "a", title }) },
      Mutation: { rename: () => ({ id: "1", name: "b" }) },
    };
    const [old, next] = [open(sdl, resolvers, before), open(sdl, resolvers, after)];
    for (const { ask } of [old, next, next])
      expect((await ask("{ user { title } }")).data).toEqual({ user: { title: "old" } });
    title = "new";
    await next.ask("mutation { rename { id } }");
    expect((await next.ask("{ user { title } }")).data).toEqual({ user: { title: "new" } });
  });
});

describe("two releases", () => {
  const SHOWN = '@shown(as: "TITLE")';
  const sdl = ({ field = "", type = "", interfaceField = "", extension = "" }): string => /* GraphQL */ `
    directive @shown(as: String) on FIELD_DEFINITION | OBJECT | INTERFACE
    directive @cached(maxAge: Int) on FIELD_DEFINITION
    ${HINTS}
    type Query { page: Page @cacheControl(maxAge: 60) }
    interface Titled { title: String ${interfaceField} }
    type Page implements Titled @cacheControl(maxAge: 60) ${type} { title: String ${field} }
    ${extension === "" ? "" : `extend type Page ${extension}`}
  `;

  it.each<[string, Parameters<typeof sdl>[0]]>([
    ["a field", { field: SHOWN }],
    ["a type", { type: SHOWN }],
    ["a field of an interface", { interfaceField: SHOWN }],
    ["an extension of a type", { extension: SHOWN }],
  ])("share no response if they differ in a directive of %s, which can decide what is shown", async (_, change) => {
    const { open } = openShared("cache.execute");
    const answers: unknown[] = [];
    for (const [title, made] of [
      ["first", {}],
      ["first again", {}],
      ["next", change],
    ] as const) {
      const { cache } = open("type Query { unused: Int }", {});
      // Other builders of schemas merge extensions into the types.
      const built = buildSchema(sdl(made));
      Object.assign(built.getQueryType()?.getFields().page as object, { resolve: () => ({ title }) });
      const document = parse("{ page { title } }");
      const { data } = await cache.execute({ schema: applyCached(built, cache), document, contextValue: {} });
      await cache.settled();
      answers.push(data);
    }
    expect(answers).toEqual(["first", "first", "next"].map((title) => ({ page: { title } })));
  });
});
