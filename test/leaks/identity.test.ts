import { gate } from "@graphql-cached/testing";
import { expect, it, vi } from "vitest";
import { type Member, members, textOf } from "../support/members.js";
import { onEachStore, type World } from "../support/world.js";

/** Pairs of identities that a careless key encoding maps to the same key. */
const LOOKALIKES: Readonly<Record<string, readonly [first: unknown, second: unknown]>> = {
  "a number and a string with a leading zero": [1, "01"],
  "a number and a string that imitates its encoding": [1, "n1"],
  "a number and its negative": [1, -1],
  "a fraction and an integer": [1.5, 1],
  "an identity with a separator": ["a", "a:Query.me"],
  "an identity with the prefix of internal names": ["#recent", "#wakeChannel"],
  "an identity that closes the string in the key": ["a", 'a","x"]'],
  "an identity that ends in NUL": ["a", "a\u0000"],
  "an identity that injects a header": ["a", "a\r\nX-User: admin"],
  "an identity that is a wildcard": ["a", "*"],
  "an identity with a cluster hash tag": ["a", "{a}"],
  "composed and decomposed letters": ["Jos\u00e9", "Jose\u0301"],
  "letters that look alike": ["admin", "\u0430dmin"],
  "a zero-width character": ["admin", "ad\u200dmin"],
  "a different letter case": ["Admin", "admin"],
  "surrounding spaces": ["admin", " admin "],
  "lone surrogates": ["\ud800", "\udfff"],
  "names of Object properties": ["__proto__", "constructor"],
  "more digits than a number can hold": ["9007199254740993", "9007199254740992"],
  "long strings with different ends": [`${"x".repeat(10_000)}a`, `${"x".repeat(10_000)}b`],
  "a kind before the id": ["user:7", "service:7"],
  "e-mail addresses of people with the name Null": ["null@example.com", "christopher.null@example.com"],
  "words that contain the name of a missing value": ["nullable", "user:undefinedly"],
  UUIDs: ["6f1f6c5e-2f6e-4b0e-9f57-000000000000", "6f1f6c5e-2f6e-4b0e-9f57-000000000001"],
  URLs: ["https://id.example.com/users/7", "https://id.example.com/users/8/"],
  "resource names with an empty part": ["arn:aws:iam::123456789012:user/bob", "arn:aws:iam::123456789012:user/eve"],
  "random text in base64": ["-Zx_9/7+Q==", "_Zx-9/7+Q=/"],
  JSON: ['{"id":7}', '{"id":8}'],
};

/** Behaviours of `identify` that must not count as an identity. */
const NO_IDENTITY: Readonly<Record<string, () => unknown>> = {
  throws: () => {
    throw new Error("no session");
  },
  "returns an object": () => ({ id: "alice" }),
  "returns a promise": async () => "alice",
  "returns a promise that rejects": async () => {
    throw new Error("no session");
  },
  "returns NaN": () => Number.NaN,
  "returns infinity": () => Number.POSITIVE_INFINITY,
  "returns a number that may be rounded": () => 2 ** 53,
  "returns an empty string": () => "",
  "returns a blank string": () => " \n",
  "returns null": () => null,
  "returns true": () => true,
  "returns a symbol": () => Symbol("alice"),
  "returns an array": () => ["alice"],
  "returns a String object": () => Object("alice"),
  "converts undefined to a string": () => String(undefined),
  "converts an object to a string": () => String({ id: "alice" }),
  "converts NaN to a string": () => `${Number("alice")}`,
  "converts an empty object to JSON": () => JSON.stringify({}),
  "converts a missing property to JSON": () => JSON.stringify({ id: null }),
};

/** Texts in which a part is the text of a missing value, or empty. Unrelated callers would have the same. */
const MISSING_PARTS: readonly string[] = [
  ...[undefined, null, Number.NaN, Number.POSITIVE_INFINITY, {}, [], new Map(), () => 7, new Date(Number.NaN)].flatMap(
    (missing) => [`user:${missing}`, `${missing}:7`],
  ),
  "acme|undefined",
  "acme/null/7",
  "user-undefined",
  "user_null",
  "acme.undefined",
  "user=NaN",
  "user null",
  "user:{}",
  "user:",
  "user: ",
  ":7",
  "acme::7",
  "auth0|",
];

