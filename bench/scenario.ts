import type { Redis } from "ioredis";
import type { LabNode, RedisLab } from "../test/support/redis-lab.js";
import type { AgentSetup, Space } from "./agent-protocol.js";
import { ALL_CONTENDERS, CONTENDERS } from "./contenders/all.js";
import type { CachePolicy, Contender } from "./contenders/contender.js";
import { Fleet, type Program } from "./fleet.js";
import { placeRedis } from "./placement.js";
import type { Chart, Kind, Measure, Row } from "./report.js";
import type { SourceSettings } from "./source.js";
import { type Spread, spreadOf } from "./statistics.js";

export type { Measure, Row } from "./report.js";

/** A scenario: what is measured, and how. */
export interface Scenario {
  /** The name on the command line. */
  readonly name: string;
  readonly title: string;
  readonly measures: readonly Measure[];
  /** Default: none. */
  readonly charts?: readonly Chart[];
  /** Whether it runs at the same time as the next scenario, because both wait most of the time and have their own servers. */
  readonly runsWithNext?: boolean;
  /** Whether quick runs leave it out, unless it is named. */
  readonly isLong?: boolean;
  run(ctx: Context): Promise<readonly Row[]>;
}

/** The resources that a scenario uses. */
export interface Context {
  readonly lab: RedisLab;
  /** The Redis that scenarios share. Scenarios that break their server start their own. */
  readonly redis: LabNode;
  readonly control: Redis;
  /** Whether contenders and points may be left out. */
  readonly isQuick: boolean;
  /** Returns how many rounds to measure, and how many ids to go through, in a quick run and in a full one. A smoke run needs few. */
  rounds(quick: number, full: number): number;
  ids(quick: number, full: number): number;
  readonly seed: number;
}

export const FRESH: CachePolicy = { maxAge: 600, staleFor: 0, isInvalidated: false };

/** Returns what a contender stands for. */
export const kindOf = (contender: string): Kind => {
  const found = ALL_CONTENDERS.find(({ name }) => name === contender);
  if (found === undefined) throw new Error(`unknown contender ${contender}`);
  return found.kind;
};

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
  /** Default: "agent". */
  readonly program?: Program;
}

/** How many contenders start their processes, or store ids, at a time. */
const AT_A_TIME = 2;
/** How many ids of a contender are stored before those of the next one. */
const FILL_PART = 1_000;

/** What processes are started for: a contender, or a variant of a server. */
export type Measured = Pick<Contender, "name" | "module">;

function startFleet(ctx: Context, { name, module }: Measured, options: FleetOptions): Promise<Fleet> {
  const { count, policy, source, more, execArgv, program } = options;
  const prefix = `bench-${prefixes++}`;
  const setup: AgentSetup = { contender: name, module, port: ctx.redis.port, prefix, policy, source, ...more };
  return Fleet.start(count, setup, execArgv, program);
}

/** Calls `work` for all items, `AT_A_TIME` at a time. Rejects if one does, but not before the others of its group have ended. */
async function forGroups<Item>(items: readonly Item[], work: (item: Item) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < items.length; at += AT_A_TIME) {
    const ended = await Promise.allSettled(items.slice(at, at + AT_A_TIME).map(work));
    const failed = ended.find(({ status }) => status === "rejected");
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
  }
}

/**
 * Stores the ids of a space for all contenders, in parts: the first ids of all of them, then the next ones. What Redis has stored
 * first is read up to 8 % more slowly than what it has stored last.
 */
export async function fillInTurns(fleets: ReadonlyMap<string, Fleet>, space: Space, perRequest: number): Promise<void> {
  for (let from = 0; from < space.size; from += FILL_PART) {
    const to = Math.min(from + FILL_PART, space.size);
    await forGroups([...fleets.values()], (fleet) => fleet.send(0, { do: "fill", space, perRequest, from, to }));
  }
}

/** Starts processes of each contender, each with its own key prefix, runs `work` with all of them and stops them. */
export async function withFleets<T>(
  ctx: Context,
  contenders: readonly Measured[],
  options: FleetOptions,
  work: (fleets: ReadonlyMap<string, Fleet>) => Promise<T>,
): Promise<T> {
  const started = new Map<string, Fleet>();
  const fleets = new Map<string, Fleet>();
  await placeRedis(ctx.control, options.count);
  try {
    await forGroups(contenders, async (contender) => {
      started.set(contender.name, await startFleet(ctx, contender, options));
    });
    for (const { name } of contenders) fleets.set(name, started.get(name) as Fleet);
    return await work(fleets);
  } finally {
    await Promise.all([...started.values()].map((fleet) => fleet.stop()));
  }
}

/** The values of one contender in one round, by measure. */
export type Sample = Readonly<Record<string, number>>;

/** The samples of all rounds, by contender. */
export type Samples = Map<string, Sample[]>;

/** The processes of each contender, in the order in which they are measured. */
export type InOrder = readonly (readonly [name: string, fleet: Fleet])[];

/**
 * Measures all contenders round by round, in reverse order in every other round. `measure` returns the samples of one round, which are
 * added to `taken`. It may have those of earlier processes, and is returned.
 */
export async function takeRounds(
  fleets: ReadonlyMap<string, Fleet>,
  rounds: number,
  measure: (inOrder: InOrder, round: number) => Promise<ReadonlyMap<string, Sample>>,
  taken: Samples = new Map(),
): Promise<Samples> {
  for (const name of fleets.keys()) if (!taken.has(name)) taken.set(name, []);
  for (let round = 0; round < rounds; round++) {
    const entries = [...fleets];
    const samples = await measure(round % 2 === 0 ? entries : entries.reverse(), round);
    for (const [name, sample] of samples) taken.get(name)?.push(sample);
  }
  return taken;
}

/** Returns the rows of the contenders, with the spreads of their samples. */
export const rowsOf = (taken: Samples): Row[] =>
  [...taken].map(([contender, samples]) => ({ contender, kind: kindOf(contender), values: spreads(samples) }));

/**
 * Measures all contenders in turn, round by round, so that other activity of the machine affects all of them: see `takeRounds`. `relate`
 * receives all samples of a round, to compute ratios. Returns the rows of all.
 */
export async function interleave(
  fleets: ReadonlyMap<string, Fleet>,
  rounds: number,
  measure: (fleet: Fleet, round: number, contender: string) => Promise<Sample>,
  relate: (samples: ReadonlyMap<string, Sample>, contender: string) => Sample = (samples, name) =>
    samples.get(name) ?? {},
  taken?: Samples,
): Promise<Row[]> {
  const measureRound = async (inOrder: InOrder, round: number): Promise<ReadonlyMap<string, Sample>> => {
    const samples = new Map<string, Sample>();
    for (const [name, fleet] of inOrder) samples.set(name, await measure(fleet, round, name));
    return new Map(inOrder.map(([name]) => [name, relate(samples, name)]));
  };
  return rowsOf(await takeRounds(fleets, rounds, measureRound, taken));
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
