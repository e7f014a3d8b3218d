import type { Contender } from "../contenders/contender.js";
import { floor } from "../contenders/floor.js";
import type { Fleet } from "../fleet.js";
import {
  type Context,
  FRESH,
  interleave,
  type Measure,
  type Row,
  redisCpu,
  type Sample,
  withFleets,
} from "../scenario.js";

/** What of the reading is repeated. */
export interface SpeedOptions {
  readonly contenders: readonly Contender[];
  /** The keys of the requests that are made in one tick. */
  readonly requests: readonly (readonly string[])[];
  /** How often in one sample; chosen so that a sample takes some 50 ms. */
  readonly times: number;
  /** Whose speed is the measure; the floor's, unless it is said. */
  readonly base?: Contender;
}

export function speedMeasures(target?: number, base: Contender = floor): readonly Measure[] {
  return [
    { name: speedOf(base), unit: "x", better: "more", ...(target === undefined ? {} : { target }) },
    { name: "a tick", unit: "us", better: "less" },
    { name: "Redis CPU a key", unit: "us", better: "less" },
  ];
}

const speedOf = (base: Contender): string => (base === floor ? "speed of the floor" : `speed of ${base.name}`);

/** How fast warm keys are read, as a share of the base's speed in the same round; one process a contender. */
export async function measureSpeed(
  ctx: Context,
  { contenders, requests, times, base = floor }: SpeedOptions,
): Promise<readonly Row[]> {
  const options = { count: 1, keeping: FRESH, source: { loadMs: 0, fails: false } };
  return withFleets(ctx, contenders, options, async (fleets) => {
    const ids = [...new Set(requests.flat())];
    for (const fleet of fleets.values()) await fleet.all({ do: "warm", ids });
    const keys = times * requests.reduce((count, request) => count + request.length, 0);
    const order = { do: "repeat", requests, times } as const;
    for (const fleet of fleets.values())
      for (let round = 0; round < (ctx.isQuick ? 3 : 4); round++) await fleet.ask(0, order);
    const measure = async (fleet: Fleet): Promise<Sample> => {
      const before = await redisCpu(ctx.control);
      const { elapsedMs } = await fleet.ask(0, order);
      return { tick: (elapsedMs / times) * 1e3, cpu: (((await redisCpu(ctx.control)) - before) * 1e6) / keys };
    };
    return interleave(fleets, ctx.isQuick ? 7 : 31, measure, (samples, name) => {
      const own = samples.get(name) ?? {};
      return {
        [speedOf(base)]: (samples.get(base.name)?.tick ?? 0) / (own.tick ?? 1),
        "a tick": own.tick ?? 0,
        "Redis CPU a key": own.cpu ?? 0,
      };
    });
  });
}
