import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { TagSignatures } from "../../../src/tier/signature.js";

/** Made anew each time, so that nothing is remembered. */
const tagSignature: TagSignatures["of"] = (...args) => new TagSignatures().of(...args);
const SCOPE = "s".repeat(8);
/** A version of a tag, different for every number, and nearly the same for numbers that are close. */
const versionOf = (number: number): string => {
  const bytes = Buffer.alloc(16);
  bytes.writeDoubleBE(number, 8);
  return bytes.toString("latin1");
};
const bitsOf = (signature: string): number[] =>
  [...signature].flatMap((char) => Array.from({ length: 8 }, (_, bit) => (char.charCodeAt(0) >> bit) & 1));

describe("the signature of tags", () => {
  it("is the same in every process and release, so that they serve each other's entries", () => {
    const signature = tagSignature(SCOPE, ["gc:#{a}one", "gc:#{b}two"], [versionOf(1), versionOf(2)]);
    expect(Buffer.from(signature, "latin1").toString("hex")).toBe("d49de4052d155d41");
  });

  it("is the same whatever was remembered of the tags and of other versions of them", () => {
    const signatures = new TagSignatures();
    for (let round = 0; round < 3; round++)
      for (let number = 0; number < 30; number++) {
        const names = Array.from({ length: number % 4 }, (_, nth) => `gc:#{a}${(number + nth) % 5}`);
        const versions = names.map(
          (_, nth) => versionOf((number * 7 + nth) % 3) + (number % 2 === 0 ? "" : versionOf(9)),
        );
        for (const scope of [SCOPE, "other..!"])
          expect(signatures.of(scope, names, versions)).toBe(tagSignature(scope, names, versions));
      }
  });

  it("changes with the scope, with each name, each version, their order and their number", () => {
    const [one, two] = [versionOf(1), versionOf(2)];
    const signatures = [
      tagSignature(SCOPE, ["a"], [one]),
      tagSignature("other..!", ["a"], [one]),
      tagSignature(SCOPE, ["b"], [one]),
      tagSignature(SCOPE, ["a"], [two]),
      tagSignature(SCOPE, ["a", "b"], [one, one]),
      tagSignature(SCOPE, ["a", "b"], [one, two]),
      tagSignature(SCOPE, ["b", "a"], [one, two]),
      tagSignature(SCOPE, ["a", "b"], [two, one]),
      tagSignature(SCOPE, ["ab", ""], [one, two]),
      tagSignature(SCOPE, ["", "ab"], [one, two]),
    ];
    expect(signatures.map(({ length }) => length)).toEqual(signatures.map(() => 8));
    expect(new Set(signatures).size).toBe(signatures.length);
  });

  it("does not change with a soft invalidation, which leaves the value to be served", () => {
    const soft = versionOf(1) + versionOf(2);
    expect(tagSignature(SCOPE, ["a"], [soft])).toBe(tagSignature(SCOPE, ["a"], [versionOf(1)]));
  });

  it("has no collision in either half among 20,000 versions beyond those that chance explains", () => {
    const signatures = Array.from({ length: 20_000 }, (_, number) => tagSignature(SCOPE, ["a"], [versionOf(number)]));
    // 0.05 are expected in 32 bits; five or more would happen once in 10^9 runs.
    for (const half of [(text: string) => text.slice(0, 4), (text: string) => text.slice(4)])
      expect(new Set(signatures.map(half)).size).toBeGreaterThan(signatures.length - 5);
    expect(new Set(signatures).size).toBe(signatures.length);
  });

  it("changes about half of its bits with any bit of a version", () => {
    const bytes = createHash("sha256").update("version").digest().subarray(0, 16);
    const before = bitsOf(tagSignature(SCOPE, ["gc:#{a}one"], [bytes.toString("latin1")]));
    for (let bit = 0; bit < 128; bit++) {
      const changed = Buffer.from(bytes);
      changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7));
      const after = bitsOf(tagSignature(SCOPE, ["gc:#{a}one"], [changed.toString("latin1")]));
      const flipped = after.filter((value, index) => value !== before[index]).length;
      expect(flipped).toBeGreaterThan(10);
      expect(flipped).toBeLessThan(54);
    }
  });
});
