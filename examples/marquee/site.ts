import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import DataLoader from "dataloader";
import {
  applyCached,
  type Cache,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  type Store,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import type { Database, Row } from "./database.js";
import { type MovieLoader, moviesById, type SiteContext, siteResolvers } from "./resolvers.js";

/** How many middling ratings every film is given on the homepage, so that one enthusiast does not make a classic. */
export const PULL = 500;

const typeDefs = readFileSync(new URL("./schema.graphql", import.meta.url), "utf8");
const isAdmin = ({ userId }: SiteContext): boolean => userId === "admin";

export interface SiteOptions {
  readonly database: Database;
  /** `none` serves without any cache, to compare with. */
  readonly store: Store | "none";
  readonly prefix?: string;
  readonly port: number;
  /** Less than PULL where there are few ratings. */
  readonly pull?: number;
}

export interface RunningSite {
  readonly url: string;
  /** Makes films and lists cold again, in what this process caches. */
  forget(tags: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** Starts the film site on an Apollo Server. */
export async function startSite({
  database,
  store,
  prefix = "marquee",
  port,
  pull = PULL,
}: SiteOptions): Promise<RunningSite> {
  const cache =
    store === "none" ? undefined : createCache<SiteContext>({ store, prefix, identify: ({ userId }) => userId });
  const resolvers = siteResolvers(database, movieLoader(database, cache), pull) as IResolvers;
  const plain = makeExecutableSchema({
    typeDefs: cache === undefined ? [cachedTypeDefs, typeDefs] : [cachedTypeDefs, inspectionTypeDefs, typeDefs],
    resolvers:
      cache === undefined
        ? resolvers
        : [resolvers, inspectionResolvers(cache, { allow: isAdmin }) as unknown as IResolvers],
  });
  const server = new ApolloServer<SiteContext>({
    // Left on, Apollo repeats the signal once it has stopped, which ends the process before the database is closed.
    stopOnTerminationSignals: false,
    schema: cache === undefined ? plain : applyCached(plain, cache),
    plugins: cache === undefined ? [] : [cachedPlugin(cache, { allow: isAdmin })],
  });
  const { url } = await startStandaloneServer(server, {
    listen: { port, host: "127.0.0.1" },
    context: async ({ req }) => contextOf(req),
  });
  return {
    url,
    forget: async (tags) => cache?.invalidateTags(tags),
    async close() {
      await server.stop();
      await cache?.close();
    },
  };
}

const contextOf = (request: IncomingMessage): SiteContext => ({ userId: request.headers["x-user"]?.toString() });

/** Films by id: across requests and processes with the cache, within a request without it. */
function movieLoader(database: Database, cache: Cache<SiteContext> | undefined): MovieLoader {
  const batch = (ids: readonly number[]): Promise<(Row | null)[]> => moviesById(database, ids);
  if (cache !== undefined)
    return cache.loader<number, Row | null>({ name: "Movie", batch, maxAge: 300, tags: (id) => [`Movie:${id}`] });
  const loaders = new WeakMap<SiteContext, DataLoader<number, Row | null>>();
  return (context) => {
    const loader = loaders.get(context) ?? new DataLoader(batch);
    loaders.set(context, loader);
    return loader;
  };
}
