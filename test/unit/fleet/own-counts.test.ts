import { deflateRawSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Channel } from "../../../src/core/telemetry/channel.js";
import { Counters } from "../../../src/core/telemetry/counters.js";
import { OwnCounts } from "../../../src/tools/fleet/own-counts.js";
import { readCounted, writeCounted } from "../../../src/tools/fleet/report-format.js";
import { bucketsIn, isIn, keepMsOf, partOf, WINDOWS } from "../../../src/tools/fleet/windows.js";

const START_AT = 1_700_000_000_123;
const KEY = { digest: "x", input: "secret" };

/** What happens after a pause: some reads, and perhaps a report. */
interface Step {
  readonly pauseMs: number;
  readonly reads: number;
  readonly isReport: boolean;
}

/** Pauses that often end at the border of a bucket. At least 1 ms, so that no read has the time of the report before it. */
const pauses = fc.oneof(
  fc.integer({ min: 1, max: 6_000 }),
  fc.constantFrom(1, 5_000, 9_877, 10_000, 60_000, 300_000),
  fc.integer({ min: 1, max: 700_000 }),
);
const steps = fc.array(fc.record({ pauseMs: pauses, reads: fc.nat(3), isReport: fc.boolean() }), { maxLength: 60 });

function createRecord() {
  const counters = new Counters();
  const channel = new Channel(counters);
  return { channel, record: new OwnCounts(counters, channel, START_AT) };
}

const readsIn = (counted: readonly { readonly tallies: ReadonlyMap<string, Readonly<Record<string, number>>> }[]) =>
  counted.reduce((sum, { tallies }) => sum + (tallies.get("Film")?.reads ?? 0), 0);

/** Lets the steps happen. Returns the time and when each read was. */
function happen(
  all: readonly Step[],
  channel: Channel,
  roll: (now: number) => void,
): { now: number; readAt: number[] } {
  let now = START_AT;
  const readAt: number[] = [];
  for (const { pauseMs, reads, isReport } of all) {
    now += pauseMs;
    for (let nth = 0; nth < reads; nth++) {
      channel.served("Film", KEY, "hit");
      readAt.push(now);
    }
    if (isReport) roll(now);
  }
  return { now, readAt };
}

