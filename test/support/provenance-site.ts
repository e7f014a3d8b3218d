import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, graphql } from "graphql";
import {
  applyCached,
  type Cache,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  invalidationResolvers,
  invalidationTypeDefs,
} from "graphql-cached";
import type { Store } from "graphql-cached/store";

/** Has a tag that is known before the load, a tag of the result, and the tag of an entity. */
const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Static-{$args.id}", "Genre-{$result.genre}"])
    price(id: ID!): String
  }
  type Mutation {
    rename(id: ID!): Boolean @invalidates(tags: ["Static-{$args.id}"])
    change(id: ID!): Movie
  }
  type Movie {
    id: ID!
    genre: String!
  }
`;

/** A server of the tests of provenance: a cached field, a loader, and mutations. */
export interface ProvenanceSite {
  readonly cache: Cache;
  readonly schema: GraphQLSchema;
  /** Executes an operation. Throws its first error. */
  ask(source: string, contextValue?: object): Promise<unknown>;
}

export function createProvenanceSite(store: Store, prefix: string, options: CacheOptions = {}) {
  const cache = createCache({
    store,
    prefix,
    defaults: { jitter: 0, earlyRefresh: 0 },
    storage: { storeTimeoutMs: 1_000 },
    logger: { info: () => undefined, warn: () => undefined },
    ...options,
  });
  const prices = cache.loader<string, string>({
    name: "Price",
    maxAge: 60,
    tags: (id) => [`Price-${id}`],
    batch: async (ids) => ids.map((id) => `price of ${id}`),
  });
  const movie = (_: unknown, { id }: { id: string }) => ({ id, genre: `genre-${id}` });
  const price = (_: unknown, { id }: { id: string }, context: object) => prices(context).load(id);
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, invalidationTypeDefs, typeDefs],
      resolvers: [
        { Query: { movie, price }, Mutation: { rename: () => true, change: movie } },
        invalidationResolvers(cache, { allow: () => true }),
      ],
    }),
    cache,
    { entityTags: true },
  );
  const ask = async (source: string, contextValue: object = {}): Promise<unknown> => {
    const { data, errors } = await graphql({ schema, source, contextValue });
    if (errors?.[0] !== undefined) throw errors[0];
    return data;
  };
  return { cache, schema, ask } satisfies ProvenanceSite;
}

/** The ways to invalidate the movie or the price with an id. */
export const WAYS = {
  "an entry": ({ cache }, id) => cache.invalidate({ coordinate: "Query.movie", args: { id } }),
  "an entry, softly": ({ cache }, id) => cache.invalidate({ coordinate: "Query.movie", args: { id } }, { soft: true }),
  "an entry of a loader": ({ cache }, id) => cache.invalidate({ loader: "Price", id }),
  "a field": ({ cache }) => cache.invalidate({ coordinate: "Query.movie" }),
  "a field, softly": ({ cache }) => cache.invalidate({ coordinate: "Query.movie" }, { soft: true }),
  "a loader": ({ cache }) => cache.invalidate({ loader: "Price" }),
  "a tag": ({ cache }, id) => cache.invalidateTags([`Static-${id}`]),
  "a tag, softly": ({ cache }, id) => cache.invalidateTags([`Static-${id}`], { soft: true }),
  "a tag of a loader": ({ cache }, id) => cache.invalidateTags([`Price-${id}`]),
  "a tag of the result": ({ cache }, id) => cache.invalidateTags([`Genre-genre-${id}`]),
  "a tag of the result, softly": ({ cache }, id) => cache.invalidateTags([`Genre-genre-${id}`], { soft: true }),
  everything: ({ cache }) => cache.clear(),
  "everything, softly": ({ cache }) => cache.clear({ soft: true }),
  "a write of an entry": ({ cache }, id) =>
    cache.mutate({ entries: [{ coordinate: "Query.movie", args: { id } }] }, () => undefined),
  "a write of a tag": ({ cache }, id) => cache.mutate({ tags: [`Static-${id}`] }, () => undefined),
  "@invalidates": ({ ask }, id) => ask(`mutation { rename(id: "${id}") }`),
  "the tag of an entity": ({ ask }, id) => ask(`mutation { change(id: "${id}") { id } }`),
  "an operator's cacheInvalidate": ({ ask }, id) =>
    ask(`mutation { cacheInvalidate(coordinate: "Query.movie", args: { id: "${id}" }) }`),
  "an operator's cacheInvalidateAll": ({ ask }) => ask(`mutation { cacheInvalidateAll(coordinate: "Query.movie") }`),
  "an operator's cacheInvalidateTags": ({ ask }, id) =>
    ask(`mutation { cacheInvalidateTags(tags: ["Static-${id}"], soft: true) }`),
  "an operator's cacheClear": ({ ask }) => ask("mutation { cacheClear }"),
} satisfies Record<string, (site: ProvenanceSite, id: string) => Promise<unknown>>;

export type Way = keyof typeof WAYS;
