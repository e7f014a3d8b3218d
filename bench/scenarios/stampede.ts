import type { Contender } from "../contenders/contender.js";
import type { Fleet } from "../fleet.js";
import { instantMs, pause } from "../instant.js";
import { type Context, FRESH, interleave, type Row, redisCpu, type Sample, withFleets } from "../scenario.js";
import { percentile, sum } from "../statistics.js";

/** How long a load takes, in scenarios about cold keys. */
export const LOAD_MS = 100;
const PROCESSES = 4;
/** How long after the order all processes begin. */
const START_MS = 40;

/** Who asks for what, in each of four processes. */
export interface StampedeOptions {
  readonly contenders: readonly Contender[];
  readonly requests: number;
  readonly keys: number;
}

/** All processes ask for the same cold keys at the same instant. Before, they have done the same with other keys, so that code is compiled. */
export async function measureStampede(ctx: Context, options: StampedeOptions): Promise<readonly Row[]> {
  const fleetOptions = { count: PROCESSES, keeping: FRESH, source: { loadMs: 10, fails: false } };
  return withFleets(ctx, options.contenders, fleetOptions, async (fleets) => {
    const warmUps = ctx.isQuick ? 3 : 12;
    for (const fleet of fleets.values()) {
      for (let round = 0; round < warmUps; round++) await stampede(fleet, options, `warm-up-${round}`);
      await fleet.all({ do: "source", settings: { loadMs: LOAD_MS } });
      await fleet.loads();
    }
    const measure = async (fleet: Fleet, round: number): Promise<Sample> => {
      const before = await redisCpu(ctx.control);
      const waits = await stampede(fleet, options, `round-${round}`);
      await pause(150);
      const cpu = (await redisCpu(ctx.control)) - before;
      const loads = await fleet.loads();
      return {
        loads: sum(loads.map(({ keys }) => keys)),
        "p99 / load": percentile(waits, 0.99) / LOAD_MS,
        "p50 / load": percentile(waits, 0.5) / LOAD_MS,
        "Redis CPU": cpu * 1e3,
      };
    };
    return interleave(fleets, ctx.isQuick ? 3 : 9, measure);
  });
}

/** How long each request of each process waited. */
async function stampede(fleet: Fleet, { requests, keys }: StampedeOptions, name: string): Promise<number[]> {
  const ids = Array.from({ length: keys }, (_, index) => `${name}-${index}`);
  const order = {
    do: "burst",
    requests: Array.from({ length: requests }, () => ids),
    atMs: instantMs() + START_MS,
  } as const;
  const reports = await fleet.all(order);
  return reports.flatMap(({ waits }) => waits);
}
