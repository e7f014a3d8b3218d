import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import type { GraphQLSchema } from "graphql";
import { createCache } from "../../cache.js";
import { CachedError, describeSetting, messageOf, withoutControls } from "../../core/base/errors.js";
import { VERSION } from "../../core/base/version.js";
import { type ApplyCachedOptions, applyCached } from "../../core/directive/compile/wrap-fields.js";
import type { CacheOptions } from "../../options.js";
import { misplacedDirectives, placeOf, readSchema } from "./schema-files.js";

/** Runs the program. Returns the exit code: 0 without errors, 1 with errors, 2 if unchecked. */
export async function check(argv: readonly string[], { print, complain }: Output): Promise<number> {
  try {
    const { values, positionals } = parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true });
    const [command, ...paths] = positionals;
    if (values.help === true || values.version === true) {
      print(values.help === true ? HELP : VERSION);
      return 0;
    }
    if (command !== "check" || paths.length === 0)
      throw new Error(`expected check and the files of a schema, got ${argv.join(" ") || "nothing"}\n${HELP}`);
    const scope = values["default-scope"] as CacheOptions["defaultScope"];
    const config = { ...(await readConfig(values.config)), ...(scope === undefined ? {} : { defaultScope: scope }) };
    const { errors, warnings } = findingsIn(await readSchema(paths, config.applyCached?.policies), config);
    for (const error of errors) print(printable(`error: ${error}`));
    for (const warning of warnings) print(printable(`warning: ${warning}`));
    print(`${counted(errors.length, "error")}, ${counted(warnings.length, "warning")}.`);
    return errors.length === 0 ? 0 : 1;
  } catch (error) {
    complain(printable(`graphql-cached: ${messageOf(error)}`));
    return 2;
  }
}

export interface Output {
  print(line: string): void;
  /** Writes a line to standard error. */
  complain(line: string): void;
}

const OPTIONS = {
  config: { type: "string" },
  "default-scope": { type: "string" },
  help: { type: "boolean", short: "h" },
  version: { type: "boolean" },
} as const;

const HELP = `Usage: graphql-cached check [options] <file>...

Runs applyCached on a schema and prints what it refuses or warns about.
The files are SDL, and one schema together, or a module that exports a schema.

  --config <file>  a module whose default export has the options of createCache,
                   and in \`applyCached\` those of applyCached; without it,
                   \`identify\` is taken for granted
  --default-scope <scope>
                   PUBLIC or PRIVATE, as the option \`defaultScope\` of createCache
  --help           print this text
  --version        print the version

Exit codes: 0 no errors, 1 errors in the schema, 2 the schema cannot be checked.`;

/** The options of a cache, and of `applyCached`, that a module exports. */
type Config = CacheOptions & { readonly applyCached?: ApplyCachedOptions };

async function readConfig(path: string | undefined): Promise<Config> {
  if (path === undefined) return { identify: () => undefined };
  const { default: config } = (await import(pathToFileURL(resolve(path)).href)) as { readonly default?: Config };
  if (typeof config === "object" && config !== null) return config;
  throw new Error(`--config: expected options of createCache as the default export, got ${describeSetting(config)}`);
}

/** `store`: never that of the user. */
function findingsIn(schema: GraphQLSchema, { applyCached: options, store: _, ...given }: Config) {
  const misplaced = misplacedDirectives(schema);
  const warnings: string[] = [];
  const note = (line: string): void => {
    const text = line.replace(/^graphql-cached: (applyCached: )?/, "");
    const [, coordinate] = /^\S+ on `([\w.]+)`/.exec(text) ?? [];
    warnings.push(`${placeOf(schema, coordinate)}${text}`);
  };
  const cache = createCache({ ...given, logger: { info: note, warn: note } });
  try {
    applyCached(schema, cache, options);
    return { errors: misplaced, warnings };
  } catch (error) {
    if (!(error instanceof CachedError)) throw error;
    const all = Array.isArray(error.cause) ? (error.cause as CachedError[]) : [error];
    const lines = all.map(({ message, code, coordinate }) => `${placeOf(schema, coordinate)}${message} [${code}]`);
    return { errors: [...misplaced, ...new Set(lines)], warnings };
  } finally {
    void cache.close();
  }
}

/** A terminal would obey control characters. */
const printable = (text: string): string =>
  withoutControls(text, (character) => (character === "\n" ? character : "�"));

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
