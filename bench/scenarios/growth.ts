import { Redis } from "ioredis";
import type { Space, Tick } from "../agent-protocol.js";
import { baseline } from "../contenders/baseline.js";
import type { Contender } from "../contenders/contender.js";
import { graphqlCached, graphqlCachedTags } from "../contenders/graphql-cached.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { DelayingProxy } from "../delaying-proxy.js";
import type { Fleet } from "../fleet.js";
import { oneMget, taggedReaders } from "../limits/tick-reader.js";
import { TIE } from "../report.js";
import {
  type Context,
  type FleetOptions,
  FRESH,
  fillInTurns,
  kindOf,
  type Row,
  type Sample,
  type Samples,
  type Scenario,
  spreads,
  takeRounds,
  withFleets,
} from "../scenario.js";

/** A point of an axis: what is read there, and how much of it. */
interface Point {
  readonly label: string;
  readonly space: Space;
  readonly tick: Tick;
  readonly times: number;
}

/** The contenders whose growth is compared. */
const GROWING: readonly Contender[] = [graphqlCached, baseline, oneMget, layeredLoaderMany];
const WORST = "worst growth vs the floor's";

interface Axis {
  readonly name: string;
  readonly title: string;
  /** What the points are, for the chart. */
  readonly axis: string;
  /** What the growth is compared with. Default: the floor. */
  readonly base?: Contender;
  /** The labels of all points, of which a quick run measures some. */
  readonly points: readonly string[];
  /** Returns the samples of each contender: the time per key at each point that was measured, in microseconds. */
  measure(ctx: Context): Promise<ReadonlyMap<string, readonly Sample[]>>;
}

/**
 * Returns by how much more the time has grown than that of the floor in the same round, from the first point to each. For a contender
 * that is faster than the floor at the first point, the growth counts from the floor's time there: it would be less if that
 * contender were slower.
 */
function growthsOf(own: Sample, floor: Sample): Sample {
  const ratios = Object.entries(own).map(([point, time]) => [point, time / (floor[point] ?? 1)] as const);
  const first = Math.max(1, ratios[0]?.[1] ?? 1);
  return Object.fromEntries(ratios.map(([point, ratio]) => [point, ratio / first]));
}

/** A scenario of the time per key along an axis, and of its growth compared with that of the floor. */
const growthScenario = ({ name, title, axis, points, base = baseline, measure }: Axis): Scenario => ({
  name,
  title,
  isLong: true,
  measures: [
    ...points.map((point) => ({ name: point, unit: "us", better: "less" }) as const),
    { name: WORST, unit: "x", better: "less", target: { bound: TIE, of: "the floor's own slope" } },
  ],
  charts: [{ kind: "lines", axis, unit: "us per key", measures: points }],
  run: async (ctx) => {
    const samples = await measure(ctx);
    const floor = samples.get(base.name) ?? [];
    return [...samples].map(([contender, taken]): Row => {
      const values = spreads(taken);
      const growths = Object.values(spreads(taken.map((own, round) => growthsOf(own, floor[round] ?? {}))));
      const worst = growths.reduce((most, growth) => (growth.median > most.median ? growth : most));
      return {
        contender,
        kind: kindOf(contender),
        values: contender === base.name ? values : { ...values, [WORST]: worst },
      };
    });
  },
});

/** Measures all points of an axis in turn, round by round, and returns the time per key at each, with what is in `taken`. */
async function measurePoints(
  ctx: Context,
  fleets: ReadonlyMap<string, Fleet>,
  points: readonly Point[],
  rounds = ctx.rounds(4, 20),
  taken?: Samples,
): Promise<Samples> {
  const timePerKey = async (fleet: Fleet, { space, tick, times }: Point): Promise<number> => {
    const { elapsedMs } = await fleet.send(0, { do: "cycle", space, times, ...tick });
    return (elapsedMs * 1e3) / (times * tick.requests * tick.keys);
  };
  for (const fleet of fleets.values())
    for (const point of points) for (let time = 0; time < 2; time++) await timePerKey(fleet, point);
  return takeRounds(
    fleets,
    rounds,
    async (inOrder) => {
      const samples = new Map<string, Record<string, number>>(inOrder.map(([name]) => [name, {}]));
      for (const point of points)
        for (const [name, fleet] of inOrder)
          (samples.get(name) as Record<string, number>)[point.label] = await timePerKey(fleet, point);
      return samples;
    },
    taken,
  );
}

/** How often a full run starts new processes where those of the same code differ by as much as what is measured. */
const STARTS = 4;
/** The ticks of a sample of some tens of milliseconds, so that one garbage collection does not decide about it. */
const LONG = 150;
const oneTick = (keys: number): Tick => ({ requests: 1, keys, isSame: true });
const OPTIONS = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };

