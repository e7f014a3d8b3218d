import { monitorEventLoopDelay } from "node:perf_hooks";
import type { AgentReport, Traffic } from "./agent-protocol.js";
import type { ContenderInstance } from "./contenders/contender.js";
import { instantMs, pause } from "./instant.js";
import type { Source } from "./source.js";

/** What the workloads of an agent operate on. */
export interface AgentContext {
  readonly instance: ContenderInstance;
  readonly source: Source;
}

type Requests = readonly (readonly string[])[];

/** Runs all requests in one tick, and again as soon as all of them have completed. */
export async function repeat(
  { instance }: AgentContext,
  requests: Requests,
  times: number,
): Promise<Partial<AgentReport>> {
  const startedAt = performance.now();
  for (let time = 0; time < times; time++) {
    const reads: Promise<unknown>[] = [];
    for (const ids of requests) {
      const read = instance.request();
      for (const id of ids) reads.push(read(id));
    }
    await Promise.all(reads);
  }
  return { elapsedMs: performance.now() - startedAt };
}

/** Runs all requests in one tick. A request completes when all its keys have, and fails if one of them fails. */
export async function burst(
  { instance }: AgentContext,
  requests: Requests,
  atMs: number,
): Promise<Partial<AgentReport>> {
  await pause(atMs - instantMs());
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
  return { waits, errors };
}

/** Runs callers that read one key after another for `forMs`. */
export async function sendTraffic({ instance }: AgentContext, traffic: Traffic): Promise<Partial<AgentReport>> {
  const { callers, pauseMs, forMs, ids, coldEvery, patienceMs } = traffic;
  const stalls = monitorEventLoopDelay({ resolution: 5 });
  stalls.enable();
  const endAt = performance.now() + forMs;
  const waits: number[] = [];
  const pending = new Set<{ readonly since: number }>();
  let errors = 0;
  let cold = 0;
  const caller = async (nth: number): Promise<void> => {
    for (let turn = nth; performance.now() < endAt; turn++) {
      const isCold = coldEvery > 0 && turn % coldEvery === 0;
      const id = isCold ? `cold-${process.pid}-${cold++}` : (ids[turn % ids.length] as string);
      const call = { since: performance.now() };
      pending.add(call);
      try {
        await instance.request()(id);
      } catch {
        errors++;
      }
      pending.delete(call);
      waits.push(performance.now() - call.since);
      await pause(pauseMs);
    }
  };
  const all = Promise.all(Array.from({ length: callers }, (_, nth) => caller(nth)));
  await Promise.race([all, pause(forMs + patienceMs)]);
  // Pending calls count with the time they have waited so far.
  const now = performance.now();
  stalls.disable();
  const stallMs = stalls.max / 1e6;
  return { waits: [...waits, ...[...pending].map(({ since }) => now - since)], errors, hung: pending.size, stallMs };
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
