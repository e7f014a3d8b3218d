import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { serverContract } from "../../test/servers/contract.js";

const APOLLO = { batches: true, persistsQueries: true, traces: true };

describe.each([
  ["apollo-express", { ...APOLLO, inspects: true }],
  ["apollo-fastify", { ...APOLLO, inspects: true }],
  ["graphql-http", {}],
] as const)("two processes of %s on one Redis", (name, abilities) => {
  const pair = serverContract(name, abilities);

  it("exits with code 0 on SIGTERM", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});

describe("the packages of the examples", () => {
  it.each(["graphql-http", "@pothos/core", "@nestjs/graphql", "@apollo/subgraph"])(
    "resolve graphql to the same copy for %s as for the cache",
    (name) => {
      const from = createRequire(fileURLToPath(import.meta.resolve(name)));
      const ours = createRequire(new URL("../../src/index.ts", import.meta.url));
      expect(from.resolve("graphql")).toBe(ours.resolve("graphql"));
    },
  );
});
