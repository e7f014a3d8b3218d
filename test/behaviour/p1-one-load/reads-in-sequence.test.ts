import { expect, it } from "vitest";
import { onEachStore, waitForStores } from "../../support/world.js";

onEachStore("reads that follow each other", (world) => {
  it("let the event loop go on between them, and each of them is a hit", async () => {
    const { cache, events, outcomes } = world().process("type Query { unused: Int }", {});
    const values = cache.loader<number, number, object>({
      name: "Value",
      batch: async (ids) => ids.map((id) => 10 * id),
      maxAge: 60,
    });
    await values({}).load(1);
    await waitForStores({ events });
    const count = 40;
    let turns = 0;
    let hasEnded = false;
    const countTurns = (): void => {
      turns++;
      if (!hasEnded) setImmediate(countTurns);
    };
    setImmediate(countTurns);
    for (let read = 0; read < count; read++) expect(await values({}).load(1)).toBe(10);
    hasEnded = true;
    expect(turns).toBeGreaterThanOrEqual(count - 1);
    expect(outcomes()).toEqual({ loaded: 1, hit: count });
  });
});
