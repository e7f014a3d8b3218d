import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { gate } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it } from "vitest";
import { until } from "../support/redis-lab.js";

it("completes a shared load when one of its callers disconnects", async () => {
  const cache = createCache({ defaultScope: "PUBLIC" });
  const loadGate = gate();
  let loads = 0;
  const top = async (): Promise<number> => {
    loads++;
    await loadGate.passed;
    return 7;
  };
  const typeDefs = [cachedTypeDefs, "type Query { top: Int @cached(maxAge: 60) }"];
  const schema = applyCached(makeExecutableSchema({ typeDefs, resolvers: { Query: { top } } }), cache);
  const server = new ApolloServer({ schema });
  const { url } = await startStandaloneServer(server, { listen: { port: 0, host: "127.0.0.1" } });
  const ask = (signal?: AbortSignal): Promise<Response> =>
    fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: "{ top }" }),
      ...(signal === undefined ? {} : { signal }),
    });
  const controller = new AbortController();
  const aborted = ask(controller.signal).catch((error: Error) => error.name);
  await until("the load runs", () => loads === 1);
  const remaining = ask();
  controller.abort();
  expect(await aborted).toBe("AbortError");
  loadGate.open();
  expect(await (await remaining).json()).toEqual({ data: { top: 7 } });
  expect(loads).toBe(1);
  await server.stop();
  await cache.close();
});
