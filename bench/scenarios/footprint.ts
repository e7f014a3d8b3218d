import type { Contender } from "../contenders/contender.js";
import { allBut, type Context, FRESH, redisCpu, type Sample, type Scenario, spreads, withFleets } from "../scenario.js";
import { keys } from "./keys.js";

const ENTRIES = 2_000;
const REQUEST = 100;

/** The cost of two thousand entries in Redis: memory, and CPU time to store and to read them in requests of a hundred keys. */
export const footprint: Scenario = {
  name: "footprint",
  title: "bytes per entry, and Redis CPU",
  measures: [
    { name: "memory per entry", unit: "B", better: "less" },
    { name: "keys per entry", unit: "", better: "less" },
    { name: "CPU per store", unit: "us", better: "less" },
    { name: "CPU per hit", unit: "us", better: "less" },
  ],
  run: async (ctx) => {
    const taken = new Map<string, Sample[]>();
    for (let round = 0; round < (ctx.isQuick ? 1 : 5); round++)
      for (const contender of allBut())
        taken.set(contender.name, [...(taken.get(contender.name) ?? []), await measureFootprint(ctx, contender)]);
    return [...taken].map(([contender, samples]) => ({ contender, values: spreads(samples) }));
  },
};

async function measureFootprint(ctx: Context, contender: Contender): Promise<Sample> {
  await ctx.control.flushall();
  const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };
  return withFleets(ctx, [contender], options, async (fleets) => {
    const [fleet] = fleets.values();
    if (fleet === undefined) return {};
    const all = keys("film", ENTRIES);
    const read = async (): Promise<number> => {
      const before = await redisCpu(ctx.control);
      for (let at = 0; at < ENTRIES; at += REQUEST)
        await fleet.send(0, { do: "warm", ids: all.slice(at, at + REQUEST) });
      return (((await redisCpu(ctx.control)) - before) * 1e6) / ENTRIES;
    };
    const store = await read();
    const hit = await read();
    const names = await ctx.control.keys("*");
    const usage = ctx.control.pipeline();
    for (const name of names) usage.call("MEMORY", "USAGE", name);
    const bytes = ((await usage.exec()) ?? []).reduce((total, [, reply]) => total + Number(reply), 0);
    return {
      "memory per entry": Math.round(bytes / ENTRIES),
      "keys per entry": names.length / ENTRIES,
      "CPU per store": store,
      "CPU per hit": hit,
    };
  });
}
