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

export type ServerName = "Apollo" | "Apollo, as text" | "Yoga";

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
      await Promise.all(Array.from({ length: callers }, call));
      return { elapsedMs: performance.now() - startedAt, loads: films.loads - loads };
    },
  };
}

export type ServerCommands = Awaited<ReturnType<typeof open>>;
