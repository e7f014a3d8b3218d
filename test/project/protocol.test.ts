import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { transitions } from "../../src/core/store/transitions.js";
import { filesIn, read, tableUnder } from "./source.js";

/** The rows of the state table, each with the functions and files that implement it. */
const rows = tableUnder("State table", read("PROTOCOL.md")).map((cells) => ({
  number: Number(cells[0]),
  implementedBy: [...(cells.at(-1) ?? "").matchAll(/`([^`]+)`/g)].map(([, name]) => name as string),
}));
const numbers = rows.map(({ number }) => number);

/** Matches a list of row numbers such as `rows 11 and 17 to 22`. */
const CITATION = /\b(?:rows?|transitions?) (\d+(?:(?:,? and |, | to )\d+)*)/gi;

/** Returns the rows that a file cites, also where a comment breaks the line inside a citation. */
function citedRows(file: string): number[] {
  const text = read(file).replaceAll(/\n\s*(?:\*(?!\/)|\/\/)?[^\S\n]*/g, " ");
  return [...text.matchAll(CITATION)].flatMap(([, list = ""]) =>
    list.split(/,? and |, /).flatMap((range) => {
      const [first = 0, last = first] = range.split(" to ").map(Number);
      return Array.from({ length: last - first + 1 }, (_, index) => first + index);
    }),
  );
}

describe("the state table in PROTOCOL.md", () => {
  it("has the rows 1 to 18, which comments cite by number", () => {
    expect(numbers).toEqual(Array.from({ length: 18 }, (_, index) => index + 1));
  });

  it("has every row that a source file cites", () => {
    const citations = [...filesIn("src"), ...filesIn("packages"), ...filesIn("test")]
      .filter((file) => file !== "test/project/protocol.test.ts")
      .flatMap((file) => citedRows(file).map((number) => ({ file, number })));
    expect(citations.length).toBeGreaterThan(0);
    for (const { file, number } of citations) expect(numbers, `${file} cites row ${number}`).toContain(number);
  });

  it("names functions and files that exist for every row", () => {
    const existing = [
      ...Object.keys(transitions),
      ...[...filesIn("src"), ...filesIn("packages")].map((file) => basename(file)),
    ];
    for (const { number, implementedBy } of rows) {
      expect(implementedBy, `row ${number}`).not.toEqual([]);
      for (const name of implementedBy) expect(existing, `row ${number}`).toContain(name);
    }
  });

  it("names every transition function", () => {
    const named = new Set(rows.flatMap(({ implementedBy }) => implementedBy));
    expect([...named]).toEqual(expect.arrayContaining(Object.keys(transitions)));
  });

  it("names the script of every row that the script cites, and of no other row", () => {
    for (const file of filesIn("src/stores/redis/scripts")) {
      const own = rows.filter(({ implementedBy }) => implementedBy.includes(basename(file)));
      expect(
        [...new Set(citedRows(file))].sort((a, b) => a - b),
        file,
      ).toEqual(own.map(({ number }) => number));
    }
  });
});

it("The entry layout in PROTOCOL.md has the offsets and lengths that entry-layout.ts documents", () => {
  const places = (table: readonly string[][]): string[] =>
    table.map(([, offset, length]) => `${offset}: ${length?.replace("…", "")}`);
  const documented = read("src/core/store/entry-layout.ts")
    .replaceAll(/^ \* /gm, "")
    .replace("| state |", "# Layout\n| state |");
  const inCode = places(tableUnder("Layout", documented));
  expect(inCode.length).toBeGreaterThan(10);
  expect(places(tableUnder("Entry layout", read("PROTOCOL.md")))).toEqual(inCode);
});