function lookalikeTests(world: () => World): void {
  for (const [how, userIds] of Object.entries(LOOKALIKES))
    it(`does not share a private value between lookalike identities: ${how}`, async () => {
      const loads: string[] = [];
      const process = members(world(), {}, loads);
      const results: string[] = [];
      for (const userId of [...userIds, ...userIds]) results.push(await textOf(process, "{ me }", { userId }));
      expect(loads).toHaveLength(2);
      expect(results.slice(2)).toEqual(results.slice(0, 2));
    });

  for (const [how, identify] of Object.entries(NO_IDENTITY))
    it(`does not cache a private value when identify ${how}`, async () => {
      const process = members(world(), { identify });
      for (const userId of ["alice", "bob"])
        expect(await textOf(process, "{ me account { secret } }", { userId })).toContain(`me of ${userId}`);
      expect(process.outcomes()).toEqual({ "bypassed(NO_IDENTITY)": 6 });
    });

  it("does not cache a private value for an identity of which a part is missing", async () => {
    const process = members(world());
    for (const userId of MISSING_PARTS)
      expect(await textOf(process, "{ me }", { userId }), userId).toContain(`me of ${userId}`);
    expect(process.outcomes()).toEqual({ "bypassed(NO_IDENTITY)": MISSING_PARTS.length });
  });
}

function identityChangeTests(world: () => World): void {
  it("does not return a private value to a request that names its owner in a variable", async () => {
    const process = members(world());
    const query = "query Q($of: JSON) { inbox(of: $of) }";
    expect(await textOf(process, query, { userId: "alice" }, { of: "alice" })).toContain("inbox of alice");
    expect(await textOf(process, query, { userId: "bob" }, { of: "alice" })).toContain("inbox of bob");
    expect(await textOf(process, query, {}, { of: "alice", identity: "alice" })).toContain("inbox of undefined");
  });

  it("does not return a private value to a session that has ended", async () => {
    const process = members(world());
    const context: Member = { userId: "alice" };
    await textOf(process, "{ me }", context);
    delete context.userId;
    expect(await textOf(process, "{ me }", context)).toContain("me of undefined");
  });

  it("does not return a private value to the next user of a reused context object", async () => {
    const process = members(world());
    const notes = process.cache.loader<number, string, Member>({
      name: "Note",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, { userId }) => ids.map((id) => `note ${id} of ${String(userId)}`),
    });
    const shared: Member = {};
    for (const userId of ["alice", "bob", "alice"]) {
      shared.userId = userId;
      expect(await textOf(process, "{ me account { secret } }", shared)).not.toContain(
        userId === "bob" ? "alice" : "bob",
      );
      expect(await notes(shared).load(7)).toBe(`note 7 of ${userId}`);
    }
  });

  it("rejects a read whose identity changes before its load begins", async () => {
    const loads: string[] = [];
    const process = members(world(), {}, loads);
    const shared: Member = { userId: "alice" };
    const request = process.ask("{ me }", shared);
    shared.userId = "bob";
    const { errors } = await request;
    expect(errors?.[0]?.originalError).toMatchObject({ code: "CACHED_IDENTITY_CHANGED", coordinate: "Query.me" });
    expect(errors?.[0]?.message).not.toMatch(/alice|bob/);
    expect(loads).toEqual([]);
    expect(await textOf(process, "{ me }", { userId: "bob" })).toContain("me of bob");
  });

  it("rejects a read whose identity changes before its load ends", async () => {
    const loadGate = gate();
    const loads: string[] = [];
    const process = members(world(), {}, loads, () => loadGate.passed);
    const shared: Member = { userId: "alice" };
    const request = process.ask("{ me }", shared);
    await vi.waitFor(() => expect(loads).toEqual(["me alice"]));
    shared.userId = "bob";
    loadGate.open();
    expect((await request).errors?.[0]?.originalError).toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
  });

  it("rejects a loader read whose context changes its identity within the tick", async () => {
    const process = members(world());
    const notes = process.cache.loader<number, string, Member>({
      name: "Note",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, { userId }) => ids.map((id) => `note ${id} of ${String(userId)}`),
    });
    const shared: Member = { userId: "alice" };
    const alice = notes(shared).load(7);
    shared.userId = "bob";
    const bob = notes(shared).load(7);
    await expect(alice).rejects.toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
    expect(await bob).toBe("note 7 of bob");
    expect(await notes({ userId: "bob" }).load(7)).toBe("note 7 of bob");
  });
}

onEachStore("private values of lookalike identities", lookalikeTests);
onEachStore("private values after an identity change", identityChangeTests);
