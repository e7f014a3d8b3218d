import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { gate, settle } from "@graphql-cached/testing";
import type { ExecutionResult, GraphQLResolveInfo } from "graphql";
import { CachedError, type RefreshJob } from "graphql-cached";
import { afterEach, describe, expect, it } from "vitest";
import { abortSignal, client, HUNG_UP } from "../../support/client.js";
import { compiledPath } from "../../support/programs.js";
import { pair, timedWorld } from "../../support/world.js";

const hanging: (() => void)[] = [];
// Lets the loads end before the caches are closed.
afterEach(async () => {
  for (const end of hanging.splice(0)) end();
  await settle();
});

const codeOf = (error: unknown): unknown => (error instanceof CachedError ? error.code : error);
const answerOf = ({ data, errors }: ExecutionResult): unknown =>
  errors === undefined ? data?.a : codeOf(errors[0]?.originalError);

interface Viewer {
  readonly signal?: AbortSignal;
}
interface Hanging {
  /** The numbers of the loads that hang. All others return their number. */
  readonly hung: readonly number[];
  /** Whether loads that hang end with their signal, as those of `fetch` do. */
  readonly isIgnorant?: boolean;
  readonly policy?: object;
  readonly loads?: object;
  readonly leases?: object;
}

/** Processes with a field, a loader and a function that load from one source. */
function createHanging({ hung, isIgnorant = false, policy = {}, loads = {}, leases = {} }: Hanging) {
  const { clock, process: startProcess } = timedWorld();
  const source = { signals: [] as AbortSignal[], reasons: [] as unknown[] };
  const load = (signal: AbortSignal): Promise<number> => {
    const nth = source.signals.push(signal);
    if (!hung.includes(nth)) return Promise.resolve(nth);
    return new Promise((resolve, reject) => {
      if (isIgnorant) hanging.push(() => resolve(nth));
      const abort = (): void => {
        source.reasons.push(signal.reason);
        if (!isIgnorant) reject(signal.reason as Error);
      };
      signal.addEventListener("abort", abort, { once: true });
    });
  };
  const settings = { maxAge: 10, ...policy };
  const inSdl = Object.entries(settings).map(([name, value]) => `${name}: ${value as number}`);
  const start = (own: object = {}) => {
    const a = (...[, , , info]: [unknown, unknown, unknown, GraphQLResolveInfo]) =>
      load((info as unknown as { getAbortSignal(): AbortSignal }).getAbortSignal());
    const options = { loads: { loadTimeoutMs: 2_000, errorBackoffMs: 1_000, ...loads, ...own }, leases };
    const sdl = `type Query { a: Int @cached(${inSdl.join(", ")}) }`;
    const process = startProcess(sdl, { Query: { a } }, options as object);
    const films = process.cache.loader<number, number, Viewer>({
      name: "Film",
      ...settings,
      batch: (ids, _context, { signal }) => load(signal).then((value) => ids.map(() => value)),
    });
    const rates = process.cache.wrap({
      name: "rates",
      ...settings,
      load(_currency: string) {
        return load(this.signal);
      },
    });
    const ask = {
      field: (context: Viewer = {}) => process.ask("{ a }", context).then(answerOf),
      loader: (context: Viewer = {}) => films(context).load(7).catch(codeOf),
      function: () => rates("EUR").catch(codeOf),
    };
    const failures = (): unknown[] =>
      process.events.flatMap((event) => (event.name === "load.failed" ? [codeOf(event.error)] : []));
    return { process, films, ask, failures };
  };
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 100) {
      await clock.advance(100);
      await settle();
    }
  };
  return { start, source, pass, clock };
}

const TIMEOUT = "CACHED_LOAD_TIMEOUT";

