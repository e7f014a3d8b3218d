import type { ContenderName } from "../loaders/contenders.js";
import { rowsOf, type Sample, type Scenario, withFleets } from "../scenario.js";
import { LOADERS, type LoaderFleet } from "./reads.js";

const OURS = "graphql-cached, near cache of 32 MB";
const LIMIT_BYTES = 32 * 2 ** 20;
const CONTENDERS: readonly ContenderName[] = ["graphql-cached", OURS];
/** Far more values of 290 bytes of JSON than fit. */
const IDS = 150_000;
const AT_A_TIME = 10_000;

/** The memory that a full near cache uses: what the process uses beside what the same process uses without one. */
export const nearMemory: Scenario = {
  name: "near-memory",
  title: "memory of a near cache of 32 MB",
  measures: [
    { name: "of its limit", unit: "x", better: "less", targets: [{ contender: OURS, bound: 1.1 }] },
    { name: "memory of the process", unit: "MB", better: "less" },
  ],
  run: (ctx) =>
    withFleets(ctx, CONTENDERS, { program: LOADERS, setup: {}, execArgv: ["--expose-gc"] }, async (fleets) => {
      const bytes = new Map<string, number>();
      for (const [name, fleet] of fleets) bytes.set(name, await measureMemory(fleet, ctx.count(IDS, IDS)));
      await ctx.control.flushall();
      const [without = 0, near = 0] = CONTENDERS.map((name) => bytes.get(name));
      const sampleOf = (name: string, of: number): Sample => ({
        "memory of the process": of / 2 ** 20,
        ...(name === OURS ? { "of its limit": (near - without) / LIMIT_BYTES } : {}),
      });
      return rowsOf(new Map([...bytes].map(([name, of]) => [name, [sampleOf(name, of)]])));
    }),
};

async function measureMemory(fleet: LoaderFleet, ids: number): Promise<number> {
  // What a process has loaded enters its near cache when it is read again.
  for (let time = 0; time < 2; time++)
    for (let from = 0; from < ids; from += AT_A_TIME)
      await fleet.send(0, "fill", { name: "memory", from, to: Math.min(ids, from + AT_A_TIME) });
  return fleet.send(0, "memory", {});
}
