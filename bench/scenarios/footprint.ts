import { baseline } from "../contenders/baseline.js";
import { bentocache } from "../contenders/bentocache.js";
import type { Contender } from "../contenders/contender.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import { hashingFloor } from "../limits/hashing-floor.js";
import { allBut, type Context, FRESH, redisCpu, type Sample, type Scenario, spreads, withFleets } from "../scenario.js";
import { median } from "../statistics.js";
import { keys } from "./keys.js";

const ENTRIES = 2_000;
const REQUEST = 100;

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
  run: async (ctx) => {
    const contenders = [...allBut(...(ctx.isQuick ? [lockRecipe.name, bentocache.name] : [])), hashingFloor];
    const taken = new Map<string, Sample[]>(contenders.map(({ name }) => [name, []]));
    for (let round = 0; round < ctx.rounds(2, 21); round++) {
      const samples = new Map<string, Sample>();
      for (const contender of contenders) samples.set(contender.name, await measureFootprint(ctx, contender));
      const plain = samples.get(baseline.name) ?? {};
      for (const [name, own] of samples) {
        const ratio = (measure: string): number => (own[measure] ?? 0) / (plain[measure] ?? 1);
        const ratios = {
          "memory vs plain string": ratio("memory per entry"),
          "Redis CPU per hit vs MGET": ratio("CPU per hit"),
        };
        taken.get(name)?.push({ ...ratios, ...own });
      }
    }
    return contenders.map(({ name, kind }) => ({ contender: name, kind, values: spreads(taken.get(name) ?? []) }));
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
    const hits: number[] = [];
    for (let time = 0; time < 3; time++) hits.push(await read());
    const hit = median(hits);
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