/** Calls `run`, which adds to `samples`, several times, each time with new processes. Returns the samples of all. */
async function withNewProcesses(
  ctx: Context,
  contenders: readonly Contender[],
  options: FleetOptions,
  run: (fleets: ReadonlyMap<string, Fleet>, samples: Samples) => Promise<void>,
): Promise<Samples> {
  const samples: Samples = new Map();
  for (let start = 0; start < ctx.rounds(1, STARTS); start++)
    await withFleets(ctx, contenders, options, (fleets) => run(fleets, samples));
  return samples;
}

/** From one key to ten thousand keys in a tick. */
export const growthKeys = growthScenario({
  name: "growth-keys",
  title: "growth: keys a tick, 1 - 10,000",
  axis: "keys a tick",
  points: ["1", "10", "100", "1,000", "10,000"],
  measure: (ctx) =>
    withNewProcesses(ctx, GROWING, OPTIONS, async (fleets, samples) => {
      const space = { name: "warm", size: ctx.ids(10_000, 20_000) };
      await fillInTurns(fleets, space, 100);
      const points = [1, 10, 100, 1_000, 10_000].map(
        (keys): Point => ({
          label: keys.toLocaleString("en"),
          space,
          tick: oneTick(keys),
          // Several garbage collections a sample: they fall into big ticks, and cost most there.
          times: Math.min(300, Math.round(100_000 / keys)),
        }),
      );
      await measurePoints(ctx, fleets, points, ctx.rounds(4, 5), samples);
    }),
});

/** From values of 0.1 KB to values of 1 MB. The default of `maxValueBytes` is 1 MiB. */
export const growthValues = growthScenario({
  name: "growth-values",
  title: "growth: value size, 0.1 KB - 1 MB",
  axis: "bytes a value",
  points: ["0.1 KB", "1 KB", "10 KB", "100 KB", "1 MB"],
  measure: (ctx) =>
    withFleets(ctx, GROWING, OPTIONS, async (fleets) => {
      const points = [100, 1_000, 10_000, 100_000, 1_000_000].map((valueBytes, nth): Point & { valueBytes: number } => {
        const keys = Math.max(1, Math.min(100, Math.round(200_000 / valueBytes)));
        const size = Math.max(4, Math.min(ctx.ids(4_000, 40_000), Math.round(4_000_000 / valueBytes)));
        const times = Math.max(2, Math.min(20, Math.round(2_000_000 / (keys * valueBytes))));
        const label = ["0.1 KB", "1 KB", "10 KB", "100 KB", "1 MB"][nth] as string;
        return { label, space: { name: `bytes-${valueBytes}`, size }, tick: oneTick(keys), times, valueBytes };
      });
      for (const { space, tick, valueBytes } of points) {
        for (const fleet of fleets.values()) await fleet.send(0, { do: "source", settings: { valueBytes } });
        // Few at a time, so that no write exceeds the time limit of a store operation.
        await fillInTurns(fleets, space, Math.max(1, Math.round(tick.keys / 4)));
      }
      return measurePoints(ctx, fleets, points);
    }),
});

/** Successive reads are so many ids apart, so that they are not next to each other in the memory of Redis either. */
const STRIDE = 611_953;

/**
 * From a hundred ids to a million, in ticks of a hundred keys. Redis holds all of them at each point, and those that are read are
 * scattered over its memory, since an application does not read what it has stored in succession. Quick runs end at ten thousand.
 * A server of its own holds the three million entries.
 */
export const growthIds = growthScenario({
  name: "growth-ids",
  title: "growth: ids, 10^2 - 10^6",
  axis: "ids",
  points: ["10^2", "10^3", "10^4", "10^5", "10^6"],
  measure: async (ctx) => {
    const powers = ctx.isQuick ? [2, 3, 4] : [2, 3, 4, 5, 6];
    const all: Space = { name: "ids", size: 10 ** Math.max(...powers) };
    const points = powers.map(
      (power): Point => ({
        label: `10^${power}`,
        space: { ...all, size: 10 ** power, of: all.size, stride: STRIDE },
        tick: oneTick(100),
        times: LONG,
      }),
    );
    const redis = await ctx.lab.standalone();
    const control = new Redis(redis.port);
    try {
      const own: Context = { ...ctx, redis, control };
      // All contenders have one prefix, and names of their own: new processes find what those before them have stored.
      const options = { ...OPTIONS, more: { prefix: "growth-ids" } };
      const contenders = GROWING.slice(0, 3);
      await withFleets(own, contenders, options, (fleets) => fillInTurns(fleets, all, 500));
      return await withNewProcesses(own, contenders, options, async (fleets, samples) => {
        await measurePoints(ctx, fleets, points, ctx.rounds(4, 5), samples);
      });
    } finally {
      control.disconnect();
      await redis.kill();
    }
  },
});

