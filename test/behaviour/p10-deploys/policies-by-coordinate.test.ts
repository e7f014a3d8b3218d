import { buildSubgraphSchema } from "@apollo/subgraph";
import { settle } from "@graphql-cached/testing";
import { GraphQLObjectType, GraphQLSchema, GraphQLString, graphql, parse } from "graphql";
import type { ApplyCachedOptions, CachedError } from "graphql-cached";
import { applyCached, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { checkServed } from "../../../src/core/directive/compile/served-schema.js";
import { partsOf } from "../../../src/core/parts.js";
import { HINTS, openSite } from "../../responses/site.js";
import { errorOf, listen, schemaOf } from "../../support/listen.js";
import { memoryWorld } from "../../support/world.js";

type Policies = NonNullable<ApplyCachedOptions["policies"]>;

/** A schema that its team cannot annotate. */
const generated = /* GraphQL */ `
  interface Node { id: ID! }
  enum Genre { HORROR }
  type Query { movie(id: ID!): Movie latest: Movie titles: [String!]! viewer: String }
  type Movie implements Node { id: ID! title: String stars(source: String): Float }
  type Mutation { rate(id: ID!): Movie }
`;

/** The value of each field counts its loads. */
function createSite(policies: Policies, typeDefs = generated, options: object = {}) {
  const loads = { movie: 0, latest: 0, titles: 0, viewer: 0, stars: 0 };
  const titled = (field: "movie" | "latest", id: unknown) => ({ id, title: `${field} ${++loads[field]}` });
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => titled("movie", id),
      latest: () => titled("latest", "9"),
      titles: () => [`titles ${++loads.titles}`],
      viewer: (_: unknown, _args: object, { user }: { user: string }) => `${user} ${++loads.viewer}`,
    },
    Movie: { stars: () => ++loads.stars },
  };
  const process = memoryWorld().process(typeDefs, resolvers, options, { policies });
  const ask = async (source: string, context: object = {}): Promise<unknown> => {
    const { data, errors } = await process.ask(source, context);
    await settle();
    return errors?.[0]?.message ?? data;
  };
  return { ...process, ask, loads };
}

/** The mistakes that applyCached finds, one a line. */
function mistakesOf(policies: unknown, typeDefs = generated): string[] {
  const apply = () => applyCached(schemaOf(typeDefs), listen().cache, { policies } as ApplyCachedOptions);
  const { message, cause } = errorOf(apply);
  return Array.isArray(cause) ? cause.map((one: CachedError) => `${one.message} [${one.code}]`) : [message];
}

