import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import type { ExecutionResult, GraphQLResolveInfo } from "graphql";
import { CachedError, memoryStore, type RefreshJob } from "graphql-cached";
import { afterEach, describe, expect, it } from "vitest";
import { compiledPath } from "../../support/programs.js";
import { memoryWorld, type Process } from "../../support/world.js";

const hanging: (() => void)[] = [];
// Lets the loads end before the caches are closed.
afterEach(async () => {
  for (const end of hanging.splice(0)) end();
  await settle();
});

/** Two processes. The load with the number `hangingLoad` hangs until the end of the test; all others return their number. */
function createHanging(policy: string, hangingLoad: number) {
  const clock = new FakeClock();
  const world = memoryWorld(() => memoryStore({ clock }));
  const counts = { loads: 0 };
  const load = (): unknown => {
    const nth = ++counts.loads;
    return nth === hangingLoad ? new Promise((resolve) => hanging.push(() => resolve(nth))) : nth;
  };
  const start = () =>
    world.process(
      `type Query { a: Int @cached(${policy}) }`,
      { Query: { a: load } },
      { testing: { clock }, loads: { loadTimeoutMs: 2_000, errorBackoffMs: 1_000 } },
    );
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 100) {
      await clock.advance(100);
      await settle();
    }
  };
  return { one: start(), two: start(), counts, pass };
}

function answerOf({ data, errors }: ExecutionResult): unknown {
  const error = errors?.[0]?.originalError;
  return error instanceof CachedError ? error.code : data?.a;
}

describe("a load that hangs for longer than loadTimeoutMs", () => {
  it("fails those who wait for it, and is replaced as soon as its lease has ended", async () => {
    const { one, pass } = createHanging("maxAge: 60", 1);
    const first = one.ask("{ a }");
    await pass(2_100);
    expect(answerOf(await first)).toBe("CACHED_LOAD_TIMEOUT");
    const second = one.ask("{ a }");
    await pass(5_000);
    expect(answerOf(await second)).toBe(2);
  });

  it("does not keep its process from the value of another one that has taken the lease over", async () => {
    const { one, two, pass } = createHanging("maxAge: 60", 1);
    const first = one.ask("{ a }");
    await pass(2_100);
    await first;
    const second = two.ask("{ a }");
    await pass(5_000);
    expect(answerOf(await second)).toBe(2);
    expect(answerOf(await one.ask("{ a }"))).toBe(2);
  });
});

describe("a refresh that hangs", () => {
  it.each(["staleWhileRevalidate: 600", "neverExpires: true"])(
    "does not end all refreshes of its key in its process (%s)",
    async (window) => {
      const { one, counts, pass } = createHanging(`maxAge: 10, ${window}`, 2);
      await one.ask("{ a }");
      await pass(11_000);
      expect(answerOf(await one.ask("{ a }"))).toBe(1);
      await pass(20_000);
      expect(counts.loads).toBe(2);
      expect(answerOf(await one.ask("{ a }"))).toBe(1);
      await pass(1_000);
      expect(answerOf(await one.ask("{ a }"))).toBe(3);
    },
  );

  it("does not end all refreshes of its key if it hangs in the queue of refreshes", async () => {
    const clock = new FakeClock();
    const hold = gate();
    let jobs = 0;
    const refreshQueue = (): Promise<unknown> => {
      jobs++;
      return hold.passed;
    };
    const { ask } = memoryWorld(() => memoryStore({ clock })).process(
      "type Query { a: Int @cached(maxAge: 10, staleWhileRevalidate: 1000) }",
      { Query: { a: () => 1 } },
      { testing: { clock }, loads: { loadTimeoutMs: 2_000, refreshQueue } },
    );
    await ask("{ a }");
    for (let nth = 0; nth < 3; nth++) {
      await clock.advance(60_000);
      await settle();
      await ask("{ a }");
      await settle();
    }
    expect(jobs).toBe(3);
    hold.open();
  });
});

