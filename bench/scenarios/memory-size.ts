import type { ContenderName } from "../loaders/contenders.js";
import { type Context, rowsOf, type Sample, type Scenario, withFleets } from "../scenario.js";
import { LOADERS, type LoaderFleet } from "./reads.js";

const NONE = "graphql-cached, no memory";
const OURS = "graphql-cached, memory of 32 MiB";
const CONTENDERS: readonly ContenderName[] = [NONE, OURS];
const LIMIT_BYTES = 32 * 2 ** 20;
/** Far more values than fit. */
const MANY = { ids: 150_000, valueBytes: 290 };
/** Values that all fit. */
const SMALL = { ids: 40_000, valueBytes: 151 };
const AT_A_TIME = 10_000;

/** The memory that a process uses beside what the same process uses if it keeps no values: when it is full, and of an entry. */
export const memorySize: Scenario = {
  name: "memory-size",
  title: "values in the memory of a process, with a limit of 32 MiB",
  measures: [
    { name: "of its limit", unit: "x", better: "less", targets: [{ contender: OURS, bound: 1.1 }] },
    { name: "memory of the process, full", unit: "MB", better: "less" },
    {
      name: `bytes an entry of ${SMALL.valueBytes} bytes of JSON`,
      unit: "",
      better: "less",
      targets: [{ contender: OURS, bound: 450 }],
    },
  ],
  run: async (ctx) => {
    const full = await measureMemory(ctx, MANY);
    const small = await measureMemory(ctx, SMALL);
    const ours = (bytes: ReadonlyMap<string, number>): number =>
      (bytes.get(OURS) ?? Number.NaN) - (bytes.get(NONE) ?? Number.NaN);
    const sampleOf = (name: string): Sample => ({
      "memory of the process, full": (full.get(name) ?? Number.NaN) / 2 ** 20,
      ...(name === OURS
        ? {
            "of its limit": ours(full) / LIMIT_BYTES,
            [`bytes an entry of ${SMALL.valueBytes} bytes of JSON`]: Math.round(ours(small) / SMALL.ids),
          }
        : {}),
    });
    return rowsOf(new Map(CONTENDERS.map((name) => [name, [sampleOf(name)]])));
  },
};

/** Returns the memory of each process after it has read values. */
async function measureMemory(ctx: Context, values: typeof MANY): Promise<ReadonlyMap<string, number>> {
  const options = { program: LOADERS, setup: {}, execArgv: ["--expose-gc"] };
  const bytes = new Map<string, number>();
  await withFleets(ctx, CONTENDERS, options, async (fleets) => {
    for (const [name, fleet] of fleets) bytes.set(name, await readAll(fleet, values));
  });
  await ctx.control.flushall();
  return bytes;
}

async function readAll(fleet: LoaderFleet, { ids, valueBytes }: typeof MANY): Promise<number> {
  await fleet.send(0, "source", { valueBytes });
  // Values that a process has loaded itself may enter its memory when they are read again.
  for (let time = 0; time < 2; time++)
    for (let from = 0; from < ids; from += AT_A_TIME)
      await fleet.send(0, "fill", { name: "memory", from, to: Math.min(ids, from + AT_A_TIME) });
  return fleet.send(0, "memory", {});
}
