import type { Redis } from "ioredis";
import type { LabNode, RedisLab } from "../test/support/redis-lab.js";
import type { AgentSetup } from "./agent-protocol.js";
import { CONTENDERS } from "./contenders/all.js";
import type { CachePolicy, Contender } from "./contenders/contender.js";
import { Fleet } from "./fleet.js";
import type { SourceSettings } from "./source.js";
import { type Spread, spreadOf } from "./statistics.js";

/** One column of a scenario's table. */
export interface Measure {
  readonly name: string;
  readonly unit: "x" | "ms" | "us" | "MB" | "B" | "%" | "";
  readonly better: "more" | "less";
  /** The target for graphql-cached, if there is one. */
  readonly target?: number;
}

/** The results of one contender, by measure. */
export interface Row {
  readonly contender: string;
  readonly values: Readonly<Record<string, Spread>>;
}

/** A scenario: what is measured, and how. */
export interface Scenario {
  /** The name on the command line. */
  readonly name: string;
  readonly title: string;
  readonly measures: readonly Measure[];
  run(ctx: Context): Promise<readonly Row[]>;
}

/** The resources that a scenario uses. */
export interface Context {
  readonly lab: RedisLab;
  /** The Redis that scenarios share. Scenarios that break their server start their own. */
  readonly redis: LabNode;
  readonly control: Redis;
  readonly isQuick: boolean;
  readonly seed: number;
}

export const FRESH: CachePolicy = { maxAge: 600, staleFor: 0, isInvalidated: false };

/** Returns all contenders except those named in `without`. */
export const allBut = (...without: readonly string[]): readonly Contender[] =>
  CONTENDERS.filter(({ name }) => !without.includes(name));

let prefixes = 0;

export interface FleetOptions {
  readonly count: number;
  readonly policy: CachePolicy;
  readonly source: SourceSettings;
  readonly more?: Partial<AgentSetup>;
  readonly execArgv?: readonly string[];
}

/** Starts processes of each contender, each with its own key prefix, runs `work` with all of them and stops them. */
export async function withFleets<T>(
  ctx: Context,
  contenders: readonly Contender[],
  options: FleetOptions,
  work: (fleets: ReadonlyMap<string, Fleet>) => Promise<T>,
): Promise<T> {
  const fleets = new Map<string, Fleet>();
  try {
    for (const { name } of contenders) {
      const { policy, source, more } = options;
      const prefix = `bench-${prefixes++}`;
      const setup: AgentSetup = { contender: name, port: ctx.redis.port, prefix, policy, source, ...more };
      fleets.set(name, await Fleet.start(options.count, setup, options.execArgv));
    }
    return await work(fleets);
  } finally {
    await Promise.all([...fleets.values()].map((fleet) => fleet.stop()));
  }
}

/** The values of one contender in one round, by measure. */
export type Sample = Readonly<Record<string, number>>;

/**
 * Measures all contenders in turn, round by round, in reverse order in every other round, so that other
 * activity of the machine affects all of them. `relate` receives all samples of a round, to compute ratios.
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
    const entries = [...fleets];
    for (const [name, fleet] of round % 2 === 0 ? entries : entries.reverse())
      samples.set(name, await measure(fleet, round, name));
    for (const name of fleets.keys()) taken.get(name)?.push(relate(samples, name));
  }
  return [...taken].map(([contender, samples]) => ({ contender, values: spreads(samples) }));
}

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
