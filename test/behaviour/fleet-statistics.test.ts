import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
} from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { FakeClock, settle } from "graphql-cached/testing";
import { describe, expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  enum Order { NEWEST OLDEST }
  type Query {
    movie(id: ID!, order: Order): Int
      @cached(maxAge: 600, staleWhileRevalidate: 60, profile: "shop", tags: ["Movie:{$args.id}"])
    genre(name: String!): Int @cached(maxAge: 60, key: ["$args.name"])
    broken: Int @cached(maxAge: 60)
    owner: Owner
  }
  type Owner { id: ID!  wealth: Int @cached(maxAge: 60) }
`;
const START_AT = 1_000_000_000;

interface ProcessOptions extends CacheOptions<object> {
  readonly fields?: string;
  readonly allow?: (context: object, detail?: { readonly kind: string; readonly coordinate: string }) => boolean;
}

/** Simulated processes on one store and clock. */
function createFleet(wrap: (store: Store) => Store = (store) => store) {
  const clock = new FakeClock(START_AT);
  const store = wrap(memoryStore({ clock }));
  const loading: { gate: Promise<void> | undefined; ms: number } = { gate: undefined, ms: 0 };
  const process = ({ fields = typeDefs, allow = () => true, ...options }: ProcessOptions = {}) => {
    const cache = createCache<object>({
      store,
      prefix: "fleet",
      testing: { clock },
      defaults: { earlyRefresh: 0, jitter: 0 },
      profiles: { shop: { negativeMaxAge: 5, version: "3" } },
      inspection: { report: true },
      logger: { info: () => undefined, warn: () => undefined },
      ...options,
    });
    onTestFinished(() => cache.close());
    const load = async (): Promise<number> => {
      await loading.gate;
      if (loading.ms > 0) await clock.advance(loading.ms);
      return 1;
    };
    const resolvers = {
      Query: {
        movie: load,
        genre: load,
        broken: () => Promise.reject(new Error("no")),
        owner: () => ({ id: "7" }),
      },
      Owner: { wealth: load },
    };
    const schema = applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, inspectionTypeDefs, fields],
        resolvers: [resolvers, inspectionResolvers(cache, { allow })],
        resolverValidationOptions: { requireResolversToMatchSchema: "ignore" },
      }),
      cache,
    );
    const names = cache.loader<string, string>({
      name: "Name",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => `name ${id}`),
    });
    const ask = async (source: string) => {
      const { data, errors } = await graphql({ schema, source, contextValue: {} });
      await settle();
      return { data, errors };
    };
    return {
      cache,
      ask,
      names: async (id: string) => names({}).load(id),
      inspect: async (selection: string): Promise<Record<string, never>> => {
        const { data, errors } = await ask(`{ cacheInspection { ${selection} } }`);
        expect(errors).toBeUndefined();
        return JSON.parse(JSON.stringify((data as { cacheInspection: unknown }).cacheInspection));
      },
    };
  };
  return { clock, process, loading, store };
}

const INTERVAL_MS = 5_000;

describe("cacheInspection.stats", () => {
  it("adds the counts of all processes, fields and loaders alike, as soon as they are reported", async () => {
    const { clock, process } = createFleet();
    const [one, two] = [process(), process()];
    await one.ask("{ movie(id: 1) }");
    await two.ask("{ movie(id: 1) a: movie(id: 1) }");
    await two.names("x");
    // Those of the process that answers are live.
    expect(await one.inspect("stats { reads processes missing }")).toEqual({
      stats: { reads: 1, processes: 2, missing: [] },
    });
    await clock.advance(INTERVAL_MS);
    for (const { inspect } of [one, two])
      expect(await inspect("stats { reads hit loaded loads loadsSaved hitRatio }")).toEqual({
        stats: { reads: 3, hit: 1, loaded: 2, loads: 2, loadsSaved: 1, hitRatio: 1 / 3 },
      });
    const { fields } = await one.inspect("fields { coordinate stats { reads hit loads } }");
    expect(fields).toEqual([
      { coordinate: "Query.movie", stats: { reads: 2, hit: 1, loads: 1 } },
      { coordinate: "Query.genre", stats: { reads: 0, hit: 0, loads: 0 } },
      { coordinate: "Query.broken", stats: { reads: 0, hit: 0, loads: 0 } },
      { coordinate: "Owner.wealth", stats: { reads: 0, hit: 0, loads: 0 } },
      { coordinate: "Name", stats: { reads: 1, hit: 0, loads: 1 } },
    ]);
  });
});
