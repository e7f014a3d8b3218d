import { describe, expect, it } from "vitest";
import { noteOf, unreleasedIn, versionsIn, withRelease } from "../../scripts/changelog.mjs";
import { filesIn, read } from "./source.js";

const changeset = (text: string): string => `---\n"graphql-cached": minor\n---\n\n${text}\n`;
const before = `# Changelog

## Unreleased

### Fixed

- A fault.

## 0.1.0 - 2026-12-01

The first release.
`;

describe("the changelog", () => {
  it("gets the text of changesets and what is unreleased under the heading of a release", () => {
    const notes = [noteOf(changeset("Fixed: another fault,\nin two lines.")), noteOf(changeset("Added: a store."))];
    expect(withRelease(before, { version: "0.2.0", date: "2027-01-02", notes })).toBe(`# Changelog

## Unreleased

## 0.2.0 - 2027-01-02

### Added

- a store.

### Fixed

- A fault.
- another fault,
  in two lines.

## 0.1.0 - 2026-12-01

The first release.
`);
  });

  it("keeps what a first release says of itself", () => {
    const first = "# Changelog\n\n## Unreleased\n\nThe first release.\n\n### Added\n\nFields\n\n- `@cached`.\n";
    expect(withRelease(first, { version: "0.1.0", date: "2026-12-01", notes: [] })).toBe(
      first.replace("## Unreleased\n", "## Unreleased\n\n## 0.1.0 - 2026-12-01\n"),
    );
  });

  it("refuses a release without content, and a changeset that does not say what kind of change it is", () => {
    const empty = "# Changelog\n\n## Unreleased\n";
    expect(() => withRelease(empty, { version: "0.2.0", date: "2027-01-02", notes: [] })).toThrow(/empty Unreleased/);
    expect(() => noteOf(changeset("A store."))).toThrow(/begins with "Added: ", "Changed: ", "Fixed: "/);
  });

  it("has a heading of what is unreleased, and versions that differ", () => {
    const changelog = read("CHANGELOG.md");
    expect(unreleasedIn(changelog)).toBeTypeOf("string");
    expect(new Set(versionsIn(changelog)).size).toBe(versionsIn(changelog).length);
    expect(versionsIn(withRelease(before, { version: "0.2.0", date: "2027-01-02", notes: [] }))).toEqual([
      "0.2.0",
      "0.1.0",
    ]);
  });

  it("says what is released, or will be, in at most 60 lines for each version", () => {
    for (const section of read("CHANGELOG.md")
      .split(/^(?=## )/m)
      .slice(1))
      expect(section.trim().split("\n").length, section.split("\n")[0]).toBeLessThanOrEqual(60);
  });

  it("can take every changeset that waits for a release", () => {
    const waiting = filesIn(".changeset", ".md").filter((path) => !path.endsWith("README.md"));
    for (const path of waiting) expect(noteOf(read(path)).kind).toMatch(/^(Added|Changed|Fixed)$/);
    expect(filesIn(".changeset", ".md")).toContain(".changeset/README.md");
  });
});
