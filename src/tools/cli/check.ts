import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { isSchema } from "graphql";
import { CachedError, messageOf } from "../../core/base/errors.js";
import { type DirectiveNames, resolveNames } from "../../core/directive/compile/directive-names.js";
import { readArguments, readConfig } from "./command.js";
import { introspectedSdl, isGlob, isModule, readGlob, reading, withExcluded } from "./document-loaders.js";
import { type Finding, type LintResult, lint, RULES, type Rule } from "./lint.js";
import { operationLines, readOperations } from "./operations.js";
import { executableSchema, type OfflineSchema, placeOf, readSchema, type SchemaFile } from "./schema-document.js";
import { readSchemaModule } from "./schema-module.js";
import { CliError, counted, jsonText, noteLines, printable, type Terminal, wrap } from "./terminal.js";

/** Runs `graphql-cached check`. Returns the exit code. */
export async function check(argv: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = readArguments("check", argv, OPTIONS);
  if (values.help === true) {
    terminal.print(HELP);
    return 0;
  }
  if (positionals.length === 0)
    throw new CliError("check: expected the file of a schema, got none; write graphql-cached check schema.graphql");
  const isIgnored = ignored(values.ignore ?? []);
  const config = values.config === undefined ? undefined : await readConfig("check", values.config);
  const names = namesOf({
    directive: values.directive ?? config?.apply.directive,
    invalidates: values.invalidates ?? config?.apply.invalidates,
  });
  const { files, offline, notes } = await readAll(positionals, names, terminal);
  const operations = values.operations === undefined ? undefined : await readOperations(values.operations);
  let result: LintResult;
  try {
    result = lint(offline, {
      names,
      cache: config?.cache,
      hasIdentify: values["no-identify"] !== true,
      authDirectives: values["auth-directive"] ?? [],
      apply: config?.apply ?? {},
      operations,
    });
  } catch (error) {
    // An invalid option in the config, or an invalid name of an auth directive.
    if (error instanceof CachedError) throw new CliError(`check: ${error.message}`);
    throw error;
  }
  const findings = result.findings.filter((finding) => !isIgnored(finding));
  const shown = { ...result, findings, notes: [...notes, ...result.notes] };
  for (const line of values.json === true ? [asJson(files, shown)] : asText(files, shown)) terminal.print(line);
  return findings.length === 0 ? 0 : 1;
}

const HELP = `Usage: graphql-cached check [options] <file>...

Finds mistakes in the caching policies of a schema. All files together are one
schema; - reads standard input. A module (.js, .mjs, .cjs; .ts where Node.js
runs it) is run: it exports type definitions or a schema as its default,
typeDefs or schema. A pattern in quotes, such as 'src/**/*.{graphql,ts}', names
files and, in modules that are not run, templates with the tag gql; it needs
@graphql-tools/code-file-loader. '!**/*.test.ts' leaves files out.

Options:
  --config <file>            a module whose default export has the options of
                             createCache; applyCached: {...} in it has those of
                             applyCached
  --no-identify              the cache has no identify option
  --directive <name>         the name of @cached, if it was renamed
  --invalidates <name>       the name of @invalidates, if it was renamed
  --auth-directive <name>    a directive that restricts who may see a field,
                             besides those whose name says so, such as @auth;
                             can be repeated
  --ignore <rule[:place]>    do not report a rule, or not for a coordinate;
                             can be repeated
  --operations <path>        a file of operations that clients send, a folder
                             of .graphql and .gql files, or a pattern: shows
                             which of their fields are answered with subtrees,
                             and why not; can be repeated
  --json                     print the findings as JSON

Rules:
${Object.entries(RULES)
  .flatMap(([rule, what]) => wrap(what, `  ${rule.padEnd(11)}`, " ".repeat(13)))
  .join("\n")}

Exit codes: 0 nothing found, 1 something found, 2 the check cannot be made.`;

const OPTIONS = {
  config: { type: "string" },
  "no-identify": { type: "boolean" },
  directive: { type: "string" },
  invalidates: { type: "string" },
  "auth-directive": { type: "string", multiple: true },
  ignore: { type: "string", multiple: true },
  operations: { type: "string", multiple: true },
} as const;

