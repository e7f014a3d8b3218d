import { Redis } from "ioredis";
import { pause } from "../instant.js";
import type { ContenderName } from "../loaders/contenders.js";
import { interleave, rowsOf, type Sample, type Scenario, withFleets } from "../scenario.js";
import { seededRandom } from "../seeded-random.js";
import { sum } from "../statistics.js";
import { LOAD_MS } from "./cold-key.js";
import { LOADERS, type LoaderFleet } from "./reads.js";

const KEYS = 40;
const PROCESSES = 4;
const NEVER_STALE: readonly ContenderName[] = ["graphql-cached, a tag each", "graphql-cached, no memory, a tag each"];
const CONTENDERS: readonly ContenderName[] = [
  "by hand",
  ...NEVER_STALE,
  "graphql-cached, up to 2 s stale, a tag each",
  "lock recipe",
  "bentocache",
  "async-cache-dedupe",
  "layered-loader",
  "layered-loader, in memory",
];

/**
 * While one process loads a key, its version in the database changes and another process invalidates it.
 * Reads that start after the invalidation is confirmed must not return the old version.
 */
export const staleReads: Scenario = {
  name: "stale-reads",
  title: "stale reads after a confirmed invalidation during a load",
  measures: [
    {
      name: "stale reads",
      unit: "%",
      better: "less",
      targets: NEVER_STALE.map((contender) => ({ contender, bound: 0 })),
    },
    { name: "keys read stale", unit: "%", better: "less" },
    { name: "reads", unit: "", better: "more" },
  ],
  run: async (ctx) => {
    const database = await ctx.lab.standalone();
    const versions = new Redis(database.port, database.host);
    const random = seededRandom(ctx.seed);
    const delays = Array.from({ length: KEYS }, () => random() * 1.2 * LOAD_MS);
    const options = { program: LOADERS, setup: { databasePort: database.port }, count: PROCESSES };
    try {
      return await withFleets(ctx, CONTENDERS, options, async (fleets) => {
        for (const fleet of fleets.values()) await fleet.sendAll("source", { loadMs: LOAD_MS });
        const measure = async (name: string, round: number): Promise<Sample> => {
          const fleet = fleets.get(name) as LoaderFleet;
          const stale = await Promise.all(
            delays.map((delayMs, nth) => race({ fleet, versions, id: `${name}-${round}-${nth}`, nth, delayMs })),
          );
          const reads = KEYS * PROCESSES * 1.5;
          return {
            "stale reads": (sum(stale) / reads) * 100,
            "keys read stale": (stale.filter((count) => count > 0).length / KEYS) * 100,
            reads,
          };
        };
        return rowsOf(await interleave(CONTENDERS, ctx.count(3, 10), measure));
      });
    } finally {
      versions.disconnect();
      await database.kill();
    }
  },
};

interface Race {
  readonly fleet: LoaderFleet;
  readonly versions: Redis;
  readonly id: string;
  readonly nth: number;
  readonly delayMs: number;
}

/**
 * Returns how many reads after the invalidation were stale: in every process, after the concurrent load has ended, and for every
 * other key also at once. Such reads load the new version, and store it over an old one that is stored too late.
 */
async function race({ fleet, versions, id, nth, delayMs }: Race): Promise<number> {
  await versions.set(`version:${id}`, 1);
  const loading = fleet.send(nth % PROCESSES, "read", { id });
  await pause(delayMs);
  await versions.set(`version:${id}`, 2);
  await fleet.send((nth + 1) % PROCESSES, "invalidate", { id });
  const atOnce = nth % 2 === 0 ? await fleet.sendAll("read", { id }) : [];
  await loading;
  await pause(1.5 * LOAD_MS);
  const later = await fleet.sendAll("read", { id });
  return [...atOnce, ...later].filter((version) => version < 2).length;
}
