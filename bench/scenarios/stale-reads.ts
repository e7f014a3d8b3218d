import { Redis } from "ioredis";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import type { Fleet } from "../fleet.js";
import { pause } from "../instant.js";
import { allBut, interleave, type Sample, type Scenario, withFleets } from "../scenario.js";
import { seededRandom } from "../seeded-random.js";
import { sum } from "../statistics.js";
import { LOAD_MS } from "./stampede.js";

const KEYS = 40;
const PROCESSES = 4;

/**
 * While one process loads a key, its version in the database changes and another process invalidates it.
 * Reads that start after the invalidation is confirmed must not return the old version.
 */
export const staleReads: Scenario = {
  name: "stale-reads",
  title: "stale reads after an acknowledged invalidation",
  measures: [
    { name: "stale reads", unit: "%", better: "less", target: { bound: 0 } },
    { name: "keys read stale", unit: "%", better: "less" },
    { name: "reads", unit: "", better: "more" },
  ],
  run: async (ctx) => {
    const database = await ctx.lab.standalone();
    const versions = new Redis(database.port, database.host);
    const random = seededRandom(ctx.seed);
    const policy = { maxAge: 600, staleFor: 0, isInvalidated: true };
    const options = {
      count: PROCESSES,
      policy,
      source: { loadMs: LOAD_MS, fails: false },
      more: { databasePort: database.port },
    };
    const delays = Array.from({ length: KEYS }, () => random() * 1.2 * LOAD_MS);
    const measure = async (fleet: Fleet, round: number, contender: string): Promise<Sample> => {
      const stale = await Promise.all(
        delays.map((delayMs, index) => race({ fleet, versions, id: `${contender}-${round}-${index}`, index, delayMs })),
      );
      const reads = KEYS * PROCESSES * 2;
      return {
        "stale reads": (sum(stale) / reads) * 100,
        "keys read stale": (stale.filter((count) => count > 0).length / KEYS) * 100,
        reads,
      };
    };
    try {
      return await withFleets(ctx, allBut(layeredLoaderMany.name), options, (fleets) =>
        interleave(fleets, ctx.rounds(2, 20), measure),
      );
    } finally {
      versions.disconnect();
      await database.kill();
    }
  },
};

interface Race {
  readonly fleet: Fleet;
  readonly versions: Redis;
  readonly id: string;
  readonly index: number;
  readonly delayMs: number;
}

/** Returns how many reads after the invalidation were stale: in every process, at once and after the concurrent load has ended. */
async function race({ fleet, versions, id, index, delayMs }: Race): Promise<number> {
  await versions.set(`version:${id}`, 1);
  const loading = fleet.send(index % PROCESSES, { do: "read", id });
  await pause(delayMs);
  await versions.set(`version:${id}`, 2);
  await fleet.send((index + 1) % PROCESSES, { do: "invalidate", id });
  const atOnce = await fleet.sendAll({ do: "read", id });
  await loading;
  await pause(1.5 * LOAD_MS);
  const later = await fleet.sendAll({ do: "read", id });
  return [...atOnce, ...later].filter(({ version }) => version < 2).length;
}
