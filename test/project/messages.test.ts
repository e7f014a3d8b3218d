import { expect, it } from "vitest";
import { OPTION_GROUPS } from "../../src/option-checks.js";
import { filesIn, read } from "./source.js";

it("names options in messages with their group, as they are written", () => {
  const names = Object.values(OPTION_GROUPS).flatMap((group) => Object.keys(group));
  const bare = new RegExp(`\`(?:${names.join("|")})\\\\?\``);
  const lines = filesIn("src").flatMap((path) =>
    path.startsWith("src/generated/")
      ? []
      : read(path)
          .split("\n")
          .filter((line) => bare.test(line) && !/^\s*(?:\/?\*|\/\/)/.test(line))
          .map((line) => `${path}: ${line.trim()}`),
  );
  expect(lines).toEqual([]);
});
