import { monitorEventLoopDelay } from "node:perf_hooks";
import type { AgentCommand, AgentReport, Arrivals, Space, Tick, Traffic } from "./agent-protocol.js";
import type { ContenderInstance } from "./contenders/contender.js";
import { instantMs, pause } from "./instant.js";
import { seededRandom } from "./seeded-random.js";
import type { Source } from "./source.js";

/** What the workloads of an agent operate on. */
export interface AgentContext {
  readonly instance: ContenderInstance;
  readonly source: Source;
  readonly cursors: Cursors;
}

type Requests = readonly (readonly string[])[];

/** The requests of one turn of the event loop in `readAsCrowd`. */
const READERS_PER_TURN = 250;
/** Stalls are measured until this long after the work. */
const QUIET_MS = 30;

/**
 * Goes through the ids of spaces, each from the beginning. The ids are new strings every time, and come out of a JSON parser, as
 * those of real requests do: a string that was concatenated is a tree of its parts until it is read.
 */
export class Cursors {
  readonly #next = new Map<string, number>();

  take({ name, size, of = size, stride = 1 }: Space, count: number): string[] {
    const space = `${name} ${size}`;
    const from = this.#next.get(space) ?? 0;
    this.#next.set(space, (from + count) % size);
    const ids = Array.from({ length: count }, (_, nth) => `${name}-${(((from + nth) % size) * stride) % of}`);
    return JSON.parse(JSON.stringify(ids)) as string[];
  }
}

/** Reads ids of a space once, one request after the other. */
export async function fill(
  { instance }: AgentContext,
  { space, perRequest, from = 0, to = space.size }: Extract<AgentCommand, { do: "fill" }>,
): Promise<Partial<AgentReport>> {
  for (let at = from; at < to; at += perRequest) {
    const read = instance.request();
    const count = Math.min(perRequest, to - at);
    await Promise.all(Array.from({ length: count }, (_, nth) => read(`${space.name}-${at + nth}`)));
  }
  return {};
}

/** Reads keys one after the other. */
export async function readInTurn({ instance }: AgentContext, ids: readonly string[]): Promise<Partial<AgentReport>> {
  for (const id of ids) await instance.request()(id);
  return { completedAt: instantMs() };
}

/**
 * Runs ticks of reads in succession, each with the next ids. The ids are made before the time is taken, and half as
 * many ticks precede: this process was idle while others were measured.
 */
export async function cycle(
  { instance, cursors }: AgentContext,
  { space, requests, keys, isSame, times }: Tick & { readonly space: Space; readonly times: number },
): Promise<Partial<AgentReport>> {
  const before = Math.ceil(times / 2);
  const ticks = Array.from({ length: before + times }, () => cursors.take(space, isSame ? keys : keys * requests));
  let cpu = process.cpuUsage();
  let startedAt = performance.now();
  for (const [nth, ids] of ticks.entries()) {
    if (nth === before) {
      cpu = process.cpuUsage();
      startedAt = performance.now();
    }
    const reads: Promise<unknown>[] = [];
    for (let request = 0; request < requests; request++) {
      const read = instance.request();
      const from = isSame ? 0 : request * keys;
      for (let at = from; at < from + keys; at++) reads.push(read(ids[at] as string));
    }
    await Promise.all(reads);
  }
  return { ticks: ticks.length, elapsedMs: performance.now() - startedAt, cpuMs: cpuMsSince(cpu) };
}

function cpuMsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e3;
}

/** Runs `work` and reports the longest stall of the event loop until shortly after it. */
async function watchStalls(work: () => Promise<Partial<AgentReport>>): Promise<Partial<AgentReport>> {
  const stalls = monitorEventLoopDelay({ resolution: 1 });
  stalls.enable();
  await pause(2);
  stalls.reset();
  const report = await work();
  await pause(QUIET_MS);
  stalls.disable();
  return { ...report, stallMs: stalls.max / 1e6 };
}

/** Runs all requests in one tick. A request completes when all its keys have, and fails if one of them fails. */
export async function burst(
  { instance }: AgentContext,
  requests: Requests,
  atMs: number,
  watchesStalls = false,
): Promise<Partial<AgentReport>> {
  await pause(atMs - instantMs());
  const run = async (): Promise<Partial<AgentReport>> => {
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    const waits: number[] = [];
    let errors = 0;
    const completed = requests.map(async (ids) => {
      const read = instance.request();
      const settled = await Promise.allSettled(ids.map((id) => read(id)));
      waits.push(performance.now() - startedAt);
      if (settled.some(({ status }) => status === "rejected")) errors++;
    });
    await Promise.all(completed);
    return { waits, errors, cpuMs: cpuMsSince(cpu) };
  };
  return watchesStalls ? watchStalls(run) : run();
}

