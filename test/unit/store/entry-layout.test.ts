import { describe, expect, it } from "vitest";
import { readEntry, readStoredEntry, writeStoredEntry } from "../../../src/store/entry-layout.js";
import type { StoredEntry } from "../../../src/store/transitions.js";

describe("the byte layout of an entry", () => {
  it("reads garbage, truncated entries and entries of another version as undefined", () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("g\u0002V"),
      Buffer.alloc(100),
      Buffer.from(`g\u0001V${"\0".repeat(90)}`),
      Buffer.from(`g\u0002Q${"\0".repeat(90)}`),
      Buffer.from(`g\u0002V${"\0".repeat(28)}`),
      Buffer.from(`g\u0002V\u0002${"\0".repeat(67)}`),
      Buffer.from(`g\u0002P${"\0".repeat(48)}`),
      Buffer.from(`g\u0002P${"\0".repeat(50)}`),
      Buffer.from(`g\u0002F${"\0".repeat(16)}`),
    ])
      expect(readEntry(bytes)).toBeUndefined();
  });

  it("reads every field of a value from its offset, and its lease from the end", () => {
    const bytes = Buffer.alloc(75);
    bytes.write("g\u0002V");
    bytes[3] = 2 + 4 + 8;
    bytes.write("signatur", 4);
    bytes.writeDoubleLE(2, 12);
    bytes.writeUInt32LE(7, 20);
    bytes.writeDoubleLE(3, 24);
    bytes.write("abc", 32);
    bytes.write("gen-gen-gen-gen-", 35);
    bytes.writeDoubleLE(1, 67);
    const common = {
      state: "value",
      isNegative: true,
      hasRefreshFailed: true,
      loadMs: 7,
      freshUntilAt: 2,
      grantedAt: 3,
      signature: "signatur",
    };
    expect(readEntry(bytes)).toMatchObject({ ...common, gen: "gen-gen-gen-gen-", untilAt: 1 });
    expect(Buffer.from(readEntry(bytes)?.body ?? []).toString()).toBe("abc");
    const unleased = Buffer.from(bytes.subarray(0, 35));
    unleased[3] = 4 + 8;
    expect(readEntry(unleased)).toMatchObject({ ...common, gen: "", untilAt: 0 });
    expect(Buffer.from(readEntry(unleased)?.body ?? []).toString()).toBe("abc");
  });

  it("reads every field of an entry that is no value from its offset", () => {
    const pending = Buffer.alloc(52);
    pending.write("g\u0002P");
    pending.write("signatur", 4);
    pending.write("gen-gen-gen-gen-", 12);
    pending.writeDoubleLE(1, 44);
    const expected = { state: "pending", signature: "signatur", gen: "gen-gen-gen-gen-", untilAt: 1 };
    expect(readEntry(pending)).toMatchObject(expected);
    const failed = Buffer.alloc(23);
    failed.write("g\u0002F");
    failed.write("signatur", 4);
    failed.writeDoubleLE(1, 12);
    failed.write("abc", 20);
    expect(readEntry(failed)).toMatchObject({ state: "failed", signature: "signatur", gen: "", untilAt: 1 });
    expect(Buffer.from(readEntry(failed)?.body ?? []).toString()).toBe("abc");
  });

  it("reads back the entry it has written", () => {
    const value: StoredEntry = {
      state: "value",
      isNegative: true,
      hasRefreshFailed: false,
      loadMs: 7,
      gen: "g".repeat(16),
      token: "t".repeat(16),
      untilAt: 1.5,
      freshUntilAt: 2,
      grantedAt: 3,
      signature: "signatur",
      body: Buffer.from([0, 255, 13, 10]),
      hasWaiters: true,
      dropAt: 9,
      writers: [],
    };
    const ongoingWrite: StoredEntry = {
      ...value,
      state: "write-in-progress",
      gen: "",
      token: "",
      isNegative: false,
      loadMs: 0,
      freshUntilAt: 0,
      grantedAt: 0,
      writers: [
        { id: "a".repeat(16), endsAt: 1.5 },
        { id: "b".repeat(16), endsAt: 1 },
      ],
    };
    expect(readStoredEntry(writeStoredEntry(value), 9)).toEqual(value);
    const unleased = { ...value, gen: "", token: "", untilAt: 0, hasWaiters: false };
    expect(readStoredEntry(writeStoredEntry(unleased), 9)).toEqual(unleased);
    expect(writeStoredEntry(value).length - writeStoredEntry(unleased).length).toBe(40);
    const blank = { isNegative: false, loadMs: 0, freshUntilAt: 0, grantedAt: 0 };
    const pending = { ...value, ...blank, state: "pending" as const, body: Buffer.alloc(0) };
    expect(readStoredEntry(writeStoredEntry(pending), 9)).toEqual(pending);
    const failed = { ...unleased, ...blank, state: "failed" as const, untilAt: 5 };
    expect(readStoredEntry(writeStoredEntry(failed), 9)).toEqual(failed);
    expect(readStoredEntry(writeStoredEntry(ongoingWrite), 9)).toMatchObject({
      state: "write-in-progress",
      token: "",
      writers: ongoingWrite.writers,
    });
    expect(readStoredEntry(Buffer.from("garbage"), 9)).toBeUndefined();
  });
});
