import type { ContenderName } from "../loaders/contenders.js";
import { interleave, type Measure, rowsOf, type Sample, type Samples, type Scenario, withFleets } from "../scenario.js";
import { LOADERS, type LoaderFleet } from "./reads.js";

const CONTENDERS: readonly ContenderName[] = ["by hand", "graphql-cached", "graphql-cached, up to 2 s stale"];

/** All ids of a size fit into the memory of a process. A tick reads some of them, each of which is a value of its own. */
const SIZES = [
  { name: "1 kB", valueBytes: 1_000, ids: 1_000, keys: 20, times: 200 },
  { name: "15 kB", valueBytes: 15_000, ids: 200, keys: 20, times: 40 },
  { name: "150 kB", valueBytes: 150_000, ids: 40, keys: 4, times: 20 },
] as const;
type Size = (typeof SIZES)[number];

/** Values that are in memory, of which every reader gets a copy, beside those that are read from Redis and parsed. */
export const valueSizes: Scenario = {
  name: "value-sizes",
  title: "values of 1, 15 and 150 kB, a copy for each reader",
  measures: SIZES.flatMap(({ name }): Measure[] => [
    {
      name: `${name}, of by hand`,
      unit: "x",
      better: "more",
      targets: [{ contender: "graphql-cached", bound: 1 }],
    },
    { name: `${name}, time a value`, unit: "us", better: "less" },
  ]),
  run: async (ctx) => {
    const taken: Samples = new Map();
    for (let start = 0; start < ctx.count(1, 2); start++)
      await withFleets(ctx, CONTENDERS, { program: LOADERS, setup: {} }, async (fleets) => {
        const read = async (fleet: LoaderFleet, { name, ids, keys, times }: Size): Promise<number> => {
          const { elapsedMs } = await fleet.send(0, "ticks", { space: { name, size: ids }, keys, times });
          return (elapsedMs * 1e3) / (keys * times);
        };
        for (const fleet of fleets.values())
          for (const size of SIZES) {
            await fleet.send(0, "source", { valueBytes: size.valueBytes });
            await fleet.send(0, "fill", { name: size.name, from: 0, to: size.ids });
            for (let time = 0; time < ctx.count(2, 4); time++) await read(fleet, size);
          }
        const measure = async (contender: string): Promise<Sample> => {
          const sample: Record<string, number> = {};
          for (const size of SIZES)
            sample[`${size.name}, time a value`] = await read(fleets.get(contender) as LoaderFleet, size);
          return sample;
        };
        const relate = (samples: ReadonlyMap<string, Sample>, contender: string): Sample => {
          const timeOf = (one: string, { name }: Size): number =>
            samples.get(one)?.[`${name}, time a value`] ?? Number.NaN;
          const ratios = SIZES.map((size) => [
            `${size.name}, of by hand`,
            timeOf("by hand", size) / timeOf(contender, size),
          ]);
          return { ...samples.get(contender), ...Object.fromEntries(ratios) };
        };
        await interleave(CONTENDERS, ctx.count(3, 10), measure, relate, taken);
      });
    return rowsOf(taken);
  },
};
