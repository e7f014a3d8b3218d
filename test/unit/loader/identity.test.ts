import { describe, expect, it } from "vitest";
import { CachedError } from "../../../src/core/base/errors.js";
import { contextChanged, identityMistake, identityOf, identityOfTarget } from "../../../src/core/loader/identity.js";
import type { Policy } from "../../../src/core/policy/policy.js";

const returning = (identity: unknown) => () => identity;

describe("the identity of a caller", () => {
  it("is the same for a number, its text and its bigint", () => {
    for (const identity of [7, "7", 7n]) expect(identityOf(returning(identity), {})).toBe("7");
  });

  it("is not known if the number may have been rounded", () => {
    expect(identityOf(returning(Number.MAX_SAFE_INTEGER), {})).toBe("9007199254740991");
    expect(identityOf(returning(-Number.MAX_SAFE_INTEGER), {})).toBe("-9007199254740991");
    expect(identityOf(returning(Number.MAX_SAFE_INTEGER + 1), {})).toBeUndefined();
    expect(identityOf(returning(Number.NaN), {})).toBeUndefined();
  });

  it("is not known if `identify` is missing, throws, or returns anything else", () => {
    const fails = (): never => {
      throw new Error("no session");
    };
    expect(identityOf(undefined, {})).toBeUndefined();
    expect(identityOf(fails, {})).toBeUndefined();
    for (const identity of [
      undefined,
      null,
      "",
      true,
      {},
      Promise.resolve("7"),
      Promise.reject(new Error("no session")),
    ])
      expect(identityOf(returning(identity), {})).toBeUndefined();
  });
});

describe("the identity in the target of an invalidation", () => {
  const of = (scope: "PUBLIC" | "PRIVATE", target: object, kind: "field" | "loader" = "field") =>
    identityOfTarget(target, { coordinate: "Query.me", policy: { scope } as Policy }, kind);

  it("is that of the owner of a PRIVATE value", () => {
    expect(of("PRIVATE", { private: 7 })).toBe("7");
  });

  it("is none for a PUBLIC value", () => {
    expect(of("PUBLIC", {})).toBeUndefined();
  });

  it("is required for PRIVATE values and refused for PUBLIC ones", () => {
    expect(() => of("PRIVATE", {})).toThrow(
      "`Query.me`: `private`: expected the identity that owns the entry (a non-empty string, a number or a bigint), since the field is PRIVATE",
    );
    expect(() => of("PRIVATE", { private: "user:" }, "loader")).toThrow(
      "loader `Query.me`: `private`: expected the identity that owns the entry",
    );
    expect(() => of("PUBLIC", { private: undefined })).toThrow(
      "`Query.me`: `private`: expected nothing, since the entries of the field belong to no identity; leave it out",
    );
  });

  it("is refused with the coordinate", () => {
    const refused = (): unknown => of("PUBLIC", { private: 7 });
    expect(refused).toThrow(CachedError);
    expect(refused).toThrow(expect.objectContaining({ code: "CACHED_KEY_UNUSABLE", coordinate: "Query.me" }));
  });
});

describe("what `identify` does wrong", () => {
  const mistakeOf = (identify: () => unknown) => identityMistake(identify, {}, "Query.me");

  it("is nothing if it says that the identity is unknown", () => {
    for (const identity of [undefined, null, ""]) expect(mistakeOf(returning(identity))).toBeUndefined();
    expect(identityMistake(undefined, {}, "Query.me")).toBeUndefined();
  });

  it.each([
    ["a promise", Promise.resolve("7"), "got a promise; resolve the identity while the context is created"],

    [
      "a number that may be rounded",
      2 ** 53,
      "got a number above Number.MAX_SAFE_INTEGER, which may be rounded; return the id as a string",
    ],
    ["infinity", Number.POSITIVE_INFINITY, "got Infinity; return a user id"],
    ["a missing part", "user:undefined", "got a string that stands for a missing value; return a user id"],
    ["a boolean", true, "got true; return a user id"],
  ])("is named for %s", (_what, identity, problem) => {
    const mistake = mistakeOf(returning(identity));
    expect(mistake?.message).toBe(
      `createCache: \`identify\`: expected a string, number, bigint, null or undefined, ${problem}; until then PRIVATE fields such as \`Query.me\` are not cached`,
    );
    expect(mistake?.coordinate).toBe("Query.me");
    expect(mistake).not.toHaveProperty("cause");
  });

  it("is a promise also if that rejects, which is then handled", () => {
    const mistake = mistakeOf(async () => {
      throw new Error("no session");
    });
    expect(mistake?.message).toContain("got a promise; resolve the identity while the context is created; until then");
  });

  it("is what it threw", () => {
    const cause = new Error("no session");
    const mistake = mistakeOf(() => {
      throw cause;
    });
    expect(mistake?.message).toContain("it threw an exception, the cause of this error; until then");
    expect(mistake?.cause).toBe(cause);
  });
});

describe("a context that has changed", () => {
  it("is reported with what has changed", () => {
    expect(contextChanged("Query.me", "identity").message).toContain("expected the context to keep its identity until");
    expect(contextChanged("Query.me", "user.id").message).toContain("expected the context to keep its `user.id` until");
  });
});
