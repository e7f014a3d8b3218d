import type { Tick } from "../agent-protocol.js";
import { baseline } from "../contenders/baseline.js";
import { bentocache } from "../contenders/bentocache.js";
import type { Contender } from "../contenders/contender.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import type { Fleet } from "../fleet.js";
import { hashingFloor } from "../limits/hashing-floor.js";
import type { Chart, Target } from "../report.js";
import {
  allBut,
  type Context,
  FRESH,
  fillInTurns,
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

/** A measure of speed: how many times as fast as `base` in the same round. */
export interface Comparison {
  readonly name: string;
  readonly base: Contender;
  readonly target?: Target;
  /** The contenders that it is computed for. Default: all of them. */
  readonly only?: readonly (Contender | undefined)[];
}

/** The reads to measure. */
export interface SpeedOptions {
  readonly contenders: readonly Contender[];
  readonly comparisons: readonly Comparison[];
  readonly tick: Tick;
  /** Ticks per sample, chosen so that a sample takes about 15 ms: see `ROUNDS`. */
  readonly times: number;
  /** The number of ids, all of which are read before one is repeated. Default: 20,000. */
  readonly ids?: number;
  /** How often a full run starts new processes, each time for all rounds. Default: 1. */
  readonly starts?: number;
}

/**
 * Rounds of each start in a full run. What disturbs a sample of 10 ms on a virtual machine disturbs one of 100 ms as much, so many
 * short samples are more precise than few long ones.
 */
const ROUNDS = 100;

/** Both floors, with the targets of graphql-cached. */
export const FLOORS: readonly Comparison[] = [
  { name: "speed vs hashing floor", base: hashingFloor, target: { bound: 0.95 } },
  { name: "speed vs floor", base: baseline, target: { bound: 0.85 } },
];

export const speedMeasures = (comparisons: readonly Comparison[]): readonly Measure[] => [
  ...comparisons.map(
    ({ name, target }): Measure => ({
      name,
      unit: "x",
      better: "more",
      ...(target === undefined ? {} : { target }),
    }),
  ),
  { name: "time per tick", unit: "us", better: "less" },
  { name: "CPU per key", unit: "us", better: "less" },
  { name: "Redis CPU per key", unit: "us", better: "less" },
  // More than 0: not all reads were hits.
  { name: "loads", unit: "", better: "less" },
];

export const speedCharts = (comparisons: readonly Comparison[]): readonly Chart[] =>
  comparisons.slice(0, 1).map(({ name }) => ({ kind: "bars", measure: name }));

/** The contenders of a scenario of warm keys, without those that are slower than other peers with a hundred keys. */
export const warmContenders = (...limits: readonly (Contender | undefined)[]): Contender[] => [
  ...allBut(lockRecipe.name, bentocache.name),
  hashingFloor,
  ...limits.filter((limit) => limit !== undefined),
];

/** Measures the speed of reading warm keys with ids that are not repeated soon, with one process per contender at a time. */
export async function measureSpeed(ctx: Context, options: SpeedOptions): Promise<readonly Row[]> {
  const fleetOptions = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };
  const taken: Samples = new Map();
  for (let start = 0; start < ctx.rounds(1, options.starts ?? 1); start++) {
    await ctx.control.flushall();
    await withFleets(ctx, options.contenders, fleetOptions, (fleets) => measureProcesses(ctx, fleets, options, taken));
  }
  return rowsOf(taken);
}

/** Adds the samples of one process per contender to `taken`. */
async function measureProcesses(
  ctx: Context,
  fleets: ReadonlyMap<string, Fleet>,
  { comparisons, tick, times, ids = ctx.ids(20_000, 20_000) }: SpeedOptions,
  taken: Samples,
): Promise<void> {
  const space = { name: "warm", size: ids };
  await fillInTurns(fleets, space, 200);
  const keysPerTick = tick.requests * tick.keys;
  const keys = times * keysPerTick;
  const command = { do: "cycle", space, times, ...tick } as const;
  const warmUpMs = ctx.rounds(300, 2_000);
  for (const fleet of fleets.values())
    for (let ranMs = 0; ranMs < warmUpMs; ) ranMs += (await fleet.send(0, command)).elapsedMs;
  for (const fleet of fleets.values()) await fleet.takeLoads();
  const measure = async (fleet: Fleet): Promise<Sample> => {
    const before = await redisCpu(ctx.control);
    const { ticks, elapsedMs, cpuMs } = await fleet.send(0, command);
    const redis = (await redisCpu(ctx.control)) - before;
    return {
      loads: sum((await fleet.takeLoads()).map((load) => load.keys)),
      tick: (elapsedMs / times) * 1e3,
      cpu: (cpuMs / keys) * 1e3,
      // Redis has worked for the ticks that are not measured, too.
      redis: (redis * 1e6) / (ticks * keysPerTick),
    };
  };
  const relate = (samples: ReadonlyMap<string, Sample>, contender: string): Sample => {
    const own = samples.get(contender) ?? {};
    const wanted = comparisons.filter(({ only }) => only?.some((one) => one?.name === contender) ?? true);
    const ratios = wanted.map(({ name, base }) => [name, (samples.get(base.name)?.tick ?? 0) / (own.tick ?? 1)]);
    return {
      ...Object.fromEntries(ratios),
      "time per tick": own.tick ?? 0,
      "CPU per key": own.cpu ?? 0,
      "Redis CPU per key": own.redis ?? 0,
      loads: own.loads ?? 0,
    };
  };
  await interleave(fleets, ctx.rounds(15, ROUNDS), measure, relate, taken);
}
