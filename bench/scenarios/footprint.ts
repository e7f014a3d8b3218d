import { baseline } from "../contenders/baseline.js";
import { bentocache } from "../contenders/bentocache.js";
import { graphqlCached } from "../contenders/graphql-cached.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import type { Fleet } from "../fleet.js";
import { pause } from "../instant.js";
import { oneMget } from "../limits/tick-reader.js";
import {
  allBut,
  type Context,
  FRESH,
  interleave,
  redisCpu,
  type Sample,
  type Scenario,
  withFleets,
} from "../scenario.js";
import { keys } from "./keys.js";

/** So few that the second-level cache of Redis's core holds those of all contenders: the CPU time is what Redis does. */
const FEW = 1_000;
/** So many that it holds those of none: more than half of the CPU time is spent waiting for memory. */
const MANY = 8_000;
const REQUEST = 100;
/** How many entries are read in a sample. */
const HITS = 40_000;
/** The contenders of which many entries are measured. */
const OF_MANY: readonly string[] = [graphqlCached.name, baseline.name, oneMget.name];
/** How long the writes of the last request may take, which it does not wait for. They are part of what a store costs. */
const WRITES_MS = 100;

/** The cost of entries in Redis: memory, and CPU time to store and to read them in requests of a hundred keys. */
export const footprint: Scenario = {
  name: "footprint",
  title: "memory per entry of 290 B, and Redis CPU per hit at 100 keys",
  measures: [
    { name: "memory vs plain string", unit: "x", better: "less", target: { bound: 1.3 } },
    { name: "Redis CPU per hit vs MGET", unit: "x", better: "less", target: { bound: 1.2 } },
    { name: "the same, 8,000 entries", unit: "x", better: "less" },
    { name: "memory per entry", unit: "B", better: "less" },
    { name: "keys per entry", unit: "", better: "less" },
    { name: "CPU per store", unit: "us", better: "less" },
    { name: "CPU per hit", unit: "us", better: "less" },
  ],
  run: (ctx) => {
    const contenders = [...allBut(lockRecipe.name, bentocache.name), oneMget];
    const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };
    return withFleets(ctx, contenders, options, async (fleets) => {
      // Until the code of all contenders is compiled: Redis uses more CPU time if it waits for each command.
      for (let nth = 0; nth < ctx.rounds(1, 8); nth++)
        for (const fleet of fleets.values()) await measureFootprint(ctx, fleet, `warm-up-${nth}`, FEW);
      return interleave(
        fleets,
        ctx.rounds(3, 20),
        async (fleet, round, name) => {
          const few = await measureFootprint(ctx, fleet, `round-${round}`, FEW);
          if (!OF_MANY.includes(name)) return few;
          const { "CPU per hit": ofMany = 0 } = await measureFootprint(ctx, fleet, `many-${round}`, MANY);
          return { ...few, "CPU per hit of many": ofMany };
        },
        (samples, name) => {
          const own = samples.get(name) ?? {};
          const { "CPU per hit of many": ofMany, ...shown } = own;
          const ratio = (measure: string): number => (own[measure] ?? 0) / (samples.get(baseline.name)?.[measure] ?? 1);
          return {
            "memory vs plain string": ratio("memory per entry"),
            "Redis CPU per hit vs MGET": ratio("CPU per hit"),
            ...(ofMany === undefined ? {} : { "the same, 8,000 entries": ratio("CPU per hit of many") }),
            ...shown,
          };
        },
      );
    });
  },
};

/** Stores the entries of a contender in an empty Redis and reads them. */
async function measureFootprint(ctx: Context, fleet: Fleet, name: string, entries: number): Promise<Sample> {
  await ctx.control.flushall();
  // What a contender does once after Redis has lost its data is not part of an entry.
  await fleet.send(0, { do: "warm", ids: [`before-${name}`] });
  await pause(50);
  const others = new Set(await ctx.control.keys("*"));
  const all = keys(name, entries);
  const cpuOf = async (work: () => Promise<unknown>): Promise<number> => {
    const before = await redisCpu(ctx.control);
    await work();
    return ((await redisCpu(ctx.control)) - before) * 1e6;
  };
  const store = await cpuOf(async () => {
    for (let at = 0; at < entries; at += REQUEST) await fleet.send(0, { do: "warm", ids: all.slice(at, at + REQUEST) });
    await pause(WRITES_MS);
  });
  const space = { name, size: entries };
  const times = HITS / REQUEST;
  const hits = await cpuOf(() =>
    fleet.send(0, { do: "cycle", space, times, requests: 1, keys: REQUEST, isSame: true }),
  );
  const names = (await ctx.control.keys("*")).filter((one) => !others.has(one));
  const usage = ctx.control.pipeline();
  for (const one of names) usage.call("MEMORY", "USAGE", one);
  const bytes = ((await usage.exec()) ?? []).reduce((total, [, reply]) => total + Number(reply), 0);
  return {
    "memory per entry": Math.round(bytes / entries),
    "keys per entry": names.length / entries,
    "CPU per store": store / entries,
    "CPU per hit": hits / HITS,
  };
}
