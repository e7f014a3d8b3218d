/** The film site: its cache, its loaders, its resolvers and its server. This is the file to copy from. */
import { readFileSync } from "node:fs";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { GraphQLError, type GraphQLSchema } from "graphql";
import {
  applyCached,
  type Cache,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
} from "graphql-cached";
import { cachedPlugin, stringifyResult } from "graphql-cached/apollo";
import type { Store } from "graphql-cached/store";
import {
  type Database,
  FILMS_BY_ID,
  INSERT_RATING,
  PEOPLE_BY_ID,
  RATINGS_BY_FILM,
  TOP_FILMS,
  WATCHED_BY_USER,
} from "./database.js";
import type { Film, Person } from "./films.js";

const typeDefs = readFileSync(new URL("./schema.graphql", import.meta.url), "utf8");

/** The context of one request. Each request has an object of its own. */
export interface Context {
  readonly userId: string | undefined;
}

/** Returns the visitor whose values PRIVATE fields are. Without one, such fields are not cached. */
export const identify = ({ userId }: Context): string | undefined => userId;

/** Who may see what the cache does. Everyone who can open the demo; in production, operators only. */
const allow = (): boolean => true;

/** Creates the cache of a process. All processes with the same store and prefix share their entries. */
export function createSiteCache(store: Store, prefix: string): Cache<Context> {
  return createCache<Context>({ defaultScope: "PUBLIC", store, prefix, identify });
}

/** Creates the schema of the site, in which `cache` caches. */
export function createSiteSchema(cache: Cache<Context>, database: Database): GraphQLSchema {
  // Loaders are made once for the process. What a request loads by id goes to the database in one statement,
  // and only for ids that no process has loaded yet.
  const films = cache.loader({
    name: "Film",
    maxAge: 3600, // without tags: no mutation changes these rows
    batch: async (ids: readonly number[]) => inOrder(ids, await database.query<Film>(FILMS_BY_ID, ids)),
  });
  const ratings = cache.loader({
    name: "Rating",
    maxAge: 300,
    tags: (id) => [`Film:${id}`],
    batch: async (ids: readonly number[]) => inOrder(ids, await database.query<Rating>(RATINGS_BY_FILM, ids)),
  });
  const people = cache.loader({
    name: "Person",
    maxAge: 3600,
    batch: async (ids: readonly number[]) => inOrder(ids, await database.query<Person>(PEOPLE_BY_ID, ids)),
  });
  const filmsOf = async (rows: readonly { id: number }[], context: Context): Promise<Film[]> =>
    (await Promise.all(rows.map(({ id }) => films(context).load(id)))).filter((film) => film !== null);

  // The resolvers of cached fields are the same as without the cache: the schema says what is cached.
  const resolvers = {
    Query: {
      top: async (_: unknown, { first }: { first: number }, context: Context) => {
        if (first < 1 || first > 100) throw badInput(`first: expected an integer from 1 to 100, got ${first}`);
        return filmsOf(await database.query<{ id: number }>(TOP_FILMS, [first]), context);
      },
      // GraphQL passes an ID as text. Loaders tell 7 and "7" apart, so it is converted in one place.
      film: (_: unknown, { id }: { id: string }, context: Context) => films(context).load(Number(id)),
      me: (_: unknown, __: unknown, { userId }: Context) => (userId === undefined ? null : { id: userId }),
    },
    Mutation: {
      async rate(_: unknown, { film, stars }: { film: string; stars: number }, context: Context) {
        if (context.userId === undefined) throw badInput("sign in to rate films");
        if (stars < 1 || stars > 10) throw badInput(`stars: expected an integer from 1 to 10, got ${stars}`);
        const rated = await films(context).load(Number(film));
        if (rated !== null) await database.query(INSERT_RATING, [rated.id, stars]);
        return rated;
      },
    },
    Film: {
      stars: async ({ id }: Film, _: unknown, context: Context) => (await ratings(context).load(id))?.average,
      director: ({ directorId }: Film, _: unknown, context: Context) => people(context).load(directorId),
    },
    Visitor: {
      watched: async ({ id }: { id: string }, _: unknown, context: Context) =>
        filmsOf(await database.query<{ id: number }>(WATCHED_BY_USER, [id]), context),
    },
  };
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
    resolvers: [resolvers, inspectionResolvers(cache, { allow })],
  });
  return applyCached(schema, cache);
}

interface Rating {
  readonly id: number;
  readonly average: number;
}

/** A batch function returns one value for each id, in the order of the ids; a database returns rows as it likes. */
function inOrder<Row extends { readonly id: number }>(ids: readonly number[], rows: readonly Row[]): (Row | null)[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => byId.get(id) ?? null);
}

const badInput = (message: string): GraphQLError =>
  new GraphQLError(message, { extensions: { code: "BAD_USER_INPUT" } });

/** Serves the schema on a free port and returns the URL. With `responses`, whole responses are cached as well as fields. */
export async function serveSite(
  schema: GraphQLSchema,
  cache: Cache<Context>,
  { responses }: { readonly responses: boolean },
): Promise<string> {
  const server = new ApolloServer<Context>({
    schema,
    plugins: [cachedPlugin(cache, { allow, responses })],
    stringifyResult, // sends a stored response as it is stored
  });
  const { url } = await startStandaloneServer(server, {
    listen: { port: 0, host: "127.0.0.1" },
    // Stands in for a session: never trust such a header in production.
    context: async ({ req }) => ({ userId: req.headers["x-user"]?.toString() }),
  });
  return url;
}
