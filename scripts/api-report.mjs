/**
 * Writes the public API of each entry point to `api/`, as the emitted declarations say it, so that a change of it shows in a diff.
 *
 *   node scripts/api-report.mjs            writes the reports
 *   node scripts/api-report.mjs --check    fails and prints the difference if they are not what would be written
 *   ... --built                            reads `dist` as it is; otherwise the declarations are emitted first
 *
 * Declarations are sorted by name and say nothing of files, so moving code changes no report. Types that no entry point exports, but
 * that an exported declaration mentions, are in `api/internal.api.md`.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageNames } from "./build.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const DECLARED =
  /^(?:export )?(?:default )?(?:declare )?(?:abstract )?(?:interface|class|function|const|let|type|enum|namespace) ([\w$]+)/;
const COMMENT_OR_STRING = /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|\/\*[\s\S]*?\*\/|\/\/.*$/gm;

/** The entry points of the package in `folder` and the files that declare them, relative to the folder of its declarations. */
function entryPoints(folder) {
  const { name, exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return Object.entries(exports)
    .map(([path, target]) => ({ name: join(name, path), file: target.default ?? target }))
    .filter(({ file }) => file.endsWith(".js"))
    .map(({ name, file }) => ({ name, file: file.replace("./dist/", "").replace(/\.js$/, ".d.ts") }));
}

/** Reads declarations as the compiler writes them: each statement of a file starts in its first column. */
class Declarations {
  #folder;
  #files = new Map();

  constructor(folder) {
    this.#folder = folder;
  }

  /** Returns what a file declares, imports and exports; an import or export of another file is `[file, name]`. */
  file(path) {
    const known = this.#files.get(path);
    if (known !== undefined) return known;
    const file = { path, declared: new Map(), imported: new Map(), exported: new Map(), stars: [] };
    this.#files.set(path, file);
    const text = readFileSync(join(this.#folder, path), "utf8").replaceAll(
      COMMENT_OR_STRING,
      (_, string) => string ?? "",
    );
    for (const statement of text.split(/^(?=[a-z@])/m))
      this.#add(file, statement.replaceAll(/\n\s*(?=\n)/g, "").trim());
    return file;
  }

  #add(file, statement) {
    const [, name] = DECLARED.exec(statement) ?? [];
    const [, from] = /from "([^"]+)";$/.exec(statement) ?? [];
    const target = from?.startsWith(".") ? join(dirname(file.path), from.replace(/\.js$/, ".d.ts")) : undefined;
    if (name !== undefined) {
      file.declared.set(name, [...(file.declared.get(name) ?? []), statement]);
      if (statement.startsWith("export ")) file.exported.set(name, [file.path, name]);
    } else if (/^export \*/.test(statement)) {
      if (target === undefined || / as /.test(statement)) throw new Error(`${file.path}: cannot read ${statement}`);
      file.stars.push(target);
    } else {
      const [, listed] = /\{([\s\S]*)\}/.exec(statement) ?? [];
      for (const item of listed?.split(",") ?? []) {
        const [inner, outer = inner] = item
          .trim()
          .replace(/^type /, "")
          .split(" as ");
        if (inner === "") continue;
        if (statement.startsWith("import ") && target !== undefined) file.imported.set(outer, [target, inner]);
        if (statement.startsWith("export ")) file.exported.set(outer, [target ?? file.path, inner]);
      }
    }
  }

  /** Returns the names that a file exports. */
  exportsOf(path) {
    const { exported, stars } = this.file(path);
    return [...new Set([...exported.keys(), ...stars.flatMap((star) => this.exportsOf(star))])];
  }

  /** Returns the file that declares a name as seen in or exported by another file, or undefined if that is not this package. */
  find(path, name) {
    const { declared, imported, exported, stars } = this.file(path);
    if (declared.has(name)) return { path, name };
    const next = imported.get(name) ?? exported.get(name);
    if (next !== undefined && next.join() !== [path, name].join()) return this.find(...next);
    return stars.map((star) => this.find(star, name)).find(Boolean);
  }

  /**
   * Returns the text of a declaration without private members, and the declarations of this package that it mentions. A class that no
   * entry point exports is given by its name only: users hold instances of it and pass them on.
   */
  read({ path, name }, isExported) {
    const inline = /import\("(\.[^"]+)"\)\.([\w$]+)/g;
    const statement = this.file(path)
      .declared.get(name)
      .join("\n")
      .replaceAll(/^ +private .*;\n/gm, "");
    const isOpaque = !isExported && /^[a-z ]*class /.test(statement);
    const written = isOpaque ? statement.replace(/class ([\w$]+)[\s\S]*/, "class $1;") : statement;
    const mentioned = [...written.matchAll(inline)].map(([, from, inner]) =>
      this.find(join(dirname(path), from.replace(/\.js$/, ".d.ts")), inner),
    );
    const text = written.replaceAll(inline, "$2").replaceAll(/^(export )?(declare )?/gm, "");
    for (const [word] of text.replaceAll(/"[^"\n]*"/g, "").matchAll(/(?<![\w$.])[\w$]+(?![\w$]|\??:|\()/g))
      mentioned.push(this.find(path, word));
    return { text, mentioned: mentioned.filter(Boolean) };
  }
}

