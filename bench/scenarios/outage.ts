import type { RedisLab } from "../../test/support/redis-lab.js";
import type { Contender } from "../contenders/contender.js";
import { STORE_TIMEOUT_MS } from "../contenders/graphql-cached.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { pause } from "../instant.js";
import {
  allBut,
  type Context,
  FRESH,
  type Measure,
  type Row,
  type Sample,
  type Scenario,
  spreads,
  withFleets,
} from "../scenario.js";
import { max, percentile, sum } from "../statistics.js";
import { keys } from "./keys.js";
import { LOAD_MS } from "./stampede.js";

const BEFORE_MS = 500;
const AWAY_MS = 2_000;
const AFTER_MS = 1_000;

const measures: readonly Measure[] = [
  { name: "errors", unit: "", better: "less", target: 0 },
  { name: "hung", unit: "", better: "less", target: 0 },
  { name: "longest wait", unit: "ms", better: "less", target: 1.2 * LOAD_MS + STORE_TIMEOUT_MS },
  { name: "p99", unit: "ms", better: "less" },
  { name: "longest stall", unit: "ms", better: "less" },
  { name: "requests", unit: "", better: "more" },
];

/** Redis stands still for two seconds, as a machine that swaps or a network that drops everything would. */
export const frozenRedis: Scenario = {
  name: "frozen-redis",
  title: "Redis frozen for 2 s under load",
  measures,
  run: (ctx) =>
    measureOutage(ctx, async (server) => {
      server.pause();
      await pause(AWAY_MS);
      server.resume();
    }),
};

/** Redis ends at once, and is back, empty, after two seconds. */
export const stoppedRedis: Scenario = {
  name: "stopped-redis",
  title: "Redis stopped for 2 s under load",
  measures,
  run: (ctx) =>
    measureOutage(ctx, async (server) => {
      await server.kill();
      await pause(AWAY_MS);
      await ctx.lab.standalone("--port", String(server.port));
    }),
};

type Server = Awaited<ReturnType<RedisLab["standalone"]>>;

/** In a quick run all contenders live through it at the same time, each with a server of its own; else one after the other. */
async function measureOutage(ctx: Context, strike: (server: Server) => Promise<void>): Promise<readonly Row[]> {
  const contenders = allBut(layeredLoaderMany.name);
  const samples = new Map<string, Sample[]>(contenders.map(({ name }) => [name, []]));
  const live = async (contender: Contender): Promise<void> => {
    samples.get(contender.name)?.push(await liveThrough(ctx, contender, strike));
  };
  if (ctx.isQuick) await Promise.all(contenders.map(live));
  else for (let round = 0; round < 3; round++) for (const contender of contenders) await live(contender);
  return [...samples].map(([contender, taken]) => ({ contender, values: spreads(taken) }));
}

/** Two processes read fifty warm keys, and every tenth time a cold one; everybody's commands end after the time budget that ours has. */
async function liveThrough(
  ctx: Context,
  contender: Contender,
  strike: (server: Server) => Promise<void>,
): Promise<Sample> {
  const server = await ctx.lab.standalone();
  const more = { port: server.port, commandTimeoutMs: STORE_TIMEOUT_MS };
  const options = { count: 2, keeping: FRESH, source: { loadMs: LOAD_MS, fails: false }, more };
  try {
    return await withFleets(ctx, [contender], options, async (fleets) => {
      const [fleet] = fleets.values();
      if (fleet === undefined) return {};
      const ids = keys("warm", 50);
      await fleet.all({ do: "warm", ids });
      const forMs = BEFORE_MS + AWAY_MS + AFTER_MS;
      const order = { do: "pour", callers: 10, pauseMs: 50, ids, coldEvery: 10, patienceMs: 3_000 } as const;
      await fleet.all({ ...order, forMs: 500 });
      const poured = fleet.all({ ...order, forMs });
      await pause(BEFORE_MS);
      await strike(server);
      const reports = await poured;
      const waits = reports.flatMap((report) => report.waits);
      return {
        errors: sum(reports.map(({ errors }) => errors)),
        hung: sum(reports.map(({ hung }) => hung)),
        "longest wait": max(waits),
        p99: percentile(waits, 0.99),
        "longest stall": max(reports.map(({ stallMs }) => stallMs)),
        requests: waits.length,
      };
    });
  } finally {
    await server.kill();
  }
}
