import { execFile } from "node:child_process";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { ROOT, read } from "../project/source.js";

/**
 * Compiles the sources, and the programs of the tests, which start in a third of the time that they need as TypeScript.
 * Returns their folder, below `node_modules/.cache`, from where packages are found.
 */
export async function compilePrograms(): Promise<string> {
  const cache = join(ROOT, "node_modules/.cache");
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, "compiled-"));
  const { name, exports } = JSON.parse(read("package.json").replaceAll('"./dist/', '"./src/')) as Record<
    string,
    unknown
  >;
  await writeFile(join(folder, "package.json"), JSON.stringify({ name, type: "module", exports }));
  const tsconfig = {
    extends: join(ROOT, "tsconfig.json"),
    compilerOptions: { noEmit: false, noCheck: true, rootDir: ROOT, outDir: folder },
    include: ["src", "test/support", "test/faults"].map((path) => join(ROOT, path)),
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(tsconfig));
  await promisify(execFile)(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder]);
  return folder;
}