const WAYS = ["field", "loader", "function"] as const;
describe.each(WAYS)("a load that hangs for longer than loadTimeoutMs: %s", (way) => {
  it("fails those who wait for it, and is replaced as soon as its lease has ended", async () => {
    for (const taker of [0, 1]) {
      const { start, pass } = createHanging({ hung: [1], isIgnorant: true });
      const sites = pair(start);
      const first = sites[0].ask[way]();
      await pass(2_100);
      expect(await first).toBe(TIMEOUT);
      const second = sites[taker]?.ask[way]();
      await pass(5_000);
      expect(await second).toBe(2);
      // It does not keep its process from the value of another one that has taken the lease over.
      expect(await sites[0].ask[way]()).toBe(2);
    }
  });

  it.each([{ staleWhileRevalidate: 600 }, { neverExpires: true }])(
    "does not end all refreshes of its key in its process, if it is a refresh (%j)",
    async (policy) => {
      const { start, source, pass } = createHanging({ hung: [2], isIgnorant: true, policy });
      const ask = start().ask[way];
      await ask();
      await pass(11_000);
      expect(await ask()).toBe(1);
      await pass(20_000);
      expect(source.signals).toHaveLength(2);
      expect(await ask()).toBe(1);
      await pass(1_000);
      expect(await ask()).toBe(3);
    },
  );

  it("has a signal that aborts when its time is over, and its failure is shared like any other", async () => {
    const { start, source, pass } = createHanging({ hung: [1] });
    const [one, two] = pair(start);
    const first = one.ask[way]();
    await pass(1_900);
    expect(source.signals[0]?.aborted).toBe(false);
    await pass(100);
    expect(await first).toBe(TIMEOUT);
    expect(source.reasons).toMatchObject([{ name: "AbortError" }]);
    expect(one.failures()).toEqual([TIMEOUT]);
    expect([await one.ask[way](), await two.ask[way]()]).toEqual([TIMEOUT, TIMEOUT]);
    expect(source.signals).toHaveLength(1);
    await pass(1_000);
    expect([await two.ask[way](), await one.ask[way]()]).toEqual([2, 2]);
  });

  it("has a signal that aborts although abandonedLoadMs are not over", async () => {
    const { start, source, pass } = createHanging({ hung: [1], loads: { abandonedLoadMs: 60_000 } });
    const { ask, failures } = start();
    const first = ask[way]();
    await pass(2_000);
    expect([await first, source.signals[0]?.aborted, failures()]).toEqual([TIMEOUT, true, [TIMEOUT]]);
  });

  it("has the stale value served at once meanwhile", async () => {
    const { start, source, pass } = createHanging({ hung: [2], policy: { staleIfError: 600 } });
    const ask = start().ask[way];
    expect(await ask()).toBe(1);
    await pass(11_000);
    const second = ask();
    await pass(2_000);
    expect([await second, await ask()]).toEqual([1, 1]);
    expect(source.signals).toHaveLength(2);
    await pass(1_000);
    expect(await ask()).toBe(3);
  });

  it("has a signal that aborts although its readers have taken the stale value before", async () => {
    const leases = { softTimeoutMs: 500 };
    const { start, source, pass } = createHanging({ hung: [2], policy: { staleIfError: 600 }, leases });
    const { ask, failures } = start();
    await ask[way]();
    await pass(11_000);
    const second = ask[way]();
    await pass(500);
    expect(await second).toBe(1);
    await pass(1_400);
    expect(source.signals[1]?.aborted).toBe(false);
    await pass(100);
    expect(source.signals[1]?.aborted).toBe(true);
    expect(failures()).toEqual([TIMEOUT]);
  });

  it("counts as a refresh that has failed, if it is one in the background", async () => {
    const { start, source, pass } = createHanging({ hung: [2], policy: { staleWhileRevalidate: 600 } });
    const { ask, failures } = start();
    await ask[way]();
    await pass(11_000);
    expect(await ask[way]()).toBe(1);
    await pass(2_000);
    expect(failures()).toEqual([TIMEOUT]);
    expect([await ask[way](), source.signals.length]).toEqual([1, 2]);
    await pass(1_000);
    expect(await ask[way]()).toBe(1);
    await settle();
    expect(await ask[way]()).toBe(3);
  });

  it("ends the call of the worker, if it is a refresh job", async () => {
    const { start, source, pass } = createHanging({ hung: [2], policy: { staleWhileRevalidate: 600 } });
    const jobs: RefreshJob[] = [];
    const [server, worker] = [start({ refreshQueue: (job: RefreshJob) => jobs.push(job) }), start()];
    await server.ask[way]();
    await pass(11_000);
    await server.ask[way]();
    await settle();
    const refreshed = worker.process.cache.refresh(jobs[0] as RefreshJob, {});
    await pass(2_000);
    expect([await refreshed, source.signals[1]?.aborted, worker.failures()]).toEqual([false, true, [TIMEOUT]]);
  });
});

