import type { RedisLab } from "../../test/support/redis-lab.js";
import type { Contender } from "../contenders/contender.js";
import { STORE_TIMEOUT_MS } from "../contenders/graphql-cached.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import type { Fleet } from "../fleet.js";
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

const BEFORE_MS = 300;
const AWAY_MS = 2_000;
const AFTER_MS = 700;
/** Until clients have connected again and circuit breakers have closed. */
const RECOVERY_MS = 700;

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
  runsWithNext: true,
  run: (ctx) =>
    measureOutage(ctx, async (server) => {
      server.pause();
      await pause(AWAY_MS);
      server.resume();
      return server;
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
      return ctx.lab.standalone("--port", String(server.port));
    }),
};

type Server = Awaited<ReturnType<RedisLab["standalone"]>>;

/** Makes a Redis unavailable for a while. Returns the server that runs afterwards, on the same port. */
type BreakRedis = (server: Server) => Promise<Server>;

/** Measures the contenders all at once, each with its own server: they wait most of the time, and rounds take four seconds. */
async function measureOutage(ctx: Context, breakRedis: BreakRedis): Promise<readonly Row[]> {
  const rows = await Promise.allSettled(
    allBut(layeredLoaderMany.name).map(async (contender): Promise<Row> => {
      const samples = await measureOutages(ctx, contender, breakRedis);
      return { contender: contender.name, kind: contender.kind, values: spreads(samples) };
    }),
  );
  // Not before all have ended: those that go on would disturb the next scenarios.
  return rows.map((row) => {
    if (row.status === "rejected") throw row.reason;
    return row.value;
  });
}

/** Two processes read fifty warm keys and a cold key on every tenth read. All clients use the default time limit of graphql-cached. */
async function measureOutages(ctx: Context, contender: Contender, breakRedis: BreakRedis): Promise<readonly Sample[]> {
  let server = await ctx.lab.standalone();
  const more = { port: server.port, commandTimeoutMs: STORE_TIMEOUT_MS };
  const options = { count: 2, policy: FRESH, source: { loadMs: LOAD_MS, fails: false }, more };
  const ids = keys("warm", 50);
  const traffic = { do: "traffic", callers: 10, pauseMs: 50, ids, coldEvery: 10, patienceMs: 3_000 } as const;
  const samples: Sample[] = [];
  const measure = async (fleet: Fleet): Promise<Sample> => {
    await fleet.sendAll({ do: "warm", ids });
    const running = fleet.sendAll({ ...traffic, forMs: BEFORE_MS + AWAY_MS + AFTER_MS });
    await pause(BEFORE_MS);
    const brokenAt = instantMs();
    server = await breakRedis(server);
    const mendedAt = instantMs();
    const reports = await running;
    const waits = reports.flatMap((report) => report.waits);
    const duringOutage = reports.flatMap(({ waits: all, startedAt }) =>
      all.filter((_, nth) => {
        const at = startedAt[nth] ?? 0;
        return at >= brokenAt && at < mendedAt;
      }),
    );
    const errors = sum(reports.map((report) => report.errors));
    // Errors come early: the waits of a contender that fails requests are no reference.
    const ownWaits = {
      "p50 during the outage / load": percentile(duringOutage, 0.5) / LOAD_MS,
      "longest wait": max(waits),
      p99: percentile(waits, 0.99),
    };
    return {
      errors,
      hung: sum(reports.map(({ hung }) => hung)),
      ...(errors === 0 ? ownWaits : {}),
      "longest stall": max(reports.map(({ stallMs }) => stallMs)),
      requests: waits.length,
    };
  };
  try {
    await withFleets(ctx, [contender], options, async (fleets) => {
      for (const fleet of fleets.values()) {
        await fleet.sendAll({ ...traffic, forMs: 500 });
        for (let round = 0; round < ctx.rounds(2, 20); round++) {
          samples.push(await measure(fleet));
          await pause(RECOVERY_MS);
        }
      }
    });
  } finally {
    await server.kill();
  }
  return samples;
}
