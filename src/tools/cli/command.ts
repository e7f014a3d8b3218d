/** Commands: their arguments, whom they ask, and what becomes of their result. */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type ParseArgsConfig, parseArgs } from "node:util";
import { describeSetting, messageOf } from "../../core/base/errors.js";
import type { ApplyCachedOptions } from "../../core/directive/compile/wrap-fields.js";
import type { CacheOptions } from "../../options.js";
import { endpointSource } from "./endpoint.js";
import type { Source } from "./inspection.js";
import { redisSource } from "./redis.js";
import { CliError, jsonText, noteLines, printable, type Terminal } from "./terminal.js";

/** Runs a command. Returns the exit code. */
export type Command = (argv: readonly string[], terminal: Terminal) => Promise<number>;

type Options = NonNullable<ParseArgsConfig["options"]>;

const COMMON = { help: { type: "boolean", short: "h" }, json: { type: "boolean" } } as const;

type Arguments<Given extends Options> = ReturnType<
  typeof parseArgs<{ args: string[]; options: Given & typeof COMMON; allowPositionals: true }>
>;

/** Parses the arguments of a command. Throws `CliError` for unknown options. */
export function readArguments<const Given extends Options>(
  command: string,
  argv: readonly string[],
  options: Given,
): Arguments<Given> {
  try {
    return parseArgs({ args: [...argv], options: { ...options, ...COMMON }, allowPositionals: true });
  } catch (error) {
    const [reason = ""] = messageOf(error).split(/\. (?=To|Did)/);
    throw new CliError(`${command}: ${reason}; see graphql-cached ${command} --help`);
  }
}

/** Reads a number that is given for an option. `unit`: such as "seconds"; undefined for a count, which is an integer. */
export function readNumber(
  command: string,
  option: string,
  given: string,
  { from, to, unit }: { readonly from: number; readonly to: number; readonly unit?: string },
): number {
  const number = given.trim() === "" ? Number.NaN : Number(given);
  if (number >= from && number <= to && (unit !== undefined || Number.isInteger(number))) return number;
  const kind = unit === undefined ? "an integer" : `a number of ${unit}`;
  throw new CliError(`${command}: ${option}: expected ${kind} from ${from} to ${to}, got ${printable(given)}`);
}

const SOURCE_OPTIONS = {
  endpoint: { type: "string" },
  header: { type: "string", multiple: true },
  redis: { type: "string" },
  prefix: { type: "string" },
  config: { type: "string" },
  timeout: { type: "string" },
} as const;

const SOURCE_HELP = `Where to ask:
  --endpoint <url>           a GraphQL endpoint with the inspection query
  --header <name: value>     a header for the endpoint; can be repeated
  --redis <url>              a Redis server instead, which knows no schema
  --prefix <prefix>          the prefix option of the caches there
  --config <file>            a module with the options of the caches there:
                             prefix and invalidation.normalizeTag count
  --timeout <ms>             how long to wait for an answer. Default: 10000

Environment variables say the same, and keep secrets out of the list of
processes: GRAPHQL_CACHED_ENDPOINT, GRAPHQL_CACHED_HEADERS (one header per
line), GRAPHQL_CACHED_REDIS, GRAPHQL_CACHED_PREFIX.`;

export interface Call<Own extends Options> extends Pick<Arguments<Own>, "values" | "positionals"> {
  readonly terminal: Terminal;
  /** Opens the source that the options name; it is closed when the command has ended. */
  connect(): Promise<Source>;
}

/** Returns a command that asks a server. `help` and `options` lack those that say which. */
export function serverCommand<const Own extends Options>(
  name: string,
  help: string,
  options: Own,
  run: (call: Call<Own>) => Promise<void>,
): Command {
  return async (argv, terminal) => {
    const { values, positionals } = readArguments(name, argv, { ...SOURCE_OPTIONS, ...options });
    if ((values as { readonly help?: boolean }).help === true) {
      terminal.print(`${help}\n\n${SOURCE_HELP}`);
      return 0;
    }
    let source: Source | undefined;
    const connect = async (): Promise<Source> => {
      source = await sourceOf(name, values, terminal);
      return source;
    };
    try {
      await run({ values, positionals, terminal, connect } as Call<Own>);
      return 0;
    } finally {
      await source?.close();
    }
  };
}

/** Prints a result as JSON if `json` is given, and otherwise in lines with notes below. */
export function show(terminal: Terminal, json: unknown, lines: readonly string[], notes: readonly string[] = []): void {
  if (json === undefined) for (const line of [...lines, ...noteLines(notes)]) terminal.print(line);
  else terminal.print(jsonText(json, 2));
}

/** Opens what the options of a command name. Throws `CliError` if they name nothing or too much. */
async function sourceOf(
  command: string,
  given: Partial<Arguments<typeof SOURCE_OPTIONS>["values"]>,
  { env }: Terminal,
): Promise<Source> {
  const isSaid = given.endpoint !== undefined || given.redis !== undefined;
  const endpoint = given.endpoint ?? (isSaid ? undefined : env.GRAPHQL_CACHED_ENDPOINT);
  const redis = given.redis ?? (isSaid ? undefined : env.GRAPHQL_CACHED_REDIS);
  const range = { from: 1, to: 3_600_000, unit: "milliseconds" };
  const timeoutMs = Math.ceil(readNumber(command, "--timeout", given.timeout ?? "10000", range));
  if (endpoint !== undefined && redis !== undefined)
    throw new CliError(`${command}: expected either --endpoint or --redis, got both`);
  if (redis !== undefined) {
    const config = given.config === undefined ? undefined : (await readConfig(command, given.config)).cache;
    const prefix = given.prefix ?? config?.prefix ?? env.GRAPHQL_CACHED_PREFIX;
    return redisSource(command, {
      url: redis,
      prefix,
      normalizeTag: config?.invalidation?.normalizeTag,
      timeoutMs,
    });
  }
  if (given.config !== undefined)
    throw new CliError(
      `${command}: expected --config with --redis, since a server knows its own options, got it without`,
    );
  if (endpoint === undefined)
    throw new CliError(
      `${command}: expected a server to ask, got none; pass --endpoint http://localhost:4000/graphql, or --redis redis://localhost --prefix shop`,
    );
  const inEnv = (env.GRAPHQL_CACHED_HEADERS ?? "").split("\n").filter((line) => line.trim() !== "");
  return endpointSource(command, endpoint, [...inEnv, ...(given.header ?? [])], timeoutMs);
}

/** What a module says that is given with --config. */
export interface Config {
  readonly cache: CacheOptions;
  readonly apply: ApplyCachedOptions;
}

/** Loads the options of a cache from a module. Throws `CliError` if there are none. */
export async function readConfig(command: string, path: string): Promise<Config> {
  const loaded = await import(pathToFileURL(resolve(path)).href).catch((error: unknown) => {
    throw new CliError(`${command}: --config: ${printable(path)} cannot be loaded: ${printable(messageOf(error))}`);
  });
  const options: unknown = (loaded as { readonly default?: unknown }).default;
  if (typeof options !== "object" || options === null)
    throw new CliError(
      `${command}: --config: expected a module with the options of createCache as its default export, got ${describeSetting(options)}`,
    );
  const { applyCached = {}, ...cache } = options as CacheOptions & { readonly applyCached?: ApplyCachedOptions };
  return { cache, apply: applyCached };
}
