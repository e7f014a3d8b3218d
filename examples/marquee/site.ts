import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import DataLoader from "dataloader";
import type { GraphQLSchema } from "graphql";
import {
  applyCached,
  type Cache,
  type CacheEvent,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { inspectorHandler } from "graphql-cached/inspector";
import type { Store } from "graphql-cached/store";
import type { Database, Row } from "./database.js";
import { type MovieLoader, moviesById, type SiteContext, siteResolvers } from "./resolvers.js";

/** How many median ratings are added to each film on the homepage, so that a few high ratings do not dominate it. */
export const MEDIAN_WEIGHT = 500;

const typeDefs = readFileSync(new URL("./schema.graphql", import.meta.url), "utf8");
/** The page for browsers. Apollo's own loads its scripts from the network. */
const page = new URL("./page.html", import.meta.url);
/** Whose values PRIVATE fields are. */
export const identify = ({ userId }: SiteContext): string | undefined => userId;
const isAdmin = ({ userId }: SiteContext): boolean => userId === "admin";

export interface SiteOptions {
  readonly database: Database;
  /** `none` disables the cache, for comparison. */
  readonly store: Store | "none";
  readonly prefix?: string;
  readonly port: number;
  /** Default: MEDIAN_WEIGHT. Use less with few ratings. */
  readonly medianWeight?: number;
  /** The port of the inspector page; 0 takes any that is free. Default: there is no page. */
  readonly inspectorPort?: number;
  /** Called with every event of the cache. */
  readonly onEvent?: (event: CacheEvent) => void;
  /** Called before each response is sent. */
  readonly onResponse?: () => void;
}

export interface RunningSite {
  readonly url: string;
  /** Where the inspector page is. */
  readonly inspectorUrl: string | undefined;
  /** Invalidates tags in the cache of this process. */
  invalidate(tags: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** Starts the film site on an Apollo Server. */
export async function startSite({
  database,
  store,
  prefix = "marquee",
  port,
  medianWeight = MEDIAN_WEIGHT,
  inspectorPort,
  onEvent,
  onResponse = () => undefined,
}: SiteOptions): Promise<RunningSite> {
  const cache = store === "none" ? undefined : createCache<SiteContext>({ store, prefix, identify, onEvent });
  const server = new ApolloServer<SiteContext>({
    // If true, Apollo re-sends the signal after stopping, which ends the process before the database is closed.
    stopOnTerminationSignals: false,
    schema: siteSchema(database, cache, medianWeight),
    plugins: [
      ...(cache === undefined ? [] : [cachedPlugin(cache, { allow: isAdmin })]),
      { requestDidStart: async () => ({ willSendResponse: async () => onResponse() }) },
      {
        serverWillStart: async () => ({
          renderLandingPage: async () => ({ html: async () => readFileSync(page, "utf8") }),
        }),
      },
    ],
  });
  const { url } = await startStandaloneServer(server, {
    listen: { port, host: "127.0.0.1" },
    context: async ({ req }) => contextOf(req),
  });
  const inspector = cache && inspectorPort !== undefined ? await startInspector(cache, inspectorPort) : undefined;
  return {
    url,
    inspectorUrl: inspector?.url,
    invalidate: async (tags) => cache?.invalidateTags(tags),
    async close() {
      await server.stop();
      await inspector?.close();
      await cache?.close();
    },
  };
}

/** Starts the inspector page on a server of its own. Everyone on this machine may use it, since the site has no sign-in. */
async function startInspector(cache: Cache<SiteContext>, port: number) {
  const host = "127.0.0.1";
  // A page of another site that points a name of its own at this machine sends that name.
  const allow = ({ headers }: IncomingMessage): boolean => headers.host?.split(":")[0] === host;
  const access = { allow, allowInvalidation: allow, allowModes: allow };
  const server = createServer(inspectorHandler({ cache, ...access }));
  await once(server.listen(port, host), "listening");
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}/`,
    async close() {
      const closed = once(server.close(), "close");
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Creates the schema of the site for one process: with the cache, or without one for comparison. */
export function siteSchema(
  database: Database,
  cache: Cache<SiteContext> | undefined,
  medianWeight: number,
): GraphQLSchema {
  const resolvers = siteResolvers(database, movieLoader(database, cache), medianWeight) as IResolvers;
  if (cache === undefined) return makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers });
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
    resolvers: [resolvers, inspectionResolvers(cache, { allow: isAdmin }) as unknown as IResolvers],
  });
  return applyCached(schema, cache);
}

const contextOf = (request: IncomingMessage): SiteContext => ({ userId: request.headers["x-user"]?.toString() });

/** Loads films by id: shared across requests and processes with the cache, within one request without it. */
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
