import { fileURLToPath } from "node:url";
import { defineConfig, type ViteUserConfig } from "vitest/config";

const source = (file: string): string => fileURLToPath(new URL(`./src/${file}`, import.meta.url));

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
    include: ["test/**/*.test.ts", "examples/own-store/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/validator.ts"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    pool: "forks",
    maxWorkers: 3,
  },
});

export default config;
