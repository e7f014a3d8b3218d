import { describe, expect, it } from "vitest";
import { readEntry, readStoredEntry, writeStoredEntry } from "../../../src/store/entry-layout.js";
import type { StoredEntry } from "../../../src/store/transitions.js";

describe("the byte layout of an entry", () => {
  it("reads garbage, truncated entries and entries of another version as undefined", () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("g\u0001V"),
      Buffer.alloc(100),
      Buffer.from(`g\u0002V${"\0".repeat(90)}`),
      Buffer.from(`g\u0001Q${"\0".repeat(90)}`),
    ])
      expect(readEntry(bytes)).toBeUndefined();
  });

  it("reads every field from its offset", () => {
    const bytes = Buffer.alloc(75);
    bytes.write("g\u0001V");
    bytes[3] = 4 + 8;
    bytes.writeUInt32LE(7, 4);
    bytes.write("gen-gen-gen-gen-", 8);
    bytes.writeDoubleLE(1, 40);
    bytes.writeDoubleLE(2, 48);
    bytes.writeDoubleLE(3, 56);
    bytes.write("signatur", 64);
    bytes.write("abc", 72);
    expect(readEntry(bytes)).toMatchObject({
      state: "value",
      isNegative: true,
      hasRefreshFailed: true,
      loadMs: 7,
      gen: "gen-gen-gen-gen-",
      untilAt: 1,
      freshUntilAt: 2,
      grantedAt: 3,
      signature: "signatur",
    });
    expect(Buffer.from(readEntry(bytes)?.body ?? []).toString()).toBe("abc");
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
      writers: [
        { id: "a".repeat(16), endsAt: 1.5 },
        { id: "b".repeat(16), endsAt: 1 },
      ],
    };
    expect(readStoredEntry(writeStoredEntry(value), 9)).toEqual(value);
    expect(readStoredEntry(writeStoredEntry(ongoingWrite), 9)).toMatchObject({
      state: "write-in-progress",
      token: "",
      writers: ongoingWrite.writers,
    });
    expect(readStoredEntry(Buffer.from("garbage"), 9)).toBeUndefined();
  });
});
