import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it, onTestFinished, vi } from "vitest";
import { RewrittenOperation } from "../../src/core/subtrees/rewritten-document.js";

it("executes an operation as it is if it cannot be rewritten, which is reported once", async () => {
  const warnings: string[] = [];
  const cache = createCache({ logger: { info: () => undefined, warn: (line) => warnings.push(line) } });
  onTestFinished(() => cache.close());
  const typeDefs = "type Query { page: Page @cached(maxAge: 60, subtree: true) } type Page { title: String }";
  const source = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, typeDefs],
    resolvers: { Query: { page: () => ({ title: "first" }) } },
  });
  const schema = applyCached(source, cache);
  const rewrite = vi.spyOn(RewrittenOperation.prototype, "with").mockImplementation(() => {
    throw new Error("a mistake of the cache");
  });
  onTestFinished(() => rewrite.mockRestore());
  warnings.length = 0;
  for (let time = 0; time < 2; time++) {
    const result = await cache.execute({ schema, document: parse("{ page { title } }"), contextValue: {} }, false);
    expect(result).toEqual({ data: { page: { title: "first" } } });
  }
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain("a mistake of the cache");
});
