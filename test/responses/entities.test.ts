import { type GraphQLSchema, graphql } from "graphql";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type ServerName } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    post: Post @cacheControl(maxAge: 60)
    feed: [Entry!]! @cacheControl(maxAge: 60)
    lazy: Post @cacheControl(maxAge: 60)
    broken: Post @cacheControl(maxAge: 60)
  }
  type Mutation { rename(id: ID!): User }
  union Entry = Post | User
  type Post @cacheControl(maxAge: 60) { id: ID! author: User comments: [Comment!]! }
  type Comment @cacheControl(maxAge: 60) { text: String by: User }
  type User @cacheControl(maxAge: 60) { id: ID! name: String }
`;

const fail = (): never => {
  throw new Error("no connection");
};

function open(server: ServerName, entityTags = true) {
  let executions = 0;
  const names = new Map<string, string>();
  const user = (id: string) => ({ __typename: "User", id, name: names.get(id) ?? `User ${id}` });
  const post = () => ({ __typename: "Post", id: "1", comments: [{ text: "first", by: user("3") }] });
  const counted =
    <T>(value: () => T) =>
    async (): Promise<T> => (executions++, value());
  const resolvers = {
    Query: {
      post: counted(post),
      feed: counted(() => [post(), user("4")]),
      lazy: counted(() => ({ ...post(), comments: () => post().comments })),
      broken: counted(() => ({ ...post(), comments: { [Symbol.iterator]: fail } })),
    },
    Post: { author: () => user("2") },
    Mutation: { rename: (_: unknown, { id }: { id: string }) => (names.set(id, "Renamed"), user(id)) },
  };
  return { ...openSite({ typeDefs, resolvers, server, applied: { entityTags } }), executions: () => executions };
}

describe.each(SERVERS)("with entity tags, a response on %s", (server) => {
  it.each(["1", "2", "3"])(
    "that no field of is cached is invalidated by a mutation that returns the entity %s in it, whatever was selected",
    async (id) => {
      const { ask, cache, executions } = open(server);
      const query = "{ post { author { name } comments { by { name } } } }";
      await ask(query);
      await ask(query);
      expect(executions()).toBe(1);
      await ask('mutation { rename(id: "9") { name } }');
      await ask(query);
      expect(executions()).toBe(1);
      if (id === "1") await cache.invalidateTags(["Post"]);
      else await ask(`mutation { rename(id: "${id}") { name } }`);
      const { data } = await ask(query);
      expect(executions()).toBe(2);
      if (id !== "1") expect(JSON.stringify(data)).toContain("Renamed");
    },
  );

  it("contains the entities of lists and unions", async () => {
    const { ask, executions } = open(server);
    const query = "{ feed { ... on User { name } ... on Post { author { name } } } }";
    for (const _ of [1, 2]) await ask(query);
    expect(executions()).toBe(1);
    await ask('mutation { rename(id: "4") { name } }');
    expect(JSON.stringify((await ask(query)).data)).toContain("Renamed");
  });

  it("is not stored if an object has methods, whose entities cannot be found before they are called", async () => {
    const { ask, executions } = open(server);
    const query = "{ lazy { comments { by { name } } } }";
    for (const _ of [1, 2]) await ask(query);
    expect(executions()).toBe(2);
  });

  it("is answered, and not stored, if a list that is not selected fails", async () => {
    const { ask, executions } = open(server);
    for (const times of [1, 2]) {
      expect(await ask("{ broken { id } }")).toMatchObject({ data: { broken: { id: "1" } } });
      expect(executions()).toBe(times);
    }
  });

  it("is stored without them if entity tags are not used, and kept for its age", async () => {
    const { ask, executions } = open(server, false);
    const query = "{ lazy { comments { by { name } } } }";
    await ask(query);
    await ask('mutation { rename(id: "3") { name } }');
    await ask(query);
    expect(executions()).toBe(1);
  });

  const USERS = `type Mutation { rename: User }
    type User @cacheControl(maxAge: 60) { id: ID! name: String friends: [User!] @cached(maxAge: 60) }`;
  interface Given {
    user(): object;
    schema(): GraphQLSchema;
  }
  /** Returns what a field returns once the user in it, whose name is in stored responses, is renamed. */
  async function afterRename(
    field: string,
    query: string,
    make: (given: Given) => (context: object) => unknown,
  ): Promise<string> {
    let name = "old";
    let executions = 0;
    const user = () => ({ id: "1", name });
    const [fieldName = ""] = field.split(":");
    const resolve = make({ user, schema: () => site.schema });
    const counted = (_: unknown, __: unknown, context: object) => (executions++, resolve(context));
    const site: ReturnType<typeof openSite> = openSite({
      typeDefs: `type Query { user: User @cacheControl(maxAge: 60) ${field} } ${USERS}`,
      resolvers: { Query: { user, [fieldName]: counted }, User: { friends: () => [] }, Mutation: { rename: user } },
      server,
      applied: { entityTags: true },
    });
    const ask = async (source: string) => JSON.stringify((await site.ask(source, { user: "ann" })).data);
    for (let nth = 0; nth < 2; nth++) expect(await ask(query)).toContain("old");
    expect(executions).toBe(1);
    name = "new";
    await ask("mutation { rename { id } }");
    return ask(query);
  }

  it("contains the entities of a field that is PRIVATE by its hint", async () => {
    const field = "me: User @cacheControl(maxAge: 60, scope: PRIVATE)";
    expect(await afterRename(field, "{ me { name } }", ({ user }) => user)).toContain("new");
  });

  it("contains the entities of resolvers that were called with a copy of its context", async () => {
    const field = "line: String @cacheControl(maxAge: 60, scope: PRIVATE)";
    const line = await afterRename(field, "{ line }", ({ schema }) => async (context: object) => {
      const contextValue = { ...context };
      const { data } = await graphql({ schema: schema(), source: "{ user { name } }", contextValue });
      return JSON.stringify(data);
    });
    expect(line).toContain("new");
  });
});

const unstorableTypes = /* GraphQL */ `
  type Query {
    movie: Movie @cached(maxAge: 60)
    movies: [Movie!] @cached(maxAge: 60)
    named: [Movie!] @cached(maxAge: 60, tags: ["Movie:{$result[].id}"])
  }
  type Mutation { rename(id: ID!): Movie }
  type Movie { id: ID! title: String sequel: Movie }
`;

function openUnstorable() {
  const titles = new Map<string, string>();
  const movie = (id: string) => ({ id, title: titles.get(id) ?? `Movie ${id}` });
  function* streamed() {
    yield movie("2");
  }
  const resolvers = {
    Query: { movie: (): unknown => ({ ...movie("1"), sequel: () => movie("2") }), movies: streamed, named: streamed },
    Mutation: { rename: (_: unknown, { id }: { id: string }) => (titles.set(id, "Renamed"), movie(id)) },
  };
  const { execute } = openSite({ typeDefs: unstorableTypes, resolvers, applied: { entityTags: true } });
  return async (source: string) => JSON.stringify(await execute(source));
}

it.each([
  ["an object with a method", "{ movie { id sequel { id title } } }"],
  ["an iterator of entities", "{ movies { id title } }"],
  ["an iterator with tags of its items", "{ named { id title } }"],
])(
  "does not serve an old response after a mutation, if a cached field has returned %s, which cannot be stored",
  async (_, query) => {
    const ask = openUnstorable();
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
    });
    const answers: unknown[] = [];
    for (let nth = 0; nth < 3; nth++) answers.push((await ask("{ movie { number } now }")).data?.now);
    expect(answers).toEqual(seen);
  }
});