describe("the windows of a process", () => {
  it("have exactly the reads since the time that they say, which is never later than the window begins", () => {
    fc.assert(
      fc.property(steps, (all) => {
        const { channel, record } = createRecord();
        const { now, readAt } = happen(all, channel, (at) => record.roll(at));
        record.roll(now);
        for (const name of ["ONE_MINUTE", "TEN_MINUTES", "ONE_HOUR"] as const) {
          const counted = record.in(name);
          const sinceAt = Math.min(now - WINDOWS[name].windowMs, ...counted.map(({ fromAt }) => fromAt));
          expect(readsIn(counted)).toBe(readAt.filter((at) => at > sinceAt || sinceAt === START_AT).length);
        }
        expect(readsIn(record.in("SINCE_START"))).toBe(readAt.length);
      }),
    );
  });

  it("begin no earlier than by a bucket and an interval, if the process reports every five seconds", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(2), { maxLength: 900 }), fc.nat(9_999), (reads, offset) => {
        const { channel, record } = createRecord();
        let now = START_AT + offset;
        for (const count of reads) {
          for (let nth = 0; nth < count; nth++) channel.served("Film", KEY, "hit");
          now += 5_000;
          record.roll(now);
        }
        for (const name of ["ONE_MINUTE", "TEN_MINUTES", "ONE_HOUR"] as const)
          for (const { fromAt } of record.in(name))
            if (fromAt !== START_AT)
              expect(fromAt).toBeGreaterThanOrEqual(now - WINDOWS[name].windowMs - WINDOWS[name].bucketMs - 5_000);
      }),
    );
  });

  it("are the same for a process that reads its reports, whichever of them were written twice or late", () => {
    fc.assert(
      fc.property(steps, fc.infiniteStream(fc.boolean()), (all, chances) => {
        const { channel, record } = createRecord();
        const written = new Map<string, { bytes: Buffer; dropAt: number }>();
        const write = (now: number): void => {
          for (const { name, counted, keepMs, retry } of record.takeNew(true)) {
            if (chances.next().value === true) retry();
            else written.set(name, { bytes: writeCounted({ ...counted, hot: undefined }), dropAt: now + keepMs });
          }
        };
        const { now } = happen(all, channel, (at) => {
          record.roll(at);
          write(at);
        });
        record.roll(now);
        // The last report succeeds.
        for (const { name, counted, keepMs } of record.takeNew(true))
          written.set(name, { bytes: writeCounted({ ...counted, hot: undefined }), dropAt: now + keepMs });
        for (const name of ["ONE_MINUTE", "TEN_MINUTES", "ONE_HOUR"] as const) {
          const window = WINDOWS[name];
          const read = bucketsIn(window, now).flatMap((bucket) => {
            const part = written.get(partOf(window, bucket));
            return part === undefined || part.dropAt <= now ? [] : (readCounted(part.bytes) ?? []);
          });
          const shown = read.filter(({ toAt }) => isIn(window, toAt, now));
          expect(readsIn(shown)).toBe(readsIn(record.in(name)));
          expect(read.length).toBeLessThanOrEqual((window.windowMs + keepMsOf(window)) / window.bucketMs);
        }
      }),
    );
  });

  it("are read from every bucket that can reach into them, also one that was numbered by the border before", () => {
    const counters = new Counters();
    const channel = new Channel(counters);
    const record = new OwnCounts(counters, channel, 9_000);
    channel.served("Film", KEY, "hit");
    record.roll(13_000);
    const [name] = record.takeNew(true).map((part) => part.name);
    expect(name).toBe(partOf(WINDOWS.ONE_MINUTE, 0));
    record.roll(72_999);
    expect(readsIn(record.in("ONE_MINUTE"))).toBe(1);
    expect(bucketsIn(WINDOWS.ONE_MINUTE, 72_999)).toContain(0);
  });

  it("keep what was counted before the store's clock was known", () => {
    const { channel, record } = createRecord();
    for (let nth = 1; nth <= 12; nth++) {
      channel.served("Film", KEY, "hit");
      record.roll(START_AT + 1_000 * nth);
    }
    expect(record.takeNew(false).map(({ name }) => name)).toEqual(["total"]);
    record.moveBy(-1_690_000_000_000);
    const names = record.takeNew(true).map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    record.roll(10_000_012_123);
    expect(readsIn(record.in("ONE_MINUTE"))).toBe(12);
  });
});

describe("reports", () => {
  it("have digests of hot keys, and no inputs", () => {
    const { channel, record } = createRecord();
    record.countHotKeys(true, START_AT);
    channel.served("Film", KEY, "hit");
    channel.publish({ name: "resolver.bypassed", coordinate: "Film", digest: "x", reason: "UNCACHEABLE" });
    record.roll(START_AT + 1_000);
    const [counted] = record.in("ONE_MINUTE");
    expect(counted?.hot?.keys.keys).toMatchObject([{ coordinate: "Film", digest: "x", reads: 2, input: "secret" }]);
    const hot = counted?.hot && { fromAt: counted.hot.fromAt, keys: counted.hot.keys.top(10) };
    const read = counted && readCounted(writeCounted({ ...counted, hot }));
    expect(read?.hot).toEqual({
      fromAt: START_AT,
      keys: { reads: 2, floor: 0, keys: [{ coordinate: "Film", digest: "x", reads: 2, maxError: 0 }] },
    });
  });

  it("of another format, and damaged ones, cannot be read", () => {
    expect(readCounted(undefined)).toBeUndefined();
    expect(readCounted(Buffer.from("nonsense"))).toBeUndefined();
    const written = (content: object): Buffer => deflateRawSync(JSON.stringify(content));
    expect(readCounted(written({ format: 2, fromAt: 0, toAt: 1, tallies: [] }))).toBeUndefined();
    expect(readCounted(written({ format: 1, fromAt: 0, toAt: 1, tallies: 7 }))).toBeUndefined();
    expect(readCounted(written({ format: 1, fromAt: 0, toAt: 1, tallies: [] }))).toMatchObject({ toAt: 1 });
  });
});
