import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  appendToClock,
  type ClockHead,
  type ClockRecord,
  HEAD_BYTES,
  LOG_HEAD_BYTES,
  MAX_POSITION,
  MAX_RECORD_BYTES,
  readHead,
  readLog,
  readRecords,
  type StoredClock,
  writeRecord,
} from "../../../src/core/store/clock-log.js";

const MAX_BYTES = 1_000;
const NOW = 5_000_000;
const hard = (...subjects: number[]): Buffer => writeRecord({ kind: "hard", subjects });
const append = (clock: StoredClock | undefined, ...records: readonly Buffer[]): StoredClock =>
  appendToClock(clock, records, NOW, MAX_BYTES);
const headOf = ({ head }: StoredClock): ClockHead => readHead(head) as ClockHead;
const recordsOf = ({ log }: StoredClock) => readLog(log)?.records ?? [];
const begun = append(undefined);
const FORMS = [
  { coordinate: 5, form: 8 },
  { coordinate: 6, form: 9 },
];

describe("a record of the invalidation clock", () => {
  it("is read as it was written, whatever its kind", () => {
    const records: readonly ClockRecord[] = [
      { kind: "hard", subjects: [1, 2 ** 52 - 1] },
      { kind: "soft", subjects: [] },
      { kind: "begin", subjects: [3, 4], writer: "\u0000writer\u00ff", guardMs: 1_234.5 },
      { kind: "end", subjects: [3], writer: "\u0000writer\u00ff" },
      { kind: "hard", subjects: [1, 2], forms: [{ coordinate: 5, form: 2 ** 52 - 1 }] },
      { kind: "soft", subjects: [], forms: FORMS },
      { kind: "begin", subjects: [3], forms: FORMS, writer: "writer 1", guardMs: 5 },
      { kind: "end", subjects: [], forms: FORMS, writer: "writer 1" },
    ];
    const clock = appendToClock(begun, records.map(writeRecord), NOW, 10_000);
    const [, ...read] = recordsOf(clock);
    expect(
      read.map(({ kind, subjects, forms, writer, guardMs }) => ({ kind, subjects, forms, writer, guardMs })),
    ).toEqual(records.map((record) => ({ forms: [], writer: "", guardMs: 0, ...record })));
    expect(read.reduce((sum, { bytes }) => sum + bytes, LOG_HEAD_BYTES + 24)).toBe(clock.log.length);
  });

  it("has the number of its key forms beside its kind, and ends with their coordinates and forms", () => {
    const bytes = writeRecord({ kind: "soft", subjects: [7], forms: FORMS });
    expect([bytes.readUInt16LE(8), bytes.readUInt16LE(10), bytes.readUInt32LE(12)]).toEqual([2, 2, 5]);
    expect([16, 24, 32, 40, 48].map((at) => bytes.readDoubleLE(at))).toEqual([7, 5, 8, 6, 9]);
    expect(bytes).toHaveLength(56);
  });

  it.each<[string, ClockRecord, forms: number]>([
    ["has one subject", { kind: "hard", subjects: [1] }, 1],
    ["needs its slots for the writer", { kind: "end", subjects: [1], writer: "writer 1" }, 1],
    ["needs its slots for the writer and the guard", { kind: "begin", subjects: [1, 2], writer: "w", guardMs: 1 }, 2],
    ["has two forms", { kind: "hard", subjects: [], forms: FORMS }, 3],
    ["has the most forms of all", { kind: "hard", subjects: [1, 2] }, 0xffff],
  ])("is refused, as is a log that contains it, if it says that it has forms and %s", (_, record, forms) => {
    const bytes = Buffer.concat([Buffer.alloc(8), writeRecord(record)]);
    expect(readRecords(bytes)).toHaveLength(1);
    bytes.writeUInt16LE(forms, 18);
    expect(readRecords(bytes)).toBeUndefined();
    expect(readLog(append(begun, hard(1), bytes.subarray(8), hard(2)).log)).toBeUndefined();
  });

  it("has a nonce that no other record has", () => {
    const nonces = Array.from({ length: 1_000 }, () => hard(1).toString("latin1", 0, 8));
    expect(new Set(nonces).size).toBe(1_000);
  });
});

