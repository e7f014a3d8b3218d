import { pause } from "../instant.js";
import type { ContenderName } from "../loaders/contenders.js";
import { interleave, rowsOf, type Sample, type Scenario, withFleets } from "../scenario.js";
import { fillInTurns, LOADERS, type LoaderFleet } from "./reads.js";

const IDS = 8_000;
const EVERY_MS = 10;
/** Longer than the reads take. */
const FOR_MS = 1_500;
/** With the ticks of a sample, which take half a second at most. */
const TICKS = {
  "graphql-cached, a tag each": 400,
  "graphql-cached, no memory, a tag each": 300,
  "graphql-cached, up to 2 s stale, a tag each": 3_000,
} as const satisfies Partial<Record<ContenderName, number>>;
const CONTENDERS = Object.keys(TICKS) as (keyof typeof TICKS)[];

/** Reads of warm keys while another process invalidates the tags of other keys. */
export const invalidations: Scenario = {
  name: "invalidations",
  title: "100 warm keys in one tick, while another process invalidates 100 other tags a second",
  measures: [
    {
      name: "of the same without invalidations",
      unit: "x",
      better: "more",
      targets: CONTENDERS.map((contender) => ({ contender, bound: 0.9 })),
    },
    { name: "time, without", unit: "us", better: "less" },
    { name: "time, with", unit: "us", better: "less" },
    { name: "failed invalidations", unit: "", better: "less" },
  ],
  run: (ctx) =>
    withFleets(ctx, CONTENDERS, { program: LOADERS, setup: {}, count: 2 }, async (fleets) => {
      await fillInTurns(fleets, "warm", IDS);
      const measure = async (name: string, round: number): Promise<Sample> => {
        const fleet = fleets.get(name) as LoaderFleet;
        const all = TICKS[name as keyof typeof TICKS];
        const times = ctx.count(all, all);
        const read = async (): Promise<number> => {
          const { elapsedMs } = await fleet.send(0, "ticks", { space: { name: "warm", size: IDS }, keys: 100, times });
          return (elapsedMs / times) * 1e3;
        };
        const readWithInvalidations = async (): Promise<readonly [us: number, errors: number]> => {
          const invalidating = fleet.send(1, "invalidateOften", { forMs: FOR_MS, everyMs: EVERY_MS });
          await pause(5 * EVERY_MS);
          const us = await read();
          return [us, await invalidating];
        };
        // Each is first in every other round.
        const first = round % 2 === 0 ? await read() : undefined;
        const [during, errors] = await readWithInvalidations();
        const without = first ?? (await read());
        return {
          "of the same without invalidations": without / during,
          "time, without": without,
          "time, with": during,
          "failed invalidations": errors,
        };
      };
      for (const name of CONTENDERS) await measure(name, 0);
      return rowsOf(await interleave(CONTENDERS, ctx.count(3, 10), measure));
    }),
};
