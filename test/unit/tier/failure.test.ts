import { runInNewContext } from "node:vm";
import { GraphQLError } from "graphql";
import { expect, it } from "vitest";
import { createKeySpace } from "../../../src/core/keys/key.js";
import { readFailure, writeFailure } from "../../../src/core/tier/entry/failure.js";

const keyOf = (part: number) =>
  createKeySpace("gc").entry(
    { kind: "field", coordinate: "Query.a", identity: undefined, parts: `n${part}` },
    { id: "v", form: 1 },
  );
const key = keyOf(1);

it("passes a failure to other processes with its name, message and extensions", () => {
  const error = new GraphQLError("no such film", { extensions: { code: "NOT_FOUND" } });
  expect(readFailure(writeFailure(error, key), key)).toMatchObject({
    name: "GraphQLError",
    message: "no such film",
    extensions: { code: "NOT_FOUND" },
  });
});

it("drops extensions that cannot be serialized, and reads garbage as a generic failure", () => {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  expect(readFailure(writeFailure(Object.assign(new Error("a"), { extensions: cycle }), key), key)?.message).toBe("a");
  expect(readFailure(Buffer.from("{"), key)).toBeInstanceOf(Error);
});

it("does not read the failure of one key as the failure of another", () => {
  expect(readFailure(writeFailure(new Error("for alice only"), key), keyOf(2))).toBeUndefined();
});

it("keeps what extensions contain of another realm, as code in Jest gets it from Node", () => {
  const extensions = runInNewContext(
    "({ at: new Date(5), headers: new Map([['a', 'b']]), seen: new Set([1]), bytes: new Uint8Array([1, 2]) })",
  ) as object;
  const read = readFailure(writeFailure(Object.assign(new Error("a"), { extensions }), key), key) as Error & {
    readonly extensions: object;
  };
  expect(read.extensions).toEqual({
    at: new Date(5),
    headers: new Map([["a", "b"]]),
    seen: new Set([1]),
    bytes: Buffer.from([1, 2]),
  });
});
