import SchemaBuilder from "@pothos/core";
import type { GraphQLSchema } from "graphql";
import { applyCached, type Cache } from "graphql-cached";

interface Movie {
  readonly id: string;
  readonly title: string;
}

const MOVIES: readonly Movie[] = [
  { id: "1", title: "Metropolis" },
  { id: "2", title: "M" },
];

/**
 * Builds a code-first schema in which `extensions.cached` replaces the @cached directive. `onLoad` is called
 * whenever something is loaded from the source.
 */
export function moviesSchema(cache: Cache<object>, onLoad: (what: string) => void): GraphQLSchema {
  const builder = new SchemaBuilder<{ Objects: { Movie: Movie } }>({});

  builder.objectType("Movie", {
    fields: (t) => ({
      id: t.exposeID("id"),
      title: t.exposeString("title"),
      stars: t.float({
        extensions: { cached: { maxAge: 60, tags: ["Movie:{$source.id}"] } },
        resolve: ({ id }) => {
          onLoad(`stars ${id}`);
          return 5 - Number(id) / 10;
        },
      }),
    }),
  });

  builder.queryType({
    fields: (t) => ({
      movie: t.field({
        type: "Movie",
        nullable: true,
        args: { id: t.arg.id({ required: true }) },
        extensions: { cached: { maxAge: 300, negativeMaxAge: 10, tags: ["Movie:{$args.id}"] } },
        resolve: (_, { id }) => {
          onLoad(`movie ${id}`);
          return MOVIES.find((movie) => movie.id === String(id)) ?? null;
        },
      }),
    }),
  });

  return applyCached(builder.toSchema(), cache);
}
