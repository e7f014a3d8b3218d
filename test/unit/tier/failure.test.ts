import { GraphQLError } from "graphql";
import { expect, it } from "vitest";
import { readFailure, writeFailure } from "../../../src/tier/failure.js";

it("a failure crosses processes with its name, its message and its extensions", () => {
  const failure = readFailure(writeFailure(new GraphQLError("no such film", { extensions: { code: "NOT_FOUND" } })));
  expect(failure).toMatchObject({ name: "GraphQLError", message: "no such film", extensions: { code: "NOT_FOUND" } });
  expect(readFailure(writeFailure("text")).message).toBe("text");
});

it("a failure whose extensions are no data crosses without them, and garbage is a failure too", () => {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  expect(readFailure(writeFailure(Object.assign(new Error("a"), { extensions: cycle }))).message).toBe("a");
  expect(readFailure(Buffer.from("{"))).toBeInstanceOf(Error);
});
