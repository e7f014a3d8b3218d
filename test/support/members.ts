import type { Store } from "graphql-cached";
import { dataOf, type Process, type World } from "./world.js";

/** Who is asking, as the tests of leaks have it. */
export interface Member {
  userId?: unknown;
}

const typeDefs = /* GraphQL */ `
  scalar JSON
  interface Node { id: ID! note: String }
  type Page implements Node @cached(maxAge: 60) {
    id: ID!
    title: String
    note: String @cached(maxAge: 60, scope: PRIVATE)
    parts: [Node!]
  }
  type Photo implements Node { id: ID! note: String @cached(maxAge: 60, scope: PRIVATE) }
  type Account { id: ID! secret: String @cached(maxAge: 60, scope: PRIVATE) plain: String }
  union Thing = Page | Photo
  type Query {
    me: String @cached(maxAge: 60, scope: PRIVATE, staleWhileRevalidate: 60)
    fallback: String @cached(maxAge: 1, scope: PRIVATE, staleIfError: 60)
    account: Account @cached(maxAge: 60, scope: PRIVATE)
    inbox(of: JSON, tag: String): String @cached(maxAge: 60, scope: PRIVATE, tags: ["Inbox:{$args.of}"])
    node: Node @cached(maxAge: 60)
    things: [Thing!] @cached(maxAge: 60)
  }
  type Mutation { read: String @invalidates(tags: ["Inbox:alice"]) }
`;

/** A site with private fields in all places a query can reach; each answer says whose it is. */
export function members(world: World, options: object = {}, loads: string[] = [], hold?: () => unknown): Process {
  const secret =
    (of: string) =>
    async (_: unknown, __: unknown, { userId }: Member) => {
      loads.push(`${of} ${String(userId)}`);
      await hold?.();
      return `${of} of ${String(userId)}`;
    };
  const page = { __typename: "Page", id: 1, title: "page" };
  const photo = { __typename: "Photo", id: 1 };
  const resolvers = {
    Query: {
      me: secret("me"),
      fallback: secret("fallback"),
      account: (_: unknown, __: unknown, { userId }: Member) => ({ id: 1, plain: `plain of ${String(userId)}` }),
      inbox: secret("inbox"),
      node: () => ({ ...page, parts: [page, photo] }),
      things: () => [page, photo],
    },
    Page: { note: secret("note") },
    Photo: { note: secret("note") },
    Account: { secret: secret("secret") },
    Mutation: { read: (_: unknown, __: unknown, { userId }: Member) => `read by ${String(userId)}` },
  };
  return world.process(typeDefs, resolvers, { identify: ({ userId }: Member) => userId, ...options } as object);
}

/** The text of an answer, for looking for whose words are in it. */
export const textOf = async ({ ask }: Process, query: string, context: unknown, variables?: object): Promise<string> =>
  JSON.stringify(await dataOf(ask(query, context, variables as Record<string, unknown> | undefined)));

/** A store that mixes replies up: who asks for a name is given what rests under the one that `mix` answers. */
export const mixedUp = (store: Store, mix: (name: string) => string): Store =>
  new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      if (property === "read")
        return (names: readonly string[], tags: readonly string[]) => target.read(names.map(mix), tags);
      return value.bind(target) as unknown;
    },
  });
