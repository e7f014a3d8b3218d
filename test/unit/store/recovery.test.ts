import { FakeClock } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { FailOpenStore } from "../../../src/core/store/fail-open-store.js";
import { Channel } from "../../../src/core/telemetry/channel.js";
import { ContextReadLog } from "../../../src/core/telemetry/context-read-log.js";
import { Counters } from "../../../src/core/telemetry/counters.js";
import { logListener } from "../../../src/core/telemetry/log-listener.js";
import { memoryStore } from "../../../src/stores/memory/memory-store.js";

const TIMES = { leaseMs: 1_000, backoffMs: 0 } as never;

/** A store that replies to reads, and refuses leases while it has no memory. */
function createFullStore() {
  const clock = new FakeClock();
  const inner = memoryStore({ clock });
  const state = { isFull: true };
  inner.acquire = () =>
    state.isFull ? Promise.reject(new Error("OOM")) : Promise.resolve([{ kind: "uncacheable" }] as never);
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line.includes("unavailable") ? "unavailable" : "available");
  const channel = new Channel(new Counters(), "p");
  const logger = { info: log, warn: log };
  channel.listen(logListener(logger, new ContextReadLog(logger, clock)), []);
  const store = new FailOpenStore(inner, clock, channel, 100);
  const miss = async (): Promise<void> => {
    await store.read(["p:k"]);
    await store.acquire([{ key: "p:k" } as never], TIMES, { epoch: "an epoch", position: 1 });
  };
  return { clock, store, state, lines, miss };
}

it("logs once that a store refuses writes while it replies to reads, and once that it has recovered", async () => {
  const { state, lines, miss } = createFullStore();
  for (let nth = 0; nth < 20; nth++) await miss();
  expect(lines).toEqual(["unavailable"]);
  state.isFull = false;
  await miss();
  expect(lines).toEqual(["unavailable", "available"]);
});

it("takes a store for recovered if nothing has failed for 30 seconds, although a write was not tried again", async () => {
  const { clock, store, lines, miss } = createFullStore();
  await miss();
  await clock.advance(29_999);
  await store.read(["p:k"]);
  expect(lines).toEqual(["unavailable"]);
  await clock.advance(1);
  await store.read(["p:k"]);
  expect(lines).toEqual(["unavailable", "available"]);
});
