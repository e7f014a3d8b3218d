import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { packageNames } from "../../scripts/build.mjs";
import { installSqlite } from "../../scripts/setup-sqlite.mjs";
import { ROOT } from "../project/source.js";

/** A project that has this package installed as users get it: built, with its `exports`, without the sources. */
export interface PackedPackage {
  /** Writes a file of the project and returns its path. */
  write(name: string, text: string): string;
  /**
   * Compiles every file that was written before the first call, and returns the compiler's output, empty if there are no
   * errors.
   */
  compile(): string;
  /** Runs a TypeScript file of the project, once it is compiled, and returns what it prints. Throws if it fails. */
  run(path: string, env?: Readonly<Record<string, string>>): string;
  remove(): void;
  /** Also installs packages of `packages/`, built. Default: all. */
  installPackages(names?: readonly string[]): void;
}

const TSCONFIG = {
  compilerOptions: {
    target: "ES2023",
    lib: ["ES2023"],
    module: "NodeNext",
    moduleResolution: "NodeNext",
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    verbatimModuleSyntax: true,
    skipLibCheck: true,
  },
  include: ["**/*.ts"],
  exclude: ["node_modules"],
};

/** A change of the sources before they are built, for tests that must notice it. */
export interface Patch {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** Builds the package into an empty project below `node_modules/.cache`, from where its peers are found. */
export function packedPackage(name: string, patches: readonly Patch[] = []): PackedPackage {
  const home = join(ROOT, "node_modules/.cache", `graphql-cached-${name}-${process.pid}`);
  const installed = join(home, "node_modules/graphql-cached");
  rmSync(home, { recursive: true, force: true });
  mkdirSync(installed, { recursive: true });
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  build(patches.length > 0 ? patchedSources(join(home, "sources"), patches) : ROOT, join(installed, "dist"));
  cpSync(join(ROOT, "package.json"), join(installed, "package.json"));
  cpSync(join(ROOT, "schema"), join(installed, "schema"), { recursive: true });
  const write = (path: string, text: string): string => {
    const file = join(home, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  };
  write("package.json", JSON.stringify({ name: "installed", private: true, type: "module" }));
  write("tsconfig.json", JSON.stringify(TSCONFIG));
  let compiled: string | undefined;
  const compile = (): string => {
    compiled ??= spawnSync(tsc, ["-p", home], { cwd: home, encoding: "utf8" }).stdout.replaceAll(`${home}/`, "");
    return compiled;
  };
  return {
    write,
    compile,
    run(path, env = {}) {
      compile();
      const { status, stdout, stderr } = spawnSync(process.execPath, [path.replace(/\.ts$/, ".js")], {
        cwd: home,
        encoding: "utf8",
        env: { ...process.env, ...env },
        timeout: 60_000,
      });
      if (status !== 0) throw new Error(`${path} exited with ${status}:\n${stdout}\n${stderr}`);
      return stdout;
    },
    installPackages(names = packageNames()) {
      if (names.includes("sqlite")) installSqlite(home);
      for (const own of names) {
        const folder = join(home, "node_modules/@graphql-cached", own);
        cpSync(join(ROOT, "packages", own), folder, {
          recursive: true,
          filter: (path) => !/\/(dist|test)$/.test(path),
        });
        const extended = join(ROOT, "packages/tsconfig.build.json");
        writeFileSync(join(folder, "tsconfig.build.json"), JSON.stringify({ extends: extended }));
        build(folder);
      }
    },
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

function build(...folders: string[]): void {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, "scripts/build.mjs"), ...folders], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`${folders[0]} does not build:\n${stdout}\n${stderr}`);
}

/** Copies what a build needs to `folder`, and changes it. Throws if a text to replace is not found. */
function patchedSources(folder: string, patches: readonly Patch[]): string {
  for (const path of ["src", "package.json", "tsconfig.build.json"])
    cpSync(join(ROOT, path), join(folder, path), { recursive: true });
  // A removed check leaves its parameters unused.
  const settings = readFileSync(join(ROOT, "tsconfig.json"), "utf8");
  writeFileSync(join(folder, "tsconfig.json"), settings.replaceAll(/"noUnused.*": true,/g, ""));
  for (const { file, from, to } of patches) {
    const path = join(folder, file);
    const source = readFileSync(path, "utf8");
    if (!source.includes(from)) throw new Error(`${file} no longer contains ${JSON.stringify(from)}`);
    writeFileSync(path, source.replaceAll(from, to));
  }
  return folder;
}
