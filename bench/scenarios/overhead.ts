import type { Program, Setup } from "../fleet.js";
import type { ImportCommands } from "../import-process.js";
import { interleave, type Measure, rowsOf, type Sample, type Samples, type Scenario, withFleets } from "../scenario.js";
import { type EntityCommands, WITH, WITHOUT } from "../servers/entity-process.js";
import { SERVERS, type UncachedCommands } from "../servers/uncached-process.js";

const UNCACHED: Program<Setup, UncachedCommands> = { module: "servers/uncached-process" };
const IMPORT: Program<Setup, ImportCommands> = { module: "import-process" };
const ENTITIES: Program<Setup, EntityCommands> = { module: "servers/entity-process" };
const OURS = "graphql-cached";
const RUNTIMES = ["graphql-js", "Apollo"] as const;

/** The speed of a query of uncached fields on a server that caches other fields, relative to a server without the cache. */
export const noCachedField: Scenario = {
  name: "no-cached-field",
  title: "a query of 500 fields without a cached one, on a server that caches others",
  measures: RUNTIMES.map((runtime) => ({
    name: `${runtime}, of no cache`,
    unit: "x",
    better: "more",
    targets: [
      { contender: OURS, bound: 0.95 },
      { contender: `${OURS}, responses`, bound: 0.97 },
    ],
  })),
  run: async (ctx) => {
    const taken: Samples = new Map(SERVERS.map((name) => [name, []]));
    // The same server can be 2 % slower than its twin in one process, and faster in another.
    for (let first = 0; first < ctx.count(3, 9); first++)
      await withFleets(ctx, [OURS], { program: UNCACHED, setup: {} }, async (fleets) => {
        for (const sample of (await fleets.get(OURS)?.send(0, "measure", { rounds: ctx.count(16, 64), first })) ?? [])
          for (const name of SERVERS) {
            const speedOf = (runtime: string): number =>
              (sample[`no cache ${runtime}`] ?? Number.NaN) / (sample[`${name} ${runtime}`] ?? Number.NaN);
            const ratios: Sample = Object.fromEntries(RUNTIMES.map((one) => [`${one}, of no cache`, speedOf(one)]));
            taken.get(name)?.push(ratios);
          }
      });
    return rowsOf(taken);
  },
};

/** What the import of the library adds to the start of a server. */
export const importTime: Scenario = {
  name: "import",
  title: "import of graphql-cached, its Redis and its Apollo adapter, beside graphql and ioredis",
  measures: [
    { name: "CPU", unit: "ms", better: "less", targets: [{ contender: OURS, bound: 60 }] },
    { name: "time", unit: "ms", better: "less" },
  ],
  run: async (ctx) => {
    const samples: Sample[] = [];
    for (let round = 0; round < ctx.count(5, 20); round++)
      await withFleets(ctx, [OURS], { program: IMPORT, setup: {} }, async (fleets) => {
        const taken = await fleets.get(OURS)?.send(0, "measure", {});
        samples.push({ CPU: taken?.cpuMs ?? Number.NaN, time: taken?.elapsedMs ?? Number.NaN });
      });
    return rowsOf(new Map([[OURS, samples]]));
  },
};

const SIZES = [1, 100, 1_000];

/** The CPU time of loads and of hits of a list of films with a director each. */
export const entityTags: Scenario = {
  name: "entity-tags",
  title: "a list of entities, with and without entity tags, memory store",
  measures: SIZES.flatMap((n) =>
    ["load", "hit"].map(
      (what): Measure => ({ name: `${what}, ${n.toLocaleString("en")} films`, unit: "us", better: "less" }),
    ),
  ),
  run: (ctx) =>
    withFleets(ctx, [WITHOUT, WITH], { program: ENTITIES, setup: {} }, async (fleets) => {
      const measure = async (name: string): Promise<Sample> => {
        const sample: Record<string, number> = {};
        for (const n of SIZES) {
          const times = await fleets.get(name)?.send(0, "measure", { n });
          for (const [what, us] of Object.entries(times ?? {})) sample[`${what}, ${n.toLocaleString("en")} films`] = us;
        }
        return sample;
      };
      // V8 compiles what they run.
      await interleave([WITHOUT, WITH], ctx.count(50, 100), measure);
      return rowsOf(await interleave([WITHOUT, WITH], ctx.count(50, 200), measure));
    }),
};
