import { describe, expect, it } from "vitest";
import { StoredText } from "../../../src/core/codec/packing.js";
import { ValueSize } from "../../../src/core/tier/memory/value-size.js";

/** The bytes of heap that values take, as measured with Node.js 22 (`process.memoryUsage` after `gc`), without what the memory adds. */
const MEASURED: Readonly<Record<string, readonly [value: unknown, bytes: number]>> = {
  "a text of 1,000": ["x".repeat(1_000), 1_016],
  "a text of 1,000 that is not Latin-1": [`日${"x".repeat(999)}`, 2_016],
  "an object of 5 properties": [{ id: "1", title: "x".repeat(20), year: 1_999, rating: 1 / 7, genre: "drama" }, 145],
  "a list of 20 small numbers": [Array.from({ length: 20 }, (_, nth) => nth), 209],
  "a list of 20 fractions": [Array.from({ length: 20 }, (_, nth) => (nth + 1) / 7), 482],
  "a list of 100 ids": [Array.from({ length: 100 }, (_, nth) => `id-${1_000_000 + nth}`), 4_017],
  "an object that is a table of 2,000 keys": [
    Object.fromEntries(Array.from({ length: 2_000 }, (_, nth) => [`id-${1_000_000 + nth}`, 1])),
    162_700,
  ],
  "a Date": [new Date(0), 112],
  "a Map of 50 numbers": [new Map(Array.from({ length: 50 }, (_, nth) => [nth, nth])), 1_864],
  "a Set of 50 numbers": [new Set(Array.from({ length: 50 }, (_, nth) => nth)), 1_352],
  "a Buffer of 10,000": [Buffer.alloc(10_000), 10_179],
};

/** The second of two values of a shape: the first tells the names of its properties. */
function estimated(value: unknown): number {
  const size = new ValueSize();
  size.of(value, 0);
  return size.of(value, 0);
}

describe("the estimated memory of a value", () => {
  it.each(Object.entries(MEASURED))("is within 0.7 to 1.3 of what was measured for %s", (_, [value, bytes]) => {
    expect(estimated(value) / bytes).toBeGreaterThan(0.7);
    expect(estimated(value) / bytes).toBeLessThan(1.3);
  });

  it("is that of a stored text, and of the data that it may be parsed to", () => {
    const items = Array.from({ length: 100 }, (_, nth) => ({
      id: `film-${nth}`,
      title: `The film ${nth}`,
      year: 1_999,
      rating: 6.5,
    }));
    const text = JSON.stringify(items);
    const bytes = estimated(text) + estimated(items);
    expect(estimated(new StoredText(text)) / bytes).toBeGreaterThan(0.7);
    expect(estimated(new StoredText(text)) / bytes).toBeLessThan(1.3);
  });

  it("is that of all parts, and counts a part once that is there twice", () => {
    const part = { text: "x".repeat(100) };
    const [one, two] = [estimated([part]), estimated([part, { ...part }])];
    expect(two - one).toBe(estimated(part) + 8);
    expect(estimated([part, part])).toBe(one + 8);
    const cyclic: unknown[] = [];
    cyclic.push(cyclic, new Map<unknown, unknown>([[cyclic, cyclic]]));
    expect(estimated(cyclic)).toBeLessThan(500);
  });

  it("is higher for an object with names that no other value has", () => {
    const size = new ValueSize();
    const first = size.of({ first: 1, second: 2 }, 0);
    expect(size.of({ first: 1, second: 2 }, 0)).toBe(40);
    expect(first).toBeGreaterThan(240);
    // Names are forgotten at some time, as are very long ones.
    for (let nth = 0; nth < 6_000; nth++) size.of({ [`n${nth}`]: 1 }, 0);
    expect(size.of({ first: 1, second: 2 }, 0)).toBe(first);
    const long = { ["x".repeat(200)]: 1 };
    expect(size.of(long, 0)).toBe(size.of(long, 0));
    expect(size.of(long, 0)).toBeGreaterThan(300);
  });

  it("is at least the encoded size if there are instances of classes, in which it does not look", () => {
    class Money {
      readonly registry = Array.from({ length: 1_000 }, () => "x".repeat(1_000));
      get broken(): never {
        throw new Error("broken");
      }
    }
    const money = Object.defineProperty(new Money(), "alsoBroken", {
      enumerable: true,
      get: () => {
        throw new Error("broken");
      },
    });
    expect(new ValueSize().of([money, money], 5_000)).toBe(5_000);
    expect(new ValueSize().of([money, "x".repeat(10_000)], 5_000)).toBeLessThan(11_000);
  });

  it("is nothing for what has a place in its parent only", () => {
    for (const value of [null, undefined, true, 7, -7, "", "x"]) expect(estimated(value)).toBe(0);
    expect([estimated(0.5), estimated(2 ** 31), estimated(7n)]).toEqual([16, 16, 32]);
  });
});
