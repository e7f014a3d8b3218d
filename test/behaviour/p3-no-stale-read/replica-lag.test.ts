import { FakeClock, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = 'type Query { top: Int @cached(maxAge: 60) tagged: Int @cached(maxAge: 60, tags: ["T:{$result}"]) }';

/** Creates a process over a lagging database replica: the primary holds `written`, reads return `replicated`. */
function createLaggingProcess(replicaLagMs: number) {
  const clock = new FakeClock();
  const row = { written: 1, replicated: 1, reads: 0 };
  const read = (): number => (row.reads++, row.replicated);
  const world = memoryWorld(() => memoryStore({ clock }));
  return {
    clock,
    row,
    ...world.process(
      typeDefs,
      { Query: { top: read, tagged: read } },
      { testing: { clock }, invalidation: { replicaLagMs } },
    ),
  };
}

describe("replicaLagMs", () => {
  it("does not store what is read from a lagging replica after an invalidation", async () => {
    const { cache, clock, row, ask, outcomes } = createLaggingProcess(2_000);
    await ask("{ top }");
    row.written = 2;
    await cache.invalidate({ coordinate: "Query.top" });
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 1 });
    expect(outcomes()).toEqual({ loaded: 1, "bypassed(WRITE_IN_PROGRESS)": 1 });
    row.replicated = 2;
    await clock.advance(2_001);
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
    expect(row.reads).toBe(3);
  });

  it("holds off stores after a tag invalidation, tags of a result included", async () => {
    const { cache, clock, row, ask } = createLaggingProcess(2_000);
    await ask("{ tagged }");
    await settle();
    row.written = 2;
    await cache.invalidateTags(["T:1"]);
    expect(await dataOf(ask("{ tagged }"))).toEqual({ tagged: 1 });
    await settle();
    row.replicated = 2;
    expect(await dataOf(ask("{ tagged }"))).toEqual({ tagged: 2 });
    await clock.advance(2_001);
    expect(await dataOf(ask("{ tagged }"))).toEqual({ tagged: 2 });
  });

  it("holds off stores from the end of cache.mutate without a gap", async () => {
    const { cache, clock, row, ask, outcomes } = createLaggingProcess(2_000);
    const target = { entries: [{ coordinate: "Query.top" }] };
    await cache.mutate(target, () => {
      row.written = 2;
    });
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 1 });
    expect(outcomes()).toEqual({ "bypassed(WRITE_IN_PROGRESS)": 1 });
    row.replicated = 2;
    await clock.advance(2_001);
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
    expect(outcomes()).toEqual({ "bypassed(WRITE_IN_PROGRESS)": 1, loaded: 1 });
  });

  it("does not hold off stores by default", async () => {
    const { cache, row, ask } = createLaggingProcess(0);
    await ask("{ top }");
    await cache.invalidate({ coordinate: "Query.top" });
    await ask("{ top }");
    await settle();
    await ask("{ top }");
    expect(row.reads).toBe(2);
  });
});
