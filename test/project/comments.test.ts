import { expect, it } from "vitest";
import { filesIn, read } from "./source.js";

/** A line that is a comment, but for rows of a table, and what is said to a tool. */
const COMMENT = /^\s*(?:\*(?! \|)|\/\/(?! biome-ignore)|\/\*)/;

it("comments of the source have at most 100 columns", () => {
  const packages = filesIn("packages").filter((file) => /^packages\/[\w-]+\/src\//.test(file));
  const files = [...filesIn("src"), ...packages].filter((file) => !file.includes("/generated/"));
  const long = files.flatMap((file) =>
    read(file)
      .split("\n")
      .filter((line) => line.length > 100 && COMMENT.test(line))
      .map((line) => `${file}: ${line}`),
  );
  expect(files.length).toBeGreaterThan(200);
  expect(long).toEqual([]);
});
