import type { Store } from "graphql-cached/store";
import { overrideStore } from "./override-store.js";
import { dataOf, type Process, type World } from "./world.js";

/** The request context of the leak tests. */
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

/** A schema with private fields everywhere a query can reach. Each value names the user it was loaded for. */
export function members(world: World, options: object = {}, loads: string[] = [], hold?: () => unknown): Process {
  const ownedBy =
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
      me: ownedBy("me"),
      fallback: ownedBy("fallback"),
      account: (_: unknown, __: unknown, { userId }: Member) => ({ id: 1, plain: `plain of ${String(userId)}` }),
      inbox: ownedBy("inbox"),
      node: () => ({ ...page, parts: [page, photo] }),
      things: () => [page, photo],
    },
    Page: { note: ownedBy("note") },
    Photo: { note: ownedBy("note") },
    Account: { secret: ownedBy("secret") },
    Mutation: { read: (_: unknown, __: unknown, { userId }: Member) => `read by ${String(userId)}` },
  };
  return world.process(typeDefs, resolvers, { identify: ({ userId }: Member) => userId, ...options } as object);
}

/** Executes a query and returns its data as JSON, to search for the names of users. */
export const textOf = async ({ ask }: Process, query: string, context: unknown, variables?: object): Promise<string> =>
  JSON.stringify(await dataOf(ask(query, context, variables as Record<string, unknown> | undefined)));

/** A store that mixes up replies: a read of `name` returns the entry stored under `redirect(name)`. */
export const withMixedReplies = (store: Store, redirect: (name: string) => string): Store =>
  overrideStore(store, { read: (names) => store.read(names.map(redirect)) });
