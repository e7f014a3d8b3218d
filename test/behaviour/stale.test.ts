import { memoryStore } from "graphql-cached";
import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    background: Int @cached(maxAge: 10, staleWhileRevalidate: 20)
    foreground: Int @cached(maxAge: 10, staleWhileRevalidate: 20, refresh: FOREGROUND)
    fallback: Int @cached(maxAge: 10, staleIfError: 20)
    forever: Int @cached(maxAge: 10, neverExpires: true)
    nothing: Int @cached(maxAge: 10, negativeMaxAge: 2)
    none: [Int!] @cached(maxAge: 10, negativeMaxAge: 2)
    early: Int @cached(maxAge: 10, earlyRefresh: 1)
    spread: Int @cached(maxAge: 10, jitter: 0.5)
  }
`;

/** A process on a clock that the test advances, and a source that counts its loads and does as it is told. */
function aged(options: { random?: () => number; softTimeoutMs?: number } = {}) {
  const clock = new FakeClock();
  const state = { loads: 0, door: undefined as Promise<void> | undefined, failure: undefined as Error | undefined };
  const load = async (): Promise<number> => {
    const nth = ++state.loads;
    await state.door;
    if (state.failure !== undefined) throw state.failure;
    return nth;
  };
  const fields = ["background", "foreground", "fallback", "forever", "early", "spread"];
  const resolvers = {
    Query: {
      ...Object.fromEntries(fields.map((name) => [name, load])),
      nothing: () => (state.loads++, null),
      none: () => (state.loads++, []),
    },
  };
  const random = options.random ?? (() => 0.5);
  const world = memoryWorld(() => memoryStore({ clock }));
  const { softTimeoutMs } = options;
  const timeout = softTimeoutMs === undefined ? {} : { softTimeoutMs };
  return { clock, state, ...world.process(typeDefs, resolvers, { clock, random, ...timeout }) };
}

describe("a stale value", () => {
  it("is served to everybody while one refresh runs", async () => {
    const { clock, state, ask, outcomes } = aged();
    await ask("{ background }");
    await clock.advance(11_000);
    const door = gate();
    state.door = door.passed;
    expect(await Promise.all([dataOf(ask("{ background }")), dataOf(ask("{ background }"))])).toEqual([
      { background: 1 },
      { background: 1 },
    ]);
    await settle();
    expect(state.loads).toBe(2);
    door.open();
    await settle();
    expect(await dataOf(ask("{ background }"))).toEqual({ background: 2 });
    expect(outcomes()).toEqual({ loaded: 1, stale: 2, hit: 1 });
  });

  it("is not served once its window is over", async () => {
    const { clock, ask } = aged();
    await ask("{ background }");
    await clock.advance(30_000);
    expect(await dataOf(ask("{ background }"))).toEqual({ background: 2 });
  });

  it("with FOREGROUND is served to all but the one who won the lease, who waits for the new one", async () => {
    const { clock, state, ask } = aged();
    await ask("{ foreground }");
    await clock.advance(11_000);
    const door = gate();
    state.door = door.passed;
    const winner = dataOf(ask("{ foreground }"));
    await settle();
    expect(await dataOf(ask("{ foreground }"))).toEqual({ foreground: 1 });
    door.open();
    expect(await winner).toEqual({ foreground: 2 });
  });

  it("is served if the load fails, and the next load waits a moment", async () => {
    const { clock, state, ask, outcomes } = aged();
    await ask("{ fallback }");
    await clock.advance(11_000);
    state.failure = new Error("the source is away");
    expect(await dataOf(ask("{ fallback }"))).toEqual({ fallback: 1 });
    await settle();
    expect(await dataOf(ask("{ fallback }"))).toEqual({ fallback: 1 });
    expect(state.loads).toBe(2);
    expect(outcomes()).toEqual({ loaded: 1, staleIfError: 2 });
  });

  it("with neverExpires is served however old it is, while it is rebuilt", async () => {
    const { clock, ask } = aged();
    await ask("{ forever }");
    await clock.advance(1_000_000);
    expect(await dataOf(ask("{ forever }"))).toEqual({ forever: 1 });
    await settle();
    expect(await dataOf(ask("{ forever }"))).toEqual({ forever: 2 });
  });
});

describe("a load that is slow", () => {
  it("is not waited for longer than softTimeoutMs by a reader who can have a stale value", async () => {
    const { clock, state, ask, outcomes } = aged({ softTimeoutMs: 200 });
    await ask("{ foreground fallback }");
    await clock.advance(11_000);
    const door = gate();
    state.door = door.passed;
    const answer = dataOf(ask("{ foreground fallback }"));
    await clock.advance(190);
    expect(outcomes()).toEqual({ loaded: 2 });
    await clock.advance(20);
    expect(await answer).toEqual({ foreground: 1, fallback: 2 });
    expect(outcomes()).toEqual({ loaded: 2, stale: 2 });
    door.open();
    await settle();
    expect(await dataOf(ask("{ foreground fallback }"))).toEqual({ foreground: 3, fallback: 4 });
  });

  it("is waited for where there is nothing else to serve", async () => {
    const { clock, state, ask } = aged({ softTimeoutMs: 200 });
    const door = gate();
    state.door = door.passed;
    const answer = dataOf(ask("{ foreground }"));
    await clock.advance(5_000);
    door.open();
    expect(await answer).toEqual({ foreground: 1 });
  });
});

describe("a value that is softly invalidated", () => {
  const top = { coordinate: "Query.fallback" };

  it("is served once more while it is loaded again, also where no stale window is said", async () => {
    const { cache, state, ask, outcomes } = aged();
    await ask("{ fallback }");
    await settle();
    await cache.invalidate(top, { soft: true });
    expect(await dataOf(ask("{ fallback }"))).toEqual({ fallback: 1 });
    await settle();
    expect(await dataOf(ask("{ fallback }"))).toEqual({ fallback: 2 });
    expect(state.loads).toBe(2);
    expect(outcomes()).toEqual({ loaded: 1, stale: 1, hit: 1 });
  });

  it("is not served beyond its maxAge", async () => {
    const { cache, clock, ask } = aged();
    await ask("{ nothing }");
    await cache.invalidate({ coordinate: "Query.nothing" }, { soft: true });
    await clock.advance(10_000);
    expect(await dataOf(ask("{ nothing }"))).toEqual({ nothing: null });
  });

  it("refuses the late value of a load that began before", async () => {
    const { cache, clock, state, ask } = aged();
    await ask("{ background }");
    await clock.advance(11_000);
    const door = gate();
    state.door = door.passed;
    await ask("{ background }");
    await settle();
    await cache.invalidate({ coordinate: "Query.background" }, { soft: true });
    door.open();
    await settle();
    state.door = undefined;
    expect(await dataOf(ask("{ background }"))).toEqual({ background: 1 });
    await settle();
    expect(await dataOf(ask("{ background }"))).toEqual({ background: 3 });
  });
});

describe("freshness", () => {
  it("of null and of an empty list ends at negativeMaxAge", async () => {
    const { clock, state, ask } = aged();
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

  it("is shortened by chance, by at most the share that jitter says", async () => {
    const { clock, state, ask } = aged({ random: () => 0.5 });
    await ask("{ spread }");
    await clock.advance(7_400);
    await ask("{ spread }");
    expect(state.loads).toBe(1);
    await clock.advance(200);
    await ask("{ spread }");
    expect(state.loads).toBe(2);
  });

  it("counts from the start of the load", async () => {
    const { clock, state, ask } = aged();
    const door = gate();
    state.door = door.passed;
    const first = ask("{ fallback }");
    await settle();
    await clock.advance(9_000);
    door.open();
    await first;
    state.door = undefined;
    await clock.advance(1_500);
    await ask("{ fallback }");
    expect(state.loads).toBe(2);
  });

  it("near its end is renewed by chance, the sooner the longer the load takes", async () => {
    const { clock, state, ask } = aged({ random: () => 0.9 });
    const door = gate();
    state.door = door.passed;
    const first = ask("{ early }");
    await settle();
    await clock.advance(1_000);
    door.open();
    await first;
    state.door = undefined;
    await clock.advance(6_000);
    await ask("{ early }");
    expect(state.loads).toBe(1);
    await clock.advance(1_000);
    expect(await dataOf(ask("{ early }"))).toEqual({ early: 1 });
    await settle();
    expect(await dataOf(ask("{ early }"))).toEqual({ early: 2 });
  });
});
