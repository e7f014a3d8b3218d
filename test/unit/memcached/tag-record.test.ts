import { describe, expect, it } from "vitest";
import { beginRecord, isUntouched, noteTags, readRecord, writeRecord } from "../../../src/memcached/tag-record.js";

const markOf = ({ life, at }: { life: string; at: number }) => ({ life, at });

describe("the record of tag invalidations", () => {
  it("is read back as it was written, and garbage is none", () => {
    const record = noteTags(beginRecord(), ["a"], 1_000, 5_000.5);
    expect(readRecord(writeRecord(record))).toEqual(record);
    for (const garbage of ["", "{}", "[]", '{"life":"x","at":1,"forgottenAt":0,"tags":null}'])
      expect(readRecord(Buffer.from(garbage))).toBeUndefined();
  });

  it("orders invalidations after marks, also when the clock stands still or goes back", () => {
    let record = noteTags(beginRecord(), ["a"], 1_000, 5_000);
    const mark = markOf(record);
    expect(isUntouched(record, mark, ["a", "b"])).toBe(true);
    record = noteTags(record, ["b"], 1_000, 4_000);
    expect(isUntouched(record, mark, ["a"])).toBe(true);
    expect(isUntouched(record, mark, ["b"])).toBe(false);
  });

  it("knows that it has forgotten, whatever the clock that made it forget", () => {
    let record = noteTags(beginRecord(), ["a"], 1_000, 5_000);
    const mark = markOf(record);
    record = noteTags(record, ["b"], 1_000, 5_010);
    record = noteTags(record, ["c"], 1_000, 99_000);
    expect(record.tags).not.toHaveProperty("b");
    expect(isUntouched(record, mark, ["b"])).toBe(false);
    expect(isUntouched(record, markOf(record), ["a", "b", "c"])).toBe(true);
  });

  it("that would grow without end forgets everything, and says so to marks that are older", () => {
    let record = beginRecord();
    const mark = markOf(record);
    for (let nth = 0; nth < 60; nth++)
      record = noteTags(
        record,
        Array.from({ length: 100 }, (_, index) => `${nth}:${index}`),
        1_000,
        5_000,
      );
    expect(Object.keys(record.tags).length).toBeLessThanOrEqual(5_000);
    expect(writeRecord(record).length).toBeLessThan(200_000);
    expect(isUntouched(record, mark, ["other"])).toBe(false);
    expect(isUntouched(record, markOf(record), ["other", "59:1"])).toBe(true);
  });
});
