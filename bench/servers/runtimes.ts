import { ApolloServer } from "@apollo/server";
import { ApolloServerPluginCacheControlDisabled } from "@apollo/server/plugin/disabled";
import fastify from "fastify";
import { execute, parse } from "graphql";
import { createYoga } from "graphql-yoga";
import { mercurius } from "mercurius";
import { QUERY } from "./film-schema.js";
import type { ServedSchema } from "./variants.js";

/** The servers that run queries. Apollo's own plugin for cache hints, which is on by default, costs more than many caches. */
export const RUNTIMES = ["graphql-js", "Apollo", "Apollo + cacheControl", "Yoga", "Mercurius"] as const;
export type Runtime = (typeof RUNTIMES)[number];

/** Runs the query with these variables. Throws if the result has errors. */
export type Run = (variables: Record<string, unknown>) => Promise<void>;

const throwErrors = (errors: readonly { message: string }[] | undefined): void => {
  if (errors !== undefined && errors.length > 0) throw new Error(errors[0]?.message);
};

/** Starts a server for a schema. It listens on no port: requests are handed over in the process. */
export const startRuntime: Readonly<Record<Runtime, (served: ServedSchema) => Promise<Run>>> = {
  "graphql-js": async ({ schema, contextOf = () => ({}) }) => {
    const document = parse(QUERY);
    return async (variableValues) => {
      const { errors } = await execute({ schema, document, variableValues, contextValue: contextOf() });
      throwErrors(errors);
    };
  },
  Apollo: (served) => startApollo(served, false),
  "Apollo + cacheControl": (served) => startApollo(served, true),
  Yoga: async ({ schema, contextOf = () => ({}), yoga: plugin }) => {
    const yoga = createYoga({
      schema,
      context: contextOf,
      logging: false,
      graphiql: false,
      plugins: plugin === undefined ? [] : [plugin],
    });
    const headers = { "content-type": "application/json" };
    return async (variables) => {
      const body = JSON.stringify({ query: QUERY, variables });
      const response = await yoga.fetch("http://yoga/graphql", { method: "POST", headers, body });
      const text = await response.text();
      if (text.startsWith('{"errors"')) throw new Error(text);
    };
  },
  Mercurius: async ({ schema, contextOf = () => ({}), mercurius: extend }) => {
    const app = fastify();
    await app.register(mercurius, { schema });
    await extend?.(app);
    await app.ready();
    return async (variables) => {
      const { errors } = await app.graphql(QUERY, contextOf(), variables);
      throwErrors(errors);
    };
  },
};

async function startApollo(
  { schema, contextOf = () => ({}), apollo: plugin }: ServedSchema,
  hasCacheControl: boolean,
): Promise<Run> {
  const server = new ApolloServer({
    schema,
    plugins: [
      ...(plugin === undefined ? [] : [plugin]),
      ...(hasCacheControl ? [] : [ApolloServerPluginCacheControlDisabled()]),
    ],
  });
  await server.start();
  return async (variables) => {
    const { body } = await server.executeOperation({ query: QUERY, variables }, { contextValue: contextOf() });
    throwErrors(body.kind === "single" ? body.singleResult.errors : [{ message: "expected a single result" }]);
  };
}
