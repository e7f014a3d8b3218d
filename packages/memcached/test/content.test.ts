import { appendToClock, writeRecord } from "graphql-cached/store";
import { expect, it } from "vitest";
import { type Content, readContent, writeContent } from "../src/content.js";

it("a clock, its head and settings are read as what they are", () => {
  const clock = appendToClock(undefined, [writeRecord({ kind: "hard", subjects: [1, 2] })], 1_000, 1_000);
  for (const content of [
    { kind: "clock", clock },
    { kind: "head", head: clock.head },
    { kind: "settings", content: Buffer.from('{"modes":{}}') },
    { kind: "settings", content: Buffer.alloc(0) },
  ] satisfies Content[])
    expect(readContent(writeContent(content), 0)).toEqual(content);
});
