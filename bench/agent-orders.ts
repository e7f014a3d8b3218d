import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Decoded } from "./contenders/contender.js";
import { instantMs, pause } from "./instant.js";
import type { Pour, Report } from "./orders.js";
import type { Source } from "./source.js";

/** What orders work on. */
export interface Bench {
  readonly decoded: Decoded;
  readonly source: Source;
}

type Requests = readonly (readonly string[])[];

/** Everything in one tick, again as soon as all of it is answered. */
export async function repeat({ decoded }: Bench, requests: Requests, times: number): Promise<Partial<Report>> {
  const startedAt = performance.now();
  for (let time = 0; time < times; time++) {
    const reads: Promise<unknown>[] = [];
    for (const ids of requests) {
      const read = decoded.request();
      for (const id of ids) reads.push(read(id));
    }
    await Promise.all(reads);
  }
  return { elapsedMs: performance.now() - startedAt };
}

/** All requests in one tick. A request waits until it has all its keys, and fails if one fails. */
export async function burst({ decoded }: Bench, requests: Requests, atMs: number): Promise<Partial<Report>> {
  await pause(atMs - instantMs());
  const startedAt = performance.now();
  const waits: number[] = [];
  let errors = 0;
  const answers = requests.map(async (ids) => {
    const read = decoded.request();
    const settled = await Promise.allSettled(ids.map((id) => read(id)));
    waits.push(performance.now() - startedAt);
    if (settled.some(({ status }) => status === "rejected")) errors++;
  });
  await Promise.all(answers);
  return { waits, errors };
}

export async function pour({ decoded }: Bench, order: Pour): Promise<Partial<Report>> {
  const { callers, pauseMs, forMs, ids, coldEvery, patienceMs } = order;
  const stalls = monitorEventLoopDelay({ resolution: 5 });
  stalls.enable();
  const endAt = performance.now() + forMs;
  const waits: number[] = [];
  const underWay = new Set<{ readonly since: number }>();
  let errors = 0;
  let cold = 0;
  const caller = async (nth: number): Promise<void> => {
    for (let turn = nth; performance.now() < endAt; turn++) {
      const isCold = coldEvery > 0 && turn % coldEvery === 0;
      const id = isCold ? `cold-${process.pid}-${cold++}` : (ids[turn % ids.length] as string);
      const call = { since: performance.now() };
      underWay.add(call);
      try {
        await decoded.request()(id);
      } catch {
        errors++;
      }
      underWay.delete(call);
      waits.push(performance.now() - call.since);
      await pause(pauseMs);
    }
  };
  const all = Promise.all(Array.from({ length: callers }, (_, nth) => caller(nth)));
  await Promise.race([all, pause(forMs + patienceMs)]);
  // Whoever still waits has waited at least so long.
  const now = performance.now();
  stalls.disable();
  const stallMs = stalls.max / 1e6;
  return { waits: [...waits, ...[...underWay].map(({ since }) => now - since)], errors, hung: underWay.size, stallMs };
}

/** In requests of a hundred keys, ten at a time. The heap is looked at when all requests are over and what they wrote has been sent. */
export async function growth({ decoded }: Bench, keys: number): Promise<Partial<Report>> {
  const before = await heapInUse();
  for (let at = 0; at < keys; at += 1_000) {
    const requests = Array.from({ length: 10 }, async (_, nth) => {
      const read = decoded.request();
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
  if (globalThis.gc === undefined) throw new Error("the heap can be looked at only with --expose-gc");
  await pause(1_500);
  for (let round = 0; round < 4; round++) {
    globalThis.gc();
    await pause(20);
  }
  return process.memoryUsage().heapUsed;
}
