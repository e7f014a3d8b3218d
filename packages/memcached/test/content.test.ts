import { appendToClock, writeRecord } from "graphql-cached/store";
import { expect, it } from "vitest";
import { type Content, readContent, writeContent } from "../src/content.js";

it("a clock and its head are read as what they are", () => {
  const clock = appendToClock(undefined, [writeRecord({ kind: "hard", subjects: [1, 2] })], 1_000, 1_000);
  for (const content of [
    { kind: "clock", clock },
    { kind: "head", head: clock.head },
  ] satisfies Content[])
    expect(readContent(writeContent(content), 0)).toEqual(content);
});
