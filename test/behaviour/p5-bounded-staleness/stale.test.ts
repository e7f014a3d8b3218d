import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    background: Int @cached(maxAge: 10, staleWhileRevalidate: 20)
    foreground: Int @cached(maxAge: 10, staleWhileRevalidate: 20, refresh: FOREGROUND)
    fallback: Int @cached(maxAge: 10, staleIfError: 20)
    forever: Int @cached(maxAge: 10, neverExpires: true)
    nothing: Int @cached(maxAge: 10, negativeMaxAge: 2)
    none: [Int!] @cached(maxAge: 10, negativeMaxAge: 2)
    missing: Int @cached(maxAge: 3600)
    empty: [Int!] @cached(maxAge: 3600)
    short: Int @cached(maxAge: 5)
    early: Int @cached(maxAge: 10, earlyRefresh: 1)
    spread: Int @cached(maxAge: 10, jitter: 0.5)
  }
`;

/** Creates a process on a fake clock, with a source that counts its loads and can be blocked or made to fail. */
function createProcess(options: { random?: () => number; softTimeoutMs?: number } = {}) {
  const clock = new FakeClock();
  const state = { loads: 0, hold: undefined as Promise<void> | undefined, failure: undefined as Error | undefined };
  const load = async (): Promise<number> => {
    const nth = ++state.loads;
    await state.hold;
    if (state.failure !== undefined) throw state.failure;
    return nth;
  };
  const fields = ["background", "foreground", "fallback", "forever", "early", "spread"];
  const resolvers = {
    Query: {
      ...Object.fromEntries(fields.map((name) => [name, load])),
      nothing: () => (state.loads++, null),
      none: () => (state.loads++, []),
      missing: () => (state.loads++, null),
      empty: () => (state.loads++, []),
      short: () => (state.loads++, null),
    },
  };
  const random = options.random ?? (() => 0.5);
  const world = memoryWorld(() => memoryStore({ clock }));
  const { softTimeoutMs } = options;
  const timeout = softTimeoutMs === undefined ? {} : { leases: { softTimeoutMs } };
  return {
    clock,
    state,
    ...world.process(typeDefs, resolvers, { testing: { clock, random }, ...timeout }),
  };
}

describe("stale values", () => {
  it("serves the stale value while one refresh runs", async () => {
    const { clock, state, ask, outcomes } = createProcess();
    await ask("{ background }");
    await clock.advance(11_000);
    const loadGate = gate();
    state.hold = loadGate.passed;
    expect(await Promise.all([dataOf(ask("{ background }")), dataOf(ask("{ background }"))])).toEqual([
      { background: 1 },
      { background: 1 },
    ]);
    await settle();
    expect(state.loads).toBe(2);
    loadGate.open();
    await settle();
    expect(await dataOf(ask("{ background }"))).toEqual({ background: 2 });
    expect(outcomes()).toEqual({ loaded: 1, stale: 2, hit: 1 });
  });

  it("does not serve a stale value after its staleWhileRevalidate window", async () => {
    const { clock, ask } = createProcess();
    await ask("{ background }");
    await clock.advance(30_000);
    expect(await dataOf(ask("{ background }"))).toEqual({ background: 2 });
  });

  it("makes only the lease holder wait for the new value with refresh: FOREGROUND", async () => {
    const { clock, state, ask } = createProcess();
    await ask("{ foreground }");
    await clock.advance(11_000);
    const loadGate = gate();
    state.hold = loadGate.passed;
    const winner = dataOf(ask("{ foreground }"));
    await settle();
    expect(await dataOf(ask("{ foreground }"))).toEqual({ foreground: 1 });
    loadGate.open();
    expect(await winner).toEqual({ foreground: 2 });
  });

  it("serves the stale value when the load fails, and backs off before the next load", async () => {
    const { clock, state, ask, outcomes } = createProcess();
    await ask("{ fallback }");
    await clock.advance(11_000);
    state.failure = new Error("the source is away");
    expect(await dataOf(ask("{ fallback }"))).toEqual({ fallback: 1 });
    await settle();
    expect(await dataOf(ask("{ fallback }"))).toEqual({ fallback: 1 });
    expect(state.loads).toBe(2);
    expect(outcomes()).toEqual({ loaded: 1, staleIfError: 2 });
  });

  it("does not serve the stale value of a field that was invalidated while its load failed", async () => {
    const { cache, clock, state, ask } = createProcess();
    await ask("{ fallback }");
    await clock.advance(11_000);
    const loadGate = gate();
    state.hold = loadGate.passed;
    state.failure = new Error("the source is away");
    const asked = ask("{ fallback }");
    await settle();
    await cache.invalidate({ coordinate: "Query.fallback" });
    loadGate.open();
    expect((await asked).errors?.[0]?.message).toBe("the source is away");
  });

  it("serves a value of any age with neverExpires while it is rebuilt", async () => {
    const { clock, ask } = createProcess();
    await ask("{ forever }");
    await clock.advance(1_000_000);
    expect(await dataOf(ask("{ forever }"))).toEqual({ forever: 1 });
    await settle();
    expect(await dataOf(ask("{ forever }"))).toEqual({ forever: 2 });
  });
});

describe("softTimeoutMs", () => {
  it("serves the stale value when a load takes longer than softTimeoutMs", async () => {
    const { clock, state, ask, outcomes } = createProcess({ softTimeoutMs: 200 });
    await ask("{ foreground fallback }");
    await clock.advance(11_000);
    const loadGate = gate();
    state.hold = loadGate.passed;
    const answer = dataOf(ask("{ foreground fallback }"));
    await clock.advance(190);
    expect(outcomes()).toEqual({ loaded: 2 });
    await clock.advance(20);
    expect(await answer).toEqual({ foreground: 1, fallback: 2 });
    expect(outcomes()).toEqual({ loaded: 2, stale: 2 });
    loadGate.open();
    await settle();
    expect(await dataOf(ask("{ foreground fallback }"))).toEqual({ foreground: 3, fallback: 4 });
  });

  it("waits for a slow load when there is no stale value", async () => {
    const { clock, state, ask } = createProcess({ softTimeoutMs: 200 });
    const loadGate = gate();
    state.hold = loadGate.passed;
    const answer = dataOf(ask("{ foreground }"));
    await clock.advance(5_000);
    loadGate.open();
    expect(await answer).toEqual({ foreground: 1 });
  });
});

describe("soft invalidation", () => {
  const top = { coordinate: "Query.fallback" };

  it("serves the invalidated value while it is loaded again, even without a stale window", async () => {
    const { cache, state, ask, outcomes } = createProcess();
    await ask("{ fallback }");
    await settle();
    await cache.invalidate(top, { soft: true });
    expect(await dataOf(ask("{ fallback }"))).toEqual({ fallback: 1 });
    await settle();
    expect(await dataOf(ask("{ fallback }"))).toEqual({ fallback: 2 });
    expect(state.loads).toBe(2);
    expect(outcomes()).toEqual({ loaded: 1, stale: 1, hit: 1 });
  });

  it("does not serve a softly invalidated value beyond its maxAge", async () => {
    const { cache, clock, ask } = createProcess();
    await ask("{ nothing }");
    await cache.invalidate({ coordinate: "Query.nothing" }, { soft: true });
    await clock.advance(10_000);
    expect(await dataOf(ask("{ nothing }"))).toEqual({ nothing: null });
  });

  it("stores the value of a load that began before the soft invalidation, as a stale one", async () => {
    const { cache, clock, state, ask } = createProcess();
    await ask("{ background }");
    await clock.advance(11_000);
    const loadGate = gate();
    state.hold = loadGate.passed;
    await ask("{ background }");
    await settle();
    await cache.invalidate({ coordinate: "Query.background" }, { soft: true });
    loadGate.open();
    await settle();
    state.hold = undefined;
    expect(await dataOf(ask("{ background }"))).toEqual({ background: 2 });
    await settle();
    expect(await dataOf(ask("{ background }"))).toEqual({ background: 3 });
  });
});

describe("freshness", () => {
  it("expires null and empty lists after negativeMaxAge", async () => {
    const { clock, state, ask } = createProcess();
    for (const query of ["{ nothing }", "{ none }"]) {
      state.loads = 0;
      await ask(query);
      await ask(query);
      expect(state.loads).toBe(1);
      await clock.advance(2_100);
      await ask(query);
      expect(state.loads).toBe(2);
    }
  });

  it("expires null and empty lists after the smaller of maxAge and 10 s by default, those of loaders as well", async () => {
    const { clock, state, ask, cache } = createProcess();
    const batch = async (ids: readonly number[]) => (state.loads++, ids.map(() => null));
    const loader = cache.loader<number, null>({ name: "Missing", maxAge: 3600, batch });
    const reads: readonly [read: () => Promise<unknown>, freshMs: number][] = [
      [() => ask("{ missing }"), 10_000],
      [() => ask("{ empty }"), 10_000],
      [() => ask("{ short }"), 5_000],
      [() => loader({}).load(7), 10_000],
    ];
    for (const [read, freshMs] of reads) {
      state.loads = 0;
      await read();
      await settle();
      await clock.advance(freshMs - 1);
      await read();
      expect(state.loads).toBe(1);
      await clock.advance(1);
      await read();
      expect(state.loads).toBe(2);
    }
  });

  it("shortens freshness randomly, by at most the jitter ratio", async () => {
    const { clock, state, ask } = createProcess({ random: () => 0.5 });
    await ask("{ spread }");
    await clock.advance(7_400);
    await ask("{ spread }");
    expect(state.loads).toBe(1);
    await clock.advance(200);
    await ask("{ spread }");
    expect(state.loads).toBe(2);
  });

  it("counts freshness from the start of the load", async () => {
    const { clock, state, ask } = createProcess();
    const loadGate = gate();
    state.hold = loadGate.passed;
    const first = ask("{ fallback }");
    await settle();
    await clock.advance(9_000);
    loadGate.open();
    await first;
    state.hold = undefined;
    await clock.advance(1_500);
    await ask("{ fallback }");
    expect(state.loads).toBe(2);
  });

  it("refreshes early with a probability that grows with the load time", async () => {
    const { clock, state, ask } = createProcess({ random: () => 0.9 });
    const loadGate = gate();
    state.hold = loadGate.passed;
    const first = ask("{ early }");
    await settle();
    await clock.advance(1_000);
    loadGate.open();
    await first;
    state.hold = undefined;
    await clock.advance(6_000);
    await ask("{ early }");
    expect(state.loads).toBe(1);
    await clock.advance(1_000);
    expect(await dataOf(ask("{ early }"))).toEqual({ early: 1 });
    await settle();
    expect(await dataOf(ask("{ early }"))).toEqual({ early: 2 });
  });
});
