import { fileURLToPath } from "node:url";
import { defineConfig, type ViteUserConfig } from "vitest/config";

const door = (file: string): string => fileURLToPath(new URL(`./src/${file}`, import.meta.url));

const config: ViteUserConfig = defineConfig({
  resolve: {
    alias: [
      {
        find: /^graphql-cached\/(redis|memcached|apollo|yoga|mercurius|msgpackr|testing)$/,
        replacement: door("$1/index.ts"),
      },
      { find: /^graphql-cached$/, replacement: door("index.ts") },
      // Vite would take graphql's .mjs for our files and Node its .js for the libraries: two copies, which refuse each other.
      { find: /^graphql$/, replacement: fileURLToPath(import.meta.resolve("graphql")) },
    ],
  },
  test: {
    include: ["test/**/*.test.ts", "examples/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/validator.ts"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    pool: "forks",
    maxWorkers: 2,
  },
});

export default config;
