import { describe, expect, it } from "vitest";
import { serverContract } from "./contract.js";

describe.each(["graphql-js", "graphql-http"])("two processes of %s on one Redis", (name) => {
  const pair = serverContract(name, {});

  it("end in peace when they are told to", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});
