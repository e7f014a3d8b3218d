import { fileURLToPath } from "node:url";
import { defineConfig, type TestProjectInlineConfiguration, type ViteUserConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import packageJson from "./package.json" with { type: "json" };

const source = (file: string): string => fileURLToPath(new URL(`./src/${file}`, import.meta.url));
const packages = fileURLToPath(new URL("./packages", import.meta.url));

/** The entry points of the package as the sources that they are built from. */
const entryPoints = Object.entries(packageJson.exports).flatMap(([name, target]) =>
  typeof target === "string" && target.endsWith(".js")
    ? [
        {
          find: `graphql-cached${name.slice(1)}`,
          replacement: source(target.replace("./dist/", "").replace(/\.js$/, ".ts")),
        },
      ]
    : [],
);

const SLOW = ["test/**/*.slow.test.ts", "packages/*/test/**/*.slow.test.ts"];
/** Files that count the work of their process, or need a heap without the garbage of other files. */
const ALONE = ["test/**/ten-thousand-keys.test.ts", "test/behaviour/p13-limits/worst-requests.test.ts"];

/** Files that take longest. They start first, so that none of them runs alone in the end. */
const LONGEST = [
  "test/conformance/stores.test.ts",
  "test/docs/docs.test.ts",
  "test/redis/cluster-clock.test.ts",
  "test/behaviour/p13-limits/worst-requests.test.ts",
  "examples/marquee/demo.test.ts",
  "test/behaviour/p2-no-stale-store/invalidations.test.ts",
  "packages/memcached/test/conformance.test.ts",
  "test/redis/client-options.test.ts",
  "test/redis/credentials.test.ts",
  "test/redis/processes.test.ts",
];

/** Vitest sorts by durations of earlier runs, which a new checkout does not have. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const longest = LONGEST.flatMap((path) => sorted.filter(({ moduleId }) => moduleId.endsWith(path)));
    return [...new Set([...longest, ...sorted])];
  }
}

const project = (name: string, test: ViteUserConfig["test"]): TestProjectInlineConfiguration => ({
  extends: true,
  test: { name, ...test },
});

const config: ViteUserConfig = defineConfig({
  resolve: {
    alias: [
      ...entryPoints,
      { find: /^@graphql-cached\/observability\/(\w+)$/, replacement: `${packages}/observability/src/$1/index.ts` },
      { find: /^@graphql-cached\/([\w-]+)$/, replacement: `${packages}/$1/src/index.ts` },
      { find: /^graphql-cached$/, replacement: source("index.ts") },
      // Vite resolves graphql to its .mjs files, Node to its .js files: two copies that reject each other's schemas.
      { find: /^graphql$/, replacement: fileURLToPath(import.meta.resolve("graphql")) },
    ],
  },
  test: {
    projects: [
      project("alone", { include: ALONE, isolate: true }),
      // `npm run test:slow`: what takes long and has a smaller proof among the others. Each file has a process of its own.
      project("slow", { include: SLOW, isolate: true }),
      // One project, so that each of its processes imports the sources once, and tests that wait run beside those that count.
      project("shared", {
        include: [
          "test/**/*.test.ts",
          "packages/*/test/**/*.test.ts",
          "examples/own-store/*.test.ts",
          "examples/marquee/*.test.ts",
        ],
        exclude: [...ALONE, ...SLOW],
      }),
    ],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/validator.ts"],
    // For a busy machine: no test takes this long, and none proves anything by it.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    sequence: { sequencer: LongestFirst },
    pool: "forks",
    // Test files share processes, so that each process imports the sources once. Modules have no state.
    isolate: false,
    // More than cores: many tests wait for servers.
    maxWorkers: 4,
  },
});

export default config;
