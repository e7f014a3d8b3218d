import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { createCache, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { expect, it, onTestFinished, vi } from "vitest";
import { withHeldWakes } from "../../support/held-wakes.js";

/** Processes with a function `rate`, and a function `page` whose load calls it. Both have the tag Rate. */
function processes() {
  const clock = new FakeClock();
  const shared = memoryStore({ clock });
  const source = { version: 1, loads: 0, hold: Promise.resolve() as Promise<unknown> };
  const start = (store: Store = shared) => {
    const cache = createCache({ store, prefix: "soft", defaultScope: "PUBLIC", testing: { clock, random: () => 0 } });
    onTestFinished(() => cache.close());
    const load = async (): Promise<number> => {
      const { version } = source;
      source.loads++;
      await source.hold;
      return version;
    };
    const settings = { maxAge: 600, tags: ["Rate"] };
    const rate = cache.wrap({ ...settings, name: "Rate", load });
    const page = cache.wrap({ ...settings, name: "Page", load: async () => ({ rate: await rate() }) });
    return { cache, rate, page };
  };
  return { clock, shared, source, start };
}

it.each(["this process", "another process", "another process, whose messages are lost,"])(
  "a load does not use what was softly invalidated before it began, while %s still loads it",
  async (where) => {
    const { clock, shared, source, start } = processes();
    const first = start();
    const second =
      where === "this process" ? first : start(where.endsWith("lost,") ? withHeldWakes(shared).store : shared);
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
    expect(await rate).toBe(1);
    expect(await page).toEqual({ rate: 2 });
    await settle();
    await clock.advance(1_000);
    expect(await second.page()).toEqual({ rate: 2 });
    expect(source.loads).toBe(2);
  },
);
