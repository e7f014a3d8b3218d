import type { Fleet, Program } from "../fleet.js";
import {
  type Context,
  type Measure,
  type Row,
  rowsOf,
  type Sample,
  type Samples,
  type Scenario,
  withFleets,
} from "../scenario.js";
import { FIELDS, IDS } from "../servers/films.js";
import type { ServerCommands, ServerSetup } from "../servers/process.js";
import type { VariantName } from "../servers/variants.js";

const SERVERS: Program<ServerSetup, ServerCommands> = { module: "servers/process" };

const BOTH = ["no cache", "by hand", "graphql-cached, Redis", "graphql-cached, near cache"] as const;
const VARIANTS_OF: Readonly<Record<"Apollo" | "Yoga", readonly VariantName[]>> = {
  Apollo: [...BOTH, "Apollo's response cache, memory", "Apollo's response cache, Redis"],
  Yoga: [...BOTH, "envelop's response cache, memory"],
};
const CONTENDERS: readonly VariantName[] = [...new Set(Object.values(VARIANTS_OF).flat())];

/** No multiple of it is a multiple of the number of ids before all of them: no page is asked for twice soon. */
const OVERLAP = 37;
const LOADS = [
  { server: "Apollo", name: "Apollo: same queries", step: FIELDS },
  { server: "Apollo", name: "Apollo: other pages of the same objects", step: OVERLAP },
  { server: "Yoga", name: "Yoga: same queries", step: FIELDS },
  { server: "Yoga", name: "Yoga: other pages of the same objects", step: OVERLAP },
] as const;
const OF_BY_HAND = "Apollo: same queries, of by hand";
const LOADS_A_QUERY = "loads a query, other pages";

const CALLERS = 8;
/** Requests of a sample. */
const REQUESTS = 96;
const ROUNDS = 6;
/** How often a full run starts new processes: the same code is faster in one process than in another. */
const STARTS = 3;
const WARM_UP_REQUESTS = 400;

/**
 * Pages of a hundred objects with one cached field each. The same queries again are hits for caches of fields and of responses;
 * other pages of the same objects are misses for a cache of responses. The source costs nothing, so only the time of the server
 * counts.
 */
export const servers: Scenario = {
  name: "servers",
  title: `${FIELDS} cached fields on a server, ${CALLERS} callers, source without delay`,
  measures: [
    ...LOADS.map(
      ({ name }): Measure => ({
        name: `${name}, of no cache`,
        unit: "x",
        better: "more",
        targets: name === LOADS[0].name ? [{ contender: "graphql-cached, near cache", bound: 1 }] : [],
      }),
    ),
    { name: OF_BY_HAND, unit: "x", better: "more", targets: [{ contender: "graphql-cached, Redis", bound: 0.75 }] },
    { name: LOADS_A_QUERY, unit: "", better: "less" },
  ],
  run: async (ctx): Promise<readonly Row[]> => {
    const taken: Samples = new Map();
    for (let start = 0; start < ctx.count(1, STARTS); start++)
      await withFleets(ctx, CONTENDERS, { program: SERVERS, setup: {} }, (fleets) => measureRounds(ctx, fleets, taken));
    return rowsOf(taken);
  },
};

async function measureRounds(
  ctx: Context,
  fleets: ReadonlyMap<string, Fleet<ServerCommands>>,
  taken: Samples,
): Promise<void> {
  const serve = (name: string, { server, step }: (typeof LOADS)[number], requests: number) =>
    (fleets.get(name) as Fleet<ServerCommands>).send(0, "serve", { server, callers: CALLERS, requests, step });
  // Every object is stored.
  for (const load of LOADS)
    for (const name of VARIANTS_OF[load.server])
      await serve(name, load, Math.max(IDS / FIELDS, ctx.count(WARM_UP_REQUESTS, WARM_UP_REQUESTS)));
  for (let round = 0; round < ctx.count(4, ROUNDS); round++) {
    const samples = new Map<string, Record<string, number>>(CONTENDERS.map((name) => [name, {}]));
    for (const load of LOADS) {
      const times = new Map<string, number>();
      const variants = VARIANTS_OF[load.server];
      for (const name of round % 2 === 0 ? variants : variants.toReversed()) {
        // Not counted: this process was idle while others were measured.
        await serve(name, load, REQUESTS / 2);
        const { elapsedMs, loads } = await serve(name, load, REQUESTS);
        times.set(name, elapsedMs);
        if (load.step === OVERLAP) Object.assign(samples.get(name) as object, { [LOADS_A_QUERY]: loads / REQUESTS });
      }
      const speedOf = (name: string, base: string): number => (times.get(base) as number) / (times.get(name) as number);
      for (const name of variants) {
        const sample = samples.get(name) as Record<string, number>;
        sample[`${load.name}, of no cache`] = speedOf(name, "no cache");
        if (load === LOADS[0]) sample[OF_BY_HAND] = speedOf(name, "by hand");
      }
    }
    for (const [name, sample] of samples) taken.set(name, [...(taken.get(name) ?? []), sample satisfies Sample]);
  }
}
