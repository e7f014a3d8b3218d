import type { RedisLab } from "../../test/support/redis-lab.js";
import type { Contender } from "../contenders/contender.js";
import { STORE_TIMEOUT_MS } from "../contenders/graphql-cached.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { instantMs, pause } from "../instant.js";
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
  { name: "errors", unit: "", better: "less", target: { bound: 0 } },
  { name: "hung", unit: "", better: "less", target: { bound: 0 } },
  { name: "p50 during the outage / load", unit: "x", better: "less", target: { bound: 1.6 } },
  { name: "longest wait", unit: "ms", better: "less", target: { bound: 2 * LOAD_MS + STORE_TIMEOUT_MS + 20 } },
  { name: "p99", unit: "ms", better: "less" },
  { name: "longest stall", unit: "ms", better: "less" },
  { name: "requests", unit: "", better: "more" },
];

/** Redis does not respond for two seconds, as when its machine swaps or the network drops all packets. */
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

/** Redis is killed and restarts empty after two seconds. */
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

/** Measures the contenders all at once, each with its own server: they wait most of the time, and rounds take five seconds. */
async function measureOutage(ctx: Context, breakRedis: (server: Server) => Promise<void>): Promise<readonly Row[]> {
  const contenders = allBut(layeredLoaderMany.name);
  const samples = new Map<string, Sample[]>(contenders.map(({ name }) => [name, []]));
  for (let round = 0; round < ctx.rounds(1, 20); round++)
    await Promise.all(
      contenders.map(async (contender) => {
        samples.get(contender.name)?.push(await measureDuringOutage(ctx, contender, breakRedis));
      }),
    );
  return contenders.map(({ name, kind }) => ({ contender: name, kind, values: spreads(samples.get(name) ?? []) }));
}

/** Two processes read fifty warm keys and a cold key on every tenth read. All clients use the default time limit of graphql-cached. */
async function measureDuringOutage(
  ctx: Context,
  contender: Contender,
  breakRedis: (server: Server) => Promise<void>,
): Promise<Sample> {
  const server = await ctx.lab.standalone();
  const more = { port: server.port, commandTimeoutMs: STORE_TIMEOUT_MS };
  const options = { count: 2, policy: FRESH, source: { loadMs: LOAD_MS, fails: false }, more };
  try {
    return await withFleets(ctx, [contender], options, async (fleets) => {
      const [fleet] = fleets.values();
      if (fleet === undefined) return {};
      const ids = keys("warm", 50);
      await fleet.sendAll({ do: "warm", ids });
      const forMs = BEFORE_MS + AWAY_MS + AFTER_MS;
      const traffic = { do: "traffic", callers: 10, pauseMs: 50, ids, coldEvery: 10, patienceMs: 3_000 } as const;
      await fleet.sendAll({ ...traffic, forMs: 500 });
      const running = fleet.sendAll({ ...traffic, forMs });
      await pause(BEFORE_MS);
      const brokenAt = instantMs();
      await breakRedis(server);
      const mendedAt = instantMs();
      const reports = await running;
      const waits = reports.flatMap((report) => report.waits);
      const duringOutage = reports.flatMap(({ waits: all, startedAt }) =>
        all.filter((_, nth) => {
          const at = startedAt[nth] ?? 0;
          return at >= brokenAt && at < mendedAt;
        }),
      );
      return {
        errors: sum(reports.map(({ errors }) => errors)),
        hung: sum(reports.map(({ hung }) => hung)),
        "p50 during the outage / load": percentile(duringOutage, 0.5) / LOAD_MS,
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
