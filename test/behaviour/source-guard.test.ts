import { memoryStore } from "graphql-cached";
import { chaosStore, FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page(id: Int!): Int @cached(maxAge: 10, staleIfError: 100)
    other: Int @cached(maxAge: 10)
    outer(id: Int!): Int @cached(maxAge: 10)
  }
`;

/** A process whose pages wait at a gate, and which knows how many loads run. */
function guarded(options: object) {
  const clock = new FakeClock();
  const state = { running: 0, most: 0, started: [] as number[], door: gate(), failure: undefined as Error | undefined };
  const store = chaosStore(memoryStore({ clock }));
  const page = async (_: unknown, { id }: { id: number }): Promise<number> => {
    state.started.push(id);
    state.running++;
    state.most = Math.max(state.most, state.running);
    await state.door.passed;
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
        outer: async (_: unknown, { id }: { id: number }) => dataOf(process.ask(`{ page(id: ${id}) }`)).then(() => id),
      },
    },
    { clock, ...options },
  );
  return { clock, state, chaos: store.chaos, ...process };
}

describe("the bulkhead of a coordinate", () => {
  it("lets only so many loads run at a time, and the others when their turn has come", async () => {
    const { state, ask, events } = guarded({ maxConcurrentLoads: 2 });
    const answers: Promise<unknown>[] = [];
    for (let id = 0; id < 5; id++) {
      answers.push(dataOf(ask(`{ page(id: ${id}) }`)));
      await settle();
    }
    expect(state.started).toEqual([0, 1]);
    expect(await dataOf(ask("{ other }"))).toEqual({ other: 7 });
    expect(events.filter(({ name }) => name === "load.started")).toHaveLength(3);
    state.door.open();
    expect(await Promise.all(answers)).toEqual([0, 1, 2, 3, 4].map((page) => ({ page })));
    expect(state.most).toBe(2);
  });

  it("counts loads that begin in one tick as one, so that a source can batch them", async () => {
    const { state, ask } = guarded({ maxConcurrentLoads: 1 });
    const answer = dataOf(ask("{ a: page(id: 1) b: page(id: 2) c: page(id: 3) }"));
    await settle();
    expect(state.started).toEqual([1, 2, 3]);
    state.door.open();
    expect(await answer).toEqual({ a: 1, b: 2, c: 3 });
  });

  it("refuses what would have to queue beyond its bound, with an error or the stale value, and leaves no lease behind", async () => {
    const { clock, state, ask, events } = guarded({ maxConcurrentLoads: 1, maxQueuedLoads: 0 });
    state.door.open();
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    await clock.advance(11_000);
    state.door = gate();
    const first = dataOf(ask("{ page(id: 2) }"));
    await settle();
    const refusal = (await ask("{ page(id: 3) }")).errors?.[0]?.originalError;
    expect(refusal).toMatchObject({ code: "CACHED_SOURCE_UNAVAILABLE", coordinate: "Query.page" });
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    expect(events.filter(({ name }) => name === "load.refused")).toHaveLength(2);
    state.door.open();
    expect(await first).toEqual({ page: 2 });
    await settle();
    expect(await dataOf(ask("{ page(id: 3) }"))).toEqual({ page: 3 });
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    expect(state.started).toEqual([1, 2, 3, 1]);
  });

  it("does not hold up a load inside another, which would wait for itself", async () => {
    const { state, ask } = guarded({ maxConcurrentLoads: 1 });
    state.door.open();
    expect(await dataOf(ask("{ a: outer(id: 1) b: outer(id: 2) }"))).toEqual({ a: 1, b: 2 });
  });

  it("protects the source also while the store is away", async () => {
    const { state, chaos, ask } = guarded({ maxConcurrentLoads: 2 });
    chaos.mode = "throws";
    const answers: Promise<unknown>[] = [];
    for (let id = 0; id < 5; id++) {
      answers.push(dataOf(ask(`{ page(id: ${id}) }`)));
      await settle();
    }
    expect(state.running).toBe(2);
    state.door.open();
    await Promise.all(answers);
    expect(state.most).toBe(2);
  });
});

describe("the breaker of a coordinate", () => {
  it("refuses loads for a while after so many failures in a row, then lets one through to see", async () => {
    const { clock, state, ask } = guarded({ breakerThreshold: 3, errorBackoffMs: 1 });
    state.door.open();
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

  it("does not count what isSourceFailure says is none", async () => {
    const isSourceFailure = (error: unknown): boolean => (error as Error).message !== "not found";
    const { state, ask } = guarded({ breakerThreshold: 2, isSourceFailure });
    state.door.open();
    state.failure = new Error("not found");
    for (let id = 1; id <= 5; id++) expect((await ask(`{ page(id: ${id}) }`)).errors?.[0]?.message).toBe("not found");
    expect(state.started).toEqual([1, 2, 3, 4, 5]);
  });

  it("is not there unless it is asked for", async () => {
    const { state, ask } = guarded({});
    state.door.open();
    state.failure = new Error("the source is away");
    for (let id = 1; id <= 50; id++) await ask(`{ page(id: ${id}) }`);
    expect(state.started).toHaveLength(50);
  });
});