it("a refresh that hangs in the queue of refreshes does not end all refreshes of its key", async () => {
  const { passed, open } = gate();
  let jobs = 0;
  const refreshQueue = (): Promise<unknown> => (jobs++, passed);
  const { start, clock } = createHanging({
    hung: [],
    policy: { staleWhileRevalidate: 1_000 },
    loads: { refreshQueue },
  });
  const { field } = start().ask;
  await field();
  for (let nth = 0; nth < 3; nth++) {
    await clock.advance(60_000);
    await settle();
    await field();
    await settle();
  }
  expect(jobs).toBe(3);
  open();
});

describe("the signal of a load that hangs", () => {
  it("aborts for a batch once each of its loads is over: one was left by its caller, the other has no time left", async () => {
    const { start, source, pass } = createHanging({ hung: [1], loads: { abortSignal } });
    const { films } = start();
    const caller = client();
    const answers = [films(caller).load(1), films({}).load(2)];
    await settle();
    const together = films(client());
    answers.push(together.load(3), together.load(4));
    const ended = Promise.all(answers.map((answer) => answer.catch(codeOf)));
    await settle();
    caller.hangUp();
    await pass(2_000);
    expect(await ended).toEqual([new Error(HUNG_UP), 2, 3, 3]);
    expect(source.signals.map(({ aborted }) => aborted)).toEqual([true, false, false]);
  });

  it("does not end what the load reads itself, so that a load which ignores it can go on", async () => {
    const { start, source, pass } = createHanging({ hung: [1] });
    const { process, films } = start();
    const hold = gate();
    const lists = process.cache.wrap({
      name: "lists",
      maxAge: 10,
      async load(context: object) {
        void this.signal;
        await hold.passed;
        return [await films(context).load(7).catch(codeOf)];
      },
      context: (context: object) => context,
    });
    const first = lists({}).catch(codeOf);
    await pass(2_000);
    expect(await first).toBe(TIMEOUT);
    hold.open();
    await pass(1_900);
    expect(source.signals[0]?.aborted).toBe(false);
    await pass(100);
    await settle();
    expect(source.signals[0]?.aborted).toBe(true);
    expect(await lists({})).toEqual([TIMEOUT]);
  });

  it("ends with an error whose code clients get, in other processes as well", async () => {
    const { start, pass } = createHanging({ hung: [1] });
    const [one, two] = pair(() => start().process);
    const first = one.ask("{ a }");
    await pass(2_000);
    for (const { errors } of [await first, await two.ask("{ a }")])
      expect(errors?.map(({ extensions }) => extensions)).toEqual([{ code: TIMEOUT }]);
  });

  it("makes a failure of the source although the request of its caller has ended with an abort meanwhile", async () => {
    const { start, pass } = createHanging({ hung: [1], loads: { abortSignal } });
    const { ask, failures } = start();
    const caller = client();
    const first = ask.field(caller).finally(caller.hangUp);
    await pass(2_000);
    expect([await first, await ask.field(), failures()]).toEqual([TIMEOUT, TIMEOUT, [TIMEOUT]]);
  });
});

it("a process that closes its cache while a load hangs goes on after it", async () => {
  const program = `
    import { createCache } from ${JSON.stringify(await compiledPath("src/index.ts"))};
    const cache = createCache({ defaultScope: "PUBLIC" });
    const close = async () => {
      await cache.close();
      console.log("closed");
    };
    const batch = () => {
      setImmediate(close);
      return new Promise(() => undefined);
    };
    void cache.loader({ name: "Film", maxAge: 5, batch })({}).load(1);
  `;
  const args = ["--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(stdout).toBe("closed\n");
});