/** Sources that answer with their number, as `fetch` does: those of `hung` only end when their signal aborts. */
function createAborting(hung: readonly number[], loads: object = {}, policy: object = {}, leases: object = {}) {
  const clock = new FakeClock();
  const world = memoryWorld(() => memoryStore({ clock }));
  const source = { signals: [] as AbortSignal[], reasons: [] as unknown[] };
  const load = (signal: AbortSignal): Promise<number> => {
    const nth = source.signals.push(signal);
    if (!hung.includes(nth)) return Promise.resolve(nth);
    return new Promise((_resolve, reject) => {
      const abort = (): void => {
        source.reasons.push(signal.reason);
        reject(signal.reason as Error);
      };
      signal.addEventListener("abort", abort, { once: true });
    });
  };
  const settings = { maxAge: 10, ...policy };
  const inSdl = Object.entries(settings).map(([name, value]) => `${name}: ${value as number}`);
  const start = (own: object = {}) => {
    const process = world.process(
      `type Query { a: Int @cached(${inSdl.join(", ")}) }`,
      {
        Query: {
          a: (_: unknown, __: unknown, ___: unknown, info: GraphQLResolveInfo) =>
            load((info as unknown as { getAbortSignal(): AbortSignal }).getAbortSignal()),
        },
      },
      {
        testing: { clock },
        loads: { loadTimeoutMs: 2_000, errorBackoffMs: 1_000, ...loads, ...own },
        leases,
      } as object,
    );
    const { cache } = process;
    const films = cache.loader<number, number, object>({
      name: "Film",
      ...settings,
      batch: async (ids, _context, { signal }) => {
        const value = await load(signal);
        return ids.map(() => value);
      },
    });
    const rates = cache.wrap({
      name: "rates",
      ...settings,
      load(_currency: string) {
        return load(this.signal);
      },
    });
    const ask: Record<string, (context?: object) => Promise<unknown>> = {
      field: (context = {}) => process.ask("{ a }", context).then(answerOf),
      loader: (context = {}) => films(context).load(7).catch(codeOf),
      function: () => rates("EUR").catch(codeOf),
    };
    return { process, films, ask };
  };
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 100) {
      await clock.advance(100);
      await settle();
    }
  };
  return { start, source, pass };
}

const codeOf = (error: unknown): unknown => (error instanceof CachedError ? error.code : error);

const failuresOf = ({ events }: Process): unknown[] =>
  events.flatMap((event) => (event.name === "load.failed" ? [codeOf(event.error)] : []));

describe.each(["field", "loader", "function"])("the signal of a load that hangs: %s", (way) => {
  type Asking = Record<string, (context?: object) => Promise<unknown>>;
  const asks = ({ ask }: { ask: Asking }, context?: object) => (ask[way] as Asking[string])(context);

  it("aborts when its time is over, and its failure is shared like any other", async () => {
    const { start, source, pass } = createAborting([1]);
    const [one, two] = [start(), start()];
    const first = asks(one);
    await pass(1_900);
    expect(source.signals[0]?.aborted).toBe(false);
    await pass(100);
    expect(await first).toBe("CACHED_LOAD_TIMEOUT");
    expect(source.reasons).toMatchObject([{ name: "AbortError" }]);
    expect(failuresOf(one.process)).toEqual(["CACHED_LOAD_TIMEOUT"]);
    expect([await asks(one), await asks(two)]).toEqual(["CACHED_LOAD_TIMEOUT", "CACHED_LOAD_TIMEOUT"]);
    expect(source.signals).toHaveLength(1);
    await pass(1_000);
    expect([await asks(two), await asks(one)]).toEqual([2, 2]);
  });

  it("aborts when its time is over although abandonedLoadMs are not", async () => {
    const { start, source, pass } = createAborting([1], { abandonedLoadMs: 60_000 });
    const one = start();
    const first = asks(one);
    await pass(2_000);
    expect(await first).toBe("CACHED_LOAD_TIMEOUT");
    expect(failuresOf(one.process)).toEqual(["CACHED_LOAD_TIMEOUT"]);
    expect(source.signals[0]?.aborted).toBe(true);
  });

  it("aborts when its time is over, and the stale value is served at once meanwhile", async () => {
    const { start, source, pass } = createAborting([2], {}, { staleIfError: 600 });
    const one = start();
    expect(await asks(one)).toBe(1);
    await pass(11_000);
    const second = asks(one);
    await pass(2_000);
    expect(await second).toBe(1);
    expect(await asks(one)).toBe(1);
    expect(source.signals).toHaveLength(2);
    await pass(1_000);
    expect(await asks(one)).toBe(3);
  });

  it("aborts when its time is over although its readers have taken the stale value before", async () => {
    const { start, source, pass } = createAborting([2], {}, { staleIfError: 600 }, { softTimeoutMs: 500 });
    const one = start();
    await asks(one);
    await pass(11_000);
    const second = asks(one);
    await pass(500);
    expect(await second).toBe(1);
    await pass(1_400);
    expect(source.signals[1]?.aborted).toBe(false);
    await pass(100);
    expect(source.signals[1]?.aborted).toBe(true);
    expect(failuresOf(one.process)).toEqual(["CACHED_LOAD_TIMEOUT"]);
  });

  it("aborts when the time of a background refresh is over, which counts as a refresh that has failed", async () => {
    const { start, source, pass } = createAborting([2], {}, { staleWhileRevalidate: 600 });
    const one = start();
    await asks(one);
    await pass(11_000);
    expect(await asks(one)).toBe(1);
    await pass(2_000);
    expect(failuresOf(one.process)).toEqual(["CACHED_LOAD_TIMEOUT"]);
    expect([await asks(one), source.signals.length]).toEqual([1, 2]);
    await pass(1_000);
    expect(await asks(one)).toBe(1);
    await settle();
    expect(await asks(one)).toBe(3);
  });

  it("aborts when the time of a refresh job is over, which ends the call of the worker", async () => {
    const { start, source, pass } = createAborting([2], {}, { staleWhileRevalidate: 600 });
    const jobs: RefreshJob[] = [];
    const [server, worker] = [start({ refreshQueue: (job: RefreshJob) => jobs.push(job) }), start()];
    await asks(server);
    await pass(11_000);
    await asks(server);
    await settle();
    const refreshed = worker.process.cache.refresh(jobs[0] as RefreshJob, {});
    await pass(2_000);
    expect(await refreshed).toBe(false);
    expect(source.signals[1]?.aborted).toBe(true);
    expect(failuresOf(worker.process)).toEqual(["CACHED_LOAD_TIMEOUT"]);
  });
});

