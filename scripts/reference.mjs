/**
 * Writes the generated tables of docs/reference.md: what the sources say about options, errors, events, directives and
 * outcomes.
 *
 *   node scripts/reference.mjs            writes them
 *   node scripts/reference.mjs --check    fails if they are not those of the sources
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const path = (file) => fileURLToPath(new URL(`../${file}`, import.meta.url));
const read = (file) => readFileSync(path(file), "utf8");
const PAGE = "docs/reference.md";

/** A docblock or a description as one line. */
const oneLine = (text) =>
  text
    .replaceAll(/^\s*(?:\/\*\*|\*\/|\*(?!\*))/gm, "")
    .replaceAll("*/", "")
    .replaceAll(/\s+/g, " ")
    .trim();

const table = (head, rows) => [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
const code = (name) => `\`${name}\``;
const cell = (text) => text.replaceAll("|", "\\|");

/** The body of what begins with `start`, up to the line that ends it. */
function bodyOf(source, start, end) {
  const from = source.indexOf(start);
  if (from === -1) throw new Error(`reference: expected ${JSON.stringify(start)} in the sources, got none`);
  return source.slice(from + start.length, source.indexOf(end, from));
}

function documented(name, docs) {
  if (docs === undefined) throw new Error(`reference: expected a docblock of ${name} in the sources, got none`);
  return cell(oneLine(docs));
}

/** The options of an interface, with their docblocks. Groups have none, and sections of their own. */
function optionsOf(name) {
  const body = bodyOf(read("src/options.ts"), `export interface ${name}`, "\n}");
  const members = [...body.matchAll(/(?:(\/\*\*(?:(?!\*\/)[\s\S])*\*\/)\s*)?^ {2}readonly (\w+)\?: (\w*)/gm)];
  return members
    .filter(([, docs, , type]) => docs !== undefined || !type.endsWith("Options"))
    .map(([, docs, option]) => [code(option), documented(option, docs)]);
}

/** The arguments of a directive, with their descriptions. */
function describedIn(file, start, end, member) {
  const body = bodyOf(read(file), start, end);
  const members = [
    ...body.matchAll(new RegExp(`(?:"""([\\s\\S]*?)"""|"((?:[^"\\\\]|\\\\.)*)")\\s*^ {2}${member}`, "gm")),
  ];
  return members.map(([, block, line, name]) => [code(name), cell(oneLine(block ?? line.replaceAll("\\", "")))]);
}

/** The events with their properties and docblocks. */
function events() {
  const body = bodyOf(read("src/core/telemetry/events.ts"), "export type CacheEvent =", ";\n\n/** The events of hits");
  const members = body.matchAll(/(?:^ {2}(\/\*\*(?:(?!\*\/)[\s\S])*\*\/)\s*)?^ {2}\| ((?:(?!^ {2}[|/])[\s\S])*)/gm);
  return [...members].map(([, docs, member]) => {
    const [name, ...properties] = [
      ...member.replaceAll(/\/\*\*[\s\S]*?\*\//g, "").matchAll(/readonly (\w+)\??: ("[\w.]+")?/g),
    ];
    const event = (name?.[2] ?? "").replaceAll('"', "");
    return [code(event), properties.map(([, one]) => code(one)).join(", ") || "–", documented(event, docs)];
  });
}

/** The entries of an object of texts. */
function textsOf(file, start) {
  const members = bodyOf(read(file), start, "\n}").matchAll(/^ {2}(\w+):\s+"((?:[^"\\]|\\.)*)"/gm);
  return [...members].map(([, name, text]) => [code(name), cell(text)]);
}

function outcomes() {
  const docs = bodyOf(read("src/core/telemetry/events.ts"), "* How a read ended.", "export type ReadOutcome");
  return [...docs.matchAll(/^ \* - `(\w+)`: (.*(?:\n \* {3}.*)*)/gm)].map(([, name, text]) => [
    code(name),
    cell(oneLine(text)),
  ]);
}

const OPTION = ["option", "meaning"];
const BLOCKS = {
  options: () => table(OPTION, optionsOf("CacheOptions<Context = object>")),
  ...Object.fromEntries(
    ["Memory", "Load", "Lease", "Storage", "Invalidation", "Privacy", "Limit", "InspectionReport", "Testing"].map(
      (name) => [
        `${name}Options`,
        () => table(OPTION, optionsOf(`${name}Options${name === "Load" ? "<Context = object>" : ""}`)),
      ],
    ),
  ),
  "@cached": () =>
    table(["argument", "meaning"], describedIn("schema/cached.graphql", "directive @cached(", "\n) on", "(\\w+):")),
  errors: () => table(["code", "meaning"], textsOf("src/core/base/errors.ts", "export const CODES = {")),
  events: () => table(["event", "properties", "when"], events()),
  outcomes: () => table(["outcome", "meaning"], outcomes()),
};

/** The names of all blocks. */
export const BLOCK_NAMES = Object.keys(BLOCKS);

/** Returns the page with its generated tables as the sources have them. */
export const withTables = (page) =>
  page.replaceAll(/(<!-- generated: (\S+) -->\n)[\s\S]*?(<!-- end -->)/g, (_match, start, name, end) => {
    if (!(name in BLOCKS))
      throw new Error(`reference: expected one of ${BLOCK_NAMES.join(", ")} in ${PAGE}, got ${name}`);
    return `${start}\n${BLOCKS[name]()}\n\n${end}`;
  });

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const page = read(PAGE);
  const written = withTables(page);
  if (!process.argv.includes("--check")) writeFileSync(path(PAGE), written);
  else if (written !== page) {
    console.error(`${PAGE}: its tables are not those of the sources; run \`npm run docs:reference\``);
    process.exitCode = 1;
  }
}
