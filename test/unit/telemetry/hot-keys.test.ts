import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HotKeys, type HotKeysSummary } from "../../../src/core/telemetry/hot-keys.js";

/** Streams in which some keys are much more frequent than others. */
const streams = fc.array(
  fc.array(
    fc.tuple(fc.nat(8), fc.nat(8)).map(([a, b]) => a * b),
    { maxLength: 200 },
  ),
  { minLength: 1, maxLength: 6 },
);

function summaryOf(stream: readonly number[], size: number): HotKeys {
  const summary = new HotKeys(size);
  for (const key of stream) summary.add("Query.movie", String(key));
  return summary;
}

function countsOf(stream: readonly number[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of stream) counts.set(String(key), (counts.get(String(key)) ?? 0) + 1);
  return counts;
}

/** Checks what a summary says against the true counts. */
function expectBounds({ reads, floor, keys }: HotKeysSummary, stream: readonly number[], size: number): void {
  const counts = countsOf(stream);
  expect(reads).toBe(stream.length);
  expect(floor * (size + 1)).toBeLessThanOrEqual(reads);
  for (const { digest, reads: count, maxError } of keys) {
    const truth = counts.get(digest) ?? 0;
    expect(count).toBeGreaterThanOrEqual(truth);
    expect(count - maxError).toBeLessThanOrEqual(truth);
    expect(maxError).toBeLessThanOrEqual(floor);
  }
  const listed = new Set(keys.map(({ digest }) => digest));
  for (const [digest, truth] of counts) if (!listed.has(digest)) expect(truth).toBeLessThanOrEqual(floor);
}

describe("hot keys", () => {
  it("are counted within the error of each, which is at most the share of reads that their number allows", () => {
    fc.assert(
      fc.property(streams, fc.integer({ min: 1, max: 12 }), ([stream = []], size) => {
        expectBounds(summaryOf(stream, size), stream, size);
      }),
    );
  });

  it("keep their bounds when the summaries of several processes, cut to the top, are merged in any order", () => {
    fc.assert(
      fc.property(streams, fc.integer({ min: 1, max: 12 }), (all, size) => {
        const sum = new HotKeys(Number.POSITIVE_INFINITY);
        for (const stream of all) sum.merge(summaryOf(stream, 2 * size).top(size));
        expectBounds(sum, all.flat(), size);
        const other = new HotKeys(Number.POSITIVE_INFINITY);
        for (const stream of [...all].reverse()) other.merge(summaryOf(stream, 2 * size).top(size));
        expect(new Map(other.keys.map((key) => [key.digest, key.reads]))).toEqual(
          new Map(sum.keys.map((key) => [key.digest, key.reads])),
        );
      }),
    );
  });

  it("keep their bounds when bounded summaries are merged, as the buckets of a process are", () => {
    fc.assert(
      fc.property(streams, fc.integer({ min: 1, max: 12 }), (all, size) => {
        const sum = new HotKeys(size);
        for (const stream of all) sum.merge(summaryOf(stream, size));
        expectBounds(sum, all.flat(), size);
      }),
    );
  });

  it("of one digest in two coordinates are two keys, and the input of a key is kept from any read", () => {
    const summary = new HotKeys(4);
    summary.add("A", "x");
    summary.add("A", "x", "input of A");
    summary.add("B", "x");
    expect(summary.keys).toMatchObject([
      { coordinate: "A", digest: "x", reads: 2, maxError: 0, input: "input of A" },
      { coordinate: "B", digest: "x", reads: 1, maxError: 0, input: undefined },
    ]);
  });
});
