import type { RedisLab } from "../../test/support/redis-lab.js";
import { instantMs, pause } from "../instant.js";
import type { Target } from "../report.js";
import { type Context, type Measure, type Row, type Sample, type Scenario, spreads, withFleets } from "../scenario.js";
import { max, percentile, sum } from "../statistics.js";
import { LOAD_MS, LOADING } from "./cold-key.js";
import { LOADERS, type LoaderFleet } from "./reads.js";

const BEFORE_MS = 300;
const AWAY_MS = 2_000;
const AFTER_MS = 700;
/** Until clients have connected again and circuit breakers have closed. */
const RECOVERY_MS = 700;
/** The time limit of a store operation of graphql-cached by default, and here of the clients of all contenders. */
const STORE_TIMEOUT_MS = 100;

const atMost = (bound: number): readonly Target[] => [{ contender: "graphql-cached", bound }];

const measures: readonly Measure[] = [
  { name: "errors", unit: "", better: "less", targets: atMost(0) },
  { name: "hung", unit: "", better: "less", targets: atMost(0) },
  { name: "p50 during the outage", unit: "ms", better: "less", targets: atMost(1.6 * LOAD_MS) },
  { name: "longest wait", unit: "ms", better: "less", targets: atMost(2 * LOAD_MS + STORE_TIMEOUT_MS + 20) },
  { name: "p99", unit: "ms", better: "less" },
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
    LOADING.map(async (contender): Promise<Row> => {
      return { contender, values: spreads(await measureOutages(ctx, contender, breakRedis)) };
    }),
  );
  // Not before all have ended: those that go on would disturb the next scenarios.
  return rows.map((row) => {
    if (row.status === "rejected") throw row.reason;
    return row.value;
  });
}

/** Two processes read fifty warm keys, and a new key on every tenth read. */
async function measureOutages(ctx: Context, contender: string, breakRedis: BreakRedis): Promise<readonly Sample[]> {
  let server = await ctx.lab.standalone();
  const ids = Array.from({ length: 50 }, (_, nth) => `warm-${nth}`);
  const traffic = { callers: 10, pauseMs: 50, ids, coldEvery: 10, patienceMs: 3_000 };
  const measure = async (fleet: LoaderFleet): Promise<Sample> => {
    // Those that do not wait for each other may exceed the time limit. Their keys are stored by the traffic.
    await fleet.sendAll("fill", { name: "warm", from: 0, to: ids.length }).catch(() => undefined);
    const running = fleet.sendAll("traffic", { ...traffic, forMs: BEFORE_MS + AWAY_MS + AFTER_MS });
    await pause(BEFORE_MS);
    const brokenAt = instantMs();
    server = await breakRedis(server);
    const mendedAt = instantMs();
    const reports = await running;
    const reads = reports.flatMap((report) => report.reads);
    const waits = reads.map(({ waitMs }) => waitMs);
    const during = reads.filter(({ at }) => at >= brokenAt && at < mendedAt).map(({ waitMs }) => waitMs);
    const errors = sum(reports.map((report) => report.errors));
    // Errors come early: the waits of a contender that fails requests are no reference.
    const ownWaits = {
      "p50 during the outage": percentile(during, 0.5),
      "longest wait": max(waits),
      p99: percentile(waits, 0.99),
    };
    return {
      errors,
      hung: sum(reports.map(({ hung }) => hung)),
      ...(errors === 0 ? ownWaits : {}),
      requests: reads.length,
    };
  };
  const samples: Sample[] = [];
  const options = { program: LOADERS, setup: {}, count: 2, port: server.port, commandTimeoutMs: STORE_TIMEOUT_MS };
  try {
    await withFleets(ctx, [contender], options, async (fleets) => {
      const fleet = fleets.get(contender) as LoaderFleet;
      await fleet.sendAll("source", { loadMs: LOAD_MS });
      await fleet.sendAll("traffic", { ...traffic, forMs: 500 });
      for (let round = 0; round < ctx.count(2, 10); round++) {
        samples.push(await measure(fleet));
        await pause(RECOVERY_MS);
      }
    });
  } finally {
    await server.kill();
  }
  return samples;
}
