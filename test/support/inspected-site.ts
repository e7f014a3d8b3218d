import type { gate } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  type Cache,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
} from "graphql-cached";
import { expect } from "vitest";
import { afterCaches } from "./world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page(id: Int!): Int @cached(maxAge: 60, staleWhileRevalidate: 600, tags: ["Page:{$args.id}"])
    other: Int @cached(maxAge: 60)
  }
`;

/** A cache whose page loads can be held and can fail, with a schema that has the inspection query. */
export interface InspectedSite {
  readonly cache: Cache;
  readonly events: CacheEvent[];
  /** While a gate is here, page loads wait for it. While an error is here, they fail with it. */
  readonly state: { hold: ReturnType<typeof gate> | undefined; failure: unknown };
  ask(source: string): ReturnType<typeof graphql>;
  /** Returns what the inspection query shows of `selection`, as JSON. */
  inspect<Shown>(selection: string): Promise<Shown>;
}

export function inspectedSite(options: CacheOptions): InspectedSite {
  const state: InspectedSite["state"] = { hold: undefined, failure: undefined };
  const events: CacheEvent[] = [];
  const cache = createCache({
    defaultScope: "PUBLIC",
    logger: { info: () => undefined, warn: () => undefined },
    onEvent: (event) => events.push(event),
    ...options,
    defaults: { jitter: 0, earlyRefresh: 0, ...options.defaults },
  });
  afterCaches(() => cache.close());
  const page = async (_: unknown, { id }: { id: number }): Promise<number> => {
    await state.hold?.passed;
    if (state.failure !== undefined) throw state.failure;
    return id;
  };
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
      resolvers: [{ Query: { page, other: () => 7 } }, inspectionResolvers(cache, { allow: () => true })],
    }),
    cache,
  );
  const ask = (source: string): ReturnType<typeof graphql> => graphql({ schema, source, contextValue: {} });
  return {
    cache,
    events,
    state,
    ask,
    inspect: async (selection) => {
      const { data, errors } = await ask(`{ cacheInspection { ${selection} } }`);
      expect(errors).toBeUndefined();
      return JSON.parse(JSON.stringify((data as { cacheInspection: unknown }).cacheInspection));
    },
  };
}
