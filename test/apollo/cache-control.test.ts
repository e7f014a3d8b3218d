import { ApolloServer } from "@apollo/server";
import { ApolloServerPluginCacheControl } from "@apollo/server/plugin/cacheControl";
import responseCachePlugin from "@apollo/server-plugin-response-cache";
import { FakeClock, settle } from "@graphql-cached/testing";
import fc from "fast-check";
import { graphql } from "graphql";
import { type ApplyCachedOptions, memoryStore, type RefreshJob } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { apolloOf, askApollo, type Context, HINTS, openSite, type SiteOptions } from "../responses/site.js";

function applied(
  typeDefs: string,
  resolvers: object,
  cacheControl: ApplyCachedOptions["cacheControl"] = true,
  options: Partial<SiteOptions> = {},
) {
  const site = openSite({ typeDefs, resolvers: resolvers as never, applied: { cacheControl }, ...options });
  const policies = Object.fromEntries(
    [...partsOf(site.cache, "test").rules.fields.values()].map(({ coordinate, policy }) => [
      coordinate,
      `${policy.maxAgeMs / 1000} ${policy.scope}`,
    ]),
  );
  return { ...site, policies };
}

const blogTypes = /* GraphQL */ `
  type Query {
    post(id: ID!): Post
    posts: [Post!]! @cacheControl(maxAge: 60)
    me: User @cacheControl(maxAge: 30, scope: PRIVATE)
    node: Node @cacheControl(maxAge: 90)
    thing: Thing
    unhinted: User
    off: Int @cacheControl(maxAge: 0)
    scopeOnly: Int @cacheControl(scope: PRIVATE)
    now: Int
    explicit: Post @cached(maxAge: 7)
    tagged: Post @cached(tags: ["Posts"])
    withScope: User @cacheControl(maxAge: 50) @cached(scope: PRIVATE)
    address: Address @cacheControl(maxAge: 400)
    holder: Holder @cacheControl(maxAge: 400)
    mail: Mail @cacheControl(maxAge: 40)
  }
  interface Node @cacheControl(maxAge: 70) { id: ID! }
  union Thing @cacheControl(maxAge: 80) = Note | Post
  type Note implements Node { id: ID! text: String @cacheControl(maxAge: 20) }
  type Post @cacheControl(maxAge: 240) {
    id: ID!
    title: String
    votes: Int @cacheControl(maxAge: 30)
    author: User @cacheControl(maxAge: 100)
    comments: [String!]
    meta: Address @cacheControl(inheritMaxAge: true)
    related: [Post!]! @cacheControl(inheritMaxAge: true)
  }
  type User { id: ID! name: String }
  type Address { street: Street @cacheControl(inheritMaxAge: true) }
  type Street { name: String }
  type Holder { address: Address }
  type Mail { body: String @cacheControl(scope: PRIVATE) }
  type Mutation { write: Post @cacheControl(maxAge: 10) }
`;
const value = () => null;
const blogResolvers = {
  Query: Object.fromEntries(
    [...blogTypes.slice(0, blogTypes.indexOf("interface")).matchAll(/^ {4}(\w+)/gm)].map(([, name]) => [name, value]),
  ),
  Mutation: { write: value },
  Post: { author: value, comments: value, related: value },
};

