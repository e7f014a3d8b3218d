import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, graphql, parse } from "graphql";
import {
  applyCached,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
} from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { expect, onTestFinished } from "vitest";

export const typeDefs = /* GraphQL */ `
  directive @live on FIELD
  type Query {
    posts(n: Int! = 2): [Post!] @cached(maxAge: 60, subtree: true, tags: ["Posts"])
    notes: [Note!] @cached(maxAge: 60, subtree: true)
    top: Int @cached(maxAge: 60)
  }
  type Post { id: ID!  title: String  author: Author  liked: Boolean @cached(maxAge: 0)  asked: String }
  type Author { name: String }
  type Note { text: String  isMine: Boolean @cached(maxAge: 0) }
`;

export interface Context {
  readonly user?: string;
}

export interface SiteOptions extends CacheOptions<Context> {
  readonly store?: Store;
  readonly typeDefs?: string;
  /** Changes the schema of `applyCached`. */
  readonly change?: (schema: GraphQLSchema) => GraphQLSchema;
}

/** A process of a site with subtrees, whose events and statistics are looked at. */
export function watchedSite({ typeDefs: own = typeDefs, change = (schema) => schema, ...options }: SiteOptions = {}) {
  const clock = new FakeClock(1_000_000_000);
  const events: CacheEvent[] = [];
  const counts = { posts: 0, failing: false };
  const cache = createCache<Context>({
    store: memoryStore({ clock }),
    testing: { clock },
    prefix: "watched",
    defaults: { earlyRefresh: 0, jitter: 0 },
    logger: { info: () => undefined, warn: () => undefined },
    onEvent: (event) => events.push(event),
    ...options,
  });
  onTestFinished(() => cache.close());
  const resolvers = {
    Query: {
      posts: (_: unknown, { n }: { n: number }) => {
        counts.posts++;
        return Array.from({ length: n }, (_post, id) => ({ id: String(id), title: `title ${id}` }));
      },
      notes: () => [{ text: "a" }],
      top: () => 1,
    },
    Post: {
      author: () => {
        if (counts.failing) throw new Error("no author");
        return { name: "Ada" };
      },
      liked: (_: unknown, __: unknown, { user }: Context) => user === "ann",
      asked: (_: unknown, __: unknown, { user }: Context) => `by ${user}`,
    },
  };
  const schema = change(
    applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, inspectionTypeDefs, own],
        resolvers: [resolvers, inspectionResolvers(cache, { allow: () => true })],
        resolverValidationOptions: { requireResolversToMatchSchema: "ignore" },
      }),
      cache,
    ),
  );
  const documents = new Map<string, ReturnType<typeof parse>>();
  const ask = async (source: string, contextValue: Context = {}) => {
    const document = documents.get(source) ?? parse(source);
    documents.set(source, document);
    const result = await cache.execute({ schema, document, contextValue }, false);
    await settle();
    return result;
  };
  return {
    cache,
    clock,
    schema,
    events,
    counts,
    ask,
    /** Returns the names of the events of a coordinate since the last call: those of subtrees with an asterisk. */
    takeEvents: (coordinate: string): string[] =>
      events
        .splice(0)
        .flatMap((event) =>
          "coordinate" in event && event.coordinate === coordinate && event.name !== "subtree.skipped"
            ? [`${event.name}${"isSubtree" in event ? `* ${event.isSubtree}` : ""}`]
            : [],
        ),
    inspect: async (selection: string): Promise<Record<string, unknown>> => {
      const { data, errors } = await graphql({
        schema,
        source: `{ cacheInspection { ${selection} } }`,
        contextValue: {},
      });
      expect(errors).toBeUndefined();
      return JSON.parse(JSON.stringify((data as { cacheInspection: unknown }).cacheInspection));
    },
  };
}

/** What is known of the fields of a site, by coordinate. */
export async function fieldsOf(site: Pick<ReturnType<typeof watchedSite>, "inspect">, selection: string) {
  const { fields } = (await site.inspect(`fields { coordinate ${selection} }`)) as {
    readonly fields: readonly ({ readonly coordinate: string } & Record<string, unknown>)[];
  };
  return Object.fromEntries(fields.map(({ coordinate, ...others }) => [coordinate, others]));
}
