import { readNumber } from "./arguments.js";
import { CliError } from "./cli-error.js";
import { readConfig } from "./config.js";
import { endpointSource } from "./endpoint.js";
import { redisSource } from "./redis.js";
import type { Source } from "./source.js";
import type { Terminal } from "./terminal.js";

/** The options of a command that say whom it asks. */
export interface CommandOptions {
  readonly endpoint?: string | undefined;
  readonly header?: readonly string[] | undefined;
  readonly redis?: string | undefined;
  readonly prefix?: string | undefined;
  readonly config?: string | undefined;
  readonly timeout?: string | undefined;
}

/** The options that say whom a command asks, for `readArguments`. */
export const SOURCE_OPTIONS = {
  endpoint: { type: "string" },
  header: { type: "string", multiple: true },
  redis: { type: "string" },
  prefix: { type: "string" },
  config: { type: "string" },
  timeout: { type: "string" },
} as const;

/** Their help. */
export const SOURCE_HELP = `Where to ask:
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

const MAX_TIMEOUT_MS = 3_600_000;

/** Opens what the options of a command name. Throws `CliError` if they name nothing or too much. */
export async function connect(command: string, given: CommandOptions, { env }: Terminal): Promise<Source> {
  const isSaid = given.endpoint !== undefined || given.redis !== undefined;
  const endpoint = given.endpoint ?? (isSaid ? undefined : env.GRAPHQL_CACHED_ENDPOINT);
  const redis = given.redis ?? (isSaid ? undefined : env.GRAPHQL_CACHED_REDIS);
  const range = { from: 1, to: MAX_TIMEOUT_MS, unit: "milliseconds" };
  const timeoutMs = Math.ceil(readNumber(command, "--timeout", given.timeout ?? "10000", range));
  if (endpoint !== undefined && redis !== undefined)
    throw new CliError(`${command}: expected either --endpoint or --redis, got both`);
  if (redis !== undefined) {
    const config = given.config === undefined ? undefined : (await readConfig(command, given.config)).cache;
    const prefix = given.prefix ?? config?.prefix ?? env.GRAPHQL_CACHED_PREFIX;
    const { normalizeTag } = config?.invalidation ?? {};
    return redisSource(command, { url: redis, prefix, normalizeTag, timeoutMs });
  }
  if (given.config !== undefined)
    throw new CliError(
      `${command}: expected --config with --redis, since a server knows its own options, got it without`,
    );
  if (endpoint === undefined)
    throw new CliError(
      `${command}: expected a server to ask, got none; pass --endpoint http://localhost:4000/graphql, or --redis redis://localhost --prefix shop`,
    );
  const headers = [
    ...(env.GRAPHQL_CACHED_HEADERS ?? "").split("\n").filter((line) => line.trim() !== ""),
    ...(given.header ?? []),
  ];
  return endpointSource(command, { url: endpoint, headers, timeoutMs });
}
