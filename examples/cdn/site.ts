import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { type Cdn, startCdn } from "./cdn.js";

interface Context {
  readonly user: string | undefined;
}

const typeDefs = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT
  type Query {
    film(id: ID!): Film
      @cached(maxAge: 3600, staleWhileRevalidate: 60, tags: ["Film:{$args.id}"])
      @cacheControl(maxAge: 3600)
    watchlist: [Film!]
      @cached(maxAge: 60, scope: PRIVATE)
      @cacheControl(maxAge: 60, scope: PRIVATE)
  }
  type Mutation {
    rename(id: ID!, title: String!): Film @invalidates(tags: ["Film:{$result.id}"])
  }
  type Film { id: ID! title: String! }
`;

/** A film site behind a CDN. */
export interface Site {
  readonly cdn: Cdn;
  /** The server itself, which clients do not know. */
  readonly origin: string;
  /** Resolves when the CDN has purged what was invalidated last. */
  purged(): Promise<void>;
  close(): Promise<void>;
}

/** Starts the site. `log`: called with each load and purge. `now`: the time of the CDN. */
export async function startSite(log: (what: string) => void, now?: () => number, port = 0): Promise<Site> {
  const films = new Map([
    ["1", "Metropolis"],
    ["2", "M"],
  ]);
  const filmOf = (id: string) => ({ id, title: films.get(id) ?? "?" });
  let origin = "";
  const cdn = await startCdn(() => origin, now);
  let purged: Promise<void> = Promise.resolve();
  /** With a real CDN: a request to its API. */
  async function purge(tags: readonly string[]): Promise<void> {
    log("purges");
    const { ok, status } = await fetch(cdn.url, { method: "PURGE", headers: { "cache-tag": tags.join(",") } });
    if (!ok) throw new Error(`the CDN has answered ${status}`);
  }
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    identify: ({ user }) => user,
    onEvent: (event) => {
      if (event.name === "invalidation.finished") purged = purge(event.tags);
      return purged;
    },
  });
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, typeDefs],
    resolvers: {
      Query: {
        film: (_: unknown, { id }: { id: string }) => {
          log(`loads film ${id}`);
          return filmOf(id);
        },
        watchlist: (_: unknown, __: unknown, { user }: Context) => {
          log(`loads watchlist of ${user}`);
          return [filmOf("2")];
        },
      },
      Mutation: {
        rename: (_: unknown, { id, title }: { id: string; title: string }) => {
          films.set(id, title);
          return filmOf(id);
        },
      },
    },
  });
  const server = new ApolloServer<Context>({
    schema: applyCached(schema, cache),
    plugins: [cachedPlugin(cache, { edge: true })],
  });
  const { url } = await startStandaloneServer(server, {
    listen: { port, host: "127.0.0.1" },
    context: async ({ req }) => ({ user: req.headers.authorization }),
  });
  origin = new URL(url).origin;
  return {
    cdn,
    origin,
    purged: () => purged,
    close: async () => {
      cdn.close();
      await server.stop();
      await cache.close();
    },
  };
}