function ignored(given: readonly string[]): (finding: Finding) => boolean {
  const rules = given.map((text) => {
    const [rule = "", ...coordinate] = text.split(":");
    if (!Object.hasOwn(RULES, rule))
      throw new CliError(
        `check: --ignore: expected one of ${Object.keys(RULES).join(", ")}, with a coordinate or without, such as key:Query.movie, got ${printable(text)}`,
      );
    return { rule: rule as Rule, coordinate: coordinate.join(":") };
  });
  return (finding) =>
    rules.some(({ rule, coordinate }) => rule === finding.rule && ["", finding.coordinate].includes(coordinate));
}

function namesOf(given: { readonly directive: string | undefined; readonly invalidates: string | undefined }) {
  const set = Object.fromEntries(Object.entries(given).filter(([, name]) => name !== undefined));
  try {
    return resolveNames(set, "check");
  } catch (error) {
    throw new CliError(messageOf(error));
  }
}

interface ReadSchema {
  readonly files: readonly Pick<SchemaFile, "name">[];
  readonly offline: OfflineSchema;
  readonly notes: readonly string[];
}

async function readAll(
  given: readonly string[],
  names: Required<DirectiveNames>,
  terminal: Terminal,
): Promise<ReadSchema> {
  const { paths, excluded } = withExcluded(given);
  const files: SchemaFile[] = [];
  const notes = paths
    .filter((path) => path.endsWith(".json"))
    .map(
      (path) =>
        `${path}: the result of an introspection query has no directives, so that policies in them are not checked; pass the SDL.`,
    );
  for (const path of paths) {
    const read =
      isModule(path) && existsSync(path)
        ? await readSchemaModule(path)
        : isGlob(path)
          ? await readGlob("check", path, "type definitions", excluded)
          : [await readSchemaFile(path, terminal)];
    if (!isSchema(read)) files.push(...read);
    else if (paths.length === 1)
      return { files: [{ name: printable(path) }], offline: executableSchema(read, names), notes };
    else
      throw new CliError(`check: ${printable(path)}: expected a module with a schema alone, got ${paths.length} files`);
  }
  // A module can have several templates.
  const distinct = new Map(files.map((file) => [file.name, file]));
  return { files: [...distinct.values()], offline: readSchema(files, names), notes };
}

async function readSchemaFile(path: string, terminal: Terminal): Promise<SchemaFile> {
  if (path === "-") return { name: "stdin", text: await terminal.readInput() };
  const name = printable(path);
  return reading("check", path, async () => {
    if ((await stat(path)).isDirectory())
      throw new CliError(
        `check: expected a file, got the directory ${name}; write ${name.replace(/\/$/, "")}/*.graphql`,
      );
    const text = await readFile(path, "utf8");
    const sdl = path.endsWith(".json") ? introspectedSdl(text) : text;
    if (sdl === undefined)
      throw new CliError(`check: ${name}: expected the result of an introspection query, got something else`);
    return { name, text: sdl };
  });
}

function asText(
  files: readonly Pick<SchemaFile, "name">[],
  { findings, cachedCount, notes, operations }: LintResult,
): string[] {
  const lines = findings.flatMap(({ rule, coordinate, message, location }) => [
    printable(`${location === undefined ? (files[0]?.name ?? "") : placeOf(location)}  ${coordinate}  [${rule}]`),
    ...wrap(printable(message), "  "),
    "",
  ]);
  const where = counted(files.length, "file");
  const what = counted(cachedCount, "cached field");
  const summary =
    findings.length === 0
      ? `No mistakes found: ${what} in ${where}.`
      : `${counted(findings.length, "finding")} in ${where}.`;
  const ofOperations = operations === undefined ? [] : operationLines(operations);
  return [...lines, ...ofOperations, summary, ...noteLines(notes)];
}

function asJson(
  files: readonly Pick<SchemaFile, "name">[],
  { findings, cachedCount, notes, operations }: LintResult,
): string {
  const listed = findings.map(({ rule, coordinate, message, location }) => ({
    rule,
    coordinate,
    message,
    file: location?.source.name ?? null,
    line: location?.startToken.line ?? null,
    column: location?.startToken.column ?? null,
  }));
  const checked = operations?.map(({ mistake = null, fields, ...operation }) => ({
    ...operation,
    mistake,
    fields: fields.map(({ coordinate, responseKey, obstacle, holes }) => ({
      coordinate,
      responseKey,
      isSubtree: obstacle === undefined,
      reason: obstacle?.reason ?? null,
      subject: obstacle?.subject ?? null,
      holes,
    })),
  }));
  const result = { files: files.map(({ name }) => name), cachedCount, findings: listed, notes };
  return jsonText(checked === undefined ? result : { ...result, operations: checked }, 2);
}
