import { runInNewContext } from "node:vm";
import { GraphQLError } from "graphql";
import { expect, it, vi } from "vitest";
import { CachedError } from "../../../src/core/base/errors.js";
import { createPacking } from "../../../src/core/codec/packing.js";
import { createKeySpace } from "../../../src/core/keys/key.js";
import { Failures } from "../../../src/core/tier/entry/failure.js";
import { PLAIN_PACKING } from "../../support/packing-settings.js";

const keyOf = (part: number) =>
  createKeySpace("gc").entry(
    { kind: "field", coordinate: "Query.a", identity: undefined, parts: `n${part}` },
    { id: "v", form: 1 },
  );
const key = keyOf(1);

/** Returns what another process reads of an error. */
function passOn(error: unknown): { thrown: { readonly error: unknown } | undefined; refuse: () => void } {
  const refuse = vi.fn();
  const description = failures().write({ error }, key, refuse);
  return { thrown: failures().read(description, key)?.thrown, refuse };
}

const failures = () => new Failures(createPacking(PLAIN_PACKING));

const system = Object.assign(new Error("connect ECONNREFUSED"), { errno: -111, code: "ECONNREFUSED", port: 5432 });

it.each([
  new Error("broken", { cause: system }),
  new TypeError("fetch failed"),
  new AggregateError([system, "b"], "all"),
  new DOMException("it took too long", "TimeoutError"),
  new GraphQLError("no such film", { extensions: { code: "NOT_FOUND", at: new Date(5) }, originalError: system }),
  new CachedError("CACHED_LOAD_TIMEOUT", "slow", { coordinate: "Query.a" }),
  Object.assign(new RangeError("a"), { statusCode: 404, body: { reason: "gone" }, name: "HTTPError" }),
  "a text",
  { message: "a plain object" },
  undefined,
])("passes an error to other processes as it is, with its class: %s", (error) => {
  const { thrown, refuse } = passOn(error);
  expect(refuse).not.toHaveBeenCalled();
  const copy = thrown?.error;
  expect(copy).toEqual(error);
  expect(Object(copy).constructor).toBe(Object(error).constructor);
  for (const name of ["name", "message", "cause", "errors", "extensions", "originalError", "code", "coordinate"])
    expect(Object(copy)[name]).toEqual(Object(error)[name]);
});

class HTTPError extends Error {}

it.each([
  ["a class that is not declared", new HTTPError("a")],
  ["a class of the old style", Object.create(Object.create(Error.prototype) as Error)],
  ["a cause of such a class", new Error("a", { cause: new HTTPError("b") })],
  ["a function", Object.assign(new Error("a"), { retry: () => undefined })],
  ["a getter", Object.defineProperty(new Error("a"), "body", { get: () => 1 })],
  ["a cycle", Object.assign(new Error("a"), { toString: undefined, self: [] as unknown[] })],
  ["a text that is too large", new Error("é".repeat(40_000))],
  ["a symbol", Symbol("a")],
])("has no copy of an error with %s for other processes, and the error itself for its own", (what, error) => {
  if (what === "a cycle") (error as { self: unknown[] }).self.push(error);
  expect(passOn(error)).toEqual({ thrown: undefined, refuse: expect.any(Function) });
  expect(passOn(error).refuse).toHaveBeenCalledTimes(1);
  const own = failures();
  const description = own.write({ error }, key, () => undefined);
  expect(own.read(description, key)?.thrown?.error).toBe(error);
  // Another failure of the same key.
  expect(
    own.read(
      failures().write({ error }, key, () => undefined),
      key,
    )?.thrown,
  ).toBeUndefined();
});

it("throws on garbage", () => {
  expect(() => failures().read(Buffer.from("{"), key)).toThrow(SyntaxError);
});

it("does not read the failure of one key as the failure of another", () => {
  const description = failures().write({ error: new Error("for alice only") }, key, () => undefined);
  expect(failures().read(description, keyOf(2))).toBeUndefined();
});

it("keeps what an error contains of another realm, as code in Jest gets it from Node", () => {
  const error = runInNewContext(
    "Object.assign(new RangeError('a'), { extensions: { at: new Date(5), headers: new Map([['a', 'b']]) } })",
  ) as object;
  const copy = passOn(error).thrown?.error;
  expect(copy).toBeInstanceOf(RangeError);
  expect(copy).toHaveProperty("extensions", { at: new Date(5), headers: new Map([["a", "b"]]) });
});
