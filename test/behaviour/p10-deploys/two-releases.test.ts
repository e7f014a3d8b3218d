import { type GraphQLSchema, graphql } from "graphql";
import { applyCached, createCache } from "graphql-cached";
import { expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { cleanups } from "../../support/cleanups.js";
import { CHANGES, queryOf, type Release, schemaOf } from "../../support/releases.js";
import { onEachStore, type World } from "../../support/world.js";

/** What a release answers to a query that shows everything. */
const answerOf = async (release: Release, schema: GraphQLSchema): Promise<unknown> =>
  JSON.parse(JSON.stringify(await graphql({ schema, source: queryOf(release, 7), contextValue: {} })));

/** A process of a release, which counts its loads by field. */
function start(world: World, release: Release) {
  const storage = { storeTimeoutMs: 5_000 };
  const cache = createCache({ defaultScope: "PUBLIC", store: world.store(), prefix: world.prefix, storage });
  cleanups.unshift(() => cache.close());
  const loads = new Map<string, number>();
  const load = (name: string, value: (epoch: number) => unknown): unknown => {
    loads.set(name, (loads.get(name) ?? 0) + 1);
    return value(0);
  };
  const schema = applyCached(schemaOf(release, load, cache), cache);
  return { loads, ask: () => answerOf(release, schema), drain: () => partsOf(cache, "test").drain() };
}

const withoutCache = (release: Release): Promise<unknown> =>
  answerOf(
    release,
    schemaOf(release, (_name, value) => value(0), undefined),
  );

onEachStore("two releases that share a store", (world) => {
  it.each<readonly [first: Release, second: Release]>([
    ["old", "next"],
    ["next", "old"],
  ])(
    "answer as without a cache, whatever has changed between them, and load each key once per release, those that they can share once: %s before %s",
    async (...releases) => {
      const shared = world();
      const processes = releases.map((release) => ({ release, ...start(shared, release) }));
      for (let round = 0; round < 3; round++)
        for (const { release, ask, drain } of processes) {
          expect(await ask()).toEqual(await withoutCache(release));
          await drain();
        }
      for (const [name, { isCompatible = false }] of Object.entries(CHANGES))
        expect([name, ...processes.map(({ loads }) => loads.get(name) ?? 0)]).toEqual([name, 1, isCompatible ? 0 : 1]);
    },
  );
});
