import { fileURLToPath } from "node:url";
import { defineConfig, type TestProjectInlineConfiguration, type ViteUserConfig } from "vitest/config";

const source = (file: string): string => fileURLToPath(new URL(`./src/${file}`, import.meta.url));

const SERVERS = ["conformance", "memcached", "postgres", "redis", "servers"].map((name) => `test/${name}/**/*.test.ts`);
const UNIT = "test/unit/**/*.test.ts";
const LARGE = "test/**/ten-thousand-keys.test.ts";
/** Finds or downloads servers, and starts them once a test file asks for them. */
const globalSetup = ["test/support/global-setup.ts"];

const project = (name: string, test: ViteUserConfig["test"]): TestProjectInlineConfiguration => ({
  extends: true,
  test: { name, ...test },
});

const config: ViteUserConfig = defineConfig({
  resolve: {
    alias: [
      {
        find: /^graphql-cached\/(store|codec|redis|memcached|apollo|yoga|mercurius|msgpackr|opentelemetry|postgres|prometheus|testing|types)$/,
        replacement: source("$1/index.ts"),
      },
      { find: /^graphql-cached$/, replacement: source("index.ts") },
      // Vite resolves graphql to its .mjs files, Node to its .js files: two copies that reject each other's schemas.
      { find: /^graphql$/, replacement: fileURLToPath(import.meta.resolve("graphql")) },
    ],
  },
  test: {
    projects: [
      project("unit", { include: [UNIT] }),
      project("behaviour", {
        include: ["test/**/*.test.ts", "examples/own-store/*.test.ts"],
        exclude: [UNIT, LARGE, ...SERVERS],
        globalSetup,
      }),
      project("servers", { include: SERVERS, exclude: [LARGE], globalSetup }),
      // A heap with the garbage of many test files and that of these tests can be larger than V8 allows.
      project("large", { include: [LARGE], isolate: true, globalSetup }),
    ],
    setupFiles: ["test/support/validator.ts"],
    // For a busy machine: no test takes this long, and none proves anything by it.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    pool: "forks",
    // Test files share processes, so that each process imports the sources once. Modules have no state.
    isolate: false,
    maxWorkers: 3,
  },
});

export default config;
