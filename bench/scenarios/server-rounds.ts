import type { Fleet, Program } from "../fleet.js";
import { type Context, type Row, rowsOf, type Sample, type Samples, turned, withFleets } from "../scenario.js";
import type { ServerCommands, ServerName, ServerSetup } from "../servers/process.js";
import type { VariantName } from "../servers/variants.js";

const PROGRAM: Program<ServerSetup, ServerCommands> = { module: "servers/process" };
/** Requests of a sample by default. */
export const REQUESTS = 96;
const ROUNDS = 6;
/** No multiple of it is a multiple of the number of ids before all of them: no page is asked for twice soon. */
export const OVERLAP = 37;

/** How a server is asked: see `ServerCommands.serve`. */
export interface ServerLoad {
  readonly name: string;
  readonly server: ServerName;
  readonly callers: number;
  readonly step: number;
}

/** What the requests of a sample took, by variant. */
export type Served = ReadonlyMap<string, Awaited<ReturnType<ServerCommands["serve"]>>>;

export interface ServerRounds {
  readonly loads: readonly ServerLoad[];
  readonly variantsOf: Readonly<Partial<Record<ServerName, readonly VariantName[]>>>;
  /** How often a run starts new processes: the same code is faster in one process than in another. */
  readonly starts: number;
  readonly warmUpRequests: number;
  /** Requests of a sample. Default: `REQUESTS`. */
  readonly requests?: number;
  /** Returns what one load shows of a variant. */
  relate(load: ServerLoad, name: VariantName, served: Served): Sample;
}

/** Returns how many times as fast a variant is as another. */
export const speedOf = (served: Served, name: VariantName, base: VariantName): number =>
  (served.get(base)?.elapsedMs ?? Number.NaN) / (served.get(name)?.elapsedMs ?? Number.NaN);

/** Measures variants of servers under loads, one load after the other. */
export async function measureServers(ctx: Context, rounds: ServerRounds): Promise<readonly Row[]> {
  const taken: Samples = new Map();
  const contenders = [...new Set(Object.values(rounds.variantsOf).flat())];
  for (let start = 0; start < rounds.starts; start++)
    await withFleets(ctx, contenders, { program: PROGRAM, setup: {} }, (fleets) =>
      measureRounds(ctx, rounds, fleets, taken),
    );
  return rowsOf(taken);
}

async function measureRounds(
  ctx: Context,
  { loads, variantsOf, warmUpRequests, requests: ofSample = REQUESTS, relate }: ServerRounds,
  fleets: ReadonlyMap<string, Fleet<ServerCommands>>,
  taken: Samples,
): Promise<void> {
  const serve = (name: string, { server, callers, step }: ServerLoad, requests: number) =>
    (fleets.get(name) as Fleet<ServerCommands>).send(0, "serve", { server, callers, requests, step });
  for (const load of loads) for (const name of variantsOf[load.server] ?? []) await serve(name, load, warmUpRequests);
  for (let round = 0; round < ctx.count(4, ROUNDS); round++) {
    const samples = new Map<string, Sample>();
    for (const load of loads) {
      const served = new Map<string, Awaited<ReturnType<ServerCommands["serve"]>>>();
      const variants = variantsOf[load.server] ?? [];
      for (const name of turned(variants, round)) {
        // Not counted: this process was idle while others were measured.
        await serve(name, load, ofSample / 2);
        served.set(name, await serve(name, load, ofSample));
      }
      for (const name of variants) samples.set(name, { ...samples.get(name), ...relate(load, name, served) });
    }
    for (const [name, sample] of samples) taken.set(name, [...(taken.get(name) ?? []), sample]);
  }
}
