import type { Scenario } from "../scenario.js";
import { measureReads, readMeasures } from "./reads.js";

/** More than any memo of keys holds. */
const IDS = 20_000;
/** As many as the memories of all contenders hold. */
const IDS_IN_MEMORY = 8_000;

/** A hundred keys in one tick, then the next hundred; with a tag of its own for each key, and without. */
export const warmKeys: Scenario = {
  name: "warm-keys",
  title: "100 warm keys in one tick, fresh ids, Redis",
  isQuick: true,
  measures: readMeasures("by hand", [
    { contender: "graphql-cached, a tag each", bound: 2 },
    { contender: "graphql-cached, no memory, a tag each", bound: 0.95 },
  ]),
  run: (ctx) =>
    measureReads(ctx, {
      contenders: [
        "by hand",
        "graphql-cached",
        "graphql-cached, a tag each",
        "graphql-cached, no memory",
        "graphql-cached, no memory, a tag each",
        "graphql-cached, SQLite, no memory",
        "graphql-cached, node-redis, no memory",
        "layered-loader getMany",
        "async-cache-dedupe",
      ],
      base: "by hand",
      keys: 100,
      times: 50,
      ids: IDS,
    }),
};

/** One key per request, one request after the other. */
export const warmKey: Scenario = {
  name: "warm-key",
  title: "one warm key, fresh ids, Redis",
  measures: readMeasures("by hand", [{ contender: "graphql-cached", bound: 0.84 }]),
  run: (ctx) =>
    measureReads(ctx, {
      contenders: [
        "by hand",
        "graphql-cached",
        "graphql-cached, no memory",
        "graphql-cached, SQLite, no memory",
        "graphql-cached, node-redis, no memory",
        "lock recipe",
        "bentocache",
        "async-cache-dedupe",
        "layered-loader",
      ],
      base: "by hand",
      keys: 1,
      times: 500,
      ids: IDS,
    }),
};

/** A hundred keys in one tick that no process has read before. The source answers at once. */
export const newKeys: Scenario = {
  name: "new-keys",
  title: "100 new keys in one tick, source without delay, Redis",
  isQuick: true,
  measures: readMeasures("by hand", [{ contender: "graphql-cached", bound: 0.5 }]),
  run: (ctx) =>
    measureReads(ctx, {
      contenders: [
        "by hand",
        "graphql-cached",
        "graphql-cached, a tag each",
        "graphql-cached, no memory",
        "graphql-cached, SQLite, no memory",
        "graphql-cached, node-redis, no memory",
        "layered-loader getMany",
      ],
      base: "by hand",
      keys: 100,
      times: 20,
    }),
};

const IN_MEMORY = ["graphql-cached", "graphql-cached, up to 2 s stale", "layered-loader, in memory"] as const;

/** Keys in process memory, for contenders that receive invalidations of other processes. */
export const memoryKeys: Scenario = {
  name: "memory-keys",
  title: "100 keys in one tick, in process memory",
  measures: readMeasures("layered-loader, in memory", [{ contender: "graphql-cached, up to 2 s stale", bound: 1 }]),
  run: (ctx) =>
    measureReads(ctx, {
      contenders: IN_MEMORY,
      base: "layered-loader, in memory",
      keys: 100,
      times: 1_000,
      ids: IDS_IN_MEMORY,
    }),
};

/** layered-loader asks nobody, as graphql-cached does within its two seconds; by default, it asks Redis once a tick. */
export const memoryKey: Scenario = {
  name: "memory-key",
  title: "one key, in process memory",
  measures: readMeasures("layered-loader, in memory", [{ contender: "graphql-cached, up to 2 s stale", bound: 0.9 }]),
  run: (ctx) =>
    measureReads(ctx, {
      contenders: IN_MEMORY,
      base: "layered-loader, in memory",
      keys: 1,
      times: 10_000,
      ids: IDS_IN_MEMORY,
    }),
};
