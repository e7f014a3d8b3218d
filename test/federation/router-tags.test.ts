import { ApolloServer } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { GraphQLString } from "graphql";
import type { CacheOptions } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { nameOfSubject, type Subject } from "../../src/core/keys/key.js";
import { EntityReads } from "../../src/servers/edge/router-tags.js";
import { subgraph } from "../support/subgraph.js";

const HINTS = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT
`;
const typeDefs = /* GraphQL */ `
  ${HINTS}
  type Query {
    top(count: Int!): [Movie] @cached(maxAge: 60, tags: ["top"]) @cacheControl(maxAge: 60)
    plain: String
  }
  type Mutation { rate: Boolean }
  type Movie @key(fields: "id") @cached(maxAge: 60) @cacheControl(maxAge: 60) {
    id: ID!
    title: String
    director: Director @cached(maxAge: 60, key: ["$source.directorId"], tags: ["Director:{$source.directorId}"]) @cacheControl(maxAge: 60)
    reviews: Int @cacheControl(maxAge: 60)
  }
  type Director @cacheControl(maxAge: 60) { name: String }
`;
const movie = (id: string) => ({ id, title: `Movie ${id}`, directorId: id === "3" ? "20" : "10" });

interface Context {
  readonly reviews: { load(id: string): Promise<unknown> };
}

/** The response of a subgraph behind Apollo Router. */
interface Answer {
  readonly data?: unknown;
  readonly root: readonly string[] | undefined;
  readonly entities: readonly (readonly string[])[] | undefined;
  readonly cacheControl: string | undefined;
}

function open(options: { responses?: boolean; cache?: CacheOptions<never>; top?: () => unknown } = {}) {
  const { cache, schema } = subgraph(
    typeDefs,
    {
      Query: { top: options.top ?? (() => [movie("1")]), plain: () => "plain" },
      Movie: {
        __resolveReference: ({ id }: { id: string }) => movie(id),
        director: ({ directorId }: { directorId: string }) => ({ name: `Director ${directorId}` }),
        reviews: ({ id }: { id: string }, _: unknown, { reviews }: Context) => reviews.load(id),
      },
    },
    options.cache,
  );
  const loader = cache.loader<string, number, Context>({
    name: "Reviews",
    batch: async (ids) => ids.map(Number),
    maxAge: 60,
    tags: (id) => [`Reviews:${id}`],
  });
  const plugin = cachedPlugin(cache, { routerTags: true, responses: options.responses ?? false });
  const server = new ApolloServer<object>({ schema, plugins: [plugin], allowBatchedHttpRequests: true });
  onTestFinished(() => server.stop().catch(() => undefined));
  const ask = async (query: string, variables = {}): Promise<Answer> => {
    const contextValue: { reviews?: Context["reviews"] } = {};
    contextValue.reviews = loader(contextValue as Context) as Context["reviews"];
    const { body, http } = await server.executeOperation({ query, variables }, { contextValue });
    await settle();
    const { data, extensions = {} } = body.kind === "single" ? body.singleResult : {};
    return {
      data,
      root: extensions.apolloCacheTags as Answer["root"],
      entities: extensions.apolloEntityCacheTags as Answer["entities"],
      cacheControl: http.headers.get("cache-control"),
    };
  };
  const entities = (ids: readonly string[], selection: string): Promise<Answer> =>
    ask(
      `query ($representations: [_Any!]!) { _entities(representations: $representations) { ... on Movie { ${selection} } } }`,
      { representations: ids.map((id) => ({ __typename: "Movie", id })) },
    );
  /** Which of the entities have a tag. */
  const having = ({ entities: all = [] }: Answer, tag: string): boolean[] =>
    all.map((tags) => tags.includes(cache.edgeTags([tag])[0] as string));
  let started: Promise<void> | undefined;
  /** One request with several operations. */
  const askAll = async (queries: readonly string[]) => {
    started ??= server.start();
    await started;
    const { body, headers } = await server.executeHTTPGraphQLRequest({
      httpGraphQLRequest: {
        method: "POST",
        headers: new Map([["content-type", "application/json"]]) as never,
        search: "",
        body: queries.map((query) => ({ query })),
      },
      context: async () => ({}),
    });
    const text = body.kind === "complete" ? body.string : "[]";
    const results = JSON.parse(text) as { readonly extensions?: { readonly apolloCacheTags?: readonly string[] } }[];
    return { roots: results.map((one) => one.extensions?.apolloCacheTags), cacheControl: headers.get("cache-control") };
  };
  return { cache, ask, askAll, entities, having };
}

describe("the tags for Apollo Router", () => {
  it("are those of the whole response for root fields", async () => {
    const { ask, cache } = open();
    for (const _ of [1, 2]) {
      const { root, entities, cacheControl } = await ask("{ top(count: 1) { title } }");
      expect(root).toEqual(expect.arrayContaining(cache.edgeTags(["top"])));
      expect([entities, cacheControl]).toEqual([undefined, "max-age=60, public"]);
    }
  });

  it("are those of each entity, in their order", async () => {
    const { entities, having } = open();
    for (const _ of [1, 2]) {
      const answer = await entities(["1", "2"], "title");
      expect(answer.entities).toHaveLength(2);
      expect([having(answer, "Movie:1"), having(answer, "Movie:2")]).toEqual([
        [true, false],
        [false, true],
      ]);
    }
  });

  it("are those of each entity in the form in which graphql 17 passes variables", () => {
    const reads = new EntityReads({ subjects: {} as never });
    const representations = [{ id: "1" }, { id: "2" }];
    const variableValues = {
      sources: { representations: { signature: { name: "representations", type: GraphQLString } } },
      coerced: { representations },
    };
    const subjects = representations.map((source, nth) => {
      const subject = nth as Subject;
      const { subjects } = reads.addShared(
        { name: source.id } as never,
        { path: { key: "_entities" }, variableValues },
        source,
      );
      subjects.add(subject);
      return subject;
    });
    const extensions = reads.extensions({ _entities: representations }, subjects, []);
    expect(extensions).toEqual({ apolloEntityCacheTags: subjects.map((subject) => [nameOfSubject(subject)]) });
  });

  it("of thousands of entities are found in linear work", () => {
    const reads = new EntityReads({ subjects: {} as never });
    const representations = Array.from({ length: 2_000 }, (_, id) => ({ id: `${id}` }));
    const subjects = representations.map((source, nth) => {
      const info = { path: { key: nth, prev: { key: "_entities" } } };
      const { subjects } = reads.addShared({ name: source.id } as never, info, source);
      subjects.add(nth as Subject);
      return nth as Subject;
    });
    const lookups = vi.spyOn(Set.prototype, "has");
    onTestFinished(() => lookups.mockRestore());
    const extensions = reads.extensions({ _entities: representations }, subjects, []);
    const count = lookups.mock.calls.length;
    lookups.mockRestore();
    expect(extensions).toEqual({ apolloEntityCacheTags: subjects.map((subject) => [nameOfSubject(subject)]) });
    expect(count).toBeLessThan(10 * representations.length);
  });

  it("of a value that several entities share are tags of each of them", async () => {
    const { entities, having } = open();
    for (const _ of [1, 2]) {
      const answer = await entities(["1", "2", "3"], "director { name }");
      expect([having(answer, "Director:10"), having(answer, "Director:20")]).toEqual([
        [true, true, false],
        [false, false, true],
      ]);
    }
  });

  it("of what loaders have read, which have no place, are tags of all entities", async () => {
    const { entities, having } = open();
    const answer = await entities(["1", "2"], "reviews");
    expect(answer.data).toEqual({ _entities: [{ reviews: 1 }, { reviews: 2 }] });
    expect([having(answer, "Reviews:1"), having(answer, "Reviews:2")]).toEqual([
      [true, true],
      [true, true],
    ]);
  });

  it("of a stored response are tags of all its entities", async () => {
    const { entities, having } = open({ responses: true });
    const answers = [];
    for (const _ of [1, 2, 3, 4]) answers.push(await entities(["1", "2"], "title"));
    for (const answer of answers) {
      expect(having(answer, "Movie:1")[0]).toBe(true);
      expect(having(answer, "Movie:2")[1]).toBe(true);
    }
  });

  it("contain what an invalidation of an entity purges", async () => {
    const purged: string[] = [];
    const { entities, cache } = open({ cache: { invalidation: { purge: ({ tags }) => purged.push(...tags) } } });
    const { entities: tags = [] } = await entities(["1", "2"], "title");
    await cache.invalidateTags(["Movie:2"]);
    expect(tags.map((of) => of.some((tag) => purged.includes(tag)))).toEqual([false, true]);
  });

  it("are in each response of a batch, none of which is kept if one cannot be", async () => {
    const { passed, open: go } = gate();
    let isHeld = false;
    const { askAll, cache } = open({ top: () => (isHeld ? passed : Promise.resolve()).then(() => [movie("1")]) });
    const queries = ["{ a: top(count: 1) { title } }", "{ b: top(count: 2) { title } }"];
    const { roots, cacheControl } = await askAll(queries);
    const [tag] = cache.edgeTags(["top"]);
    expect(roots.map((tags) => tags?.includes(tag as string))).toEqual([true, true]);
    expect(cacheControl).toBe("max-age=60, public");
    await cache.invalidateTags(["top"]);
    isHeld = true;
    const answer = askAll(queries);
    await settle();
    await cache.invalidateTags(["top"]);
    go();
    expect((await answer).cacheControl).toBe("no-store");
  });

  it("are missing, and the response is not to be kept, if a part was invalidated meanwhile", async () => {
    const { passed, open: go } = gate();
    const { ask, cache } = open({ top: () => passed.then(() => [movie("1")]) });
    const answer = ask("{ top(count: 1) { title } }");
    await settle();
    await cache.invalidateTags(["top"]);
    go();
    expect(await answer).toMatchObject({ root: undefined, cacheControl: "no-store" });
  });

  it("are missing where Apollo Server forbids to keep the response", async () => {
    const { ask } = open();
    expect(await ask("{ plain }")).toMatchObject({ root: undefined, entities: undefined, cacheControl: "no-store" });
    expect(await ask("mutation { rate }")).toMatchObject({ root: undefined, cacheControl: "no-store" });
  });

  it("are an option that is true or false", () => {
    const { cache } = open();
    expect(() => cachedPlugin(cache, { routerTags: "yes" as never })).toThrow(
      "cachedPlugin: `routerTags`: expected true or false",
    );
  });
});
