import { GraphQLError } from "graphql";
import { expect, it } from "vitest";
import { createKeySpace } from "../../../src/keys/key.js";
import { readFailure, writeFailure } from "../../../src/tier/failure.js";

const keyOf = (parts: unknown) =>
  createKeySpace("gc").entry({ kind: "field", coordinate: "Query.a", identity: undefined, parts });
const key = keyOf(1);

it("a failure crosses processes with its name, its message and its extensions", () => {
  const error = new GraphQLError("no such film", { extensions: { code: "NOT_FOUND" } });
  expect(readFailure(writeFailure(error, key), key)).toMatchObject({
    name: "GraphQLError",
    message: "no such film",
    extensions: { code: "NOT_FOUND" },
  });
  expect(readFailure(writeFailure("text", key), key)?.message).toBe("text");
});

it("a failure whose extensions are no data crosses without them, and garbage is a failure too", () => {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  expect(readFailure(writeFailure(Object.assign(new Error("a"), { extensions: cycle }), key), key)?.message).toBe("a");
  expect(readFailure(Buffer.from("{"), key)).toBeInstanceOf(Error);
});

it("a failure of one key is none of another", () => {
  expect(readFailure(writeFailure(new Error("of alice"), key), keyOf(2))).toBeUndefined();
});
