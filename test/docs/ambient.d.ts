/** What the code blocks of README and docs may use without declaring it: each page says what these names stand for. */
import type { IResolvers } from "@graphql-tools/utils";
import type { GraphQLSchema } from "graphql";
import type { Cache, CachedLoader } from "graphql-cached";
import type { Redis as RedisClient } from "ioredis";

declare global {
  interface Movie {
    readonly id: number;
    readonly title: string;
  }
  interface Db {
    movie(id: number | string): Promise<Movie | null>;
    movies(ids: readonly number[]): Promise<(Movie | Error)[]>;
    updateMovie(id: number | string, change: Partial<Movie>): Promise<void>;
  }
  /** The GraphQL context of the examples. */
  interface Context {
    readonly userId?: string;
    readonly isAdmin?: boolean;
    readonly locale: string;
    readonly db: Db;
  }
  const db: Db;
  const context: Context;
  const cache: Cache<Context>;
  /** The loader of the page about loaders. */
  const movies: (context: Context) => CachedLoader<number, Movie>;
  const client: RedisClient;
  const typeDefs: string;
  const resolvers: IResolvers;
  const schema: GraphQLSchema;
}
