import { describe, expect, it } from "vitest";
import { parsePath, readPath } from "../../../src/core/keys/path.js";
import { parseTagTemplate, type TagTemplate, writeTags } from "../../../src/core/keys/tag-template.js";

const tagsOf = (text: string, roots: object) =>
  writeTags(parseTagTemplate(text) as TagTemplate, roots, () => undefined);

describe("a path", () => {
  it("reads through objects and lists", () => {
    const result = { items: [{ id: 1 }, { id: null }, { id: 3 }] };
    expect(readPath(parsePath("$result.items[].id") ?? noPath(), { result })).toEqual([1, 3]);
    expect(readPath(parsePath("$args") ?? noPath(), { args: 7 })).toEqual([7]);
  });

  it("is rejected if it is malformed, has an unknown root or names a prototype", () => {
    for (const text of ["$args.__proto__", "$body.id", "args.id", "$args.", "$args.a-b", "$selection.id", ""])
      expect(parsePath(text)).toBeUndefined();
  });
});

describe("a tag template", () => {
  it("combines text with the values at its paths", () => {
    expect(tagsOf("Movie", {})).toEqual(["Movie"]);
    expect(tagsOf("Movie:{$args.id}:{$args.part}", { args: { id: 7, part: "a" } })).toEqual(["Movie:7:a"]);
    expect(tagsOf("Movie:{$result[].id}", { result: [{ id: 1 }, { id: 2 }] })).toEqual(["Movie:1", "Movie:2"]);
  });

  it("yields no tag if a path has no value or leads to an object", () => {
    for (const id of [undefined, null, {}, [1], () => 1])
      expect(tagsOf("Movie:{$args.id}", { args: { id } })).toEqual([]);
  });

  it("needs the result only if it contains $result, and is rejected if it is malformed", () => {
    expect(parseTagTemplate("Movie:{$args.id}")?.needsResult).toBe(false);
    expect(parseTagTemplate("Movie:{$result.id}")?.needsResult).toBe(true);
    for (const text of ["", "{}", "{$body}", "a{b", "{$selection}"]) expect(parseTagTemplate(text)).toBeUndefined();
  });
});

function noPath(): never {
  throw new Error("expected a path");
}