/** Returns the text of each report by its file name. `rest`: the report of types that no entry point exports. */
function reportsOf(declarations, points, rest) {
  const idOf = ({ path, name }) => `${path}#${name}`;
  const owners = new Map();
  const pending = [];
  const reports = new Map();
  const report = (title, blocks) =>
    `# ${title}\n\nWritten by \`npm run api\`; do not edit.\n\n\`\`\`ts\n${blocks.join("\n\n")}\n\`\`\`\n`;
  for (const { name: point, file } of points) {
    const blocks = declarations
      .exportsOf(file)
      .sort()
      .map((name) => {
        const found = declarations.find(file, name);
        if (found === undefined) throw new Error(`${point}: cannot find the declaration of ${name}`);
        const owner = owners.get(idOf(found));
        if (owner !== undefined) return `export { ${name} } from "${owner}";`;
        owners.set(idOf(found), point);
        const { text, mentioned } = declarations.read(found, true);
        pending.push(...mentioned);
        return `${found.name === name ? "" : `// exported as ${name}\n`}export ${text}`;
      });
    reports.set(`${point.replaceAll("/", ".").replace("@", "")}.api.md`, report(point, blocks));
  }
  const internal = new Map();
  for (const found of pending) {
    if (owners.has(idOf(found)) || internal.has(idOf(found))) continue;
    const { text, mentioned } = declarations.read(found, false);
    internal.set(idOf(found), `${found.name}\n${text}`);
    pending.push(...mentioned);
  }
  const texts = [...internal.values()].sort().map((text) => text.slice(text.indexOf("\n") + 1));
  return texts.length === 0 ? reports : reports.set(rest, report("Types that exported declarations mention", texts));
}

const work = mkdtempSync(join(tmpdir(), "graphql-cached-api-"));
try {
  const isBuilt = process.argv.includes("--built");
  const emit = ["-p", join(ROOT, "tsconfig.build.json"), "--emitDeclarationOnly", "--outDir", join(work, "types")];
  if (!isBuilt && spawnSync(join(ROOT, "node_modules/.bin/tsc"), emit, { stdio: "inherit" }).status !== 0)
    process.exit(1);
  const isCheck = process.argv.includes("--check");
  const [committed, target] = [join(ROOT, "api"), isCheck ? join(work, "api") : join(ROOT, "api")];
  if (!isCheck) rmSync(committed, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const reports = reportsOf(
    new Declarations(isBuilt ? join(ROOT, "dist") : join(work, "types")),
    entryPoints(ROOT),
    "internal.api.md",
  );
  for (const name of packageNames()) {
    const folder = join(ROOT, "packages", name);
    const types = isBuilt ? join(folder, "dist") : join(work, name);
    const emit = ["-p", join(folder, "tsconfig.build.json"), "--emitDeclarationOnly", "--outDir", types];
    if (!isBuilt && spawnSync(join(ROOT, "node_modules/.bin/tsc"), emit, { stdio: "inherit" }).status !== 0)
      process.exit(1);
    const rest = `graphql-cached.${name}.internal.api.md`;
    for (const [file, text] of reportsOf(new Declarations(types), entryPoints(folder), rest)) reports.set(file, text);
  }
  for (const [name, text] of reports) writeFileSync(join(target, name), text);
  if (isCheck && existsSync(committed)) {
    const { status } = spawnSync("git", ["diff", "--no-index", committed, target], { stdio: "inherit" });
    if (status !== 0) console.error("The public API has changed. If that is meant, run `npm run api` and commit api/.");
    process.exitCode = status ?? 1;
  }
  if (process.exitCode === undefined || process.exitCode === 0)
    console.log(`${isCheck ? "checked" : "wrote"} ${reports.size} reports of the public API`);
} finally {
  rmSync(work, { recursive: true, force: true });
}