describe("appendToClock", () => {
  it("begins an epoch with a record of its own, and returns the clock itself if nothing is appended", () => {
    expect(headOf(begun)).toMatchObject({ position: NOW, floor: NOW, beginsAt: 0 });
    expect(recordsOf(begun)).toMatchObject([{ kind: "epoch", position: NOW, subjects: [] }]);
    expect(append(begun)).toBe(begun);
    expect(headOf(append(undefined)).epoch).not.toBe(headOf(begun).epoch);
  });

  it("gives each record a later position than the one before, also while the store's clock stands still or goes back", () => {
    let clock = append(begun, hard(1), hard(2));
    clock = appendToClock(clock, [hard(3)], NOW - 1_000_000, MAX_BYTES);
    clock = appendToClock(clock, [hard(4)], NOW + 1_000_000, MAX_BYTES);
    expect(recordsOf(clock).map(({ position }) => position)).toEqual([NOW, NOW + 1, NOW + 2, NOW + 3, NOW + 1_000_000]);
    expect(headOf(clock)).toMatchObject({ position: NOW + 1_000_000, floor: NOW });
  });

  it("returns what a process that knows an earlier head has missed behind the end that this head shows", () => {
    const before = append(begun, hard(1));
    const after = append(before, hard(2), hard(3));
    const from = LOG_HEAD_BYTES + headOf(before).endsAt - headOf(before).beginsAt;
    expect(readRecords(after.log.subarray(from))).toMatchObject([{ subjects: [2] }, { subjects: [3] }]);
  });

  it("drops the older half of a log that becomes too large, and raises the floor to the last record that is gone", () => {
    let clock = begun;
    const all = [...recordsOf(begun)];
    const sizes: number[] = [];
    for (let nth = 0; nth < 200; nth++) {
      clock = append(clock, hard(nth));
      sizes.push(clock.log.length);
      const { epoch, floor, beginsAt, endsAt, position } = headOf(clock);
      const log = readLog(clock.log);
      expect(log).toMatchObject({ epoch, floor, beginsAt });
      all.push(recordsOf(clock).at(-1) as never);
      const kept = recordsOf(clock);
      expect(all.slice(-kept.length)).toEqual(kept);
      expect(floor).toBe(all.at(-kept.length - 1)?.position ?? NOW);
      expect(position).toBe(kept.at(-1)?.position);
      expect(endsAt - beginsAt).toBe(clock.log.length - LOG_HEAD_BYTES);
    }
    expect(Math.max(...sizes)).toBeLessThanOrEqual(MAX_BYTES);
    expect(Math.min(...sizes.slice(100))).toBeGreaterThan(MAX_BYTES / 2 - 100);
    expect(headOf(clock).epoch).toBe(headOf(begun).epoch);
  });

  it("keeps the last record, however large it is", () => {
    const large = hard(...Array.from({ length: 500 }, (_, nth) => nth));
    let clock = append(begun, hard(1), large);
    expect(recordsOf(clock)).toMatchObject([{ subjects: { length: 500 } }]);
    clock = append(clock, hard(2));
    expect(recordsOf(clock).at(-1)).toMatchObject({ subjects: [2] });
    clock = append(clock, large, large);
    expect(recordsOf(clock)).toHaveLength(1);
    expect(headOf(clock).floor).toBe(headOf(clock).position - 1);
  });

  it("changes no bytes of the clock that it gets, so that an append that loses a race can be repeated", () => {
    let clock = begun;
    for (let nth = 0; nth < 60; nth++) {
      const copy = { head: Buffer.from(clock.head), log: Buffer.from(clock.log) };
      const next = append(clock, hard(nth));
      expect(clock).toEqual(copy);
      clock = next;
    }
  });

  it("begins another epoch if the head is missing, damaged, or that of another log", () => {
    const clock = append(begun, hard(1));
    const other = append(append(undefined), hard(1));
    const heads = [Buffer.alloc(0), Buffer.alloc(HEAD_BYTES), Buffer.from("garbage"), other.head, begun.head];
    for (const position of [Number.NaN, Number.POSITIVE_INFINITY, MAX_POSITION, -1]) {
      const head = Buffer.from(clock.head);
      head.writeDoubleLE(position, 16);
      heads.push(head);
    }
    for (const head of heads) {
      const next = append({ head, log: clock.log }, hard(2));
      expect([headOf(clock).epoch, headOf(other).epoch]).not.toContain(headOf(next).epoch);
      expect(recordsOf(next)).toMatchObject([{ kind: "epoch" }, { kind: "hard", subjects: [2] }]);
      expect(headOf(next)).toMatchObject({ floor: recordsOf(next)[0]?.position });
      expect(headOf(next).position).toBeLessThan(NOW + 10);
    }
  });

  it("begins another epoch at the store's time if the head is more than a day ahead of it", () => {
    const clock = append(begun, hard(1));
    for (const [aheadMicros, isLost] of [
      [86_400_000_000, false],
      [86_400_000_001, true],
      [MAX_POSITION - 1 - NOW, true],
    ] as const) {
      const head = Buffer.from(clock.head);
      head.writeDoubleLE(NOW + aheadMicros, 16);
      const next = append({ head, log: clock.log }, hard(2));
      expect(headOf(next).epoch !== headOf(clock).epoch).toBe(isLost);
      expect(headOf(next).position).toBe(NOW + 1 + (isLost ? 0 : aheadMicros));
    }
  });

  it("begins another epoch if the log is longer than any, would be cut where it cannot be, or could not be read", () => {
    const clock = append(begun, hard(1));
    const long = Buffer.concat([clock.log, Buffer.alloc(MAX_BYTES + MAX_RECORD_BYTES)]);
    const longHead = Buffer.from(clock.head);
    longHead.writeDoubleLE(long.length - LOG_HEAD_BYTES, 40);
    const cut = Buffer.from(clock.log);
    cut.writeDoubleLE(1e300, 32);
    const { epoch } = headOf(clock);
    const others = [
      append({ head: longHead, log: long }, hard(2)),
      append({ head: clock.head, log: cut }, hard(2)),
      appendToClock(clock, [hard(2)], NOW, MAX_BYTES, epoch),
    ];
    for (const next of others) {
      expect(headOf(next).epoch).not.toBe(epoch);
      expect(recordsOf(next)).toMatchObject([{ kind: "epoch" }, { kind: "hard", subjects: [2] }]);
    }
    expect(headOf(appendToClock(clock, [hard(2)], NOW, MAX_BYTES, "another.")).epoch).toBe(epoch);
  });

  it("has no log that can be read if a record is not later than the one before it", () => {
    const { log } = append(begun, hard(1), hard(2));
    const last = log.length - 8 - 16 - 8;
    for (const position of [NOW, 0, Number.NaN, MAX_POSITION]) {
      const damaged = Buffer.from(log);
      damaged.writeDoubleLE(position, last);
      expect(readLog(damaged)).toBeUndefined();
    }
  });

  it("begins another epoch after the head's position if the log is missing, too short, or another one", () => {
    const clock = append(begun, hard(1), hard(2), hard(3));
    const { log } = append(append(undefined), hard(1), hard(2), hard(3));
    for (const damaged of [Buffer.alloc(0), Buffer.from("garbage"), clock.log.subarray(0, -8), begun.log, log]) {
      const next = append({ head: clock.head, log: damaged }, hard(4));
      expect(headOf(next).epoch).not.toBe(headOf(clock).epoch);
      expect(recordsOf(next)).toMatchObject([{ kind: "epoch", position: NOW + 3 }, { position: NOW + 4 }]);
    }
  });
});

describe("damaged bytes", () => {
  it("are read as no head and no log", () => {
    const { head, log } = append(begun, hard(1), hard(2));
    expect(readHead(undefined)).toBeUndefined();
    expect(readLog(undefined)).toBeUndefined();
    for (let length = 0; length < head.length; length++) expect(readHead(head.subarray(0, length))).toBeUndefined();
    const ends = [LOG_HEAD_BYTES + 24, LOG_HEAD_BYTES + 56, log.length];
    for (let length = 0; length <= log.length; length++)
      expect(readLog(log.subarray(0, length)) === undefined, `${length} bytes`).toBe(!ends.includes(length));
  });

  it("never make reading throw", () => {
    const clock = append(begun, hard(1), writeRecord({ kind: "begin", subjects: [1], writer: "writer 1", guardMs: 1 }));
    fc.assert(
      fc.property(fc.nat(), fc.nat(255), (at, byte) => {
        const head = Buffer.from(clock.head);
        head[at % head.length] = byte;
        const log = Buffer.from(clock.log);
        log[at % log.length] = byte;
        readHead(head);
        readLog(log);
        append({ head, log }, hard(1));
      }),
    );
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void readRecords(Buffer.from(bytes))));
  });
});
