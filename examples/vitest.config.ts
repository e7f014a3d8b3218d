import { fileURLToPath } from "node:url";
import type { ViteUserConfig } from "vitest/config";
import base from "../vitest.config.js";

const { projects: _, ...test } = base.test ?? {};

/** The tests of the examples, whose dependencies are installed apart: `npm run test:examples`. */
const config: ViteUserConfig = {
  ...base,
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    ...test,
    globalSetup: ["test/support/global-setup.ts"],
    include: ["examples/**/*.test.ts"],
    exclude: ["**/node_modules/**"],
  },
};

export default config;