describe("applyCached with cacheControl", () => {
  it("caches root fields by their hints, no longer than what their values contain", () => {
    expect(applied(blogTypes, blogResolvers).policies).toEqual({
      "Query.post": "30 PUBLIC",
      "Query.posts": "30 PUBLIC",
      "Query.me": "30 PRIVATE",
      "Query.node": "20 PUBLIC",
      "Query.thing": "20 PUBLIC",
      "Query.explicit": "7 PUBLIC",
      "Query.tagged": "30 PUBLIC",
      "Query.withScope": "50 PRIVATE",
      "Query.address": "400 PUBLIC",
      "Query.mail": "40 PRIVATE",
    });
  });

  it("caches fields below the root that have a resolver of their own, if an option asks for it", () => {
    const { policies } = applied(blogTypes, blogResolvers, { fields: "ALL" });
    expect(policies["Post.author"]).toBe("100 PUBLIC");
    expect(policies["Post.comments"]).toBeUndefined();
    expect(policies["Post.votes"]).toBeUndefined();
    expect(policies["Mutation.write"]).toBeUndefined();
  });

  it("takes the default maxAge of Apollo's plugin for root fields and fields that return types with fields", () => {
    const { policies } = applied(blogTypes, blogResolvers, { defaultMaxAge: 5 });
    expect(policies).toMatchObject({
      "Query.unhinted": "5 PUBLIC",
      "Query.now": "5 PUBLIC",
      "Query.holder": "5 PUBLIC",
    });
    expect(policies).not.toHaveProperty("Query.off");
    expect(policies["Query.scopeOnly"]).toBe("5 PRIVATE");
  });

  it("leaves hints to the server unless it is asked for", () => {
    const typeDefs = blogTypes.replace(/@cached\((tags|scope):/g, "@cached(maxAge: 1, $1:");
    const { policies } = applied(typeDefs, blogResolvers, false);
    expect(Object.keys(policies)).toEqual(["Query.explicit", "Query.tagged", "Query.withScope"]);
  });

  it("reports at start-up which hints it cannot carry over, and what to do", () => {
    const typeDefs = /* GraphQL */ `
      type Query { holder: Holder @cacheControl(maxAge: 400) film: Film @cacheControl(maxAge: 5) }
      interface Named { name: String @cacheControl(maxAge: 5) }
      type Holder { address: Address }
      type Address { street: String }
      type Film implements Named { id: ID! name: String cast: Cast @cacheControl(maxAge: 9) similar: [Film] @cacheControl(inheritMaxAge: true) }
      type Cast { lead: Address @cacheControl(maxAge: 3) }
    `;
    const resolvers = {
      Query: { holder: value, film: value },
      Film: { cast: value, similar: value },
      Cast: { lead: value },
    };
    expect(applied(typeDefs, resolvers, { fields: "ALL" }).lines).toEqual([
      [
        "graphql-cached: applyCached: 4 hints of @cacheControl without effect on the cache:",
        "- `Query.holder`: its value contains `Holder.address`, which has no hint; add @cacheControl(inheritMaxAge: true) to that field, or add @cached to `Query.holder`",
        "- `Film.similar`: `inheritMaxAge` of a field with a resolver: its parents differ from query to query; write the maxAge",
        "- `Cast.lead`: `Cast` has no field `id`; add @cached(key: […]) with what identifies the parent of `lead`",
        "- `Named.name`: hints on fields of interfaces have no effect, with Apollo either; put them on the fields of the object types",
      ].join("\n"),
    ]);
    const [line] = applied(typeDefs, resolvers).lines;
    expect(line).toContain('- `Film.cast`: it is not a field of the query type; pass cacheControl: { fields: "ALL" }');
  });

  it("refuses PRIVATE hints without identify, PUBLIC ones under an auth directive, and unknown options", () => {
    const typeDefs =
      "directive @auth on FIELD_DEFINITION type Query { a: Int @cacheControl(maxAge: 5) @auth b: Int @cacheControl(maxAge: 5, scope: PUBLIC) @auth c: Int @cacheControl(maxAge: 5, scope: PRIVATE) }";
    const resolvers = { Query: { a: value, b: value, c: value } };
    const refusal = (): unknown => applied(typeDefs, resolvers, true, { cache: { identify: undefined } });
    expect(refusal).toThrow(
      /found 2 mistakes.*`Query\.a`: `scope`: expected a declaration.*`Query\.c`: `scope`: PRIVATE requires/s,
    );
    const withOptions = (options: unknown) => () => applied("type Query { a: Int }", {}, options as never);
    expect(withOptions("yes")).toThrow('`cacheControl`: expected true, false or an object of options, got "yes"');
    expect(withOptions({ maxAge: 5 })).toThrow("`cacheControl.maxAge`: unknown option");
    expect(withOptions({ fields: "NONE" })).toThrow('`cacheControl.fields`: expected "ROOT" or "ALL", got "NONE"');
    expect(withOptions({ defaultMaxAge: -1 })).toThrow("`cacheControl.defaultMaxAge`: expected an integer");
  });
});

/** A random schema in which objects are nested without cycles, and a query of everything in the value of its root field. */
const nestedSchema = fc
  .record({
    hints: fc.array(
      fc.record({
        maxAge: fc.option(fc.constantFrom(0, 1, 2, 3, 4, 5), { nil: undefined, freq: 2 }),
        scope: fc.option(fc.constantFrom("PUBLIC", "PRIVATE"), { nil: undefined, freq: 2 }),
        inheritMaxAge: fc.option(fc.boolean(), { nil: undefined, freq: 2 }),
      }),
      { minLength: 10, maxLength: 10 },
    ),
    isHinted: fc.array(fc.boolean(), { minLength: 10, maxLength: 10 }),
    defaultMaxAge: fc.constantFrom(0, 0, 3),
  })
  .map(({ hints, isHinted, defaultMaxAge }) => {
    const hint = (nth: number): string => {
      const given = Object.entries(hints[nth] ?? {}).filter(([, argument]) => argument !== undefined);
      if (isHinted[nth] !== true || given.length === 0) return "";
      return `@cacheControl(${given.map(([name, argument]) => `${name}: ${argument}`).join(", ")})`;
    };
    const typeDefs = `
      type Query { root: A ${hint(0)} leaf: Int ${hint(1)} }
      type A ${hint(2)} { id: ID ${hint(3)} b: B ${hint(4)} }
      type B ${hint(5)} { n: Int ${hint(6)} u: U ${hint(7)} }
      union U ${hint(8)} = C
      type C { n: Int ${hint(9)} }`;
    return { typeDefs, defaultMaxAge };
  });

it("gives a field the policy that Apollo gives a response with everything its value contains", async () => {
  const root = { id: 1, b: { n: 1, u: { __typename: "C", n: 1 } } };
  const resolvers = { Query: { root: () => root, leaf: () => 1 } };
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(nestedSchema, async ({ typeDefs, defaultMaxAge }) => {
      const { policies } = applied(typeDefs, resolvers, { defaultMaxAge });
      const server = new ApolloServer({
        typeDefs: [HINTS, typeDefs],
        resolvers,
        plugins: [ApolloServerPluginCacheControl({ defaultMaxAge })],
      });
      for (const [field, query] of [
        ["Query.root", "{ root { id b { n u { ... on C { n } } } } }"],
        ["Query.leaf", "{ leaf }"],
      ] as const) {
        const { http } = await server.executeOperation({ query });
        const [, maxAge, scope] = /^max-age=(\d+), (\w+)$/.exec(http.headers.get("cache-control") ?? "") ?? [];
        const expected = maxAge === undefined ? undefined : `${maxAge} ${scope?.toUpperCase()}`;
        seen.add(expected ?? "none");
        expect(policies[field]).toBe(expected);
      }
    }),
    { numRuns: 40 },
  );
  expect(seen.size).toBeGreaterThan(3);
}, 60_000);

