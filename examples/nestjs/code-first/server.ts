/**
 * A code-first NestJS application with a guard: npx tsx examples/nestjs/code-first/server.ts
 *
 * `{ movies { title } }` is loaded once for all callers, `{ tips }` once for each caller whom the guard admits (`x-user: ann`).
 */
import "reflect-metadata";
import { ApolloDriver, type ApolloDriverConfig } from "@nestjs/apollo";
import { type CanActivate, type ExecutionContext, Inject, Module, UseGuards } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import {
  Context,
  Extensions,
  Field,
  GqlExecutionContext,
  GraphQLModule,
  ObjectType,
  Query,
  Resolver,
} from "@nestjs/graphql";
import { applyCached, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";

interface Caller {
  readonly userId: string | undefined;
}

const MOVIES = ["Metropolis", "M"];

@ObjectType()
class Movie {
  @Field(() => String)
  id = "";

  @Field(() => String)
  get title(): string {
    return MOVIES[Number(this.id)] ?? "?";
  }
}

const { PORT = "4001", PREFIX = "nestjs-code-first", REDIS_URL } = process.env;
const client = REDIS_URL === undefined ? undefined : new Redis(REDIS_URL);
const cache = createCache<Caller>({
  store: client === undefined ? memoryStore() : redisStore({ client }),
  prefix: PREFIX,
  identify: ({ userId }) => userId,
  // Hits return instances of the class as well.
  types: {
    Movie: {
      is: (value) => value instanceof Movie,
      encode: ({ id }: Movie) => ({ id }),
      decode: (fields) => Object.assign(new Movie(), fields),
    },
  },
});
const movieById = cache.loader({
  name: "Movie",
  maxAge: 300,
  scope: "PUBLIC",
  batch: async (ids: readonly number[]) => {
    console.log(`loads movies ${ids.join()}`);
    return ids.map((id) => Object.assign(new Movie(), { id: String(id) }));
  },
});

/** Runs inside of the cache, so on loads only: what it guards is PRIVATE. */
class SignedIn implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return GqlExecutionContext.create(context).getContext<Caller>().userId !== undefined;
  }
}

@Resolver()
class MoviesResolver {
  // A token, since a compiler other than tsc emits no types of parameters.
  @Inject("movieById") movieById!: typeof movieById;

  @Query(() => [Movie])
  @Extensions({ cached: { maxAge: 60, scope: "PUBLIC" } })
  movies(@Context() caller: Caller): Promise<Movie>[] {
    return MOVIES.map((_, id) => this.movieById(caller).load(id));
  }

  @Query(() => String)
  @UseGuards(SignedIn)
  @Extensions({ cached: { maxAge: 60, scope: "PRIVATE" } })
  async tips(@Context() { userId }: Caller): Promise<string> {
    console.log(`loads tips ${userId}`);
    return `tips for ${userId}`;
  }
}

/** Runs once Nest has stopped the server, so requests under way still have the cache. */
class CloseCache {
  async onApplicationShutdown(): Promise<void> {
    await cache.close();
    client?.disconnect();
  }
}

@Module({
  imports: [
    GraphQLModule.forRoot<ApolloDriverConfig>({
      driver: ApolloDriver,
      autoSchemaFile: true,
      transformSchema: (schema) => applyCached(schema, cache),
      plugins: [cachedPlugin(cache)],
      context: ({ req }: { req: { headers: { "x-user"?: string } } }): Caller => ({ userId: req.headers["x-user"] }),
    }),
  ],
  providers: [{ provide: "movieById", useValue: movieById }, MoviesResolver, CloseCache],
})
class AppModule {}

const application = await NestFactory.create(AppModule, { logger: ["error", "warn"] });
application.enableShutdownHooks();
await application.listen(Number(PORT), "127.0.0.1");
console.log(`ready ${await application.getUrl()}/graphql`);