describe("policies by coordinate", () => {
  it("cache a field of a schema without a directive, with key, tags and invalidation", async () => {
    const { ask, cache, loads } = createSite({ "Query.movie": { maxAge: 60, tags: ["Movie:{$args.id}"] } });
    const source = '{ movie(id: "7") { title } }';
    expect(await ask(source)).toEqual({ movie: { title: "movie 1" } });
    expect(await ask(source)).toEqual({ movie: { title: "movie 1" } });
    await ask('{ movie(id: "8") { title } }');
    expect(loads.movie).toBe(2);
    await cache.invalidateTags(["Movie:7"]);
    expect(await ask(source)).toEqual({ movie: { title: "movie 3" } });
    await cache.invalidate({ coordinate: "Query.movie", args: { id: "7" } });
    expect(await ask(source)).toEqual({ movie: { title: "movie 4" } });
  });

  it("cache every field that returns a type, by the coordinate of the type", async () => {
    const { ask, loads } = createSite({ Movie: { maxAge: 60 }, "Query.latest": { maxAge: 0 } });
    for (let nth = 0; nth < 2; nth++) await ask('{ movie(id: "7") { title } latest { title } }');
    expect(loads).toMatchObject({ movie: 1, latest: 2 });
  });

  it("override a directive argument by argument, and leave its other arguments", async () => {
    const annotated = generated
      .replace("latest: Movie", 'latest: Movie @cached(maxAge: 10, staleIfError: 90, tags: ["Latest"])')
      .replace("titles: [String!]!", "titles: [String!]! @cached(maxAge: 10)");
    const policies = { "Query.latest": { maxAge: 300 }, "Query.titles": { maxAge: 0 } };
    const { cache: inspected } = listen();
    const resolvers = inspectionResolvers(inspected, { allow: () => true });
    const schema = applyCached(schemaOf(`${inspectionTypeDefs} ${annotated}`, resolvers), inspected, { policies });
    const source = "{ cacheInspection { policies { coordinate policy { maxAge staleIfError tags } } } }";
    const { data } = await graphql({ schema, source });
    const policy = { maxAge: 300, staleIfError: 90, tags: ["Latest"] };
    expect(data).toEqual({ cacheInspection: { policies: [{ coordinate: "Query.latest", policy }] } });
    const { cache, ask, loads } = createSite(policies, annotated);
    for (let nth = 0; nth < 2; nth++) await ask("{ latest { title } titles }");
    expect(loads).toMatchObject({ latest: 1, titles: 2 });
    await cache.invalidateTags(["Latest"]);
    await ask("{ latest { title } }");
    expect(loads.latest).toBe(2);
  });

  const ON_FIELD = (more: string) => generated.replace("latest: Movie", `$& @cached(maxAge: 60, ${more})`);
  const ON_TYPE = (more: string) => generated.replace("type Movie implements Node", `$& @cached(maxAge: 60, ${more})`);
  it.each([
    ["a negativeMaxAge of its directive", ON_FIELD("negativeMaxAge: 30")],
    ["a maxAgeLimit of its directive", ON_FIELD("maxAgeLimit: 90")],
    ["a negativeMaxAge of its type", ON_TYPE("negativeMaxAge: 30")],
    ["a maxAgeLimit of its type", ON_TYPE("maxAgeLimit: 90")],
  ])("turn a field off, and change its maxAge, whatever follows from it for %s", async (_, typeDefs) => {
    for (const maxAge of [0, 10, 300]) {
      const { ask, loads } = createSite({ "Query.latest": { maxAge } }, typeDefs);
      for (let nth = 0; nth < 2; nth++) await ask("{ latest { title } }");
      expect([maxAge, loads.latest]).toEqual([maxAge, maxAge === 0 ? 2 : 1]);
    }
  });

  it("are not needed to turn a field off under a type with a negativeMaxAge", async () => {
    const typeDefs = ON_TYPE("negativeMaxAge: 30").replace("latest: Movie", "$& @cached(maxAge: 0)");
    const { ask, loads } = createSite({}, typeDefs);
    for (let nth = 0; nth < 2; nth++) await ask('{ movie(id: "7") { title } latest { title } }');
    expect(loads).toMatchObject({ movie: 1, latest: 2 });
  });

  it("override extensions.cached of a code-first schema", async () => {
    let loads = 0;
    const extensions = { cached: { maxAge: 0, tags: ["Site"] } };
    const site = { type: GraphQLString, extensions, resolve: () => `site ${++loads}` };
    const query = new GraphQLObjectType({ name: "Query", fields: { site } });
    const { cache } = listen();
    const schema = applyCached(new GraphQLSchema({ query }), cache, { policies: { "Query.site": { maxAge: 60 } } });
    const ask = async () => {
      const { data } = await graphql({ schema, source: "{ site }", contextValue: {} });
      await settle();
      return data?.site;
    };
    expect([await ask(), await ask()]).toEqual(["site 1", "site 1"]);
    await cache.invalidateTags(["Site"]);
    expect(await ask()).toBe("site 2");
  });

  it("keep PRIVATE values apart, as the directive does", async () => {
    const identify = ({ user }: { user: string }) => user;
    const { ask } = createSite({ "Query.viewer": { maxAge: 60, scope: "PRIVATE" } }, generated, { identify });
    const seen: unknown[] = [];
    for (const user of ["ann", "bob", "ann"]) seen.push(await ask("{ viewer }", { user }));
    expect(seen).toEqual([{ viewer: "ann 1" }, { viewer: "bob 2" }, { viewer: "ann 1" }]);
  });

  it("keep a response out of the store if they turn one of its fields off", async () => {
    const hinted = `${HINTS} type Query { site: String @cacheControl(maxAge: 600) }`;
    for (const policy of [undefined, { maxAge: 0 }]) {
      let loads = 0;
      const resolvers = { Query: { site: () => `site ${++loads}` } };
      const applied = { policies: { "Query.site": policy } };
      const { ask } = openSite({ typeDefs: hinted, resolvers, server: "cache.execute", applied });
      await ask("{ site }");
      expect((await ask("{ site }")).data).toEqual({ site: policy === undefined ? "site 1" : "site 2" });
    }
  });

  it("are reported as lost by a server that got another schema than that of applyCached", async () => {
    const { cache, warnings } = listen();
    const schema = schemaOf(generated, { Query: { latest: () => null, titles: () => [] } });
    applyCached(schema, cache, { policies: { "Query.titles": { maxAge: 60 }, Movie: { maxAge: 60 } } });
    checkServed(schema, partsOf(cache, "test"), "server");
    expect(warnings).toEqual([
      expect.stringMatching(/^server: .* in which `Query\.latest`, `Query\.titles` do not use the cache/),
    ]);
  });

  it("cache the references to an entity of a federation subgraph", async () => {
    let loads = 0;
    const typeDefs = parse('type Movie @key(fields: "id") { id: ID! title: String } type Query { site: String }');
    const __resolveReference = ({ id }: { id: string }) => ({ id, title: `title ${++loads}` });
    const subgraph = buildSubgraphSchema({ typeDefs, resolvers: { Movie: { __resolveReference } } });
    const { cache } = listen();
    const schema = applyCached(subgraph, cache, { policies: { Movie: { maxAge: 60 } } });
    const source = '{ _entities(representations: [{ __typename: "Movie", id: "7" }]) { ... on Movie { title } } }';
    for (let nth = 0; nth < 2; nth++) {
      const { data } = await graphql({ schema, source, contextValue: {} });
      expect(data).toEqual({ _entities: [{ title: "title 1" }] });
      await settle();
    }
    await cache.invalidateTags(["Movie:7"]);
    await graphql({ schema, source, contextValue: {} });
    expect(loads).toBe(2);
  });

  it("are refused with the mistakes that the directive has, each with its coordinate", () => {
    expect(
      mistakesOf({
        "Query.movie": { maxAge: -1 },
        "Query.latest": { ttl: 60 },
        "Query.titles": { maxAge: 60, key: ["$args.no"] },
        "Query.viewer": "60",
        "Movie.stars": { maxAge: 60, scope: "PRIVATE" },
        "Mutation.rate": { maxAge: 60 },
        "Node.id": { maxAge: 60 },
      }),
    ).toEqual([
      "policies on `Node.id`: interface fields have no resolver; put the policy on the fields of the object types [CACHED_POLICY_INVALID]",
      "policies on `Query.movie`: `maxAge`: expected an integer of at least 0 (seconds), got -1 [CACHED_POLICY_INVALID]",
      expect.stringMatching(
        /^policies on `Query\.latest`: `ttl`: unknown setting; .*; did you mean `maxAge`, in seconds\?/,
      ),
      'policies on `Query.viewer`: expected an object of policy settings, got "60" [CACHED_POLICY_INVALID]',
      "policies on `Mutation.rate`: mutation and subscription fields are never cached; remove the policy [CACHED_POLICY_INVALID]",
      "policies on `Query.titles`: `$args.no`: unknown argument or input field `no`; the field has no arguments [CACHED_POLICY_INVALID]",
      "policies on `Movie.stars`: `scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId }) [CACHED_SCOPE_MISSING]",
    ]);
  });

  it("are refused for coordinates that the schema does not have, with the one that was probably meant", () => {
    const UNKNOWN =
      ": expected the coordinate of a field, an object type, an interface or a union of the schema, got an unknown one";
    expect(
      mistakesOf({
        "Query.movei": { maxAge: 60 },
        Moovie: { maxAge: 60 },
        Genre: { maxAge: 60 },
        "Movie.__resolveReference": { maxAge: 60 },
        constructor: { maxAge: 60 },
      }).map((line) => line.replace(UNKNOWN, "")),
    ).toEqual([
      "policies on `Query.movei`; did you mean `Query.movie`? [CACHED_POLICY_INVALID]",
      "policies on `Moovie`; did you mean `Movie`? [CACHED_POLICY_INVALID]",
      "policies on `Genre` [CACHED_POLICY_INVALID]",
      "policies on `Movie.__resolveReference`; did you mean `Movie`? [CACHED_POLICY_INVALID]",
      "policies on `constructor` [CACHED_POLICY_INVALID]",
    ]);
  });

  it("are refused if they are no object", () => {
    for (const policies of [null, [], 60])
      expect(mistakesOf(policies)).toEqual([
        expect.stringMatching(
          /^applyCached: `policies`: expected an object of policies by coordinate, such as \{ "Query\.movie": \{ maxAge: 60 \} \}, got /,
        ),
      ]);
    const policies = { "Query.movie": undefined };
    expect(() => applyCached(schemaOf(generated), listen().cache, { policies } as never)).not.toThrow();
  });

  it("say which place a mistake is in, if a directive has the argument", () => {
    const annotated = generated.replace("latest: Movie", 'latest: Movie @cached(maxAge: 10, key: ["$args.no"])');
    expect(mistakesOf({ "Query.latest": { maxAge: 60 } }, annotated)).toEqual([
      expect.stringMatching(/^@cached on `Query\.latest`: `\$args\.no`/),
    ]);
  });

  it("are refused if the cache was applied to the schema with others before, and are the same in any order", () => {
    const [movie, latest] = [{ maxAge: 60, version: "2" }, { maxAge: 30 }];
    const { schema, cache } = createSite({ "Query.movie": movie, "Query.latest": latest });
    expect(() => applyCached(schema, cache, { policies: { "Query.movie": { maxAge: 30 } } })).toThrow(
      expect.objectContaining({ code: "CACHED_OPTION_INVALID", message: expect.stringContaining('"maxAge":60') }),
    );
    const policies = { "Query.latest": latest, "Query.movie": { version: "2", maxAge: 60 } };
    expect(applyCached(schema, cache, { policies })).toBeDefined();
  });
});
