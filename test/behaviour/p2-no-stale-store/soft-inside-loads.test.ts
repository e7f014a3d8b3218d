import { gate, settle } from "@graphql-cached/testing";
import type { Store } from "graphql-cached/store";
import { expect, it, vi } from "vitest";
import { withHeldWakes } from "../../support/held-wakes.js";
import { VersionedSource } from "../../support/versioned-source.js";
import { timedWorld } from "../../support/world.js";

/** Processes with a function `rate`, and a function `page` whose load calls it. Both have the tag Rate. */
function processes() {
  const world = timedWorld();
  const source = new VersionedSource();
  const start = (store: Store = world.store()) => {
    const { cache } = world.bare({ store, testing: { random: () => 0 } } as never);
    const settings = { maxAge: 600, tags: ["Rate"] };
    const rate = cache.wrap({ ...settings, name: "Rate", load: source.load });
    const page = cache.wrap({ ...settings, name: "Page", load: async () => ({ rate: await rate() }) });
    return { cache, rate, page };
  };
  return { ...world, source, start };
}

it.each(["this process", "another process", "another process, whose messages are lost,"])(
  "a load does not use what was softly invalidated before it began, while %s still loads it",
  async (where) => {
    const { clock, store, source, start } = processes();
    const first = start();
    const isLost = where.endsWith("lost,");
    const second = where === "this process" ? first : start(isLost ? withHeldWakes(store()).store : store());
    const loadGate = gate();
    source.hold = loadGate.passed;
    const rate = first.rate();
    await vi.waitFor(() => expect(source.loads).toBe(1));
    source.version = 2;
    await first.cache.invalidateTags(["Rate"], { soft: true });
    const page = second.page();
    await settle();
    loadGate.open();
    await settle();
    await clock.advance(300);
    expect([await rate, await page]).toEqual([1, { rate: 2 }]);
    await settle();
    await clock.advance(1_000);
    expect([await second.page(), source.loads]).toEqual([{ rate: 2 }, 2]);
  },
);
