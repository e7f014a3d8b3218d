import { memoryStore } from "graphql-cached";
import { chaosStore, FakeClock, gate, settle } from "graphql-cached/testing";
import { afterEach, describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page(id: Int!): Int @cached(maxAge: 10, staleIfError: 100)
    other: Int @cached(maxAge: 10)
    outer(id: Int!): Int @cached(maxAge: 10)
  }
`;

/** Creates a process whose page loads wait at a gate, and counts how many run at a time. */
function createGuardedProcess(options: object) {
  const clock = new FakeClock();
  const state = {
    running: 0,
    maxRunning: 0,
    started: [] as number[],
    loadGate: gate(),
    failure: undefined as Error | undefined,
  };
  const store = chaosStore(memoryStore({ clock }));
  const page = async (_: unknown, { id }: { id: number }): Promise<number> => {
    state.started.push(id);
    state.running++;
    state.maxRunning = Math.max(state.maxRunning, state.running);
    await state.loadGate.passed;
    state.running--;
    if (state.failure !== undefined) throw state.failure;
    return id;
  };
  const process = memoryWorld(() => store).process(
    typeDefs,
    {
      Query: {
        page,
        other: () => 7,
        outer: async (_: unknown, { id }: { id: number }) =>
          id < 0 ? id : dataOf(process.ask(`{ outer(id: ${-id}) }`)).then(() => id),
      },
    },
    { testing: { clock }, ...options },
  );
  return { clock, state, chaos: store.chaos, ...process };
}

describe("maxConcurrentLoads", () => {
  it("limits how many loads of a coordinate run at a time and queues the rest", async () => {
    const { state, ask, events } = createGuardedProcess({ loads: { maxConcurrentLoads: 2 } });
    const results: Promise<unknown>[] = [];
    for (let id = 0; id < 5; id++) {
      results.push(dataOf(ask(`{ page(id: ${id}) }`)));
      await settle();
    }
    expect(state.started).toEqual([0, 1]);
    expect(await dataOf(ask("{ other }"))).toEqual({ other: 7 });
    expect(events.filter(({ name }) => name === "load.started")).toHaveLength(3);
    state.loadGate.open();
    expect(await Promise.all(results)).toEqual([0, 1, 2, 3, 4].map((page) => ({ page })));
    expect(state.maxRunning).toBe(2);
  });

  it("counts loads that begin in one tick as one, so that a source can batch them", async () => {
    const { state, ask } = createGuardedProcess({ loads: { maxConcurrentLoads: 1 } });
    const answer = dataOf(ask("{ a: page(id: 1) b: page(id: 2) c: page(id: 3) }"));
    await settle();
    expect(state.started).toEqual([1, 2, 3]);
    state.loadGate.open();
    expect(await answer).toEqual({ a: 1, b: 2, c: 3 });
  });

  it("refuses loads beyond maxQueuedLoads with an error or the stale value, and releases their leases", async () => {
    const { clock, state, ask, events } = createGuardedProcess({ loads: { maxConcurrentLoads: 1, maxQueuedLoads: 0 } });
    state.loadGate.open();
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    await clock.advance(11_000);
    state.loadGate = gate();
    const first = dataOf(ask("{ page(id: 2) }"));
    await settle();
    const refusal = (await ask("{ page(id: 3) }")).errors?.[0]?.originalError;
    expect(refusal).toMatchObject({ code: "CACHED_SOURCE_UNAVAILABLE", coordinate: "Query.page" });
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    expect(events.filter(({ name }) => name === "load.refused")).toHaveLength(2);
    state.loadGate.open();
    expect(await first).toEqual({ page: 2 });
    await settle();
    expect(await dataOf(ask("{ page(id: 3) }"))).toEqual({ page: 3 });
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    expect(state.started).toEqual([1, 2, 3, 1]);
  });

  it("does not queue a nested load behind the load that waits for it", async () => {
    const { clock, ask } = createGuardedProcess({ loads: { maxConcurrentLoads: 1 } });
    const answer = ask("{ a: outer(id: 1) b: outer(id: 2) }");
    await settle();
    // A load that waits for its slot is refused when its time is over.
    await clock.advance(60_000);
    expect((await answer).data).toEqual({ a: 1, b: 2 });
  });

  it("limits loads while the store is unavailable too", async () => {
    const { state, chaos, ask } = createGuardedProcess({ loads: { maxConcurrentLoads: 2 } });
    chaos.mode = "throws";
    const results: Promise<unknown>[] = [];
    for (let id = 0; id < 5; id++) {
      results.push(dataOf(ask(`{ page(id: ${id}) }`)));
      await settle();
    }
    expect(state.running).toBe(2);
    state.loadGate.open();
    await Promise.all(results);
    expect(state.maxRunning).toBe(2);
  });
});

describe("a load that never ends", () => {
  const gates: ReturnType<typeof gate>[] = [];
  // Lets the loads end before the cache is closed.
  afterEach(() => {
    for (const { open } of gates.splice(0)) open();
  });

  /** Starts one load per tick, so that each needs a slot of its own, and lets their time end. */
  async function hang({ ask, clock, state }: ReturnType<typeof createGuardedProcess>, ids: readonly number[]) {
    const errors: unknown[] = [];
    for (const id of ids) {
      void ask(`{ page(id: ${id}) }`).then((result) => errors.push(result.errors?.[0]?.originalError));
      await settle();
    }
    await clock.advance(1_000);
    gates.push(state.loadGate);
    return errors;
  }

  it("gives its slot back when its time is over", async () => {
    const guarded = createGuardedProcess({ loads: { maxConcurrentLoads: 2, loadTimeoutMs: 1_000, errorBackoffMs: 1 } });
    const { state, ask } = guarded;
    const errors = await hang(guarded, [1, 2]);
    expect(errors).toMatchObject([{ code: "CACHED_LOAD_TIMEOUT" }, { code: "CACHED_LOAD_TIMEOUT" }]);
    state.loadGate = gate();
    state.loadGate.open();
    const answer = ask("{ page(id: 3) }");
    await settle();
    expect(state.started).toEqual([1, 2, 3]);
    expect(await dataOf(answer)).toEqual({ page: 3 });
  });

  it("makes new loads refused once more loads are overdue than may run at a time, except for probes", async () => {
    const guarded = createGuardedProcess({ loads: { maxConcurrentLoads: 2, loadTimeoutMs: 1_000, errorBackoffMs: 1 } });
    const { clock, state, ask } = guarded;
    await hang(guarded, [1, 2]);
    await hang(guarded, [3]);
    expect(state.started).toEqual([1, 2, 3]);
    expect((await ask("{ page(id: 4) }")).errors?.[0]?.originalError).toMatchObject({
      code: "CACHED_SOURCE_UNAVAILABLE",
    });
    expect(state.started).toEqual([1, 2, 3]);
    await clock.advance(1_000);
    await hang(guarded, [5, 6]);
    expect(state.started).toEqual([1, 2, 3, 5]);
    await clock.advance(1_000);
    state.loadGate = gate();
    state.loadGate.open();
    expect(await dataOf(ask("{ page(id: 7) }"))).toEqual({ page: 7 });
    expect(await dataOf(ask("{ page(id: 8) }"))).toEqual({ page: 8 });
  });

  it("counts as a failure for the breaker", async () => {
    const guarded = createGuardedProcess({ loads: { breakerThreshold: 2, loadTimeoutMs: 1_000, errorBackoffMs: 1 } });
    const { state, ask } = guarded;
    await hang(guarded, [1, 2]);
    expect((await ask("{ page(id: 3) }")).errors?.[0]?.originalError).toMatchObject({
      code: "CACHED_SOURCE_UNAVAILABLE",
    });
    expect(state.started).toEqual([1, 2]);
  });
});

describe("breakerThreshold", () => {
  it("refuses loads after consecutive failures, then lets one through to probe the source", async () => {
    const { clock, state, ask } = createGuardedProcess({ loads: { breakerThreshold: 3, errorBackoffMs: 1 } });
    state.loadGate.open();
    state.failure = new Error("the source is away");
    for (let id = 1; id <= 3; id++)
      expect((await ask(`{ page(id: ${id}) }`)).errors?.[0]?.message).toBe("the source is away");
    expect((await ask("{ page(id: 4) }")).errors?.[0]?.originalError).toMatchObject({
      code: "CACHED_SOURCE_UNAVAILABLE",
    });
    expect(state.started).toEqual([1, 2, 3]);
    expect(await dataOf(ask("{ other }"))).toEqual({ other: 7 });
    state.failure = undefined;
    await clock.advance(300);
    expect(await dataOf(ask("{ page(id: 4) }"))).toEqual({ page: 4 });
    expect(await dataOf(ask("{ page(id: 5) }"))).toEqual({ page: 5 });
  });

  it("does not count errors for which isSourceFailure returns false", async () => {
    const isSourceFailure = (error: unknown): boolean => (error as Error).message !== "not found";
    const { state, ask } = createGuardedProcess({ loads: { breakerThreshold: 2, isSourceFailure } });
    state.loadGate.open();
    state.failure = new Error("not found");
    for (let id = 1; id <= 5; id++) expect((await ask(`{ page(id: ${id}) }`)).errors?.[0]?.message).toBe("not found");
    expect(state.started).toEqual([1, 2, 3, 4, 5]);
  });

  it("never refuses loads by default", async () => {
    const { state, ask } = createGuardedProcess({});
    state.loadGate.open();
    state.failure = new Error("the source is away");
    for (let id = 1; id <= 50; id++) await ask(`{ page(id: ${id}) }`);
    expect(state.started).toHaveLength(50);
  });
});