describe("the signal of a load that hangs", () => {
  it("aborts for a batch once each of its loads is over: one was left by its caller, the other has no time left", async () => {
    const { start, source, pass } = createAborting([1]);
    const { films } = start({ abortSignal: ({ signal }: { signal?: AbortSignal }) => signal });
    const caller = new AbortController();
    const answers = [films({ signal: caller.signal }).load(1), films({}).load(2)].map((answer) => answer.catch(codeOf));
    await settle();
    const together = films({ signal: new AbortController().signal });
    const others = [together.load(3), together.load(4)].map((answer) => answer.catch(codeOf));
    await settle();
    const left = new Error("hung up");
    caller.abort(left);
    await pass(2_000);
    expect(await Promise.all([...answers, ...others])).toEqual([left, 2, 3, 3]);
    expect(source.signals.map(({ aborted }) => aborted)).toEqual([true, false, false]);
  });

  it("does not end what the load reads itself, so that a load which ignores it can go on", async () => {
    const { start, source, pass } = createAborting([1]);
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
    expect(await first).toBe("CACHED_LOAD_TIMEOUT");
    hold.open();
    await pass(1_900);
    expect(source.signals[0]?.aborted).toBe(false);
    await pass(100);
    await settle();
    expect(source.signals[0]?.aborted).toBe(true);
    expect(await lists({})).toEqual(["CACHED_LOAD_TIMEOUT"]);
  });

  it("ends with an error whose code clients get, in other processes as well", async () => {
    const { start, pass } = createAborting([1]);
    const [one, two] = [start().process, start().process];
    const first = one.ask("{ a }");
    await pass(2_000);
    for (const { errors } of [await first, await two.ask("{ a }")])
      expect(errors?.map(({ extensions }) => extensions)).toEqual([{ code: "CACHED_LOAD_TIMEOUT" }]);
  });

  it("makes a failure of the source although the request of its caller has ended with an abort meanwhile", async () => {
    const { start, pass } = createAborting([1]);
    const { process, ask } = start({ abortSignal: ({ signal }: { signal?: AbortSignal }) => signal });
    const request = new AbortController();
    const first = ask.field?.({ signal: request.signal }).then((answer) => {
      request.abort();
      return answer;
    });
    await pass(2_000);
    expect(await first).toBe("CACHED_LOAD_TIMEOUT");
    expect(await ask.field?.()).toBe("CACHED_LOAD_TIMEOUT");
    expect(failuresOf(process)).toEqual(["CACHED_LOAD_TIMEOUT"]);
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
