import { describe, expect, it } from "vitest";
import { areUnchanged, beginLog, endOf, logTags, readLog, writeLog } from "../../../src/memcached/invalidation-log.js";

const emptyLog = () => ({ ...beginLog(), retentionMs: 1_000 });

describe("The invalidation log on memcached", () => {
  it("reads a log back as it was written, and reads no log from garbage", () => {
    const log = logTags(emptyLog(), ["a"], 5_000.5);
    expect(readLog(writeLog(log))).toEqual(log);
    for (const garbage of ["", "{}", "[]", '{"logId":"x","at":1,"forgottenAt":0,"retentionMs":1,"tags":null}'])
      expect(readLog(Buffer.from(garbage))).toBeUndefined();
  });

  it("orders invalidations after earlier positions even if the clock stops or goes back", () => {
    let log = logTags(emptyLog(), ["a"], 5_000);
    const end = endOf(log);
    expect(areUnchanged(log, end, ["a", "b"])).toBe(true);
    log = logTags(log, ["b"], 4_000);
    expect(areUnchanged(log, end, ["a"])).toBe(true);
    expect(areUnchanged(log, end, ["b"])).toBe(false);
  });

  it("counts tags as changed since positions older than what it has dropped", () => {
    let log = logTags(emptyLog(), ["a"], 5_000);
    const end = endOf(log);
    log = logTags(log, ["b"], 5_010);
    log = logTags(log, ["c"], 99_000);
    expect(log.tags).not.toHaveProperty("b");
    expect(areUnchanged(log, end, ["b"])).toBe(false);
    expect(areUnchanged(log, endOf(log), ["a", "b", "c"])).toBe(true);
  });

  it("counts all tags as changed since a position in a log that was lost", () => {
    const end = endOf(logTags(emptyLog(), ["a"], 5_000));
    expect(areUnchanged(emptyLog(), end, ["a"])).toBe(false);
    expect(areUnchanged(logTags(emptyLog(), ["b"], 4_000), end, ["a"])).toBe(false);
  });

  it("drops all tags when it would exceed 5,000, and counts them as changed since older positions", () => {
    let log = emptyLog();
    const end = endOf(log);
    for (let nth = 0; nth < 60; nth++)
      log = logTags(
        log,
        Array.from({ length: 100 }, (_, index) => `${nth}:${index}`),
        5_000,
      );
    expect(Object.keys(log.tags).length).toBeLessThanOrEqual(5_000);
    expect(writeLog(log).length).toBeLessThan(200_000);
    expect(areUnchanged(log, end, ["other"])).toBe(false);
    expect(areUnchanged(log, endOf(log), ["other", "59:1"])).toBe(true);
  });
});
