/** The commands of a process that serves pages of films, on Apollo Server and on GraphQL Yoga. */
import { ApolloServer, HeaderMap } from "@apollo/server";
import { createYoga } from "graphql-yoga";
import type { Redis } from "ioredis";
import { FilmSource, IDS, QUERY } from "./films.js";
import { type ServedSchema, VARIANTS, type VariantName } from "./variants.js";

/** What a process is started with. */
export interface ServerSetup {
  readonly contender: VariantName;
  readonly prefix: string;
}

export type ServerName = "Apollo" | "Apollo, as text" | "Apollo, GET" | "Apollo, GET with ETag" | "Yoga";

/** Requests of callers, each of which sends one after the other. */
export interface Serving {
  readonly server: ServerName;
  readonly callers: number;
  readonly requests: number;
  /** How far the page of each request is from that of the request before. Less than a hundred: pages overlap. */
  readonly step: number;
}

/** Runs the query for a page. Throws if the result has errors. It is handed over in the process, without HTTP. */
type Run = (from: number) => Promise<void>;

async function startApollo({ schema, contextOf = () => ({}), apollo: plugin }: ServedSchema): Promise<Run> {
  const server = new ApolloServer({ schema, plugins: plugin === undefined ? [] : [plugin] });
  await server.start();
  return async (from) => {
    const { body } = await server.executeOperation(
      { query: QUERY, variables: { from } },
      { contextValue: contextOf() },
    );
    if (body.kind !== "single" || body.singleResult.errors !== undefined) throw new Error(JSON.stringify(body));
  };
}

/** The result is the text that is sent to a client. */
async function startApolloText({
  schema,
  contextOf = () => ({}),
  apollo: plugin,
  stringifyResult,
}: ServedSchema): Promise<Run> {
  const plugins = plugin === undefined ? [] : [plugin];
  const server = new ApolloServer({ schema, plugins, ...(stringifyResult === undefined ? {} : { stringifyResult }) });
  await server.start();
  const headers = new HeaderMap([["content-type", "application/json"]]);
  return async (from) => {
    const { body } = await server.executeHTTPGraphQLRequest({
      httpGraphQLRequest: { method: "POST", headers, search: "", body: { query: QUERY, variables: { from } } },
      context: async () => contextOf(),
    });
    if (body.kind !== "complete" || body.string.startsWith('{"errors"')) throw new Error(JSON.stringify(body));
    // Sending it takes its bytes.
    Buffer.from(body.string);
  };
}

/** Asks with GET for what is sent to a client, which names the entity tag that it got before if it `hasEtags`. */
async function startApolloGet(
  { schema, contextOf = () => ({}), apollo: plugin }: ServedSchema,
  hasEtags: boolean,
): Promise<Run> {
  const server = new ApolloServer({ schema, plugins: plugin === undefined ? [] : [plugin] });
  await server.start();
  const etags = new Map<number, string>();
  return async (from) => {
    const headers = new HeaderMap([["apollo-require-preflight", "1"]]);
    const known = hasEtags ? etags.get(from) : undefined;
    if (known !== undefined) headers.set("if-none-match", known);
    const search = new URLSearchParams({ query: QUERY, variables: JSON.stringify({ from }) });
    const { status, body, ...sent } = await server.executeHTTPGraphQLRequest({
      httpGraphQLRequest: { method: "GET", headers, search: `?${search}`, body: undefined },
      context: async () => contextOf(),
    });
    const etag = sent.headers.get("etag");
    if (etag !== undefined) etags.set(from, etag);
    if (status === 304) return;
    if (body.kind !== "complete" || body.string.startsWith('{"errors"')) throw new Error(JSON.stringify(body));
    Buffer.from(body.string);
  };
}

function startYoga({ schema, contextOf = () => ({}), yoga: plugin }: ServedSchema): Run {
  const plugins = plugin === undefined ? [] : [plugin];
  const yoga = createYoga({ schema, context: contextOf, logging: false, graphiql: false, plugins });
  const headers = { "content-type": "application/json" };
  return async (from) => {
    const body = JSON.stringify({ query: QUERY, variables: { from } });
    const response = await yoga.fetch("http://yoga/graphql", { method: "POST", headers, body });
    const text = await response.text();
    if (text.startsWith('{"errors"')) throw new Error(text);
  };
}

export async function open({ contender, prefix }: ServerSetup, client: Redis) {
  const films = new FilmSource();
  const served: ServedSchema = VARIANTS[contender]({ client, prefix, films });
  const runs = {
    Apollo: await startApollo(served),
    "Apollo, as text": await startApolloText(served),
    "Apollo, GET": await startApolloGet(served, false),
    "Apollo, GET with ETag": await startApolloGet(served, true),
    Yoga: startYoga(served),
  };
  const cursors = new Map<string, number>();
  return {
    serve: async ({ server, callers, requests, step }: Serving) => {
      const run = runs[server];
      const cursor = `${server} ${step}`;
      let left = requests;
      const call = async (): Promise<void> => {
        while (left-- > 0) {
          const from = cursors.get(cursor) ?? 0;
          cursors.set(cursor, (from + step) % IDS);
          await run(from);
        }
      };
      const loads = films.loads;
      const startedAt = performance.now();
      const cpuBefore = process.cpuUsage();
      await Promise.all(Array.from({ length: callers }, call));
      const { user, system } = process.cpuUsage(cpuBefore);
      return { elapsedMs: performance.now() - startedAt, cpuMs: (user + system) / 1e3, loads: films.loads - loads };
    },
  };
}

export type ServerCommands = Awaited<ReturnType<typeof open>>;
