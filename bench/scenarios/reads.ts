import type { Fleet, Program } from "../fleet.js";
import type { ContenderName } from "../loaders/contenders.js";
import type { LoaderCommands, LoaderSetup } from "../loaders/process.js";
import type { Target } from "../report.js";
import {
  type Context,
  interleave,
  type Measure,
  type Row,
  redisCpu,
  rowsOf,
  type Sample,
  type Samples,
  withFleets,
} from "../scenario.js";
import { sum } from "../statistics.js";

export const LOADERS: Program<LoaderSetup, LoaderCommands> = { module: "loaders/process" };
export type LoaderFleet = Fleet<LoaderCommands>;

/** Ticks of reads. */
export interface Reads {
  readonly contenders: readonly ContenderName[];
  /** Speeds are relative to this one. */
  readonly base: ContenderName;
  readonly keys: number;
  /** Ticks of a sample. */
  readonly times: number;
  /** How many ids are stored. All of them are read before one is read again. Default: every id is new. */
  readonly ids?: number;
}

export const readMeasures = (base: ContenderName, targets: readonly Target[]): readonly Measure[] => [
  { name: `of ${base}`, unit: "x", better: "more", targets },
  { name: "time", unit: "us", better: "less" },
  { name: "CPU a key", unit: "us", better: "less" },
  { name: "Redis CPU a key", unit: "us", better: "less" },
  // Keys that were not stored.
  { name: "loads a key", unit: "", better: "less" },
];

/** How often a full run starts new processes: the same code is faster in one process than in another. */
const STARTS = 2;
const ROUNDS = 20;

/** Measures reads with one process per contender, which are measured in turn. */
export async function measureReads(ctx: Context, reads: Reads): Promise<readonly Row[]> {
  const taken: Samples = new Map();
  for (let start = 0; start < ctx.count(1, STARTS); start++) {
    await ctx.control.flushall();
    await withFleets(ctx, reads.contenders, { program: LOADERS, setup: {} }, (fleets) =>
      measureRounds(ctx, fleets, reads, taken),
    );
  }
  return rowsOf(taken);
}

async function measureRounds(
  ctx: Context,
  fleets: ReadonlyMap<string, LoaderFleet>,
  { base, keys, times, ids }: Reads,
  taken: Samples,
): Promise<void> {
  const space = { name: ids === undefined ? "new" : "warm", size: ids ?? Number.MAX_SAFE_INTEGER };
  if (ids !== undefined) await fillInTurns(fleets, space.name, ids);
  const command = { space, keys, times };
  const warmUpMs = ctx.count(500, 1_000);
  for (const fleet of fleets.values())
    for (let ranMs = 0; ranMs < warmUpMs; ) ranMs += (await fleet.send(0, "ticks", command)).elapsedMs;
  const measure = async (name: string): Promise<Sample> => {
    const fleet = fleets.get(name) as LoaderFleet;
    await fleet.send(0, "loads", {});
    const before = await redisCpu(ctx.control);
    const { ticks, elapsedMs, cpuMs } = await fleet.send(0, "ticks", command);
    const redisS = (await redisCpu(ctx.control)) - before;
    const loads = await fleet.send(0, "loads", {});
    return {
      time: (elapsedMs / times) * 1e3,
      "CPU a key": (cpuMs / times / keys) * 1e3,
      // Also for the ticks that are not measured.
      "Redis CPU a key": (redisS * 1e6) / ticks / keys,
      "loads a key": sum(loads.map((load) => load.keys)) / ticks / keys,
    };
  };
  const relate = (samples: ReadonlyMap<string, Sample>, name: string): Sample => ({
    ...samples.get(name),
    [`of ${base}`]: (samples.get(base)?.time ?? Number.NaN) / (samples.get(name)?.time ?? Number.NaN),
  });
  await interleave([...fleets.keys()], ctx.count(10, ROUNDS), measure, relate, taken);
}

/** All contenders store so many in turn: Redis reads what it has stored first more slowly. */
const STORED_AT_A_TIME = 1_000;

/** Stores ids for all contenders. */
export async function fillInTurns(fleets: ReadonlyMap<string, LoaderFleet>, name: string, ids: number): Promise<void> {
  for (let from = 0; from < ids; from += STORED_AT_A_TIME)
    for (const fleet of fleets.values()) await fleet.send(0, "fill", { name, from, to: from + STORED_AT_A_TIME });
}
