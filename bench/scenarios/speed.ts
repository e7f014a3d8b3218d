import { baseline } from "../contenders/baseline.js";
import type { Contender } from "../contenders/contender.js";
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

/** The reads to measure. */
export interface SpeedOptions {
  readonly contenders: readonly Contender[];
  /** The keys of each request of a tick. */
  readonly requests: readonly (readonly string[])[];
  /** Repetitions per sample, chosen so that a sample takes about 50 ms. */
  readonly times: number;
  /** The contender to compare with. Default: the baseline. */
  readonly base?: Contender;
}

export function speedMeasures(target?: number, base: Contender = baseline): readonly Measure[] {
  return [
    { name: speedMeasureName(base), unit: "x", better: "more", ...(target === undefined ? {} : { target }) },
    { name: "time per tick", unit: "us", better: "less" },
    { name: "Redis CPU per key", unit: "us", better: "less" },
  ];
}

const speedMeasureName = (base: Contender): string =>
  base === baseline ? "speed vs baseline" : `speed vs ${base.name}`;

/** Measures the speed of reading warm keys relative to `base` in the same round, with one process per contender. */
export async function measureSpeed(
  ctx: Context,
  { contenders, requests, times, base = baseline }: SpeedOptions,
): Promise<readonly Row[]> {
  const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };
  return withFleets(ctx, contenders, options, async (fleets) => {
    const ids = [...new Set(requests.flat())];
    for (const fleet of fleets.values()) await fleet.sendAll({ do: "warm", ids });
    const keys = times * requests.reduce((count, request) => count + request.length, 0);
    const command = { do: "repeat", requests, times } as const;
    for (const fleet of fleets.values())
      for (let round = 0; round < (ctx.isQuick ? 3 : 4); round++) await fleet.send(0, command);
    const measure = async (fleet: Fleet): Promise<Sample> => {
      const before = await redisCpu(ctx.control);
      const { elapsedMs } = await fleet.send(0, command);
      return { tick: (elapsedMs / times) * 1e3, cpu: (((await redisCpu(ctx.control)) - before) * 1e6) / keys };
    };
    return interleave(fleets, ctx.isQuick ? 7 : 31, measure, (samples, name) => {
      const own = samples.get(name) ?? {};
      return {
        [speedMeasureName(base)]: (samples.get(base.name)?.tick ?? 0) / (own.tick ?? 1),
        "time per tick": own.tick ?? 0,
        "Redis CPU per key": own.cpu ?? 0,
      };
    });
  });
}
