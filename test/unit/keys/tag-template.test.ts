import { describe, expect, it } from "vitest";
import { parsePath, readPath } from "../../../src/keys/path.js";
import { parseTagTemplate, type TagTemplate, writeTags } from "../../../src/keys/tag-template.js";

const tags = (text: string, roots: object) => writeTags(parseTagTemplate(text) as TagTemplate, roots);

describe("a path", () => {
  it("leads through objects and lists", () => {
    const result = { items: [{ id: 1 }, { id: null }, { id: 3 }] };
    expect(readPath(parsePath("$result.items[].id") ?? never(), { result })).toEqual([1, 3]);
    expect(readPath(parsePath("$args") ?? never(), { args: 7 })).toEqual([7]);
  });

  it("is none where it names a prototype, an unknown start or nothing", () => {
    for (const text of ["$args.__proto__", "$body.id", "args.id", "$args.", "$args.a-b", "$selection.id", ""])
      expect(parsePath(text)).toBeUndefined();
  });
});

describe("a tag", () => {
  it("is made of text and of what its paths lead to", () => {
    expect(tags("Movie", {})).toEqual(["Movie"]);
    expect(tags("Movie:{$args.id}:{$args.part}", { args: { id: 7, part: "a" } })).toEqual(["Movie:7:a"]);
    expect(tags("Movie:{$result[].id}", { result: [{ id: 1 }, { id: 2 }] })).toEqual(["Movie:1", "Movie:2"]);
  });

  it("is not made where a path leads nowhere, or to no plain value", () => {
    for (const id of [undefined, null, {}, [1], () => 1])
      expect(tags("Movie:{$args.id}", { args: { id } })).toEqual([]);
  });

  it("is known before the load unless it needs the result", () => {
    expect(parseTagTemplate("Movie:{$args.id}")?.needsResult).toBe(false);
    expect(parseTagTemplate("Movie:{$result.id}")?.needsResult).toBe(true);
    for (const text of ["", "{}", "{$body}", "a{b", "{$selection}"]) expect(parseTagTemplate(text)).toBeUndefined();
  });
});

function never(): never {
  throw new Error("a path was expected");
}
