import { describe, expect, it } from "vitest";
import { serverContract } from "./contract.js";

describe.each(["apollo-standalone", "apollo-express", "apollo-fastify"])("two processes of %s on one Redis", (name) => {
  const pair = serverContract(name, { batches: true, persistsQueries: true, traces: true });

  it("exits with code 0 on SIGTERM", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});