/** Starts `readers` requests of one id each, a few per turn of the event loop, and waits for all. */
export function readAsCrowd(
  { instance }: AgentContext,
  { readers, ids }: { readonly readers: number; readonly ids: readonly string[] },
): Promise<Partial<AgentReport>> {
  return watchStalls(async () => {
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    let errors = 0;
    let started = 0;
    let completed = 0;
    // Promise.all of so many promises would stall the event loop itself.
    await new Promise<void>((resolve) => {
      const end = (): void => {
        completed++;
        if (completed === readers) resolve();
      };
      const fail = (): void => {
        errors++;
        end();
      };
      const startSome = (): void => {
        for (let nth = 0; nth < READERS_PER_TURN && started < readers; nth++, started++)
          instance
            .request()(ids[started % ids.length] as string)
            .then(end, fail);
        if (started < readers) setImmediate(startSome);
      };
      startSome();
    });
    return { waits: [performance.now() - startedAt], errors, cpuMs: cpuMsSince(cpu) };
  });
}

/** Starts requests at exponentially distributed distances. A wait that the process itself delays counts as well. */
export async function sendArrivals(
  { instance, cursors }: AgentContext,
  { ratePerS, keys, space, forMs, seed }: Arrivals,
): Promise<Partial<AgentReport>> {
  const random = seededRandom(seed);
  const schedule: number[] = [];
  for (let at = 0; at < forMs; at += (-Math.log(1 - random()) * 1_000) / ratePerS) schedule.push(at);
  const waits: number[] = [];
  let errors = 0;
  const send = async (at: number, startedAt: number): Promise<void> => {
    const read = instance.request();
    try {
      await Promise.all(cursors.take(space, keys).map((id) => read(id)));
    } catch {
      errors++;
    }
    waits.push(performance.now() - startedAt - at);
  };
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  const all: Promise<void>[] = [];
  while (all.length < schedule.length) {
    const now = performance.now() - startedAt;
    for (let at = schedule[all.length]; at !== undefined && at <= now; at = schedule[all.length])
      all.push(send(at, startedAt));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(all);
  return { waits, errors, cpuMs: cpuMsSince(cpu) };
}

/** Runs callers that read one key after another for `forMs`. */
export async function sendTraffic({ instance }: AgentContext, traffic: Traffic): Promise<Partial<AgentReport>> {
  const { callers, pauseMs, forMs, ids, coldEvery, patienceMs } = traffic;
  const stalls = monitorEventLoopDelay({ resolution: 5 });
  stalls.enable();
  const endAt = performance.now() + forMs;
  const waits: number[] = [];
  const startedAt: number[] = [];
  const offset = instantMs() - performance.now();
  const end = (since: number, now: number): void => {
    waits.push(now - since);
    startedAt.push(since + offset);
  };
  const pending = new Set<{ readonly since: number }>();
  let errors = 0;
  let cold = 0;
  const caller = async (nth: number): Promise<void> => {
    for (let turn = nth; performance.now() < endAt; turn++) {
      const isCold = coldEvery > 0 && turn % coldEvery === 0;
      const id = isCold ? `cold-${process.pid}-${Math.round(endAt)}-${cold++}` : (ids[turn % ids.length] as string);
      const call = { since: performance.now() };
      pending.add(call);
      try {
        await instance.request()(id);
      } catch {
        errors++;
      }
      pending.delete(call);
      end(call.since, performance.now());
      await pause(pauseMs);
    }
  };
  const all = Promise.all(Array.from({ length: callers }, (_, nth) => caller(nth)));
  await Promise.race([all, pause(forMs + patienceMs)]);
  // Pending calls count with the time they have waited so far.
  const now = performance.now();
  stalls.disable();
  for (const { since } of pending) end(since, now);
  return { waits, startedAt, errors, hung: pending.size, stallMs: stalls.max / 1e6 };
}

/**
 * Reads `keys` new keys in requests of a hundred, ten at a time, and returns by how much the heap has grown
 * once all requests have completed and their writes have been sent.
 */
export async function measureHeapGrowth({ instance }: AgentContext, keys: number): Promise<Partial<AgentReport>> {
  const before = await heapInUse();
  for (let at = 0; at < keys; at += 1_000) {
    const requests = Array.from({ length: 10 }, async (_, nth) => {
      const read = instance.request();
      const ids = Array.from(
        { length: 100 },
        (_unused, index) => `heap-${process.pid}-${keys}-${at + nth * 100 + index}`,
      );
      await Promise.all(ids.map((id) => read(id)));
    });
    await Promise.all(requests);
  }
  return { heapBytes: (await heapInUse()) - before };
}

async function heapInUse(): Promise<number> {
  if (globalThis.gc === undefined)
    throw new Error("measureHeapGrowth: expected globalThis.gc, got undefined; run Node with --expose-gc");
  await pause(1_500);
  for (let round = 0; round < 4; round++) {
    globalThis.gc();
    await pause(20);
  }
  return process.memoryUsage().heapUsed;
}
