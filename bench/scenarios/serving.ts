import type { AgentReport, Serving } from "../agent-protocol.js";
import type { Fleet } from "../fleet.js";
import type { Measure, Row, Target } from "../report.js";
import { type Context, FRESH, type Samples, spreads, withFleets } from "../scenario.js";
import { FIELDS } from "../servers/film-schema.js";
import type { Runtime } from "../servers/runtimes.js";
import type { Variant } from "../servers/variants.js";
import { sum } from "../statistics.js";

/** One measured kind of requests. */
export interface Load {
  readonly name: string;
  readonly runtime: Runtime;
  readonly callers: number;
  readonly ids: number;
  readonly step: number;
  /** Loads of one group are counted together, as the measure of this name. Default: they are not counted. */
  readonly group?: string;
}

export interface ServingOptions {
  readonly variants: readonly Variant[];
  readonly loads: readonly Load[];
  /** Speeds are relative to this one. */
  readonly base: Variant;
  /** Whether a variant supports a runtime. Default: it supports all. */
  readonly supports?: (variant: Variant, runtime: Runtime) => boolean;
  /** Requests per sample. Half as many precede, which are not counted. Default: 48. */
  readonly requests?: number;
}

/** The loads of the three servers on which all caches are compared, with one caller and with eight. */
export const serverLoads = (ids: number): readonly Load[] =>
  (["graphql-js", "Apollo", "Apollo + cacheControl"] as const).flatMap((runtime) =>
    [1, 8].map((callers) => ({
      name: `${runtime}, ${callers} caller${callers === 1 ? "" : "s"}`,
      runtime,
      callers,
      ids,
      step: FIELDS,
    })),
  );

export const servingMeasures = (loads: readonly Load[], target?: Target): readonly Measure[] => [
  ...loads.map(
    ({ name }): Measure => ({ name, unit: "x", better: "more", ...(target === undefined ? {} : { target }) }),
  ),
  ...[...new Set(loads.flatMap(({ group }) => group ?? []))].map(
    (name): Measure => ({ name, unit: "", better: "less" }),
  ),
];

/** How often a full run starts new processes: the same code can be a tenth slower in one process than in another. */
const STARTS = 8;

/** Measures requests to servers, with one process per variant at a time. Returns speeds relative to `base` in the same round. */
export async function measureServing(ctx: Context, serving: ServingOptions): Promise<readonly Row[]> {
  const { variants } = serving;
  const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false }, program: "server-agent" } as const;
  const taken: Samples = new Map(variants.map(({ name }) => [name, []]));
  for (let start = 0; start < ctx.rounds(1, STARTS); start++)
    await withFleets(ctx, variants, options, (fleets) => measureRounds(ctx, fleets, serving, start, taken));
  return variants.map(({ name, kind }) => ({ contender: name, kind, values: spreads(taken.get(name) ?? []) }));
}

/** Adds the samples of three rounds, all with the processes of the same start, to `taken`. */
async function measureRounds(
  ctx: Context,
  fleets: ReadonlyMap<string, Fleet>,
  { variants, loads, base, supports = () => true, requests = 48 }: ServingOptions,
  start: number,
  taken: Samples,
): Promise<void> {
  const serve = (
    { name }: Variant,
    { runtime, callers, ids, step }: Load,
    times: number,
    before = 0,
  ): Promise<AgentReport> => {
    const command: Serving & { do: "serve" } = { do: "serve", runtime, callers, times, ids, step, before };
    return (fleets.get(name) as Fleet).send(0, command);
  };
  const loadsOf = (variant: Variant): readonly Load[] => loads.filter(({ runtime }) => supports(variant, runtime));
  await Promise.all(
    variants.map(async (variant) => {
      const own = loadsOf(variant);
      for (const load of own.filter(({ runtime }, nth) => own[nth - 1]?.runtime !== runtime))
        await serve(variant, { ...load, callers: 1, step: FIELDS }, load.ids / FIELDS);
    }),
  );
  // All code is compiled before the first round.
  const warmUpMs = ctx.rounds(50, 200);
  for (const variant of variants)
    for (const load of loadsOf(variant))
      for (let ranMs = 0; ranMs < warmUpMs; ) ranMs += (await serve(variant, load, requests / load.callers)).elapsedMs;
  for (let round = 0; round < ctx.rounds(3, 3); round++) {
    const samples = new Map<string, Record<string, number>>(variants.map(({ name }) => [name, {}]));
    const counts = new Map<string, Record<string, number[]>>(variants.map(({ name }) => [name, {}]));
    for (const load of loads)
      for (const variant of (start + round) % 2 === 0 ? variants : variants.toReversed()) {
        if (!supports(variant, load.runtime)) continue;
        const times = requests / load.callers;
        const report = await serve(variant, load, times, Math.ceil(times / 2));
        (samples.get(variant.name) as Record<string, number>)[load.name] = report.elapsedMs;
        if (load.group === undefined) continue;
        const own = counts.get(variant.name) as Record<string, number[]>;
        own[load.group] = [...(own[load.group] ?? []), sum(report.loads.map(({ keys }) => keys)) / requests];
      }
    const baseTimes = samples.get(base.name) ?? {};
    for (const [name, times] of samples) {
      const speeds = Object.entries(times).map(([load, ms]) => [load, (baseTimes[load] ?? 0) / ms]);
      const counted = Object.entries(counts.get(name) ?? {}).map(([group, all]) => [group, sum(all) / all.length]);
      taken.get(name)?.push(Object.fromEntries([...speeds, ...counted]));
    }
  }
}
