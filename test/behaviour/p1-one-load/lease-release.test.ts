import { chaosStore, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { overrideStore } from "../../support/override-store.js";
import { fleet } from "../../support/shop.js";
import { dataOf, memoryWorld } from "../../support/world.js";

/** Processes on one store of which the first one's `own` store may fail. */
function holderAndOther(own: Parameters<typeof overrideStore>[1] = {}) {
  const { clock, store, world, source, start } = fleet(0);
  const chaotic = chaosStore(overrideStore(store, own));
  const holder = source.start(world, { testing: { clock }, store: chaotic });
  return { clock, source, chaos: chaotic.chaos, holder, other: start() };
}

describe("a lease", () => {
  it("is released when the store does not take the loaded value", async () => {
    const refused = { storeValues: async (requests: readonly unknown[]) => requests.map(() => "unavailable") };
    const { source, holder, other } = holderAndOther(refused as never);
    await holder.read("field");
    await settle();
    const value = other.read("field");
    await settle();
    expect(source.loads).toBe(2);
    await value;
  });

  it("is released again when the first attempt failed", async () => {
    const { clock, source, chaos, holder, other } = holderAndOther();
    const held = source.hold();
    const first = holder.read("field");
    await settle();
    chaos.mode = "throws";
    held.open();
    await first;
    await settle();
    chaos.mode = undefined;
    const second = other.read("field");
    await clock.advance(500);
    expect(source.loads).toBe(2);
    await second;
  });

  it("is not renewed beyond loadTimeoutMs, so that another process loads a value whose load never ends", async () => {
    const { clock, source, world } = fleet(0);
    const start = () => source.start(world, { testing: { clock }, loads: { loadTimeoutMs: 5_000 } });
    const [holder, other] = [start(), start()];
    const held = source.hold();
    const first = holder.ask("{ field(id: 7) { version } }", {});
    await settle();
    await clock.advance(5_000);
    expect((await first).errors?.[0]?.message).toContain("expected the load to finish within 5000 ms");
    // The lease was renewed a second ago at the latest.
    await clock.advance(3_000);
    expect(await other.read("field")).toBe(1);
    expect([source.loads, other.outcomes()]).toEqual([2, { loaded: 1 }]);
    held.open();
  });

  it("is released when the cache of its holder closes before the load has ended, so that others load at once", async () => {
    const { clock, source, holder, other } = holderAndOther();
    const held = source.hold();
    const first = holder.read("field");
    await settle();
    const closed = holder.cache.close();
    await clock.advance(2_000);
    await closed;
    const second = other.read("field");
    await settle();
    expect(source.loads).toBe(2);
    await second;
    held.open();
    expect(await first).toBe(1);
  });

  it("is requested once by a waiter that polls while another process holds it", async () => {
    const { clock, source, chaos, holder: waiter, other: holder } = holderAndOther();
    const held = source.hold();
    const first = holder.read("field");
    await settle();
    const second = waiter.read("field");
    await clock.advance(5_000);
    expect(chaos.calls.get("read")).toBeGreaterThan(10);
    expect(chaos.calls.get("acquire")).toBe(1);
    held.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
  });
});

it("a request that goes on after its cache has been closed requests no lease and stores nothing, and gets its value", async () => {
  const inner = memoryStore();
  const { passed, open } = gate();
  const store = chaosStore(overrideStore(inner, { read: (names) => passed.then(() => inner.read(names)) }));
  const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";
  const { ask, cache } = memoryWorld(() => store).process(typeDefs, { Query: { top: () => 7 } });
  const asked = dataOf(ask("{ top }"));
  await settle();
  await cache.close();
  store.chaos.calls.clear();
  open();
  expect(await asked).toEqual({ top: 7 });
  await settle();
  expect(["read", "acquire", "storeValues"].filter((name) => store.chaos.calls.has(name))).toEqual([]);
});
