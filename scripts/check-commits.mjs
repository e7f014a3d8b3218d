/**
 * Checks the subjects of commits, which begin with a module, such as "tier: release the lease when a store fails".
 *
 *   node scripts/check-commits.mjs                   the commits since the rule is checked
 *   node scripts/check-commits.mjs origin/main       the commits since a base, such as those of a pull request
 *   node scripts/check-commits.mjs --message FILE    one message, as the hook in .githooks does
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The last commit before the rule is checked. */
const SINCE = "4de382062cee92c080451941fd2be33944b8830a";
const MAX_CHARACTERS = 72;
/** Forms that cannot be a noun or an adjective, so that no good subject is refused: "test: changes of a schema" is one. */
const NOT_IMPERATIVE =
  /^(?:add(?:s|ed|ing)|fix(?:es|ing)|remov(?:es|ing)|renam(?:es|ing)|mak(?:es|ing)|improv(?:es|ing)|allows)$/i;

/** Returns what is wrong with the subject of a commit. */
export function mistakesIn(subject) {
  // What git itself writes for reverts, and for commits that a rebase will fold into another one.
  if (/^(?:Revert|Reapply) "|^(?:fixup|squash|amend)! /.test(subject)) return [];
  const [, text] = /^[a-z][a-z0-9-]*(?:(?:\/|, )[a-z][a-z0-9-]*)*: (\S.*)$/.exec(subject) ?? [];
  const [verb] = text?.split(" ") ?? [];
  return [
    text === undefined && 'expected a module first, as in "tier: release the lease"',
    subject.length > MAX_CHARACTERS && `expected at most ${MAX_CHARACTERS} characters, got ${subject.length}`,
    subject.endsWith(".") && "expected no full stop at the end",
    verb !== undefined && NOT_IMPERATIVE.test(verb) && `expected the imperative, got "${verb}"`,
  ].filter(Boolean);
}

/** Returns the subjects of the commits after `base`, without merges. */
function subjectsSince(base) {
  const args = ["log", "--no-merges", "--format=%h %s", `${base}..HEAD`];
  const { status, stdout, stderr } = spawnSync("git", args, { cwd: ROOT, encoding: "utf8" });
  if (status !== 0) throw new Error(`git ${args.join(" ")} exited with ${status}; is the history complete?\n${stderr}`);
  const lines = stdout.split("\n").filter((line) => line !== "");
  return lines.map((line) => ({ commit: `${line.split(" ")[0]} `, subject: line.slice(line.indexOf(" ") + 1) }));
}

/** Returns the subject of the message in a file: its first line that is neither empty nor a comment. */
function subjectIn(file) {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.find((line) => line.trim() !== "" && !line.startsWith("#")) ?? "";
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [argument = SINCE, file] = process.argv.slice(2);
  const subjects = argument === "--message" ? [{ commit: "", subject: subjectIn(file) }] : subjectsSince(argument);
  for (const { commit, subject } of subjects) {
    if (/^Merge /.test(subject)) continue;
    for (const mistake of mistakesIn(subject)) {
      console.error(`${commit}"${subject}": ${mistake}`);
      process.exitCode = 1;
    }
  }
  if (process.exitCode === undefined && argument !== "--message")
    console.log(`checked ${subjects.length} commit subjects`);
}
