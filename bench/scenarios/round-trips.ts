import type { Contender } from "../contenders/contender.js";
import { floor } from "../contenders/floor.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import type { Fleet } from "../fleet.js";
import { instantMs, pause } from "../instant.js";
import { allBut, type Context, type Row, type Sample, type Scenario, spreads, withFleets } from "../scenario.js";
import { TripCounter } from "../trip-counter.js";
import { keys } from "./keys.js";

const LOAD_MS = 60;
/** What is left of earlier reads, a refresh at most, is over by then. */
const QUIET_MS = 2 * LOAD_MS;
const MAX_AGE = 1;
const WITHOUT_STALE = [floor.name, lockRecipe.name];

/** Trips to Redis and back that were over when a reader had its answer, for one key; and how many commands a hundred hits are. */
export const roundTrips: Scenario = {
  name: "round-trips",
  title: "round trips before the answer",
  measures: [
    { name: "hit", unit: "", better: "less", target: 1 },
    { name: "stale", unit: "", better: "less", target: 1 },
    { name: "cold", unit: "", better: "less", target: 2 },
    { name: "waiter", unit: "", better: "less", target: 2 },
    { name: "commands of 100 hits", unit: "", better: "less" },
  ],
  run: (ctx) => Promise.all(allBut().map((contender) => measureTrips(ctx, contender))),
};

async function measureTrips(ctx: Context, contender: Contender): Promise<Row> {
  const counter = await TripCounter.before(ctx.redis.port);
  const staleFor = WITHOUT_STALE.includes(contender.name) ? 0 : 600;
  const keeping = { maxAge: MAX_AGE, staleFor, isInvalidated: false };
  const prefix = `trips-${contender.name.replaceAll(/\W/g, "-")}`;
  const options = { count: 1, keeping, source: { loadMs: LOAD_MS, fails: false } };
  const samples: Sample[] = [];
  try {
    await withFleets(ctx, [contender], { ...options, more: { port: counter.port, prefix } }, (behind) =>
      withFleets(ctx, [contender], { ...options, more: { prefix } }, async (direct) => {
        const [reader] = behind.values();
        const [other] = direct.values();
        if (reader === undefined || other === undefined) return;
        for (let round = 0; round < (ctx.isQuick ? 4 : 11); round++)
          samples.push(await measureRound({ reader, other, counter, round, hasStale: staleFor > 0 }));
      }),
    );
  } finally {
    await counter.stop();
  }
  // The first round teaches Redis the scripts.
  return { contender: contender.name, values: spreads(samples.slice(1)) };
}

interface Round {
  /** Behind the counter. */
  readonly reader: Fleet;
  readonly other: Fleet;
  readonly counter: TripCounter;
  readonly round: number;
  readonly hasStale: boolean;
}

async function measureRound({ reader, other, counter, round, hasStale }: Round): Promise<Sample> {
  const trips = async (id: string, quietMs = QUIET_MS): Promise<number> => {
    await pause(quietMs);
    counter.reset();
    const { answeredAt } = await reader.ask(0, { do: "read", id });
    await pause(30);
    return counter.repliedBy(answeredAt);
  };
  const cold = await trips(`cold-${round}`);
  const hit = await trips(`cold-${round}`);
  const hundred = keys(`hundred-${round}`, 100);
  await reader.ask(0, { do: "warm", ids: hundred });
  await pause(QUIET_MS);
  counter.reset();
  await reader.ask(0, { do: "warm", ids: hundred });
  const { commands } = counter;
  await pause(QUIET_MS);
  const loaded = other.ask(0, { do: "read", id: `waited-for-${round}` });
  const startedAt = instantMs();
  const waiter = await trips(`waited-for-${round}`, LOAD_MS / 3);
  await loaded;
  const sample = { hit, cold, waiter, "commands of 100 hits": commands };
  if (!hasStale) return sample;
  await pause(startedAt + LOAD_MS + MAX_AGE * 1_000 + 100 - instantMs());
  return { ...sample, stale: await trips(`waited-for-${round}`) };
}
