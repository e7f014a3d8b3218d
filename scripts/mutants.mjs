/**
 * Mutation tests: each mutant breaks one line that a promise rests on. Its tests must fail.
 * A mutant whose text is no longer found is reported as an error, so that the list stays current.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** What each mutant breaks, where, and the tests that must notice. */
const MUTANTS = [
  {
    breaks: "a late store is accepted (Redis)",
    file: "src/redis/scripts/store-values.ts",
    from: "entry.gen ~= ARGV[at]",
    to: "false",
    tests: ["test/conformance", "test/redis/differential.test.ts"],
  },
  {
    breaks: "a late store is accepted (state functions)",
    file: "src/store/transitions.ts",
    from: ".gen !== request.gen",
    to: ".gen === undefined",
    tests: ["test/conformance", "test/behaviour/invalidate-during-load.test.ts"],
  },
  {
    breaks: "an entry with other tag versions is served",
    file: "src/tier/freshness.ts",
    from: "entry.signature !== signature",
    to: "entry.signature === undefined",
    tests: ["test/unit/tier/freshness.test.ts", "test/behaviour/invalidate-during-load.test.ts"],
  },
  {
    breaks: "a load of another key is joined",
    file: "src/tier/load-sharing.ts",
    from: ".input === key.input",
    to: ".input !== undefined",
    tests: ["test/leaks"],
  },
  {
    breaks: "PRIVATE values are cached without an identity",
    file: "src/directive/cached-resolver.ts",
    from: "if (isPrivate && identity === undefined)",
    to: "if (identity === null)",
    tests: ["test/behaviour/private-scope.test.ts", "test/leaks"],
  },
  {
    breaks: "another process cannot take over an expired lease (Redis)",
    file: "src/redis/scripts/acquire.ts",
    from: "elseif isActive and entry.token ~= token then",
    to: "elseif entry.token ~= token then",
    tests: ["test/conformance"],
  },
  {
    breaks: "an expired lease request is granted",
    file: "src/redis/scripts/acquire.ts",
    from: "now > tonumber(notAfter)",
    to: "false",
    tests: ["test/redis/expired-request.test.ts"],
  },
  {
    breaks: "invalidations of tags are not logged (Redis)",
    file: "src/redis/scripts/check-log.ts",
    from: "if score and tonumber(score) > tonumber(at) then return 0 end",
    to: "",
    tests: ["test/conformance"],
  },
  {
    breaks: "a wake-up message of another lease chain is used",
    file: "src/tier/miss-handler.ts",
    from: "woken.gen !== gen",
    to: "false",
    tests: ["test/behaviour/late-wake.test.ts"],
  },
  {
    breaks: "the version of a tag comes back when its invalidation is sent again (Redis)",
    file: "src/redis/define-script.ts",
    from: "return struct.pack('>I8', at) .. callerId",
    to: "return struct.pack('>I8', 1) .. callerId",
    tests: ["test/redis/resent-commands.test.ts", "test/redis/differential.test.ts"],
  },
  {
    breaks: "the invalidation log does not say up to when it has forgotten (Redis)",
    file: "src/redis/scripts/check-log.ts",
    from: "tonumber(forgottenAt) > tonumber(at)",
    to: "false",
    tests: ["test/redis/resent-commands.test.ts"],
  },
  {
    breaks: "a write is marked again after it has ended (Redis)",
    file: "src/redis/scripts/begin-write.ts",
    from: "redis.call('EXISTS', KEYS[i + 1]) == 0",
    to: "true",
    tests: ["test/redis/resent-commands.test.ts"],
  },
  {
    breaks: "releases share entries whatever the shape of their types",
    file: "src/keys/key.ts",
    from: "idOf([keyForm, release, shape,",
    to: "idOf([keyForm, release,",
    tests: ["test/behaviour/two-releases.test.ts", "test/unit/directive/variant.test.ts"],
  },
  {
    breaks: "the shape of a type does not contain the types below it",
    file: "src/directive/shape.ts",
    from: "...[...below].sort()",
    to: "",
    tests: ["test/behaviour/two-releases.test.ts", "test/unit/directive/variant.test.ts"],
  },
  {
    breaks: "a change of how arguments are spelled keeps the key form",
    file: "src/directive/key-template.ts",
    from: 'const counts = isRequiredArgument(input as never) || defaultValue !== undefined || named.name === "ID";',
    to: "const counts = false;",
    tests: ["test/unit/directive/variant.test.ts"],
  },
  {
    breaks: "a decrypted entry may belong to another key",
    file: "src/codec/encryption.ts",
    from: 'Buffer.from(purpose, "utf8")',
    to: 'Buffer.from("", "utf8")',
    tests: ["test/unit/codec/encryption.test.ts"],
  },
];

/** Runs every mutant in a copy of the working tree. Throws if one survives. */
export async function runMutants(report) {
  const copy = mkdtempSync(join(tmpdir(), "graphql-cached-mutants-"));
  const survivors = [];
  try {
    cpSync(ROOT, copy, { recursive: true, filter: (path) => !/node_modules|\/\.git(\/|$)|\/dist(\/|$)/.test(path) });
    symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
    for (const { breaks, file, from, to, tests } of MUTANTS) {
      const path = join(copy, file);
      const source = readFileSync(path, "utf8");
      if (!source.includes(from))
        throw new Error(`${file} no longer contains ${JSON.stringify(from)}; update scripts/mutants.mjs`);
      writeFileSync(path, source.replaceAll(from, to));
      const { status } = spawnSync("npx", ["vitest", "run", "--bail=1", ...tests], { cwd: copy, encoding: "utf8" });
      writeFileSync(path, source);
      report(`${status === 0 ? "SURVIVED" : "killed"}: ${breaks}`);
      if (status === 0) survivors.push(breaks);
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  if (survivors.length > 0)
    throw new Error(`${survivors.length} of ${MUTANTS.length} mutants survived: ${survivors.join("; ")}`);
}
