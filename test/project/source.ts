import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** The files below `folder` whose names end in `suffix`, as sorted paths from the root. Installed packages and the built site are left out. */
export function filesIn(folder: string, suffix = ".ts"): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(suffix))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .filter((path) => !/node_modules|\.vitepress|^packages\/[\w-]+\/dist\//.test(path))
    .sort();
}

/** One import of a source file: `from` is a path from the root or a package name, `written` is the specifier. */
export interface Import {
  readonly from: string;
  readonly written: string;
  readonly isOwn: boolean;
  readonly isTypeOnly: boolean;
}

export function importsOf(path: string): Import[] {
  const text = read(path);
  const statements = text.matchAll(/^(?:import|export)\s+(type\s+)?(?:[^;"']*?\sfrom\s+)?"([^"]+)"/gm);
  // `import("./a.js").Name` is a type import; other `import(…)` calls and require are run-time imports.
  const types = text.matchAll(/(?<!await )\b(import)\("([^"]+)"\)(?=\.[A-Z])/g);
  const calls = text.matchAll(/(?:\bimport|\brequire|\bcreateRequire\([^)]*\))()\("([^"]+)"\)(?!\.[A-Z])/g);
  return [...statements, ...types, ...calls].map(([, type, from]) => {
    const isOwn = (from as string).startsWith(".");
    const target = isOwn
      ? relative(ROOT, resolve(ROOT, dirname(path), from as string)).replace(/\.js$/, ".ts")
      : (from as string);
    return { from: target, written: from as string, isOwn, isTypeOnly: Boolean(type) };
  });
}

/** What the folders directly in `src` are called. Files outside of them assemble the library. */
export const ROOMS = ["core", "stores", "servers", "tools"] as const;

/** The room of a source file: `src/stores/redis/pipeline.ts` → `stores`; undefined for a file that assembles the library. */
export const roomOf = (path: string): (typeof ROOMS)[number] | undefined =>
  ROOMS.find((room) => path.startsWith(`src/${room}/`));

/** The module of a source file: `src/core/tier/lease/leases.ts` → `tier`; a file that is in no module's folder is its own module. */
export const moduleOf = (path: string): string =>
  path.replace(/^src\/(?:core\/base\/|core\/|stores\/|servers\/|tools\/)?/, "").split("/")[0] as string;

/** The source of the entry point that `package.json` exports as `path`: `./redis` → `src/stores/redis/index.ts`. */
export const entryPointOf = (path: string): string => {
  const file = `${path.slice(2)}${path === "." ? "" : "/"}index.ts`;
  return ["", ...ROOMS.map((room) => `${room}/`)]
    .map((folder) => `src/${folder}${file}`)
    .find((one) => existsSync(join(ROOT, one))) as string;
};

/** The rows of the markdown table under `heading`, cell by cell, without the header. */
export function tableUnder(heading: string, markdown: string): string[][] {
  const [, after = ""] = markdown.split(new RegExp(`^#+ ${heading}$`, "m"));
  const lines = after.split("\n");
  const start = lines.findIndex((line) => line.startsWith("|"));
  const rows: string[][] = [];
  for (const line of lines.slice(start)) {
    if (!line.startsWith("|")) break;
    rows.push(
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((stored) => stored.trim()),
    );
  }
  return rows.slice(2);
}
