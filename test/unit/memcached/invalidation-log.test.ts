import { describe, expect, it } from "vitest";
import { areUnchanged, beginLog, logTags, readLog, writeLog } from "../../../src/memcached/invalidation-log.js";

const markOf = ({ logId, at }: { logId: string; at: number }) => ({ logId, at });

describe("the record of tag invalidations", () => {
  it("is read back as it was written, and garbage is none", () => {
    const record = logTags(beginLog(), ["a"], 1_000, 5_000.5);
    expect(readLog(writeLog(record))).toEqual(record);
    for (const garbage of ["", "{}", "[]", '{"logId":"x","at":1,"forgottenAt":0,"tags":null}'])
      expect(readLog(Buffer.from(garbage))).toBeUndefined();
  });

  it("orders invalidations after marks, also when the clock stands still or goes back", () => {
    let record = logTags(beginLog(), ["a"], 1_000, 5_000);
    const mark = markOf(record);
    expect(areUnchanged(record, mark, ["a", "b"])).toBe(true);
    record = logTags(record, ["b"], 1_000, 4_000);
    expect(areUnchanged(record, mark, ["a"])).toBe(true);
    expect(areUnchanged(record, mark, ["b"])).toBe(false);
  });

  it("knows that it has forgotten, whatever the clock that made it forget", () => {
    let record = logTags(beginLog(), ["a"], 1_000, 5_000);
    const mark = markOf(record);
    record = logTags(record, ["b"], 1_000, 5_010);
    record = logTags(record, ["c"], 1_000, 99_000);
    expect(record.tags).not.toHaveProperty("b");
    expect(areUnchanged(record, mark, ["b"])).toBe(false);
    expect(areUnchanged(record, markOf(record), ["a", "b", "c"])).toBe(true);
  });

  it("that would grow without end forgets everything, and says so to marks that are older", () => {
    let record = beginLog();
    const mark = markOf(record);
    for (let nth = 0; nth < 60; nth++)
      record = logTags(
        record,
        Array.from({ length: 100 }, (_, index) => `${nth}:${index}`),
        1_000,
        5_000,
      );
    expect(Object.keys(record.tags).length).toBeLessThanOrEqual(5_000);
    expect(writeLog(record).length).toBeLessThan(200_000);
    expect(areUnchanged(record, mark, ["other"])).toBe(false);
    expect(areUnchanged(record, markOf(record), ["other", "59:1"])).toBe(true);
  });
});
