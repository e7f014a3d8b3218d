import type { Redis } from "ioredis";
import type { LabNode, RedisLab } from "../test/support/redis-lab.js";
import { type Commands, Fleet, type Program, type Setup } from "./fleet.js";
import { placeRedis } from "./placement.js";
import type { Measure, Row } from "./report.js";
import { type Spread, spreadOf } from "./statistics.js";

export type { Measure, Row } from "./report.js";

/** A scenario: what is measured, and how. */
export interface Scenario {
  /** The name on the command line. */
  readonly name: string;
  readonly title: string;
  readonly measures: readonly Measure[];
  /** Whether it is part of a quick run. */
  readonly isQuick?: boolean;
  /** Whether it runs at the same time as the next scenario, because both wait most of the time and have their own servers. */
  readonly runsWithNext?: boolean;
  run(ctx: Context): Promise<readonly Row[]>;
}

/** The resources that a scenario uses. */
export interface Context {
  readonly lab: RedisLab;
  /** The Redis that scenarios share. Scenarios that break their server start their own. */
  readonly redis: LabNode;
  readonly control: Redis;
  /** The folder of another build, with which this one is compared. */
  readonly against?: string;
  /** Returns a number for a quick run or a full one. A smoke run has one of everything. */
  count(quick: number, full: number): number;
  readonly seed: number;
}

let prefixes = 0;
/** Returns a prefix for the keys of a contender that no other uses. */
export const newPrefix = (): string => `bench-${prefixes++}`;

export interface FleetOptions<Known extends Setup, Its extends Commands> {
  readonly program: Program<Known, Its>;
  /** What processes are started with beside the name of their contender and their prefix. */
  readonly setup: Omit<Known, "contender" | "prefix">;
  /** Processes per contender. Default: 1. */
  readonly count?: number;
  /** Default: that of the shared Redis. */
  readonly port?: number;
  readonly commandTimeoutMs?: number;
  readonly execArgv?: readonly string[];
}

/** Starts processes of each contender, each with its own key prefix, runs `work` with all of them and stops them. */
export async function withFleets<Known extends Setup, Its extends Commands, Result>(
  ctx: Context,
  contenders: readonly string[],
  { program, setup, count = 1, port = ctx.redis.port, commandTimeoutMs, execArgv }: FleetOptions<Known, Its>,
  work: (fleets: ReadonlyMap<string, Fleet<Its>>) => Promise<Result>,
): Promise<Result> {
  const fleets = new Map<string, Fleet<Its>>();
  await placeRedis(ctx.control, count);
  try {
    for (const contender of contenders) {
      const common = { module: program.module, port, ...(commandTimeoutMs === undefined ? {} : { commandTimeoutMs }) };
      const own = { ...setup, contender, prefix: newPrefix() };
      fleets.set(contender, await Fleet.start<Its>(count, { ...common, setup: own }, execArgv));
    }
    return await work(fleets);
  } finally {
    await Promise.all([...fleets.values()].map((fleet) => fleet.stop()));
  }
}

/** The values of one contender in one round, by measure. */
export type Sample = Readonly<Record<string, number>>;

/** The samples of all rounds, by contender. */
export type Samples = Map<string, Sample[]>;

/**
 * Measures contenders round by round, so that other activity of the machine affects all of them. `relate` receives all samples of a round, to compute ratios. Adds the samples to `taken`, which is returned.
 */
export async function interleave(
  contenders: readonly string[],
  rounds: number,
  measure: (contender: string, round: number) => Promise<Sample>,
  relate: (samples: ReadonlyMap<string, Sample>, contender: string) => Sample = (samples, name) =>
    samples.get(name) ?? {},
  taken: Samples = new Map(),
): Promise<Samples> {
  for (const name of contenders) if (!taken.has(name)) taken.set(name, []);
  for (let round = 0; round < rounds; round++) {
    const samples = new Map<string, Sample>();
    for (const name of turned(contenders, round)) samples.set(name, await measure(name, round));
    for (const name of contenders) taken.get(name)?.push(relate(samples, name));
  }
  return taken;
}

/** Each round begins with the next one: in reverse order every other time, the first and the last would follow themselves. */
export const turned = <One>(all: readonly One[], round: number): One[] =>
  all.map((_, nth) => all[(nth + round) % all.length] as One);

/** Returns the rows of the contenders, with the spreads of their samples. */
export const rowsOf = (taken: Samples): Row[] =>
  [...taken].map(([contender, samples]) => ({ contender, values: spreads(samples) }));

/** Returns the spread of each measure over the samples. */
export function spreads(samples: readonly Sample[]): Record<string, Spread> {
  const names = new Set(samples.flatMap((sample) => Object.keys(sample)));
  return Object.fromEntries(
    [...names].map((name) => [name, spreadOf(samples.map((sample) => sample[name]).filter((n) => n !== undefined))]),
  );
}

/** Returns the seconds of CPU time that Redis has used. */
export async function redisCpu(control: Redis): Promise<number> {
  const info = await control.info("cpu");
  const part = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
  return part("used_cpu_user") + part("used_cpu_sys");
}
