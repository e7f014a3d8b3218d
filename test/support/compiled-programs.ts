import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type BuildOptions, build, type Plugin } from "esbuild";
import { filesIn, ROOT } from "../project/source.js";

/** With their packages, since one file loads in half the time of hundreds. */
const BUNDLED = [
  "packages/postgres/test/outbox-process.ts",
  "test/faults/process.ts",
  ...["counting", "failing", "reader", "release", "unclosed", "waiting"].map(
    (name) => `test/support/${name}-process.ts`,
  ),
];
/** Without their packages, which others load as well, or which find files beside them. */
const UNBUNDLED = [
  "src/tools/cli/bin.ts",
  "src/index.ts",
  "test/support/aborting-process.ts",
  "test/support/lab-process.ts",
];

/** CommonJS packages in a bundle of ES modules call `require`. */
const REQUIRE =
  'import { createRequire as bundleRequire } from "node:module"; const require = bundleRequire(import.meta.url);';

/** Modules find their files beside the source. */
const sourceUrls: Plugin = {
  name: "source-urls",
  setup({ onLoad }) {
    onLoad({ filter: /\.m?[jt]s$/ }, ({ path }) => {
      if (path.includes("node_modules")) return undefined;
      const url = JSON.stringify(pathToFileURL(path).href);
      return { contents: readFileSync(path, "utf8").replaceAll("import.meta.url", url), loader: "ts" };
    });
  },
};

/** Compiles programs into a new folder in `parent`, from where their packages are found, and returns it. */
async function compileTo(parent: string, ...builds: readonly BuildOptions[]): Promise<string> {
  await mkdir(parent, { recursive: true });
  const folder = await mkdtemp(join(parent, "compiled-"));
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  const options: BuildOptions = {
    absWorkingDir: ROOT,
    outbase: ROOT,
    outdir: folder,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    keepNames: true,
    logLevel: "silent",
    plugins: [sourceUrls],
  };
  await Promise.all(builds.map((own) => build({ ...options, ...own })));
  return folder;
}

/**
 * Compiles the programs that tests start, which so start in a fraction of the time that they need as TypeScript. Returns the
 * folder that has each in its place.
 */
export const compilePrograms = (): Promise<string> =>
  compileTo(
    join(ROOT, "node_modules/.cache"),
    { entryPoints: BUNDLED, banner: { js: REQUIRE }, chunkNames: "bundled/[hash]" },
    { entryPoints: UNBUNDLED, packages: "external" },
  );

/** The same for the servers of the examples, which have packages of their own; some run with those of the root alone. */
export function compileExamples(): Promise<string> {
  const isInstalled = existsSync(join(ROOT, "examples/node_modules/.package-lock.json"));
  return compileTo(join(ROOT, isInstalled ? "examples/.compiled" : "node_modules/.cache"), {
    entryPoints: filesIn("examples").filter((path) => /(\/server|servers\/[\w-]+)\.ts$/.test(path)),
    packages: "external",
    tsconfig: join(ROOT, "examples/tsconfig.json"),
  });
}
