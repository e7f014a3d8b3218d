import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { expect, it, onTestFinished } from "vitest";
import { openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie: Movie @cached(maxAge: 60)
    movies: [Movie!] @cached(maxAge: 60)
    named: [Movie!] @cached(maxAge: 60, tags: ["Movie:{$result[].id}"])
  }
  type Mutation { rename(id: ID!): Movie }
  type Movie { id: ID! title: String sequel: Movie }
`;

function open() {
  const titles = new Map<string, string>();
  const movie = (id: string) => ({ id, title: titles.get(id) ?? `Movie ${id}` });
  function* streamed() {
    yield movie("2");
  }
  const resolvers = {
    Query: { movie: (): unknown => ({ ...movie("1"), sequel: () => movie("2") }), movies: streamed, named: streamed },
    Mutation: {
      rename: (_: unknown, { id }: { id: string }) => {
        titles.set(id, "Renamed");
        return movie(id);
      },
    },
  };
  const clock = new FakeClock();
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: memoryStore({ clock }),
    testing: { clock },
    logger: { warn: () => undefined, info: () => undefined },
    defaults: { jitter: 0, earlyRefresh: 0 },
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache, {
    entityTags: true,
  });
  return async (source: string) => {
    const result = await cache.execute({ schema, document: parse(source), contextValue: {} });
    await settle();
    return JSON.stringify(result.data);
  };
}

it.each([
  ["an object with a method", "{ movie { id sequel { id title } } }"],
  ["an iterator of entities", "{ movies { id title } }"],
  ["an iterator with tags of its items", "{ named { id title } }"],
])(
  "does not serve an old response after a mutation, if a cached field has returned %s, which cannot be stored",
  async (_, query) => {
    const ask = open();
    expect(await ask(query)).toContain("Movie 2");
    await ask(query);
    await ask('mutation { rename(id: "2") { id } }');
    expect(await ask(query)).toContain("Renamed");
  },
);

it("stores a response with the entities of a promise-like query, which is sent once, and tags it with them", async () => {
  let sent = 0;
  const query = {
    // biome-ignore lint/suspicious/noThenProperty: promise-like on purpose.
    get then() {
      return (resolve: (rows: unknown) => unknown) => {
        sent++;
        return Promise.resolve([{ id: "1", title: `Movie ${sent}` }]).then(resolve);
      };
    },
  };
  const { ask, cache } = openSite({
    typeDefs: `type Query { movies: [Movie!] @cacheControl(maxAge: 60) }
      type Movie @cacheControl(maxAge: 60) { id: ID! title: String }`,
    resolvers: { Query: { movies: () => query } },
    server: "cache.execute",
    applied: { entityTags: true },
  });
  for (let nth = 0; nth < 3; nth++)
    expect((await ask("{ movies { id title } }")).data).toEqual({ movies: [{ id: "1", title: "Movie 1" }] });
  expect(sent).toBe(1);
  await cache.invalidateTags(["Movie:1"]);
  expect((await ask("{ movies { id title } }")).data).toEqual({ movies: [{ id: "1", title: "Movie 2" }] });
});

class Film {
  constructor(readonly number: number) {}
}

it.each(
  SERVERS.flatMap((server) =>
    [
      ["cannot be encoded", new Film(2 ** 60)],
      ["is too large", { number: 2 ** 60, text: "x".repeat(2_000) }],
    ].map(([what, value]) => [server, what, value] as const),
  ),
)("answers on %s with a value that %s although its tags cannot be derived either", async (server, _, value) => {
  let executions = 0;
  const { ask } = openSite({
    typeDefs: `type Query {
      film: Film @cached(maxAge: 60, tags: ["Film:{$result.number}"]) @cacheControl(maxAge: 60)
      now: Int @cacheControl(maxAge: 60)
    }
    type Film { number: Float }`,
    resolvers: { Query: { film: () => value, now: () => ++executions } },
    server,
    cache: { storage: { maxValueBytes: 1_000 } },
  });
  for (let nth = 1; nth <= 3; nth++) {
    const { data, errors } = await ask("{ film { number } now }");
    expect([data, errors]).toEqual([{ film: { number: 2 ** 60 }, now: nth }, undefined]);
  }
});

it("stores no response with a value whose tags cannot be derived, as of a number that was rounded", async () => {
  for (const [number, seen] of [
    [7, [1, 1, 1]],
    [2 ** 53, [1, 2, 3]],
  ] as const) {
    let executions = 0;
    const { ask } = openSite({
      typeDefs: `type Query {
        movie: Movie @cached(maxAge: 60, tags: ["Movie:{$result.number}"]) @cacheControl(maxAge: 60)
        now: Int @cacheControl(maxAge: 60)
      }
      type Movie { number: Float }`,
      resolvers: { Query: { movie: () => ({ number }), now: () => ++executions } },
      server: "cache.execute",
    });
    const answers: unknown[] = [];
    for (let nth = 0; nth < 3; nth++) answers.push((await ask("{ movie { number } now }")).data?.now);
    expect(answers).toEqual(seen);
  }
});
