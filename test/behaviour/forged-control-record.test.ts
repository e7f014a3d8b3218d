import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { createKeySpace } from "../../src/keys/key.js";
import { nextControlVersion } from "../../src/store/control-version.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World } from "../support/world.js";

const DAY_MS = 24 * 3_600_000;
const LAST = 2 ** 53 - 1;

const versionAt = (ms: number): string => nextControlVersion(ms, Buffer.alloc(8, 7), undefined);
const written = (version: string): string => Buffer.from(version, "latin1").toString("base64url");
const off = { mode: "off", version: written(versionAt(1)) };

/** Records that no process has written: how far their version is ahead of the store's clock, and their content. */
const FORGED: Readonly<Record<string, readonly [aheadMs: number, content: object]>> = {
  "has the last mode of all": [1, { epoch: "*", coordinates: {}, modes: { "*": { ...off, sequence: LAST } } }],
  "has the last version but one": [LAST / 1_000 - 0.001 - Date.now(), { epoch: "*", coordinates: {} }],
  "has the last version and the last mode": [
    LAST / 1_000,
    { epoch: "*", coordinates: {}, modes: { "*": { ...off, sequence: LAST } } },
  ],
  "has a version of the day after tomorrow": [2 * DAY_MS, { epoch: "*", coordinates: {} }],
  "was cleared in the future": [1, { epoch: written(versionAt(LAST / 1_000)), coordinates: {} }],
  "invalidates a field in the future": [
    1,
    { epoch: "*", coordinates: { "Query.n": { softEpoch: "*", epoch: written(versionAt(LAST / 1_000)) } } },
  ],
};

onEachStore("a control record that no process has written", (world) => {
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
    "counts as lost if it %s, so that the cache goes on and takes modes and invalidations",
    async (_, [aheadMs, content]) => {
      const shared = world();
      const process = start(shared);
      const store = shared.store();
      const before = await untilCached(process);
      const close = store.open(createKeySpace(shared.prefix), () => undefined);
      const version = versionAt(Date.now() + aheadMs);
      await store.raiseControl(store.controlCopies(), { version, content: Buffer.from(JSON.stringify(content)) });
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
    // A store whose clock is at its end, so that nothing is later.
    const read: Store["read"] = async (...names) => {
      const { readings, ...rest } = await inner.read(...names);
      return { ...rest, readings: readings.map((reading) => ({ ...reading, now: LAST })) };
    };
    const store = new Proxy(inner, {
      get(target, name) {
        const member: unknown = name === "read" ? read : Reflect.get(target, name);
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
    const process = memoryWorld(() => store).process("type Query { n: Int @cached(maxAge: 60) }", {
      Query: { n: () => 7 },
    });
    await process.ask("{ n }");
    await expect(process.cache.setMode("off")).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
      message: "store: the control record has not taken the mode; check what else writes to it",
    });
    expect(process.events.map(({ name }) => name)).not.toContain("mode.changed");
  });
});
