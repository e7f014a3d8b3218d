import { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { memoryWorld, waitForStores } from "../../support/world.js";

/** A loader of two processes on one store, and a context that lives on, as that of a subscription does. */
function start(settings: { readonly maxAge?: number; readonly tags?: boolean } = {}) {
  const clock = new FakeClock(1_000_000);
  const world = memoryWorld(() => memoryStore({ clock }));
  const source = { value: 1, loads: 0 };
  const { maxAge = 60, tags = false } = settings;
  const startProcess = () => {
    const process = world.process("type Query { unused: Int }", {}, { testing: { clock } });
    const loader = process.cache.loader<number, number, object>({
      name: "Value",
      maxAge,
      jitter: 0,
      earlyRefresh: 0,
      ...(tags ? { tags: (id: number) => [`Value:${id}`] } : {}),
      batch: async (ids) => ids.map(() => (source.loads++, source.value)),
    });
    return { ...process, loader };
  };
  return { clock, source, context: {}, here: startProcess(), elsewhere: startProcess() };
}

describe("a loader whose context outlives its request", () => {
  it.each(["id", "loader", "tag", "everything"] as const)(
    "does not remember a value once this process knows that another one has invalidated it: by %s",
    async (by) => {
      const { source, context, here, elsewhere } = start({ tags: true });
      expect(await here.loader(context).load(1)).toBe(1);
      await waitForStores(here);
      source.value = 2;
      if (by === "id") await elsewhere.cache.invalidate({ loader: "Value", id: 1 });
      else if (by === "loader") await elsewhere.cache.invalidate({ loader: "Value" });
      else if (by === "tag") await elsewhere.cache.invalidateTags(["Value:1"]);
      else await elsewhere.cache.clear();
      // Another request of this process, whose read shows the head of the clock.
      await here.loader({}).load(2);
      expect(await here.loader(context).load(1)).toBe(2);
    },
  );

  it("does not remember a value for longer than its maxAge", async () => {
    const { clock, source, context, here } = start({ maxAge: 1 });
    expect(await here.loader(context).load(1)).toBe(1);
    source.value = 2;
    await clock.advance(999);
    expect(await here.loader(context).load(1)).toBe(1);
    await clock.advance(1);
    expect(await here.loader(context).load(1)).toBe(2);
  });

  it("does not remember a primed value once it is invalidated, or its maxAge is over", async () => {
    const { clock, source, context, here, elsewhere } = start({ maxAge: 10 });
    const values = here.loader(context);
    await here.loader({}).load(7);
    values.prime(1, 5).prime(2, 5);
    expect(await values.loadMany([1, 2])).toEqual([5, 5]);
    source.value = 2;
    await elsewhere.cache.invalidate({ loader: "Value", id: 1 });
    await here.loader({}).load(8);
    expect(await values.loadMany([1, 2])).toEqual([2, 5]);
    await clock.advance(10_000);
    expect(await values.loadMany([1, 2])).toEqual([2, 2]);
  });

  it("remembers one promise for each id as long as neither happens", async () => {
    const { source, context, here, elsewhere } = start({ tags: true });
    const values = here.loader(context);
    const first = values.load(1);
    await first;
    await elsewhere.cache.invalidate({ loader: "Value", id: 3 });
    await elsewhere.cache.invalidateTags(["Value:4"]);
    await here.loader({}).load(2);
    expect(values.load(1)).toBe(first);
    expect(source.loads).toBe(2);
  });
});
