import type { Plugin, ViteUserConfig } from "vitest/config";
import config from "../../vitest.config.js";

const { projects: _, ...test } = config.test ?? {};
const { MUTATION_TESTS = "", MUTANT } = process.env;

/** Replaces a text of one file, whatever its white space. */
const mutantPlugin = ({ file, from, to }: { file: string; from: string; to: string }): Plugin => ({
  name: "mutant",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith(`/${file}`)) return undefined;
    const words = from.split(/\s+/).map((word) => word.replaceAll(/[\^$.*+?()[\]{}|\\]/g, "\\$&"));
    const changed = code.replace(new RegExp(words.join("\\s+")), () => to);
    if (changed === code) throw new Error(`${file}: expected ${JSON.stringify(from)}; update scripts/mutants.mjs`);
    return changed;
  },
});

/** Runs the test files that `mutants.mjs` names, in one project. */
const mutationConfig: ViteUserConfig = {
  ...config,
  plugins: MUTANT === undefined ? [] : [mutantPlugin(JSON.parse(MUTANT))],
  test: { ...test, globalSetup: ["test/support/global-setup.ts"], include: MUTATION_TESTS.split(" ") },
};

export default mutationConfig;
