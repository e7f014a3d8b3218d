/** The commands of a process that reads through a contender. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Redis } from "ioredis";
import { instantMs, pause } from "../instant.js";
import type { Contender } from "./contender.js";
import { type ContenderName, MODULES } from "./contenders.js";
import { Source } from "./source.js";

/** What a process is started with. */
export interface LoaderSetup {
  readonly contender: ContenderName;
  readonly prefix: string;
  /** The Redis port of the source's versions. Default: every version is 0. */
  readonly databasePort?: number;
}

/** The ids `<name>-0` to `<name>-<size - 1>`. A process goes through them in order, and begins again at the end. */
export interface Space {
  readonly name: string;
  readonly size: number;
}

/** Sustained traffic of concurrent callers. */
export interface Traffic {
  readonly callers: number;
  readonly pauseMs: number;
  readonly forMs: number;
  readonly ids: readonly string[];
  /** Each caller reads a new key every `coldEvery` reads. */
  readonly coldEvery: number;
  /** How long pending calls may take after the end before they count as hung. */
  readonly patienceMs: number;
}

/** Stalls are measured until this long after the work. */
const QUIET_MS = 30;
/** Requests of `fill` and `readNew` at a time, and the keys of each. */
const REQUESTS = 10;
const KEYS = 100;

function cpuMsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e3;
}

export async function open({ contender: name, prefix, databasePort }: LoaderSetup, client: Redis) {
  const exported = Object.values((await import(`./${MODULES[name]}.js`)) as Record<string, unknown>).flat();
  const contender = (exported as Partial<Contender>[]).find((one) => one.name === name) as Contender;
  const source = new Source(databasePort === undefined ? undefined : new Redis(databasePort, "127.0.0.1"));
  const instance = contender.open({ client, prefix, source });
  const cursors = new Map<string, number>();

  /** Returns the next ids of a space, as new strings out of a JSON parser, as those of requests are. */
  const take = ({ name, size }: Space, count: number): string[] => {
    const from = cursors.get(name) ?? 0;
    cursors.set(name, (from + count) % size);
    return JSON.parse(
      JSON.stringify(Array.from({ length: count }, (_, nth) => `${name}-${(from + nth) % size}`)),
    ) as string[];
  };
  const readAll = async (ids: readonly string[]): Promise<void> => {
    const read = instance.request();
    await Promise.all(ids.map((id) => read(id)));
  };

  return {
    source: async ({ loadMs, valueBytes }: { readonly loadMs?: number; readonly valueBytes?: number }) => {
      source.loadMs = loadMs ?? source.loadMs;
      source.valueBytes = valueBytes ?? source.valueBytes;
    },

    /** Reads the ids of a space from `from` to before `to`, once. */
    fill: async ({ name, from, to }: { readonly name: string; readonly from: number; readonly to: number }) => {
      for (let at = from; at < to; at += REQUESTS * KEYS)
        await Promise.all(
          Array.from({ length: REQUESTS }, async (_, nth) => {
            const first = at + nth * KEYS;
            const count = Math.max(0, Math.min(KEYS, to - first));
            await readAll(Array.from({ length: count }, (_unused, index) => `${name}-${first + index}`));
          }),
        );
    },

    /**
     * Reads `keys` keys in a tick, `times` times in succession. The ids are made before the time is taken, and half as many ticks
     * precede: this process was idle while others were measured.
     */
    ticks: async ({ space, keys, times }: { readonly space: Space; readonly keys: number; readonly times: number }) => {
      const before = Math.ceil(times / 2);
      const ticks = Array.from({ length: before + times }, () => take(space, keys));
      let cpu = process.cpuUsage();
      let startedAt = performance.now();
      for (const [nth, ids] of ticks.entries()) {
        if (nth === before) {
          cpu = process.cpuUsage();
          startedAt = performance.now();
        }
        await readAll(ids);
      }
      return { ticks: ticks.length, elapsedMs: performance.now() - startedAt, cpuMs: cpuMsSince(cpu) };
    },

    /** Runs requests at the instant `atMs`, all in one tick. Watching stalls needs CPU time itself. */
    burst: async (burst: {
      readonly requests: number;
      readonly ids: readonly string[];
      readonly atMs: number;
      readonly watchesStalls?: boolean;
    }) => {
      const { requests, ids, atMs, watchesStalls = false } = burst;
      const stalls = monitorEventLoopDelay({ resolution: 1 });
      await pause(atMs - instantMs());
      if (watchesStalls) {
        stalls.enable();
        await pause(2);
        stalls.reset();
      }
      const cpu = process.cpuUsage();
      const startedAt = performance.now();
      const waits: number[] = [];
      await Promise.all(
        Array.from({ length: requests }, async () => {
          await readAll(ids);
          waits.push(performance.now() - startedAt);
        }),
      );
      const cpuMs = cpuMsSince(cpu);
      if (watchesStalls) await pause(QUIET_MS);
      stalls.disable();
      return { waits, cpuMs, stallMs: watchesStalls ? stalls.max / 1e6 : 0 };
    },

    /** Runs callers that read one key after another. */
    traffic: async ({ callers, pauseMs, forMs, ids, coldEvery, patienceMs }: Traffic) => {
      const endAt = instantMs() + forMs;
      const reads: { readonly at: number; readonly waitMs: number }[] = [];
      const pending = new Set<{ readonly at: number }>();
      let errors = 0;
      let cold = 0;
      const caller = async (nth: number): Promise<void> => {
        for (let turn = nth; instantMs() < endAt; turn++) {
          const id =
            turn % coldEvery === 0 ? `cold-${process.pid}-${endAt}-${cold++}` : (ids[turn % ids.length] as string);
          const call = { at: instantMs() };
          pending.add(call);
          await instance
            .request()(id)
            .catch(() => errors++);
          pending.delete(call);
          reads.push({ at: call.at, waitMs: instantMs() - call.at });
          await pause(pauseMs);
        }
      };
      await Promise.race([
        Promise.all(Array.from({ length: callers }, (_, nth) => caller(nth))),
        pause(forMs + patienceMs),
      ]);
      // Pending calls count with the time they have waited so far.
      for (const { at } of pending) reads.push({ at, waitMs: instantMs() - at });
      return { reads, errors, hung: pending.size };
    },

    /** Returns the version of a value. */
    read: async ({ id }: { readonly id: string }) => (await instance.request()(id)).version,

    invalidate: async ({ id }: { readonly id: string }) => {
      await instance.invalidate(id);
    },

    /** Invalidates other ids for a while, one every `everyMs`. Returns how many failed. */
    invalidateOften: async ({ forMs, everyMs }: { readonly forMs: number; readonly everyMs: number }) => {
      let errors = 0;
      const all: Promise<unknown>[] = [];
      const startedAt = performance.now();
      while (all.length * everyMs < forMs) {
        all.push(instance.invalidate(`other-${all.length % 1_000}`).catch(() => errors++));
        await pause(all.length * everyMs - (performance.now() - startedAt));
      }
      await Promise.all(all);
      return errors;
    },

    /** Returns the memory that the process uses once all that it does not need is collected. Needs --expose-gc. */
    memory: async (_: object) => {
      await pause(1_500);
      for (let round = 0; round < 4; round++) {
        globalThis.gc?.();
        await pause(20);
      }
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    },

    /** Returns the loads since the previous call. */
    loads: async (_: object) => source.takeLoads(),
  };
}

export type LoaderCommands = Awaited<ReturnType<typeof open>>;
