import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import type { GraphQLSchema } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
  CachedError,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
} from "graphql-cached";
import { cleanups } from "./cleanups.js";

/** A cache that keeps its log lines, without the beginning that all of them have, and its events. */
export function listen<Context = unknown>(options: CacheOptions<Context> = {}) {
  const warnings: string[] = [];
  const infos: string[] = [];
  const events: CacheEvent[] = [];
  const into = (lines: string[]) => (line: string) => void lines.push(line.replace("graphql-cached: ", ""));
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    logger: { info: into(infos), warn: into(warnings) },
    onEvent: (event) => events.push(event),
    ...options,
  });
  cleanups.unshift(() => cache.close());
  return { cache, warnings, infos, events };
}

export const schemaOf = (sdl: string, resolvers: object = {}, options: object = {}): GraphQLSchema =>
  makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers: resolvers as IResolvers, ...options });

/** Returns the error of the library that `run` throws. */
export function errorOf(run: () => unknown): CachedError {
  try {
    run();
  } catch (error) {
    if (error instanceof CachedError) return error;
    throw error;
  }
  throw new Error("expected an error");
}

/** Returns the message of the mistake in a schema, or "accepted". */
export function mistakeIn(sdl: string, options: ApplyCachedOptions = {}, cacheOptions: CacheOptions = {}): string {
  const apply = (): unknown => applyCached(schemaOf(sdl), listen(cacheOptions).cache, options);
  try {
    apply();
    return "accepted";
  } catch {
    return errorOf(apply).message;
  }
}
