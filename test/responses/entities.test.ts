import { type GraphQLSchema, graphql } from "graphql";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

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

function open(server: SiteOptions["server"], entityTags = true) {
  let executions = 0;
  const names = new Map<string, string>();
  const user = (id: string) => ({ __typename: "User", id, name: names.get(id) ?? `User ${id}` });
  const post = () => ({ __typename: "Post", id: "1", comments: [{ text: "first", by: user("3") }] });
  const counted =
    <T>(value: () => T) =>
    async (): Promise<T> => {
      executions++;
      return value();
    };
  const resolvers = {
    Query: {
      post: counted(post),
      feed: counted(() => [post(), user("4")]),
      lazy: counted(() => ({ ...post(), comments: () => post().comments })),
      broken: counted(() => ({ ...post(), comments: { [Symbol.iterator]: fail } })),
    },
    Post: { author: () => user("2") },
    Mutation: {
      rename: (_: unknown, { id }: { id: string }) => {
        names.set(id, "Renamed");
        return user(id);
      },
    },
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
    await ask(query);
    await ask(query);
    expect(executions()).toBe(1);
    await ask('mutation { rename(id: "4") { name } }');
    expect(JSON.stringify((await ask(query)).data)).toContain("Renamed");
  });

  it("is not stored if an object has methods, whose entities cannot be found before they are called", async () => {
    const { ask, executions } = open(server);
    const query = "{ lazy { comments { by { name } } } }";
    await ask(query);
    await ask(query);
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
      resolvers: {
        Query: { user, [fieldName]: counted },
        User: { friends: () => [] },
        Mutation: { rename: user },
      },
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
