import { FakeClock } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { InvalidationLogs } from "../../../src/redis/invalidation-log.js";

/** One log whose server has `record` at its end, and the names of the commands that were sent. */
function createLog() {
  const clock = new FakeClock();
  const state = { record: Buffer.from([0xff, 1]) as Buffer | undefined, failure: undefined as Error | undefined };
  const sent: string[] = [];
  const callBuffer = async (name: string): Promise<unknown> => {
    sent.push(name);
    if (state.failure !== undefined) throw state.failure;
    state.record ??= name === "EVALSHA" ? Buffer.from([0xff, 2]) : undefined;
    return state.record === undefined ? [] : [state.record, Buffer.from("7")];
  };
  const logs = new InvalidationLogs({ callBuffer } as never, () => clock.now());
  logs.name = "log";
  const positionFor = async (retentionMs: number): Promise<unknown> => (await logs.position(["log"], retentionMs)).log;
  return { clock, state, sent, logs, positionFor };
}

it("the retention of a log is set once per retention time, and the log is only read otherwise", async () => {
  const { clock, sent, positionFor } = createLog();
  for (const retentionMs of [1_000, 1_000, 500, 2_000, 1_000]) expect(await positionFor(retentionMs)).toBe("/wE= 7");
  expect(sent).toEqual(["EVALSHA", "ZRANGE", "ZRANGE", "EVALSHA", "ZRANGE"]);
  await clock.advance(2_000);
  await positionFor(2_000);
  expect(sent.at(-1)).toBe("EVALSHA");
});

it("a log that was lost is created again at once, and a server that failed is not asked twice", async () => {
  const { state, sent, positionFor } = createLog();
  await positionFor(1_000);
  state.record = undefined;
  expect(await positionFor(1_000)).toBe("/wI= 7");
  expect(sent.splice(0)).toEqual(["EVALSHA", "ZRANGE", "EVALSHA"]);
  state.failure = new Error("LOADING");
  await expect(positionFor(1_000)).rejects.toThrow("LOADING");
  expect(sent).toEqual(["ZRANGE"]);
});

it("tags of a log whose position is unknown count as invalidated", async () => {
  const { sent, logs } = createLog();
  expect(await logs.areUnchangedSince({}, ["tag"])).toBe(false);
  expect(await logs.areUnchangedSince({ log: "no position" }, ["tag"])).toBe(false);
  expect(sent).toEqual(["EVALSHA"]);
});
