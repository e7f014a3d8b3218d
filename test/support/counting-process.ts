/**
 * One of several processes that are inspected together: a schema with a cached field and a loader on a real Redis. It
 * runs the commands that its parent process sends. The environment provides PORTS, of one server or of a Cluster, PREFIX,
 * and REPORT if the process reports without inspection resolvers.
 */
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";

export type CountingCommand =
  /** Reads the field for each id, one request after the other. */
  | { readonly do: "field"; readonly ids: readonly string[] }
  /** The same with the loader. */
  | { readonly do: "loader"; readonly ids: readonly string[] }
  /** Invalidates the field, of all ids. */
  | { readonly do: "invalidate" }
  /** Asks the inspection. */
  | { readonly do: "inspect"; readonly selection: string }
  | { readonly do: "close" };

const { PORTS = "", PREFIX = "", REPORT } = process.env;
const addresses = PORTS.split(",").map((port) => ({ host: "127.0.0.1", port: Number(port) }));
const client = addresses.length === 1 ? new Redis(addresses[0] ?? {}) : new Cluster(addresses);
const cache = createCache({
  defaultScope: "PUBLIC",
  store: redisStore({ client }),
  prefix: PREFIX,
  defaults: { jitter: 0, earlyRefresh: 0 },
  ...(REPORT === undefined ? {} : { inspection: { report: true } }),
  storage: { storeTimeoutMs: 1_000 },
  logger: { info: () => undefined, warn: () => undefined },
});
const films = cache.loader<string, string>({ name: "Film", maxAge: 600, batch: async (ids) => [...ids] });
const isInspected = REPORT === undefined;
const schema = applyCached(
  makeExecutableSchema({
    typeDefs: [
      cachedTypeDefs,
      ...(isInspected ? [inspectionTypeDefs] : []),
      "type Query { movie(id: ID!): String @cached(maxAge: 600) }",
    ],
    resolvers: [
      { Query: { movie: (_: unknown, { id }: { id: string }) => id } },
      ...(isInspected ? [inspectionResolvers(cache, { allow: () => true })] : []),
    ],
  }),
  cache,
);

async function run(command: CountingCommand): Promise<unknown> {
  switch (command.do) {
    case "field":
      for (const id of command.ids) {
        const source = "query Q($id: ID!) { movie(id: $id) }";
        await graphql({ schema, source, contextValue: {}, variableValues: { id } });
      }
      return undefined;
    case "loader":
      for (const id of command.ids) await films({}).load(id);
      return undefined;
    case "invalidate":
      return cache.invalidate({ coordinate: "Query.movie" });
    case "inspect":
      return graphql({ schema, source: `{ cacheInspection { ${command.selection} } }`, contextValue: {} });
    case "close":
      return cache.close();
  }
}

process.on("message", (command: CountingCommand) => {
  void run(command).then((answer) => process.send?.({ answer }));
});
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
