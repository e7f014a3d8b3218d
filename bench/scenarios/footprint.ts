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
  type InOrder,
  redisCpu,
  rowsOf,
  type Sample,
  type Scenario,
  takeRounds,
  withFleets,
} from "../scenario.js";
import { keys } from "./keys.js";

/** So few that the second-level cache of Redis's core (1 MiB) holds those of all contenders: the CPU time is what Redis does. */
const FEW = 200;
/** So many that it holds those of none: more than half of the CPU time is spent waiting for memory. */
const MANY = 8_000;
const REQUEST = 100;
/** How many entries of a contender are read in a round, and in how many parts. */
const HITS = 40_000;
const PARTS = 20;
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
      for (let nth = 0; nth < ctx.rounds(1, 8); nth++) await measureAll(ctx, [...fleets], `warm-up-${nth}`, FEW);
      const taken = await takeRounds(fleets, ctx.rounds(3, 40), async (inOrder, round) => {
        const few = await measureAll(ctx, inOrder, `round-${round}`, FEW);
        const ofMany = inOrder.filter(([name]) => OF_MANY.includes(name));
        const many = await measureAll(ctx, ofMany, `many-${round}`, MANY);
        return new Map(inOrder.map(([name]) => [name, relate(few, many, name)]));
      });
      return rowsOf(taken);
    });
  },
};

/** Returns the costs of a contender in one round, and their ratios to those of plain strings. */
function relate(few: ReadonlyMap<string, Costs>, many: ReadonlyMap<string, Costs>, name: string): Sample {
  const [own, plain] = [few.get(name) as Costs, few.get(baseline.name) as Costs];
  const [ownMany, plainMany] = [many.get(name), many.get(baseline.name)];
  return {
    "memory vs plain string": own.bytes / plain.bytes,
    "Redis CPU per hit vs MGET": own.hitUs / plain.hitUs,
    ...(ownMany === undefined || plainMany === undefined
      ? {}
      : { "the same, 8,000 entries": ownMany.hitUs / plainMany.hitUs }),
    "memory per entry": own.bytes,
    "keys per entry": own.keys,
    "CPU per store": own.storeUs,
    "CPU per hit": own.hitUs,
  };
}

/** What one entry of a contender costs Redis. */
interface Costs {
  readonly bytes: number;
  readonly keys: number;
  readonly storeUs: number;
  readonly hitUs: number;
}

/**
 * Stores the entries of all contenders in an empty Redis, and reads those of one after the other in several parts each, so that all of
 * them are read at the same time of a machine whose speed changes. Returns the costs by contender.
 */
async function measureAll(
  ctx: Context,
  fleets: InOrder,
  name: string,
  entries: number,
): Promise<ReadonlyMap<string, Costs>> {
  await ctx.control.flushall();
  const stored = new Map<string, Omit<Costs, "hitUs">>();
  for (const [contender, fleet] of fleets) stored.set(contender, await store(ctx, fleet, name, entries));
  const hits = new Map(fleets.map(([contender]) => [contender, { cpu: 0, count: 0 }]));
  for (let part = 0; part < PARTS; part++)
    for (const [contender, fleet] of fleets) {
      const space = { name, size: entries };
      const command = {
        do: "cycle",
        space,
        times: HITS / REQUEST / PARTS,
        requests: 1,
        keys: REQUEST,
        isSame: true,
      } as const;
      const before = await redisCpu(ctx.control);
      const { ticks } = await fleet.send(0, command);
      const own = hits.get(contender) as { cpu: number; count: number };
      own.cpu += (await redisCpu(ctx.control)) - before;
      own.count += ticks * REQUEST;
    }
  return new Map(
    [...stored].map(([contender, costs]) => {
      const { cpu, count } = hits.get(contender) as { cpu: number; count: number };
      return [contender, { ...costs, hitUs: (cpu * 1e6) / count }];
    }),
  );
}

/** Stores the entries of one contender, besides those of the others. */
async function store(ctx: Context, fleet: Fleet, name: string, entries: number): Promise<Omit<Costs, "hitUs">> {
  // What a contender does once after Redis has lost its data is not part of an entry.
  await fleet.send(0, { do: "warm", ids: [`before-${name}`] });
  await pause(50);
  const others = new Set(await ctx.control.keys("*"));
  const all = keys(name, entries);
  const before = await redisCpu(ctx.control);
  for (let at = 0; at < entries; at += REQUEST) await fleet.send(0, { do: "warm", ids: all.slice(at, at + REQUEST) });
  await pause(WRITES_MS);
  const cpu = (await redisCpu(ctx.control)) - before;
  const names = (await ctx.control.keys("*")).filter((one) => !others.has(one));
  const usage = ctx.control.pipeline();
  for (const one of names) usage.call("MEMORY", "USAGE", one);
  const bytes = ((await usage.exec()) ?? []).reduce((total, [, reply]) => total + Number(reply), 0);
  return { bytes: Math.round(bytes / entries), keys: names.length / entries, storeUs: (cpu * 1e6) / entries };
}
