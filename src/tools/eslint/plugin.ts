import { readdirSync, readFileSync, statSync } from "node:fs";
import { relative, resolve } from "node:path";
import { type DocumentNode, isTypeSystemDefinitionNode, isTypeSystemExtensionNode, parse } from "graphql";
import { CachedError } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { VERSION } from "../../core/base/version.js";
import { resolveNames } from "../../core/directive/compile/directive-names.js";
import type { ApplyCachedOptions } from "../../core/directive/compile/wrap-fields.js";
import type { CacheOptions } from "../../options.js";
import { type Finding, lint, RULES, type Rule } from "../cli/lint.js";
import { readSchema, type SchemaFile } from "../cli/schema-document.js";
import { CliError, printable } from "../cli/terminal.js";
import { type EslintRange, graphqlLanguage, rangeOf } from "./language.js";

const NAME = "graphql-cached";

/** What `settings["graphql-cached"]` of ESLint's configuration says. */
export interface EslintSettings {
  /** The files of the schema, and folders with `.graphql` and `.gql` files. Default: each file is a schema. */
  readonly schema?: string | readonly string[];
  /** The options of `createCache`; in `applyCached`, those of `applyCached`. Default: unknown, as for `check` without `--config`. */
  readonly config?: CacheOptions & { readonly applyCached?: ApplyCachedOptions };
  /** `false`: the cache has no `identify`. */
  readonly identify?: boolean;
  /** Directives that restrict who may see a field, besides those whose names say so. */
  readonly authDirectives?: readonly string[];
}

/** One problem in a file. */
export interface EslintReport {
  loc: EslintRange;
  message: string;
}

/** What a rule uses of ESLint. */
export interface EslintRuleContext {
  readonly cwd: string;
  readonly filename: string;
  readonly settings: Readonly<Record<string, unknown>>;
  /** It has the `text` of the file. */
  readonly sourceCode: object;
  report(problem: EslintReport): void;
}

export interface EslintRule {
  readonly meta: { type: "problem"; docs: { description: string; url: string }; schema: [] };
  create(context: EslintRuleContext): Record<string, () => void>;
}

export interface EslintConfig {
  name: string;
  files: string[];
  language: string;
  plugins: Record<string, EslintPlugin>;
  rules: Record<string, "error">;
}

/** The plugin: the rules of `check`, the language of `.graphql` files, and a configuration that uses both. */
export interface EslintPlugin {
  readonly meta: { name: string; version: string };
  readonly rules: Record<string, EslintRule>;
  readonly languages: { readonly graphql: typeof graphqlLanguage };
  readonly configs: { readonly recommended: EslintConfig[] };
}

/** What is found in one file. */
interface Problem {
  readonly rule: Rule;
  readonly report: EslintReport;
}

/** The first character of a file, for what has no place. */
const START = { start: { line: 1, column: 0 }, end: { line: 1, column: 1 } };
const SETTINGS = ["schema", "config", "identify", "authDirectives"];

/** Checks schemas. All rules of a file, and all files of a schema, share one check. */
class SchemaChecker {
  readonly #problems = new WeakMap<object, readonly Problem[]>();
  #last: { readonly key: string; readonly settings: unknown; readonly findings: readonly Finding[] } | undefined;

  /** Returns the problems of one file, those that keep its schema from being checked included. */
  problemsOf(context: EslintRuleContext): readonly Problem[] {
    const { sourceCode } = context;
    const { text } = sourceCode as { readonly text: string };
    const problems = this.#problems.get(sourceCode) ?? (hasTypes(text) ? this.#check(context, text) : []);
    this.#problems.set(sourceCode, problems);
    return problems;
  }

