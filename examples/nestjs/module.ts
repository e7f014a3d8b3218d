import "reflect-metadata";
import { fileURLToPath } from "node:url";
import { ApolloDriver, type ApolloDriverConfig } from "@nestjs/apollo";
import { type DynamicModule, Inject, Module } from "@nestjs/common";
import { Args, GraphQLModule, Parent, Query, ResolveField, Resolver } from "@nestjs/graphql";
import { applyCached, type Cache, cachedTypeDefs } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";

interface Movie {
  readonly id: string;
  readonly title: string;
}

/** Injection token of the callback that is called whenever something is loaded from the source. */
const ON_LOAD: unique symbol = Symbol("on load");

/** The data source. */
class MoviesService {
  readonly #movies: readonly Movie[] = [
    { id: "1", title: "Metropolis" },
    { id: "2", title: "M" },
  ];
  readonly #onLoad: (what: string) => void;

  // Injection by token works with every compiler; injection by type needs metadata that only tsc emits.
  constructor(@Inject(ON_LOAD) onLoad: (what: string) => void) {
    this.#onLoad = onLoad;
  }

  movie(id: string): Movie | null {
    this.#onLoad(`movie ${id}`);
    return this.#movies.find((movie) => movie.id === id) ?? null;
  }

  stars(id: string): number {
    this.#onLoad(`stars ${id}`);
    return 5 - Number(id) / 10;
  }
}

@Resolver("Movie")
class MovieResolver {
  readonly #service: MoviesService;

  constructor(@Inject(MoviesService) service: MoviesService) {
    this.#service = service;
  }

  @Query("movie")
  movie(@Args("id") id: string): Movie | null {
    return this.#service.movie(id);
  }

  @ResolveField("stars")
  stars(@Parent() { id }: Movie): number {
    return this.#service.stars(id);
  }
}

@Module({})
class AppModule {}

/** Builds a NestJS application whose schema is cached. Only `transformSchema` refers to the cache. */
export function appModule(cache: Cache<object>, onLoad: (what: string) => void): DynamicModule {
  const graphql = GraphQLModule.forRoot<ApolloDriverConfig>({
    driver: ApolloDriver,
    typeDefs: cachedTypeDefs,
    typePaths: [fileURLToPath(new URL("./schema.graphql", import.meta.url))],
    transformSchema: (schema) => applyCached(schema, cache),
    plugins: [cachedPlugin(cache)],
  });
  const providers = [{ provide: ON_LOAD, useValue: onLoad }, MoviesService, MovieResolver];
  return { module: AppModule, imports: [graphql], providers };
}
