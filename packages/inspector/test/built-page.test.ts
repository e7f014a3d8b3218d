import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT, read } from "../../../test/project/source.js";

const isInstalled = existsSync(join(ROOT, "packages/inspector/page/node_modules/.package-lock.json"));

const itIfInstalled = it.skipIf(!isInstalled); // the tools are installed by `npm run build:inspector`

itIfInstalled("the inspector page is what its sources build to", () => {
  const build = spawnSync(process.execPath, ["packages/inspector/page/build.mjs", "--check"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  expect(build.stdout + build.stderr).toBe("");
});

it("the tools of the inspector page are no dependencies of the package", () => {
  const { dependencies = {}, devDependencies = {} } = JSON.parse(read("package.json")) as {
    dependencies?: Record<string, string>;
    devDependencies?: Record<string, string>;
  };
  const tools = Object.keys(
    (JSON.parse(read("packages/inspector/page/package.json")) as { dependencies: object }).dependencies,
  );
  expect(tools).toEqual(["esbuild", "preact"]);
  for (const name of tools) expect(dependencies).not.toHaveProperty(name);
  // esbuild also compiles the programs of the tests, and is installed with tsx in any case.
  for (const name of tools.slice(1)) expect(devDependencies).not.toHaveProperty(name);
});
