import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { mistakesIn } from "../../scripts/check-commits.mjs";
import { ROOT } from "./source.js";

describe("the subject of a commit", () => {
  it.each([
    "tier: release the lease when a store fails",
    "tier, redis: send one command less",
    "src/redis: name the scripts like their files",
    "test: changes of a schema reach its entries",
    'Revert "tier: release the lease when a store fails"',
  ])("may be: %s", (subject) => {
    expect(mistakesIn(subject)).toEqual([]);
  });

  it.each([
    ["Release the lease", 'expected a module first, as in "tier: release the lease"'],
    ["tier:release the lease", 'expected a module first, as in "tier: release the lease"'],
    ["tier: release the lease.", "expected no full stop at the end"],
    ["tier: adds a lease", 'expected the imperative, got "adds"'],
    [`tier: ${"a".repeat(67)}`, "expected at most 72 characters, got 73"],
  ])("may not be: %s", (subject, mistake) => {
    expect(mistakesIn(subject)).toEqual([mistake]);
  });

  it("is checked by the hook, which ignores comments", () => {
    const folder = mkdtempSync(join(tmpdir(), "graphql-cached-commit-"));
    try {
      const check = (message: string): number | null => {
        writeFileSync(join(folder, "message"), message);
        return spawnSync(join(ROOT, ".githooks/commit-msg"), [join(folder, "message")], { cwd: ROOT }).status;
      };
      expect(check("# Please enter the message.\n\ntier: release the lease\n\nA body. It has sentences.\n")).toBe(0);
      expect(check("Release the lease\n")).toBe(1);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
