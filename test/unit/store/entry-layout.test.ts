import { describe, expect, it } from "vitest";
import { readEntry, readStoredEntry, writeStoredEntry } from "../../../src/core/store/entry-layout.js";
import type { StoredEntry } from "../../../src/core/store/transitions.js";

describe("the byte layout of an entry", () => {
  it("reads garbage, truncated entries and entries of another version as undefined", () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("g\u0003V"),
      Buffer.alloc(100),
      Buffer.from(`g\u0002V${"\0".repeat(90)}`),
      Buffer.from(`g\u0003Q${"\0".repeat(90)}`),
      Buffer.from(`g\u0003V${"\0".repeat(36)}`),
      Buffer.from(`g\u0003V\u0002${"\0".repeat(83)}`),
      Buffer.from(`g\u0003P${"\0".repeat(64)}`),
      Buffer.from(`g\u0003P${"\0".repeat(66)}`),
      Buffer.from(`g\u0003F${"\0".repeat(24)}`),
    ])
      expect(readEntry(bytes)).toBeUndefined();
  });

  it("reads an entry with an instant or a position that is no number as undefined", () => {
    for (const [state, length, ats] of [
      ["V\u0002", 88, [12, 20, 32, 72, 80]],
      ["P\u0000", 68, [12, 52, 60]],
      ["F\u0000", 28, [12, 20]],
    ] as const) {
      const bytes = Buffer.alloc(length);
      bytes.write(`g\u0003${state}`);
      expect(readEntry(bytes)).toBeDefined();
      for (const at of ats)
        for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
          const damaged = Buffer.from(bytes);
          damaged.writeDoubleLE(value, at);
          expect(readEntry(damaged), `${state[0]} at ${at}`).toBeUndefined();
        }
    }
  });

  it("reads every field of a value from its offset, and its lease from the end", () => {
    const bytes = Buffer.alloc(91);
    bytes.write("g\u0003V");
    bytes[3] = 2 + 4 + 8;
    bytes.write("an epoch", 4);
    bytes.writeDoubleLE(5, 12);
    bytes.writeDoubleLE(2, 20);
    bytes.writeUInt32LE(7, 28);
    bytes.writeDoubleLE(3, 32);
    bytes.write("abc", 40);
    bytes.write("gen-gen-gen-gen-", 43);
    bytes.writeDoubleLE(1, 75);
    bytes.writeDoubleLE(6, 83);
    const common = {
      state: "value",
      isNegative: true,
      hasRefreshFailed: true,
      loadMs: 7,
      freshUntilAt: 2,
      grantedAt: 3,
      epoch: "an epoch",
      position: 5,
    };
    expect(readEntry(bytes)).toMatchObject({ ...common, gen: "gen-gen-gen-gen-", untilAt: 1, leasePosition: 6 });
    expect(Buffer.from(readEntry(bytes)?.body ?? []).toString()).toBe("abc");
    const unleased = Buffer.from(bytes.subarray(0, 43));
    unleased[3] = 4 + 8;
    expect(readEntry(unleased)).toMatchObject({ ...common, gen: "", untilAt: 0, leasePosition: 0 });
    expect(Buffer.from(readEntry(unleased)?.body ?? []).toString()).toBe("abc");
  });

  it("reads every field of an entry that is no value from its offset", () => {
    const pending = Buffer.alloc(68);
    pending.write("g\u0003P");
    pending.write("an epoch", 4);
    pending.writeDoubleLE(5, 12);
    pending.write("gen-gen-gen-gen-", 20);
    pending.writeDoubleLE(1, 52);
    pending.writeDoubleLE(6, 60);
    const common = { epoch: "an epoch", position: 5, untilAt: 1 };
    const lease = { gen: "gen-gen-gen-gen-", leasePosition: 6 };
    expect(readEntry(pending)).toMatchObject({ ...common, ...lease, state: "pending" });
    const failed = Buffer.alloc(31);
    failed.write("g\u0003F");
    failed.write("an epoch", 4);
    failed.writeDoubleLE(5, 12);
    failed.writeDoubleLE(1, 20);
    failed.write("abc", 28);
    expect(readEntry(failed)).toMatchObject({ ...common, state: "failed", gen: "", leasePosition: 0 });
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
      epoch: "an epoch",
      position: 5,
      leasePosition: 6,
      body: Buffer.from([0, 255, 13, 10]),
      hasWaiters: true,
      dropAt: 9,
    };
    expect(readStoredEntry(writeStoredEntry(value), 9)).toEqual(value);
    const unleased = { ...value, gen: "", token: "", untilAt: 0, leasePosition: 0, hasWaiters: false };
    expect(readStoredEntry(writeStoredEntry(unleased), 9)).toEqual(unleased);
    expect(writeStoredEntry(value).length - writeStoredEntry(unleased).length).toBe(48);
    const blank = { isNegative: false, loadMs: 0, freshUntilAt: 0, grantedAt: 0 };
    const pending = { ...value, ...blank, state: "pending" as const, body: Buffer.alloc(0) };
    expect(readStoredEntry(writeStoredEntry(pending), 9)).toEqual(pending);
    const failed = { ...unleased, ...blank, state: "failed" as const, untilAt: 5 };
    expect(readStoredEntry(writeStoredEntry(failed), 9)).toEqual(failed);
    expect(readStoredEntry(Buffer.from("garbage"), 9)).toBeUndefined();
  });
});
