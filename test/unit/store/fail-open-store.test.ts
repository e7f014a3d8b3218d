import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { FailOpenStore } from "../../../src/store/fail-open-store.js";
import { Channel } from "../../../src/telemetry/channel.js";
import type { CacheEvent } from "../../../src/telemetry/events.js";

/**
 * A store with two nodes, `a` and `b`, chosen by the first letter of a name. Node `b` hangs and
 * counts its calls.
 */
function storeWithHangingNode() {
  const clock = new FakeClock();
  const memory = memoryStore({ clock });
  const calls = { b: 0 };
  const inner = Object.create(memory, {
    nodeOf: { value: (name: string) => name[0] },
    read: {
      value: (keys: readonly string[], tags: readonly string[]) => {
        if (![...keys, ...tags].some((name) => name.startsWith("b"))) return memory.read(keys, tags);
        calls.b++;
        return new Promise(() => undefined);
      },
    },
  }) as Store;
  const channel = new Channel();
  const events: CacheEvent[] = [];
  channel.listen((event) => events.push(event));
  return { clock, calls, events, store: new FailOpenStore(inner, clock, channel, 100) };
}

describe("a store with a hanging node", () => {
  it("fails only the keys of the hanging node", async () => {
    const { clock, store } = storeWithHangingNode();
    const reading = store.read(["a1", "b1", "a2"], ["bt", "at"]);
    await clock.advance(110);
    const { readings, tagVersions } = await reading;
    expect(readings.map(({ kind }) => kind)).toEqual(["read", "failed", "read"]);
    expect(tagVersions).toEqual([undefined, undefined]);
  });

  it("stops calling the hanging node once its breaker is open, and still reads keys of the other node", async () => {
    const { clock, calls, events, store } = storeWithHangingNode();
    for (let nth = 0; nth < 5; nth++) {
      const reading = store.read(["b1"], []);
      await clock.advance(110);
      await reading;
    }
    expect(calls.b).toBe(5);
    const { readings } = await store.read(["a1", "b1"], []);
    expect(readings.map(({ kind }) => kind)).toEqual(["read", "failed"]);
    expect(calls.b).toBe(5);
    expect(new Set(events.map((event) => ("node" in event ? event.node : "")))).toEqual(new Set(["b"]));
  });
});