const pageTypes = /* GraphQL */ `
  type Query {
    top: Int @cacheControl(maxAge: 60)
    mine: Int @cacheControl(maxAge: 60, scope: PRIVATE)
    short: Int @cacheControl(maxAge: 60)
    replaced: Int @cacheControl(maxAge: 60)
    never: Int @cacheControl(maxAge: 60)
    secret: Int @cacheControl(maxAge: 60)
  }
`;

interface Info {
  readonly cacheControl: {
    setCacheHint(hint: object): void;
    readonly cacheHint: { maxAge: number; scope: string; replace(hint: object): void; restrict(hint: object): void };
  };
}

function pageResolvers(loads: string[]) {
  const field =
    (name: string, setHint: (info: Info) => void) => (_: unknown, __: unknown, ___: unknown, info: Info) => {
      loads.push(name);
      setHint(info);
      return loads.length;
    };
  return {
    Query: {
      top: field("top", () => undefined),
      mine: field("mine", () => undefined),
      short: field("short", ({ cacheControl }) => cacheControl.setCacheHint({ maxAge: 5 })),
      replaced: field("replaced", ({ cacheControl }) => cacheControl.cacheHint.replace({ maxAge: 5 })),
      never: field("never", ({ cacheControl }) => {
        cacheControl.cacheHint.maxAge = 0;
      }),
      secret: field("secret", ({ cacheControl }) => cacheControl.cacheHint.restrict({ scope: "PRIVATE" })),
    },
  };
}

