import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { createKeySpace } from "../../../src/core/keys/key.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World } from "../../support/world.js";

const DAY_MS = 24 * 3_600_000;
const LAST = 2 ** 53 - 1;

const off = { mode: "off", setAt: 1, sequence: 1 };
const json = (content: unknown): string => JSON.stringify(content);

/** Settings that no process has written. */
const FORGED: Readonly<Record<string, () => string>> = {
  "have the last mode of all": () => json({ modes: { "*": { ...off, sequence: LAST } } }),
  "have a mode of the day after tomorrow": () =>
    json({ modes: { "*": { ...off, sequence: 1_000 * (Date.now() + 2 * DAY_MS) } } }),
  "have a mode that was set the day after tomorrow": () =>
    json({ modes: { "*": { ...off, setAt: Date.now() + 2 * DAY_MS } } }),
  "have modes that are none": () =>
    json({ modes: { "*": "off", "Query.n": { mode: "off" }, "Query.m": { ...off, sequence: -0.5 }, x: null } }),
  "have no object of modes": () => json({ modes: [off], coordinates: { "Query.n": true } }),
  "are no object": () => json([off]),
  "are no JSON": () => "off",
  "are empty": () => "",
};

onEachStore("settings that no process has written", (world) => {
  /** Starts a process whose source counts its loads. */
  function start(shared: World): Process {
    let loads = 0;
    const typeDefs = "type Query { n: Int @cached(maxAge: 60) }";
    return shared.process(typeDefs, { Query: { n: () => ++loads } }, { storage: { storeTimeoutMs: 5_000 } });
  }

  const read = async (process: Process): Promise<unknown> => ((await dataOf(process.ask("{ n }"))) as { n: number }).n;

  /** Reads until two reads in a row get the same value. */
  async function untilCached(process: Process): Promise<unknown> {
    let last: unknown;
    await expect
      .poll(
        async () => {
          const before = last;
          last = await read(process);
          return before === last;
        },
        { timeout: 10_000, interval: 5 },
      )
      .toBe(true);
    return last;
  }

  it.each(Object.entries(FORGED))(
    "set no mode if they %s, and the cache goes on and takes modes and invalidations",
    async (_, contentOf) => {
      const shared = world();
      const process = start(shared);
      const store = shared.store();
      const before = await untilCached(process);
      const close = store.open(createKeySpace(shared.prefix), () => undefined);
      expect(await store.replaceSettings(await store.readSettings(), Buffer.from(contentOf()))).toBe(true);
      close();
      for (const each of [process, start(shared)]) {
        await untilCached(each);
        const counted = each.outcomes();
        expect(counted.hit).toBeGreaterThan(0);
        expect(Object.keys(counted)).not.toContain("bypassed(MODE_OFF)");
      }
      await process.cache.clear();
      expect(await read(process)).not.toBe(before);
      await process.cache.setMode("off");
      const loaded = await read(process);
      expect(await read(process)).not.toBe(loaded);
      await process.cache.setMode("on");
      await untilCached(process);
    },
  );
});

describe("cache.setMode", () => {
  it("rejects if the mode that it has written does not apply", async () => {
    const inner = memoryStore();
    // A store that loses what is written to it.
    const replaceSettings: Store["replaceSettings"] = async () => true;
    const store = new Proxy(inner, {
      get(target, name) {
        const member: unknown = name === "replaceSettings" ? replaceSettings : Reflect.get(target, name);
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
    const process = memoryWorld(() => store).process("type Query { n: Int @cached(maxAge: 60) }", {
      Query: { n: () => 7 },
    });
    await process.ask("{ n }");
    await expect(process.cache.setMode("off")).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
      message: "store: the settings have not taken the mode; check what else writes to them",
    });
    expect(process.events.map(({ name }) => name)).not.toContain("mode.changed");
  });
});
