/** The commands of a process whose requests ask for pages of films that nobody has asked for before. */
import { ApolloServer } from "@apollo/server";
import { execute, type GraphQLSchema, parse } from "graphql";
import type { Redis } from "ioredis";
import { applyCached, type Cache, createCache } from "../../src/index.js";
import { cachedPlugin } from "../../src/servers/apollo/index.js";
import { redisStore } from "../../src/stores/redis/index.js";
import type { Setup } from "../fleet.js";
import { responseCacheOnRedis } from "../page/contenders.js";
import { type CachedFilms, FIELDS, FilmSource, filmSchema, IDS, QUERY } from "./films.js";

/** What is cached of a page. */
const CACHED = {
  "no cache": undefined,
  "graphql-cached, page": { page: "@cached(maxAge: 600)", film: "" },
  "graphql-cached, subtree": { page: "@cached(maxAge: 600, subtree: true)", film: "" },
  "graphql-cached, page and films": { page: "@cached(maxAge: 600)" },
  "graphql-cached, subtree over films": { page: "@cached(maxAge: 600, subtree: true)" },
  "Apollo's response cache": undefined,
} satisfies Record<string, CachedFilms | undefined>;

export type MissContender = keyof typeof CACHED;
export const MISS_CONTENDERS = Object.keys(CACHED) as MissContender[];
/** What executes requests, and where it stores. */
export type MissRuntime = "graphql-js, memory" | "Apollo, Redis";

/** Asks for the page from a number on. */
type Run = (from: number) => Promise<void>;

const DOCUMENT = parse(QUERY);
/** How often a page is asked for after its miss, outside of the measurement: a selection that is never hit is no subtree any more. */
const HITS = 10;

export async function open({ contender, prefix }: Setup & { readonly contender: MissContender }, client: Redis) {
  const films = new FilmSource();
  const directives = CACHED[contender];
  const schemaWith = (cache: Cache): GraphQLSchema => {
    const schema = filmSchema(({ id }) => films.load(id), directives);
    return directives === undefined ? schema : applyCached(schema, cache);
  };

  const memory = createCache();
  const memorySchema = schemaWith(memory);
  const runGraphql: Run = async (from) => {
    const args = { schema: memorySchema, document: DOCUMENT, variableValues: { from }, contextValue: {} };
    const { errors } = await (directives === undefined ? execute(args) : memory.execute(args, false));
    if (errors !== undefined) throw errors[0] as Error;
  };

  const onRedis = createCache({ store: redisStore({ client }), prefix });
  const schema = schemaWith(onRedis);
  const plugins =
    directives !== undefined
      ? [cachedPlugin(onRedis)]
      : contender === "Apollo's response cache"
        ? [responseCacheOnRedis(client, prefix)]
        : [];
  const server = new ApolloServer({ schema, plugins });
  await server.start();
  const runApollo: Run = async (from) => {
    const { body } = await server.executeOperation({ query: QUERY, variables: { from } }, { contextValue: {} });
    if (body.kind !== "single" || body.singleResult.errors !== undefined) throw new Error(JSON.stringify(body));
  };

  const runs: Readonly<Record<MissRuntime, Run>> = { "graphql-js, memory": runGraphql, "Apollo, Redis": runApollo };
  // What is loaded of a film is stored.
  for (const run of Object.values(runs)) for (let from = 0; from < IDS; from += FIELDS) await run(from);

  let next = IDS;
  /** Asks for new pages, `callers` at a time. Returns what that took. */
  const miss = async ({ runtime, pages, callers }: Missing) => {
    const run = runs[runtime];
    const first = next;
    next += pages;
    const ask = async (): Promise<void> => {
      let asked = first;
      await Promise.all(
        Array.from({ length: callers }, async () => {
          while (asked < next) await run(asked++);
        }),
      );
    };
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    await ask();
    // What is stored after the answer belongs to the miss.
    if (runtime === "Apollo, Redis") await client.ping();
    const elapsedMs = performance.now() - startedAt;
    const { user, system } = process.cpuUsage(cpu);
    for (let time = 0; time < HITS; time++) await ask();
    return { elapsedMs, cpuMs: (user + system) / 1e3 };
  };
  return { miss };
}

export interface Missing {
  readonly runtime: MissRuntime;
  readonly pages: number;
  readonly callers: number;
}

export type MissCommands = Awaited<ReturnType<typeof open>>;
