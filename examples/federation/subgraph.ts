import { readFileSync } from "node:fs";
import { buildSubgraphSchema } from "@apollo/subgraph";
import DataLoader from "dataloader";
import { type GraphQLSchema, parse } from "graphql";
import { applyCached, type Cache, cachedTypeDefs } from "graphql-cached";

/** A film in the data source of this subgraph. */
interface Movie {
  readonly id: string;
  readonly title: string;
}

const MOVIES: readonly Movie[] = [
  { id: "1", title: "Metropolis" },
  { id: "2", title: "M" },
  { id: "3", title: "Nosferatu" },
];

const typeDefs = [cachedTypeDefs, readFileSync(new URL("./schema.graphql", import.meta.url), "utf8")];

/** Builds the schema of the subgraph. `onLoad` is called whenever something is loaded from the source. */
export function subgraphSchema(cache: Cache<object>, onLoad: (what: string) => void): GraphQLSchema {
  const batch = async (ids: readonly string[]): Promise<(Movie | null)[]> => {
    onLoad(`movies ${ids.join(", ")}`);
    return ids.map((id) => MOVIES.find((movie) => movie.id === id) ?? null);
  };
  const loaders = new WeakMap<object, DataLoader<string, Movie | null>>();
  const movies = (context: object): DataLoader<string, Movie | null> => {
    const loader = loaders.get(context) ?? new DataLoader(batch);
    loaders.set(context, loader);
    return loader;
  };

  const resolvers = {
    Query: {
      top: (_: unknown, { n }: { n: number }): readonly Movie[] => {
        onLoad("top");
        return MOVIES.slice(0, n);
      },
    },
    Movie: {
      // Called for entities that are not cached. Those of an `_entities` query are read from the store together, and
      // its misses are loaded in one tick: one call of `batch`.
      __resolveReference: ({ id }: Movie, context: object): Promise<Movie | null> => movies(context).load(id),
      stars: ({ id }: Movie): number => {
        onLoad(`stars ${id}`);
        return 5 - Number(id) / 10;
      },
    },
  };
  return applyCached(buildSubgraphSchema(typeDefs.map((text) => ({ typeDefs: parse(text), resolvers }))), cache);
}