describe("a schema written for Apollo's response cache", () => {
  it("is loaded as often as with the response cache, query by query", async () => {
    const [ours, theirs]: [string[], string[]] = [[], []];
    const servers = [
      apolloOf(applied(pageTypes, pageResolvers(ours)), { responses: false }),
      new ApolloServer<Context>({
        typeDefs: [HINTS, pageTypes],
        resolvers: pageResolvers(theirs) as never,
        plugins: [responseCachePlugin({ sessionId: async ({ contextValue }) => contextValue.user ?? null })],
      }),
    ];
    const headers: unknown[][] = [[], []];
    for (const asked of ["ann top", "bob top", "ann mine", "ann mine", "bob mine", "ann never", "ann never"]) {
      const [user = "", name] = asked.split(" ");
      for (const [nth, server] of servers.entries())
        headers[nth]?.push((await askApollo(server, `{ ${name} }`, { user })).http.headers.get("cache-control"));
    }
    expect(ours).toEqual(["top", "mine", "mine", "never", "never"]);
    expect(ours).toEqual(theirs);
    expect(headers[0]).toEqual(headers[1]);
  });

  it("keeps a value no longer than the hint that its resolver sets, and not at all if that is PRIVATE", async () => {
    const loads: string[] = [];
    const site = applied(pageTypes, pageResolvers(loads));
    const { clock, lines } = site;
    const server = apolloOf(site, { responses: false });
    const ask = async (): Promise<string[]> => {
      loads.length = 0;
      for (const name of ["top", "short", "replaced", "never", "secret"]) {
        const { http } = await askApollo(server, `{ ${name} }`, { user: "ann" });
        expect(http.headers.get("cache-control")).toBeDefined();
      }
      return [...loads];
    };
    expect(await ask()).toEqual(["top", "short", "replaced", "never", "secret"]);
    expect(await ask()).toEqual(["never", "secret"]);
    await clock.advance(6_000);
    expect(await ask()).toEqual(["short", "replaced", "never", "secret"]);
    expect(lines).toEqual([
      "graphql-cached: `Query.secret`: the value is not cached: expected a PUBLIC value, got one for which its resolver set the cache hint PRIVATE; set scope: PRIVATE, or scope: PUBLIC on the field itself if every caller gets the same value",
    ]);
  });

  it("keeps the shorter hint of a load that a worker runs", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const jobs: RefreshJob[] = [];
    const loads: string[] = [];
    const site = (refreshQueue?: (job: RefreshJob) => void) =>
      applied(
        pageTypes.replaceAll("(maxAge: 60)", "(maxAge: 60) @cached(staleWhileRevalidate: 600)"),
        pageResolvers(loads),
        true,
        { store, clock, cache: { prefix: "worker", ...(refreshQueue && { loads: { refreshQueue } }) } },
      );
    const web = site((job) => void jobs.push(job));
    const worker = site();
    const server = apolloOf(web, { own: [] });
    const ask = () => askApollo(server, "{ replaced }");
    await ask();
    await clock.advance(6_000);
    await ask();
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    await ask();
    expect(jobs).toHaveLength(1);
    await clock.advance(6_000);
    await ask();
    expect(jobs).toHaveLength(2);
    expect(loads).toEqual(["replaced", "replaced"]);
  });

  it("works on other servers, where resolvers set no hints", async () => {
    const loads: string[] = [];
    const { schema } = applied(pageTypes, pageResolvers(loads));
    for (let request = 0; request < 2; request++) {
      expect((await graphql({ schema, source: "{ top }", contextValue: {} })).data).toEqual({ top: 1 });
      await settle();
    }
  });
});
