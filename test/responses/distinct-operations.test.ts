import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it, onTestFinished, vi } from "vitest";
import { Memo } from "../../src/core/tier/request/known-key.js";
import { collectGarbage } from "../support/collect-garbage.js";

const OPERATIONS = 5_000;

/** Returns what asks for one operation of its own after the other, whose documents nobody keeps. */
function open(field: string): (operations: number) => Promise<void> {
  const cache = createCache({ defaultScope: "PUBLIC", logger: { warn: () => undefined, info: () => undefined } });
  onTestFinished(() => cache.close());
  const typeDefs = "type Query { cached: Int @cached(maxAge: 60) uncached: Int }";
  const resolvers = { Query: { cached: () => 1, uncached: () => 1 } };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  let nth = 0;
  return async (operations) => {
    for (const end = nth + operations; nth < end; nth++)
      await cache.execute({ schema, document: parse(`query Own${nth} { ${field} }`), contextValue: {} });
  };
}

async function usedBytes(): Promise<number> {
  for (let turn = 0; turn < 3; turn++) {
    await new Promise(setImmediate);
    collectGarbage();
  }
  return process.memoryUsage().heapUsed;
}

it.each([
  ["that is asked for once", "cached", 400],
  ["that is not cacheable", "uncached", 140],
])("remembers little of an operation %s", async (_, field, bytes) => {
  const ask = open(field);
  await ask(500);
  const before = await usedBytes();
  await ask(OPERATIONS);
  expect(((await usedBytes()) - before) / OPERATIONS).toBeLessThan(bytes);
});

it("keeps no place in memory for the response of an operation that is asked for once", async () => {
  const ask = open("cached");
  await ask(1);
  const remember = vi.spyOn(Memo.prototype, "remember");
  onTestFinished(() => remember.mockRestore());
  await ask(10);
  expect(remember).not.toHaveBeenCalled();
});