/** From one process to eight, all of which read at the same time. The time per key is that of all processes together. */
export const growthProcesses = growthScenario({
  name: "growth-processes",
  title: "growth: processes, 1 - 8",
  axis: "processes",
  points: ["1", "2", "4", "8"],
  measure: (ctx) =>
    withFleets(ctx, GROWING.slice(0, 3), { ...OPTIONS, count: 8 }, async (fleets) => {
      const space = { name: "warm", size: ctx.ids(2_000, 20_000) };
      await fillInTurns(fleets, space, 100);
      const times = 40;
      const command = { do: "cycle", space, times, ...oneTick(100) } as const;
      for (const fleet of fleets.values()) for (let time = 0; time < 2; time++) await fleet.sendAll(command);
      return takeRounds(fleets, ctx.rounds(3, 20), async (inOrder) => {
        const samples = new Map<string, Sample>();
        for (const [name, fleet] of inOrder) {
          const sample: Record<string, number> = {};
          for (const processes of [1, 2, 4, 8]) {
            const startedAt = performance.now();
            await Promise.all(Array.from({ length: processes }, (_, nth) => fleet.send(nth, command)));
            sample[String(processes)] = ((performance.now() - startedAt) * 1e3) / (times * 100 * processes);
          }
          samples.set(name, sample);
        }
        return samples;
      });
    }),
});

const TAGS = ["0", "1", "2", "5", "10"];
const WITH_TAGS = [graphqlCached, ...graphqlCachedTags];
const BARE_WITH_TAGS = [oneMget, ...taggedReaders];

/** From no tag to ten tags a key. The floor has no tags, so the growth is compared with the bare reader that has. */
export const growthTags = growthScenario({
  name: "growth-tags",
  title: "growth: tags a key, 0 - 10",
  axis: "tags a key",
  points: TAGS,
  base: oneMget,
  measure: async (ctx) => {
    const space = { name: "warm", size: ctx.ids(2_000, 20_000) };
    const contenders = [...WITH_TAGS, ...BARE_WITH_TAGS];
    const samples = await withNewProcesses(ctx, contenders, OPTIONS, async (fleets, taken) => {
      await fillInTurns(fleets, space, 100);
      const point = { label: "time", space, tick: oneTick(100), times: LONG };
      await measurePoints(ctx, fleets, [point], ctx.rounds(4, 8), taken);
    });
    const line = (points: readonly Contender[]): Sample[] =>
      (samples.get(baseOf(points)) ?? []).map((_, round) =>
        Object.fromEntries(points.map(({ name }, nth) => [TAGS[nth] as string, samples.get(name)?.[round]?.time ?? 0])),
      );
    return new Map([WITH_TAGS, BARE_WITH_TAGS].map((points) => [baseOf(points), line(points)]));
  },
});

const baseOf = ([first]: readonly Contender[]): string => first?.name ?? "";

const DELAYS_MS = [0.2, 1, 5];

/** Round-trip times of 0.2, 1 and 5 ms, for ticks of a hundred keys. */
export const growthDelay = growthScenario({
  name: "growth-delay",
  title: "growth: network delay, 0.2 / 1 / 5 ms",
  axis: "round-trip time",
  points: DELAYS_MS.map((delay) => `${delay} ms`),
  measure: async (ctx) => {
    const merged = new Map<string, Record<string, number>[]>();
    for (const delayMs of DELAYS_MS) {
      const proxy = await DelayingProxy.start(ctx.redis.port, delayMs);
      try {
        const contenders = GROWING.slice(0, 3);
        const samples = await withFleets(
          ctx,
          contenders,
          { ...OPTIONS, more: { port: proxy.port } },
          async (fleets) => {
            const space = { name: "warm", size: ctx.ids(2_000, 10_000) };
            await fillInTurns(fleets, space, 100);
            return measurePoints(ctx, fleets, [{ label: `${delayMs} ms`, space, tick: oneTick(100), times: 20 }]);
          },
        );
        for (const [name, taken] of samples) {
          const rows = merged.get(name) ?? taken.map(() => ({}));
          merged.set(name, rows);
          for (const [round, sample] of taken.entries()) Object.assign(rows[round] as object, sample);
        }
      } finally {
        await proxy.stop();
      }
    }
    return merged;
  },
});
