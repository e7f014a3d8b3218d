/** The sections of CHANGELOG.md, and what changesets add to them. */

const KINDS = ["Added", "Changed", "Fixed"];

/**
 * Returns what a changeset adds to the changelog: the section and the text of a list item. A changeset is the file that
 * `npm run changeset` writes; its text begins with "Added: ", "Changed: " or "Fixed: ".
 */
export function noteOf(changeset) {
  const text = changeset.replace(/^---\n[\s\S]*?\n---\n/, "").trim();
  const [, kind, note] = /^(\w+): ([\s\S]+)$/.exec(text) ?? [];
  if (!KINDS.includes(kind))
    throw new Error(
      `changeset: expected text that begins with "${KINDS.join(': ", "')}: ", got "${text.slice(0, 60)}"`,
    );
  return { kind, item: `- ${note.replaceAll(/\n(?=.)/g, "\n  ")}` };
}

/** Returns the versions that have a heading, newest first. */
export const versionsIn = (changelog) =>
  [...changelog.matchAll(/^## (\d\S*) - \d{4}-\d\d-\d\d$/gm)].map(([, version]) => version);

/** Returns the text between the heading "Unreleased" and the next version. */
export function unreleasedIn(changelog) {
  const [, after] = changelog.split(/^## Unreleased\n/m);
  if (after === undefined) throw new Error('CHANGELOG.md: expected the heading "## Unreleased"');
  return after.split(/^## /m)[0].trim();
}

/** Returns the changelog in which what is unreleased, with these notes, is the release `version` of the day `date`. */
export function withRelease(changelog, { version, date, notes }) {
  const unreleased = unreleasedIn(changelog);
  const blocks = unreleased.split(/^(?=### )/m);
  const introduction = unreleased.startsWith("### ") ? "" : blocks[0];
  const sections = blocks.filter((block) => block.startsWith("### "));
  const texts = new Map(sections.map((section) => [/^### (.*)/.exec(section)[1], section.trim()]));
  for (const { kind, item } of notes) {
    const section = texts.get(kind);
    texts.set(kind, section === undefined ? `### ${kind}\n\n${item}` : `${section}\n${item}`);
  }
  const ordered = [
    ...KINDS.filter((kind) => texts.has(kind)),
    ...[...texts.keys()].filter((kind) => !KINDS.includes(kind)),
  ];
  const parts = [introduction.trim(), ...ordered.map((kind) => texts.get(kind))].filter((part) => part !== "");
  if (parts.length === 0)
    throw new Error(`CHANGELOG.md: expected something to release in ${version}, got an empty Unreleased`);
  const [before, after] = changelog.split(/^## Unreleased\n/m);
  const earlier = after
    .split(/^(?=## )/m)
    .slice(1)
    .join("");
  return `${before}## Unreleased\n\n## ${version} - ${date}\n\n${parts.join("\n\n")}\n${earlier === "" ? "" : `\n${earlier}`}`;
}