  #check({ cwd, filename, settings: { [NAME]: given = {} } }: EslintRuleContext, text: string): readonly Problem[] {
    const path = resolve(cwd, filename);
    const settings = given as EslintSettings;
    try {
      checkOptionNames(settings, `settings["${NAME}"]`, SETTINGS);
      const files = filesOf(settings, { cwd, path, text });
      const own = relative(cwd, path);
      return this.#findingsOf(files, settings)
        .filter(({ location }) => (location?.source.name ?? files[0]?.name) === own)
        .map(({ rule, message, coordinate, location }) => ({
          rule,
          report: {
            loc: location === undefined ? START : rangeOf(location.startToken, location.endToken),
            message: printable(`${coordinate}: ${message.replace(/pass --ignore \S+/, "disable this rule here")}`),
          },
        }));
    } catch (error) {
      if (!(error instanceof CliError || error instanceof CachedError)) throw error;
      const hint =
        "schema" in settings ? "" : `; if the schema has more files, name them in settings["${NAME}"].schema`;
      return [{ rule: "policy", report: { loc: START, message: printable(`${error.message}${hint}`) } }];
    }
  }

  #findingsOf(files: readonly SchemaFile[], settings: EslintSettings): readonly Finding[] {
    const key = JSON.stringify(files);
    if (this.#last?.key === key && this.#last.settings === settings) return this.#last.findings;
    const { applyCached = {}, ...cache } = settings.config ?? {};
    const { directive, invalidates } = applyCached;
    const set = Object.entries({ directive, invalidates }).filter(([, name]) => name !== undefined);
    const names = resolveNames(Object.fromEntries(set), `settings["${NAME}"]`);
    const { findings } = lint(readSchema(files, names), {
      names,
      cache: settings.config === undefined ? undefined : cache,
      hasIdentify: settings.identify !== false,
      authDirectives: settings.authDirectives ?? [],
      apply: applyCached,
      operations: undefined,
    });
    this.#last = { key, settings, findings };
    return findings;
  }
}

/** Files of operations are none of ours. What cannot be parsed is reported by the parser. */
function hasTypes(text: string): boolean {
  let document: DocumentNode;
  try {
    document = parse(text, { noLocation: true });
  } catch {
    return false;
  }
  return document.definitions.some((one) => isTypeSystemDefinitionNode(one) || isTypeSystemExtensionNode(one));
}

/** Returns the files of the schema, with the text that ESLint shows for its own. */
function filesOf(
  { schema }: EslintSettings,
  { cwd, path, text }: { readonly cwd: string; readonly path: string; readonly text: string },
): readonly SchemaFile[] {
  const paths = new Set<string>();
  for (const given of typeof schema === "string" ? [schema] : (schema ?? [])) {
    const named = resolve(cwd, given);
    const stats = statSync(named, { throwIfNoEntry: false });
    if (stats === undefined)
      throw new CliError(
        `settings["${NAME}"].schema: expected files or folders, got ${given}, and there is no such file`,
      );
    if (!stats.isDirectory()) paths.add(named);
    else
      for (const name of readdirSync(named, { recursive: true, encoding: "utf8" }).sort())
        if (/\.(graphql|gql)$/.test(name)) paths.add(resolve(named, name));
  }
  // A file that the settings do not name is a schema of its own.
  const all = paths.has(path) ? [...paths] : [path];
  return all.map((one) => ({ name: relative(cwd, one), text: one === path ? text : readFileSync(one, "utf8") }));
}

function createPlugin(): EslintPlugin {
  const checker = new SchemaChecker();
  const url = "https://github.com/graphql-cached/graphql-cached/blob/main/docs/command-line.md";
  const ruleOf = ([name, description]: readonly [string, string]): EslintRule => ({
    meta: { type: "problem", docs: { description, url }, schema: [] },
    create(context) {
      let isDone = false;
      const run = (): void => {
        if (isDone) return;
        isDone = true;
        for (const { rule, report } of checker.problemsOf(context)) if (rule === name) context.report(report);
      };
      // Of the language here, and of parsers for JavaScript's, such as that of @graphql-eslint.
      return { Document: run, Program: run };
    },
  });
  const plugin: EslintPlugin = {
    meta: { name: NAME, version: VERSION },
    rules: Object.fromEntries(Object.entries(RULES).map((rule) => [rule[0], ruleOf(rule)])),
    languages: { graphql: graphqlLanguage },
    configs: {
      recommended: [
        {
          name: `${NAME}/recommended`,
          files: ["**/*.graphql", "**/*.gql"],
          language: `${NAME}/graphql`,
          plugins: {},
          rules: Object.fromEntries(Object.keys(RULES).map((name) => [`${NAME}/${name}`, "error"])),
        },
      ],
    },
  };
  for (const config of plugin.configs.recommended) config.plugins[NAME] = plugin;
  return plugin;
}

/** The plugin for ESLint 9.15 and later: `export default [...eslintPlugin.configs.recommended]`. */
export const eslintPlugin: EslintPlugin = createPlugin();
