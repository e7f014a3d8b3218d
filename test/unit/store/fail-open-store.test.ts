import { memoryStore, type Store } from "graphql-cached";
import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { FailOpenStore } from "../../../src/store/fail-open-store.js";
import { Channel } from "../../../src/telemetry/channel.js";
import type { CacheEvent } from "../../../src/telemetry/events.js";

/** A store of two nodes, a and b, by a name's first letter; b hangs, and counts what it is asked. */
function halfFrozen() {
  const clock = new FakeClock();
  const memory = memoryStore({ clock });
  const asked = { b: 0 };
  const inner = Object.create(memory, {
    nodeOf: { value: (name: string) => name[0] },
    read: {
      value: (keys: readonly string[], tags: readonly string[]) => {
        if (![...keys, ...tags].some((name) => name.startsWith("b"))) return memory.read(keys, tags);
        asked.b++;
        return new Promise(() => undefined);
      },
    },
  }) as Store;
  const channel = new Channel();
  const events: CacheEvent[] = [];
  channel.listen((event) => events.push(event));
  return { clock, asked, events, store: new FailOpenStore(inner, clock, channel, 100) };
}

describe("a store whose node does not answer", () => {
  it("fails that node's keys only", async () => {
    const { clock, store } = halfFrozen();
    const reading = store.read(["a1", "b1", "a2"], ["bt", "at"]);
    await clock.advance(110);
    const { readings, tagVersions } = await reading;
    expect(readings.map(({ kind }) => kind)).toEqual(["read", "failed", "read"]);
    expect(tagVersions).toEqual([undefined, undefined]);
  });

  it("is not asked for them once its own breaker is open, while the other node's keys are read on", async () => {
    const { clock, asked, events, store } = halfFrozen();
    for (let nth = 0; nth < 5; nth++) {
      const reading = store.read(["b1"], []);
      await clock.advance(110);
      await reading;
    }
    expect(asked.b).toBe(5);
    const { readings } = await store.read(["a1", "b1"], []);
    expect(readings.map(({ kind }) => kind)).toEqual(["read", "failed"]);
    expect(asked.b).toBe(5);
    expect(new Set(events.map((event) => ("node" in event ? event.node : "")))).toEqual(new Set(["b"]));
  });
});
