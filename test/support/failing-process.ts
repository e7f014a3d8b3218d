/**
 * One process of a test about errors: a loader and a field over a source that answers 404, as artsy/metaphysics fetches its pages. It reads
 * what its parent process asks for, and reports what code that handles the error sees. The environment provides PORT, PREFIX and, if the
 * class of the error is declared, TYPES.
 */

import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, type CacheOptions, cachedTypeDefs, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";

class HTTPError extends Error {
  override readonly name = "HTTPError";
  readonly statusCode: number;
  readonly body: unknown;
  readonly extensions: Readonly<Record<string, unknown>>;

  constructor(message: string, statusCode: number, body: unknown, headers: Map<string, string>) {
    super(message);
    this.statusCode = statusCode;
    this.body = body;
    this.extensions = { code: "NOT_FOUND", http: { status: statusCode, headers } };
  }
}

const { PORT, PREFIX = "", TYPES } = process.env;
const client = new Redis(Number(PORT), "127.0.0.1");
const types: NonNullable<CacheOptions["types"]> = {
  HTTPError: {
    is: (value) => value instanceof HTTPError,
    encode: ({ message, statusCode, body, extensions }: HTTPError) => ({ message, statusCode, body, extensions }),
    decode: ({ message, statusCode, body, extensions }: HTTPError) =>
      new HTTPError(message, statusCode, body, (extensions.http as { headers: Map<string, string> }).headers),
  },
};
const cache = createCache({
  defaultScope: "PUBLIC",
  store: redisStore({ client }),
  prefix: PREFIX,
  storage: { storeTimeoutMs: 1_000 },
  loads: { errorMaxAgeMs: () => 30_000 },
  logger: { info: () => undefined, warn: (line) => process.send?.({ line }) },
  ...(TYPES === undefined ? {} : { types }),
});

/** The source sets a cookie of each caller. */
async function fetchPage(id: string): Promise<never> {
  const nth = await client.incr(`${PREFIX}:loads:${id}`);
  await client.pexpire(`${PREFIX}:loads:${id}`, 60_000);
  process.send?.("loading");
  await client.blpop(`${PREFIX}:go:${id}:${process.pid}`, 10);
  const headers = new Map([
    ["retry-after", "7"],
    ["set-cookie", `session=${nth}`],
  ]);
  throw new HTTPError(`Page ${id} not found`, 404, { error: "Page not found" }, headers);
}

const pages = cache.loader<string, never>({
  name: "Page",
  maxAge: 60,
  maxBatchSize: 1,
  batch: async ([id = ""]) => [await fetchPage(id)],
});
const schema = applyCached(
  makeExecutableSchema({
    typeDefs: [cachedTypeDefs, "type Query { page(id: ID!): String @cached(maxAge: 60) }"],
    resolvers: { Query: { page: (_: unknown, { id }: { id: string }) => fetchPage(id) } },
  }),
  cache,
);

async function caughtBy(kind: "loader" | "field", id: string): Promise<unknown> {
  if (kind === "loader")
    return pages({})
      .load(id)
      .catch((error: unknown) => error);
  const { errors } = await graphql({ schema, source: "query ($id: ID!) { page(id: $id) }", variableValues: { id } });
  return errors?.[0]?.originalError;
}

process.on("message", async ({ kind, id, times }: { kind: "loader" | "field"; id: string; times: number }) => {
  const caught = (await Promise.all(Array.from({ length: times }, () => caughtBy(kind, id)))) as HTTPError[];
  const seen = caught.map((error) => ({
    isHTTPError: error instanceof HTTPError,
    statusCode: error.statusCode,
    body: error.body,
    code: error.extensions.code,
    headers: [...(error.extensions.http as { headers: Map<string, string> }).headers],
  }));
  process.send?.({ seen });
});
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
