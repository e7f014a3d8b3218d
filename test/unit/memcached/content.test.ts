import { expect, it } from "vitest";
import { type Content, readContent, writeContent } from "../../../src/memcached/content.js";
import { appendToClock, writeRecord } from "../../../src/store/clock-log.js";

it("a version of the control record is read as what it is, with any first byte", () => {
  const dropAt = 1_000;
  for (let first = 0; first < 256; first++) {
    const version = String.fromCharCode(first, 1).padEnd(16, "v");
    const content = { kind: "version", version, dropAt } as const;
    expect(readContent(writeContent(content), 0)).toEqual(content);
  }
});

it("a clock and its head are read as what they are", () => {
  const clock = appendToClock(undefined, [writeRecord({ kind: "hard", subjects: [1, 2] })], 1_000, 1_000);
  const dropAt = Number.MAX_SAFE_INTEGER;
  for (const content of [
    { kind: "clock", clock, dropAt },
    { kind: "head", head: clock.head, dropAt },
  ] satisfies Content[])
    expect(readContent(writeContent(content), 0)).toEqual(content);
});
