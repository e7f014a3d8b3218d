import type { AgentReport } from "../agent-protocol.js";
import type { Contender } from "../contenders/contender.js";
import type { Fleet } from "../fleet.js";
import { instantMs, pause } from "../instant.js";
import { type Context, FRESH, interleave, type Row, redisCpu, type Sample, withFleets } from "../scenario.js";
import { percentile, sum } from "../statistics.js";

/** The duration of a load in scenarios with cold keys. */
export const LOAD_MS = 100;
const PROCESSES = 4;
/** The bursts of a contender before its first round: the first readers pay for the compilation of the code. */
const WARM_UPS = 80;
/** The bursts before each round: while the others were measured, the processes were idle, and the processor forgot them. */
const BURSTS_BEFORE = 8;
/** The duration of a load in bursts that are not measured. */
const WARM_LOAD_MS = 10;
/** The delay after which all processes start at the same instant. */
const START_MS = 40;
/** The same in bursts that are not measured. */
const WARM_START_MS = 15;

/** The requests of each of the four processes. */
export interface StampedeOptions {
  readonly contenders: readonly Contender[];
  readonly requests: number;
  readonly keys: number;
}

/** Reads the same cold keys in all processes at the same instant, after bursts for other keys, which leave each process busy and its code compiled. */
export async function measureStampede(ctx: Context, options: StampedeOptions): Promise<readonly Row[]> {
  const fleetOptions = { count: PROCESSES, policy: FRESH, source: { loadMs: WARM_LOAD_MS, fails: false } };
  return withFleets(ctx, options.contenders, fleetOptions, async (fleets) => {
    const warmUp = async (fleet: Fleet, bursts: number, name: string): Promise<void> => {
      await fleet.sendAll({ do: "source", settings: { loadMs: WARM_LOAD_MS } });
      for (let nth = 0; nth < bursts; nth++) await stampede(fleet, options, `${name}-${nth}`, WARM_START_MS);
      await fleet.sendAll({ do: "source", settings: { loadMs: LOAD_MS } });
    };
    for (const fleet of fleets.values()) await warmUp(fleet, ctx.rounds(2, WARM_UPS), "warm-up");
    const measure = async (fleet: Fleet, round: number): Promise<Sample> => {
      await warmUp(fleet, BURSTS_BEFORE, `before-${round}`);
      await pause(50);
      await fleet.takeLoads();
      const before = await redisCpu(ctx.control);
      const reports = await stampede(fleet, options, `round-${round}`, START_MS);
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
    return interleave(fleets, ctx.rounds(3, 30), measure);
  });
}

async function stampede(
  fleet: Fleet,
  { requests, keys }: StampedeOptions,
  name: string,
  startMs: number,
): Promise<AgentReport[]> {
  const ids = Array.from({ length: keys }, (_, index) => `${name}-${index}`);
  const command = {
    do: "burst",
    requests: Array.from({ length: requests }, () => ids),
    atMs: instantMs() + startMs,
  } as const;
  return fleet.sendAll(command);
}
