import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { serverContract } from "./contract.js";

describe.each(["graphql-js", "graphql-http"])("two processes of %s on one Redis", (name) => {
  const pair = serverContract(name, {});

  it("end in peace when they are told to", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});

describe("graphql", () => {
  // Two copies refuse each other's schemas; in one copy, so would its .js and its .mjs.
  it.each(["@apollo/server", "graphql-yoga", "mercurius", "graphql-http", "@graphql-tools/utils"])(
    "is the same copy for %s as for the cache",
    (server) => {
      const from = createRequire(fileURLToPath(import.meta.resolve(server)));
      expect(from.resolve("graphql")).toBe(fileURLToPath(import.meta.resolve("graphql")));
    },
  );
});
