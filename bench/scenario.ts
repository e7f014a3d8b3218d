import type { Redis } from "ioredis";
import type { LabNode, RedisLab } from "../test/support/redis-lab.js";
import { CONTENDERS } from "./contenders/all.js";
import type { Contender, Keeping } from "./contenders/contender.js";
import { Fleet } from "./fleet.js";
import type { AgentSetup } from "./orders.js";
import type { SourceSettings } from "./source.js";
import { type Spread, spreadOf } from "./statistics.js";

/** One column of a scenario's table. */
export interface Measure {
  readonly name: string;
  readonly unit: "x" | "ms" | "us" | "MB" | "B" | "%" | "";
  readonly better: "more" | "less";
  /** What graphql-cached has to reach, if anything. */
  readonly target?: number;
}

/** What one contender did, a spread for each measure that was taken. */
export interface Row {
  readonly contender: string;
  readonly values: Readonly<Record<string, Spread>>;
}

/** One scenario: what is measured, and how. */
export interface Scenario {
  /** As it is called on the command line. */
  readonly name: string;
  readonly title: string;
  readonly measures: readonly Measure[];
  run(ctx: Context): Promise<readonly Row[]>;
}

/** What a scenario works with. */
export interface Context {
  readonly lab: RedisLab;
  /** The Redis that scenarios share; one that harms its server starts one of its own. */
  readonly redis: LabNode;
  readonly control: Redis;
  readonly isQuick: boolean;
  readonly seed: number;
}

export const FRESH: Keeping = { maxAge: 600, staleFor: 0, isInvalidated: false };

/** The contenders of these names, or all but those of `without`. */
export const allBut = (...without: readonly string[]): readonly Contender[] =>
  CONTENDERS.filter(({ name }) => !without.includes(name));

let prefixes = 0;

export interface FleetOptions {
  readonly count: number;
  readonly keeping: Keeping;
  readonly source: SourceSettings;
  readonly more?: Partial<AgentSetup>;
  readonly execArgv?: readonly string[];
}

/** Starts processes of each contender, has `work` done with all of them side by side, and ends them. A prefix each keeps their keys apart. */
export async function withFleets<T>(
  ctx: Context,
  contenders: readonly Contender[],
  options: FleetOptions,
  work: (fleets: ReadonlyMap<string, Fleet>) => Promise<T>,
): Promise<T> {
  const fleets = new Map<string, Fleet>();
  try {
    for (const { name } of contenders) {
      const { keeping, source, more } = options;
      const prefix = `bench-${prefixes++}`;
      const setup: AgentSetup = { contender: name, port: ctx.redis.port, prefix, keeping, source, ...more };
      fleets.set(name, await Fleet.start(options.count, setup, options.execArgv));
    }
    return await work(fleets);
  } finally {
    await Promise.all([...fleets.values()].map((fleet) => fleet.stop()));
  }
}

/** Values of one contender in one round, by measure. */
export type Sample = Readonly<Record<string, number>>;

/**
 * Measures all contenders in turn, round after round, so that what the machine does meanwhile meets all of them; every other round goes
 * backwards. `relate` sees the samples of one round together, for ratios.
 */
export async function interleave(
  fleets: ReadonlyMap<string, Fleet>,
  rounds: number,
  measure: (fleet: Fleet, round: number, contender: string) => Promise<Sample>,
  relate: (samples: ReadonlyMap<string, Sample>, contender: string) => Sample = (samples, name) =>
    samples.get(name) ?? {},
): Promise<Row[]> {
  const taken = new Map<string, Sample[]>([...fleets.keys()].map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    const samples = new Map<string, Sample>();
    const turn = [...fleets];
    for (const [name, fleet] of round % 2 === 0 ? turn : turn.reverse())
      samples.set(name, await measure(fleet, round, name));
    for (const name of fleets.keys()) taken.get(name)?.push(relate(samples, name));
  }
  return [...taken].map(([contender, samples]) => ({ contender, values: spreads(samples) }));
}

export function spreads(samples: readonly Sample[]): Record<string, Spread> {
  const names = new Set(samples.flatMap((sample) => Object.keys(sample)));
  return Object.fromEntries(
    [...names].map((name) => [name, spreadOf(samples.map((sample) => sample[name]).filter((n) => n !== undefined))]),
  );
}

/** Seconds of processor time that Redis has used. */
export async function redisCpu(control: Redis): Promise<number> {
  const info = await control.info("cpu");
  const part = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
  return part("used_cpu_user") + part("used_cpu_sys");
}
