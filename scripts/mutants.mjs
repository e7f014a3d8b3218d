/**
 * Mutation tests: each mutant breaks one line that a promise rests on. Its tests must fail.
 * A mutant whose text is not found exactly once is an error, so that the list stays current.
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
    file: "src/tier/misses.ts",
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
  {
    breaks: "a boundary belongs to the earlier state",
    file: "src/tier/freshness.ts",
    from: "now < entry.freshUntilAt && pastMaxAgeMs < 0",
    to: "now <= entry.freshUntilAt && pastMaxAgeMs < 0",
    tests: ["test/unit/tier/freshness.test.ts"],
  },
  {
    breaks: "a maxAge that has become shorter does not count",
    file: "src/tier/freshness.ts",
    from: "now < entry.freshUntilAt && pastMaxAgeMs < 0",
    to: "now < entry.freshUntilAt",
    tests: ["test/unit/tier/freshness.test.ts"],
  },
  {
    breaks: "a wake-up between two waits is lost",
    file: "src/tier/waiting.ts",
    from: "if (this.#resume === undefined) this.#missed = woken;",
    to: "",
    tests: ["test/unit/tier/waiting.test.ts"],
  },
  {
    breaks: "a wake-up without a key wakes nobody",
    file: "src/tier/waiting.ts",
    from: "key === undefined ? this.#all() :",
    to: "key === undefined ? [] :",
    tests: ["test/unit/tier/waiting.test.ts"],
  },
  {
    breaks: "waiters never poll",
    file: "src/tier/waiting.ts",
    from: "this.#due.add(waiting, dueAt);",
    to: "",
    tests: ["test/unit/tier/waiting.test.ts"],
  },
  {
    breaks: "requests of one tick are not joined",
    file: "src/tier/tick-batch.ts",
    from: "settle(this.#run(items));",
    to: "settle(Promise.all(items.map((item) => this.#run([item]).then(([result]) => result as Result))));",
    tests: ["test/unit/tier/tick-batch.test.ts"],
  },
  {
    breaks: "equal requests of one tick are sent twice",
    file: "src/tier/tick-batch.ts",
    from: "if (same !== undefined) return same;",
    to: "",
    tests: ["test/unit/tier/tick-batch.test.ts"],
  },
  {
    breaks: "a repeated invalidation counts as confirmed by an earlier attempt",
    file: "src/tier/unconfirmed-invalidations.ts",
    from: "(this.#keys.get(identity)?.addedBy ?? upTo) <= upTo",
    to: "this.#keys.has(identity)",
    tests: ["test/unit/tier/unconfirmed-invalidations.test.ts"],
  },
  {
    breaks: "a read that began before a change is kept in the near cache",
    file: "src/tier/near-cache.ts",
    from: "?? 0) > changeCount",
    to: "?? 0) > Infinity",
    tests: ["test/unit/tier/near-cache.test.ts"],
  },
  {
    breaks: "a change of a tag leaves its keys in the near cache",
    file: "src/tier/near-cache.ts",
    from: "if (this.#keysOf.has(name)) this.#suspects.add(name);",
    to: "",
    tests: ["test/unit/tier/near-cache.test.ts"],
  },
  {
    breaks: "an open breaker admits every call",
    file: "src/store/breaker.ts",
    from: "if (this.#clock.now() < this.#openUntil) return false;",
    to: "",
    tests: ["test/unit/store/breaker.test.ts"],
  },
  {
    breaks: "the pause of a breaker never grows",
    file: "src/store/breaker.ts",
    from: "this.#pauseMs * 2",
    to: "this.#pauseMs",
    tests: ["test/unit/store/breaker.test.ts"],
  },
  {
    breaks: "the log on memcached forgets silently",
    file: "src/memcached/invalidation-log.ts",
    from: "log.forgottenAt <= endAt",
    to: "true",
    tests: ["test/unit/memcached/invalidation-log.test.ts"],
  },
  {
    breaks: "a load that had ended is used although its tags have changed",
    file: "src/tier/misses.ts",
    from: "hadEnded || isStored",
    to: "isStored",
    tests: ["test/behaviour/invalidate-during-load.test.ts"],
  },
  {
    breaks: "a reader that joins a load does not wait until its value was stored",
    file: "src/tier/misses.ts",
    from: "|| isStored !== true",
    to: "|| false",
    tests: ["test/behaviour/invalidate-during-load.test.ts"],
  },
  {
    breaks: "a second invalidation of a tag does nothing (memory)",
    file: "src/store/memory-store.ts",
    from: "      this.#log.delete(tag);\n      this.#log.set(tag",
    to: "      if (this.#log.has(tag)) continue;\n      this.#log.set(tag",
    tests: ["test/redis/differential.test.ts"],
  },
  {
    breaks: "a mark of a write is removed by an invalidation (Redis)",
    file: "src/redis/scripts/invalidate.ts",
    from: "if not entry or entry.state ~= 'T' then",
    to: "if true then",
    tests: ["test/redis/differential.test.ts"],
  },
  {
    breaks: "a lease is renewed for anyone (Redis)",
    file: "src/redis/scripts/renew.ts",
    from: "entry.token == ARGV[first + i - 1]",
    to: "entry.token ~= ''",
    tests: ["test/redis/differential.test.ts"],
  },
  {
    breaks: "a lease is released for anyone (Redis)",
    file: "src/redis/scripts/release.ts",
    from: "entry.token == ARGV[at]",
    to: "entry.token ~= ''",
    tests: ["test/redis/differential.test.ts"],
  },
];

/** Runs the mutants from number `first` on in a copy of the working tree. Throws if one survives. */
export async function runMutants(report, first = 0) {
  const mutants = MUTANTS.slice(first);
  const copy = mkdtempSync(join(tmpdir(), "graphql-cached-mutants-"));
  const survivors = [];
  try {
    cpSync(ROOT, copy, { recursive: true, filter: (path) => !/node_modules|\/\.git(\/|$)|\/dist(\/|$)/.test(path) });
    symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
    for (const { breaks, file, from, to, tests } of mutants) {
      const path = join(copy, file);
      const source = readFileSync(path, "utf8");
      const count = source.split(from).length - 1;
      if (count !== 1)
        throw new Error(
          `${file}: expected ${JSON.stringify(from)} exactly once, found it ${count} times; update scripts/mutants.mjs`,
        );
      writeFileSync(
        path,
        source.replace(from, () => to),
      );
      const { status } = spawnSync("npx", ["vitest", "run", "--bail=1", ...tests], { cwd: copy, encoding: "utf8" });
      writeFileSync(path, source);
      report(`${status === 0 ? "SURVIVED" : "killed"}: ${breaks}`);
      if (status === 0) survivors.push(breaks);
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  report(`${mutants.length - survivors.length} of ${mutants.length} mutants killed`);
  if (survivors.length > 0)
    throw new Error(`${survivors.length} of ${mutants.length} mutants survived: ${survivors.join("; ")}`);
}
