import type { Space } from "../agent-protocol.js";
import { baseline } from "../contenders/baseline.js";
import type { Contender } from "../contenders/contender.js";
import { graphqlCachedResultTags } from "../contenders/graphql-cached.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import type { Fleet } from "../fleet.js";
import { instantMs, pause } from "../instant.js";
import { RoundTripCounter } from "../round-trip-counter.js";
import { allBut, type Context, FRESH, type Row, type Sample, type Scenario, spreads, withFleets } from "../scenario.js";
import { seededRandom } from "../seeded-random.js";
import { keys } from "./keys.js";

const LOAD_MS = 60;
/** Long enough for background work of earlier reads to end. */
const QUIET_MS = 2 * LOAD_MS;
const MAX_AGE = 1;
const WITHOUT_STALE = [baseline.name, lockRecipe.name];

/** Round trips to Redis that had completed when a read returned, for one key, and the commands that a hundred hits need. */
export const roundTrips: Scenario = {
  name: "round-trips",
  title: "round trips before the result",
  measures: [
    { name: "hit", unit: "", better: "less", target: { bound: 1 } },
    { name: "stale", unit: "", better: "less", target: { bound: 1 } },
    { name: "cold", unit: "", better: "less", target: { bound: 2 } },
    { name: "waiter", unit: "", better: "less", target: { bound: 2 } },
    { name: "hits with tags of results", unit: "", better: "less", target: { bound: 1.2 } },
    { name: "commands of 100 hits", unit: "", better: "less" },
  ],
  run: async (ctx) => [
    ...(await Promise.all(allBut().map((contender) => measureRoundTrips(ctx, contender)))),
    await measureResultTags(ctx),
  ],
};

/** Reads all ids until none is loaded any more: a store that took too long is given up. */
async function storeAll(fleet: Fleet, space: Space): Promise<void> {
  for (let time = 0; time < 5; time++) {
    await fleet.takeLoads();
    await fleet.send(0, { do: "fill", space, perRequest: 100 });
    await pause(QUIET_MS);
    if ((await fleet.takeLoads()).length === 0) return;
  }
}

const ZIPF_IDS = 2_000;
/** Enough that the first reads of ids, which take two round trips, carry little weight. */
const ZIPF_READS = 10_000;

/**
 * The average round trips of hits on values with tags of their results, for ids by Zipf's law. Another process has
 * loaded the values: a process that reads a value for the first time does not know its tags.
 */
async function measureResultTags(ctx: Context): Promise<Row> {
  const contender = graphqlCachedResultTags;
  const counter = await RoundTripCounter.start(ctx.redis.port);
  const prefix = "round-trips-result-tags";
  const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };
  const samples: Sample[] = [];
  try {
    const space = { name: "zipf", size: ZIPF_IDS };
    await withFleets(ctx, [contender], { ...options, more: { prefix } }, async (fleets) => {
      const [fleet] = fleets.values();
      if (fleet !== undefined) await storeAll(fleet, space);
    });
    // Every round begins with a process that has read nothing.
    for (let round = 0; round < ctx.rounds(1, 3); round++)
      await withFleets(ctx, [contender], { ...options, more: { port: counter.port, prefix } }, async (fleets) => {
        const [reader] = fleets.values();
        if (reader === undefined) return;
        const ids = zipf(ctx.seed + round, ZIPF_IDS, ZIPF_READS).map((rank) => `${space.name}-${rank}`);
        counter.reset();
        const { completedAt } = await reader.send(0, { do: "reads", ids });
        samples.push({ "hits with tags of results": counter.repliedBy(completedAt) / ZIPF_READS });
      });
  } finally {
    await counter.stop();
  }
  return { contender: contender.name, kind: contender.kind, values: spreads(samples) };
}

/** Returns ranks by Zipf's law: the rank r is 1 / (r + 1) as frequent as the first. */
function zipf(seed: number, ranks: number, count: number): number[] {
  const random = seededRandom(seed);
  const sums: number[] = [];
  for (let rank = 0; rank < ranks; rank++) sums.push((sums[rank - 1] ?? 0) + 1 / (rank + 1));
  const total = sums.at(-1) ?? 1;
  return Array.from({ length: count }, () => {
    const at = random() * total;
    return sums.findIndex((sum) => sum >= at);
  });
}

async function measureRoundTrips(ctx: Context, contender: Contender): Promise<Row> {
  const counter = await RoundTripCounter.start(ctx.redis.port);
  const staleFor = WITHOUT_STALE.includes(contender.name) ? 0 : 600;
  const policy = { maxAge: MAX_AGE, staleFor, isInvalidated: false };
  const prefix = `round-trips-${contender.name.replaceAll(/\W/g, "-")}`;
  const options = { count: 1, policy, source: { loadMs: LOAD_MS, fails: false } };
  const samples: Sample[] = [];
  try {
    await withFleets(ctx, [contender], { ...options, more: { port: counter.port, prefix } }, (proxied) =>
      withFleets(ctx, [contender], { ...options, more: { prefix } }, async (direct) => {
        const [reader] = proxied.values();
        const [other] = direct.values();
        if (reader === undefined || other === undefined) return;
        for (let round = 0; round <= ctx.rounds(2, 10); round++)
          samples.push(await measureRound({ reader, other, counter, round, hasStale: staleFor > 0 }));
      }),
    );
  } finally {
    await counter.stop();
  }
  // The first round loads the scripts into Redis.
  return { contender: contender.name, kind: contender.kind, values: spreads(samples.slice(1)) };
}

interface Round {
  /** Connected through the counter. */
  readonly reader: Fleet;
  readonly other: Fleet;
  readonly counter: RoundTripCounter;
  readonly round: number;
  readonly hasStale: boolean;
}

async function measureRound({ reader, other, counter, round, hasStale }: Round): Promise<Sample> {
  const roundTripsOf = async (id: string, quietMs = QUIET_MS): Promise<number> => {
    await pause(quietMs);
    counter.reset();
    const { completedAt } = await reader.send(0, { do: "read", id });
    await pause(30);
    return counter.repliedBy(completedAt);
  };
  const cold = await roundTripsOf(`cold-${round}`);
  const hit = await roundTripsOf(`cold-${round}`);
  const hundred = keys(`hundred-${round}`, 100);
  await reader.send(0, { do: "warm", ids: hundred });
  await pause(QUIET_MS);
  counter.reset();
  await reader.send(0, { do: "warm", ids: hundred });
  const { commands } = counter;
  await pause(QUIET_MS);
  const loaded = other.send(0, { do: "read", id: `waited-for-${round}` });
  const startedAt = instantMs();
  const waiter = await roundTripsOf(`waited-for-${round}`, LOAD_MS / 3);
  await loaded;
  const sample = { hit, cold, waiter, "commands of 100 hits": commands };
  if (!hasStale) return sample;
  await pause(startedAt + LOAD_MS + MAX_AGE * 1_000 + 100 - instantMs());
  return { ...sample, stale: await roundTripsOf(`waited-for-${round}`) };
}
