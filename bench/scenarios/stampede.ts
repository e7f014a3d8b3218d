import type { AgentReport } from "../agent-protocol.js";
import type { Contender } from "../contenders/contender.js";
import type { Fleet } from "../fleet.js";
import { instantMs, pause } from "../instant.js";
import { type Context, FRESH, interleave, type Row, redisCpu, type Sample, withFleets } from "../scenario.js";
import { percentile, sum } from "../statistics.js";

/** The duration of a load in scenarios with cold keys. */
export const LOAD_MS = 100;
const PROCESSES = 4;
/** The rounds before those that are measured: the first readers pay for the compilation of the code. */
const WARM_UPS = 40;
/** The delay after which all processes start at the same instant. */
const START_MS = 40;

/** The requests of each of the four processes. */
export interface StampedeOptions {
  readonly contenders: readonly Contender[];
  readonly requests: number;
  readonly keys: number;
}

/** Reads the same cold keys in all processes at the same instant, after warm-up rounds with other keys that get code compiled. */
export async function measureStampede(ctx: Context, options: StampedeOptions): Promise<readonly Row[]> {
  const fleetOptions = { count: PROCESSES, policy: FRESH, source: { loadMs: 10, fails: false } };
  return withFleets(ctx, options.contenders, fleetOptions, async (fleets) => {
    const warmUps = ctx.rounds(2, WARM_UPS);
    for (const fleet of fleets.values()) {
      for (let round = 0; round < warmUps; round++) await stampede(fleet, options, `warm-up-${round}`);
      await fleet.sendAll({ do: "source", settings: { loadMs: LOAD_MS } });
      await fleet.takeLoads();
    }
    const measure = async (fleet: Fleet, round: number): Promise<Sample> => {
      // Not counted: the processes were idle while others were measured.
      await stampede(fleet, options, `before-${round}`);
      await pause(50);
      await fleet.takeLoads();
      const before = await redisCpu(ctx.control);
      const reports = await stampede(fleet, options, `round-${round}`);
      await pause(150);
      const cpu = (await redisCpu(ctx.control)) - before;
      const loads = await fleet.takeLoads();
      const waits = reports.flatMap((report) => report.waits);
      return {
        loads: sum(loads.map(({ keys }) => keys)),
        p99: percentile(waits, 0.99),
        p50: percentile(waits, 0.5),
        "CPU per waiting caller": (sum(reports.map(({ cpuMs }) => cpuMs)) * 1e3) / (waits.length * options.keys),
        "Redis CPU": cpu * 1e3,
      };
    };
    return interleave(fleets, ctx.rounds(3, 20), measure);
  });
}

async function stampede(fleet: Fleet, { requests, keys }: StampedeOptions, name: string): Promise<AgentReport[]> {
  const ids = Array.from({ length: keys }, (_, index) => `${name}-${index}`);
  const command = {
    do: "burst",
    requests: Array.from({ length: requests }, () => ids),
    atMs: instantMs() + START_MS,
  } as const;
  return fleet.sendAll(command);
}
