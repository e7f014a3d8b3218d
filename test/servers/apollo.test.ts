import { describe, expect, it } from "vitest";
import { serverContract } from "./contract.js";

describe("two processes of apollo-standalone on one Redis", () => {
  const pair = serverContract("apollo-standalone", { batches: true, persistsQueries: true, traces: true });

  it("exits with code 0 on SIGTERM", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});
