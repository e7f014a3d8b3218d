import { baseline } from "../contenders/baseline.js";
import { bentocache } from "../contenders/bentocache.js";
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

const ENTRIES = 2_000;
const REQUEST = 100;
/** How often all entries are read. */
const READS = 20;
/** How long the writes of the last request may take, which it does not wait for. They are part of what a store costs. */
const WRITES_MS = 100;

/** The cost of two thousand entries in Redis: memory, and CPU time to store and to read them in requests of a hundred keys. */
export const footprint: Scenario = {
  name: "footprint",
  title: "memory per entry of 290 B, and Redis CPU per hit at 100 keys",
  measures: [
    { name: "memory vs plain string", unit: "x", better: "less", target: { bound: 1.3 } },
    { name: "Redis CPU per hit vs MGET", unit: "x", better: "less", target: { bound: 1.2 } },
    { name: "memory per entry", unit: "B", better: "less" },
    { name: "keys per entry", unit: "", better: "less" },
    { name: "CPU per store", unit: "us", better: "less" },
    { name: "CPU per hit", unit: "us", better: "less" },
  ],
  run: (ctx) => {
    const contenders = [...allBut(lockRecipe.name, bentocache.name), oneMget];
    const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };
    return withFleets(ctx, contenders, options, async (fleets) => {
      for (const fleet of fleets.values()) await measureFootprint(ctx, fleet, "warm-up");
      return interleave(
        fleets,
        ctx.rounds(3, 20),
        (fleet, round) => measureFootprint(ctx, fleet, `round-${round}`),
        (samples, name) => {
          const own = samples.get(name) ?? {};
          const ratio = (measure: string): number => (own[measure] ?? 0) / (samples.get(baseline.name)?.[measure] ?? 1);
          return {
            "memory vs plain string": ratio("memory per entry"),
            "Redis CPU per hit vs MGET": ratio("CPU per hit"),
            ...own,
          };
        },
      );
    });
  },
};

/** Stores the entries of a contender in an empty Redis and reads them. */
async function measureFootprint(ctx: Context, fleet: Fleet, name: string): Promise<Sample> {
  await ctx.control.flushall();
  // What a contender does once after Redis has lost its data is not part of an entry.
  await fleet.send(0, { do: "warm", ids: [`before-${name}`] });
  await pause(50);
  const others = new Set(await ctx.control.keys("*"));
  const all = keys(name, ENTRIES);
  const cpuOf = async (work: () => Promise<unknown>): Promise<number> => {
    const before = await redisCpu(ctx.control);
    await work();
    return ((await redisCpu(ctx.control)) - before) * 1e6;
  };
  const store = await cpuOf(async () => {
    for (let at = 0; at < ENTRIES; at += REQUEST) await fleet.send(0, { do: "warm", ids: all.slice(at, at + REQUEST) });
    await pause(WRITES_MS);
  });
  const space = { name, size: ENTRIES };
  const times = (READS * ENTRIES) / REQUEST;
  const hits = await cpuOf(() =>
    fleet.send(0, { do: "cycle", space, times, requests: 1, keys: REQUEST, isSame: true }),
  );
  const names = (await ctx.control.keys("*")).filter((one) => !others.has(one));
  const usage = ctx.control.pipeline();
  for (const one of names) usage.call("MEMORY", "USAGE", one);
  const bytes = ((await usage.exec()) ?? []).reduce((total, [, reply]) => total + Number(reply), 0);
  return {
    "memory per entry": Math.round(bytes / ENTRIES),
    "keys per entry": names.length / ENTRIES,
    "CPU per store": store / ENTRIES,
    "CPU per hit": hits / (READS * ENTRIES),
  };
}
