import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, createCache } from "graphql-cached";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { expect, it, onTestFinished } from "vitest";
import { collectGarbage } from "../support/collect-garbage.js";
import { HINTS } from "./site.js";

const MEGABYTE = 2 ** 20;
const used = (): number => process.memoryUsage().heapUsed + process.memoryUsage().external;

const typeDefs = /* GraphQL */ `
  type Query { now: Int @cacheControl(maxAge: 60) }
`;
const resolvers = { Query: { now: () => 1 } };
const nameOf = (nth: number): string => Buffer.alloc(MEGABYTE, `operation${nth}_`).toString("latin1");

it("remembers nothing of names of operations that a document does not have", async () => {
  const cache = createCache({ defaultScope: "PUBLIC", logger: { warn: () => undefined, info: () => undefined } });
  onTestFinished(() => cache.close());
  const schema = applyCached(makeExecutableSchema({ typeDefs: [HINTS, typeDefs], resolvers }), cache);
  const document = parse("{ now }");
  const ask = (nth: number) => cache.execute({ schema, document, contextValue: {}, operationName: nameOf(nth) });
  await ask(0);
  collectGarbage();
  const before = used();
  for (let nth = 1; nth <= 40; nth++) expect((await ask(nth)).errors).toHaveLength(1);
  for (let turn = 0; turn < 5; turn++) {
    await new Promise(setImmediate);
    collectGarbage();
  }
  expect((used() - before) / MEGABYTE).toBeLessThan(10);
});

it("remembers nothing of names of operations that clients of GraphQL Yoga make up", async () => {
  const cache = createCache({ defaultScope: "PUBLIC", logger: { warn: () => undefined, info: () => undefined } });
  onTestFinished(() => cache.close());
  const schema = applyCached(makeExecutableSchema({ typeDefs: [HINTS, typeDefs], resolvers }), cache);
  const yoga = createYoga({ schema, logging: false, plugins: [useCached(cache, { responses: true }) as never] });
  onTestFinished(() => void yoga.dispose());
  const ask = async (nth: number) => {
    const response = await yoga.fetch("http://localhost/graphql", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: "{ now }", operationName: nameOf(nth) }),
    });
    return (await response.json()) as { errors?: unknown[] };
  };
  for (let nth = 0; nth < 5; nth++) await ask(nth);
  collectGarbage();
  const before = used();
  for (let nth = 5; nth <= 105; nth++) expect((await ask(nth)).errors).toHaveLength(1);
  for (let turn = 0; turn < 5; turn++) {
    await new Promise(setImmediate);
    collectGarbage();
  }
  expect((used() - before) / MEGABYTE).toBeLessThan(50);
});
