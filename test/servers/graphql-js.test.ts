import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { serverContract } from "./contract.js";

describe("two processes of graphql-js on one Redis", () => {
  const pair = serverContract("graphql-js", {});

  it("exits with code 0 on SIGTERM", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});

describe("graphql", () => {
  // graphql-js rejects a schema of another copy of graphql, or of its .js build next to its .mjs build.
  it.each(["@apollo/server", "graphql-yoga", "mercurius", "@graphql-tools/utils"])(
    "resolves graphql to the same copy for %s as for the cache",
    (server) => {
      const from = createRequire(fileURLToPath(import.meta.resolve(server)));
      expect(from.resolve("graphql")).toBe(fileURLToPath(import.meta.resolve("graphql")));
    },
  );
});
