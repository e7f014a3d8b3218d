import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** Every file below `folder` whose name ends in `respond`, by its path from the root, sorted. */
export function filesIn(folder: string, respond = ".ts"): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(respond))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .sort();
}

/** One import of a source file; `from` is a path from the root for our own files, else a package's name. `written` is what the file says. */
export interface Import {
  readonly from: string;
  readonly written: string;
  readonly isOwn: boolean;
  readonly isTypeOnly: boolean;
}

export function importsOf(path: string): Import[] {
  const text = read(path);
  const statements = text.matchAll(/^(?:import|export)\s+(type\s+)?(?:[^;"']*?\sfrom\s+)?"([^"]+)"/gm);
  // `import("./a.js").Name` is a type; `import("./a.js")` elsewhere, and a require in any spelling, happens at run time.
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

/** `src/tier/evaluateFreshness.ts` → `tier`; a file of the root is a room by its own name. */
export const roomOf = (path: string): string => path.split("/")[1] as string;

/** The rows of the markdown table under `heading`, stored by stored, without its head. */
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
