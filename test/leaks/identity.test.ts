import { expect, it, vi } from "vitest";
import { gate } from "../../src/testing/gate.js";
import { type Member, members, textOf } from "../support/members.js";
import { onEachStore, type World } from "../support/world.js";

/** Two people whom a careless key takes for one. */
const LOOKALIKES: Readonly<Record<string, readonly [mine: unknown, yours: unknown]>> = {
  "a number and its text": [1, "1"],
  "a number and its bigint": [1, 1n],
  "a number and what the key writes for it": [1, "n1"],
  "a zero and its negative": [0, -0],
  "one with a separator": ["a", "a:Query.me"],
  "one with the mark of a tag": ["#recent", "#wakeChannel"],
  "one that closes the key's text": ["a", 'a","x"]'],
  "one that ends in NUL": ["a", "a\u0000"],
  "one that brings a header along": ["a", "a\r\nX-User: admin"],
  "one with a wildcard": ["a", "*"],
  "one with a hash tag of the cluster": ["a", "{a}"],
  "letters composed and decomposed": ["Jos\u00e9", "Jose\u0301"],
  "letters that look alike": ["admin", "\u0430dmin"],
  "a character without width": ["admin", "ad\u200dmin"],
  "another case": ["Admin", "admin"],
  "space around it": ["admin", " admin "],
  "halves of a character": ["\ud800", "\udfff"],
  "names that Object has": ["__proto__", "constructor"],
  "more digits than a number has": ["9007199254740993", "9007199254740992"],
  "a long text with another end": [`${"x".repeat(10_000)}a`, `${"x".repeat(10_000)}b`],
};

/** What `identify` may answer, or do, that is nobody. */
const NOBODY: Readonly<Record<string, () => unknown>> = {
  throws: () => {
    throw new Error("no session");
  },
  "answers an object": () => ({ id: "alice" }),
  "answers a promise": async () => "alice",
  "answers a promise that rejects": async () => {
    throw new Error("no session");
  },
  "answers NaN": () => Number.NaN,
  "answers infinity": () => Number.POSITIVE_INFINITY,
  "answers an empty text": () => "",
  "answers a blank text": () => " \n",
  "answers null": () => null,
  "answers true": () => true,
  "answers a symbol": () => Symbol("alice"),
  "answers a list": () => ["alice"],
  "answers a boxed text": () => Object("alice"),
  "makes a text of undefined": () => String(undefined),
  "makes a text of an object": () => String({ id: "alice" }),
  "makes a text of NaN": () => `${Number("alice")}`,
};

function lookalikes(world: () => World): void {
  for (const [how, people] of Object.entries(LOOKALIKES))
    it(`is not shared by ${how}`, async () => {
      const loads: string[] = [];
      const process = members(world(), {}, loads);
      const given: string[] = [];
      for (const userId of [...people, ...people]) given.push(await textOf(process, "{ me }", { userId }));
      expect(loads).toHaveLength(2);
      expect(given.slice(2)).toEqual(given.slice(0, 2));
    });

  for (const [how, identify] of Object.entries(NOBODY))
    it(`is not kept where identify ${how}`, async () => {
      const process = members(world(), { identify });
      for (const userId of ["alice", "bob"])
        expect(await textOf(process, "{ me account { secret } }", { userId })).toContain(`me of ${userId}`);
      expect(process.outcomes()).toEqual({ "bypassed(NO_IDENTITY)": 6 });
    });
}

function changes(world: () => World): void {
  it("is not given to who names its owner in a variable", async () => {
    const process = members(world());
    const query = "query Q($of: JSON) { inbox(of: $of) }";
    expect(await textOf(process, query, { userId: "alice" }, { of: "alice" })).toContain("inbox of alice");
    expect(await textOf(process, query, { userId: "bob" }, { of: "alice" })).toContain("inbox of bob");
    expect(await textOf(process, query, {}, { of: "alice", identity: "alice" })).toContain("inbox of undefined");
  });

  it("is not given to a session that has ended", async () => {
    const process = members(world());
    const context: Member = { userId: "alice" };
    await textOf(process, "{ me }", context);
    delete context.userId;
    expect(await textOf(process, "{ me }", context)).toContain("me of undefined");
  });

  it("is not given to the next user of a context that requests share", async () => {
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

  it("is refused where its context says somebody else before the load has begun", async () => {
    const loads: string[] = [];
    const process = members(world(), {}, loads);
    const shared: Member = { userId: "alice" };
    const asking = process.ask("{ me }", shared);
    shared.userId = "bob";
    const { errors } = await asking;
    expect(errors?.[0]?.originalError).toMatchObject({ code: "CACHED_IDENTITY_CHANGED", coordinate: "Query.me" });
    expect(errors?.[0]?.message).not.toMatch(/alice|bob/);
    expect(loads).toEqual([]);
    expect(await textOf(process, "{ me }", { userId: "bob" })).toContain("me of bob");
  });

  it("is refused where its context says somebody else before the load has ended", async () => {
    const door = gate();
    const loads: string[] = [];
    const process = members(world(), {}, loads, () => door.passed);
    const shared: Member = { userId: "alice" };
    const asking = process.ask("{ me }", shared);
    await vi.waitFor(() => expect(loads).toEqual(["me alice"]));
    shared.userId = "bob";
    door.open();
    expect((await asking).errors?.[0]?.originalError).toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
  });

  it("is refused to both where one context says two users in one tick", async () => {
    const process = members(world());
    const notes = process.cache.loader<number, string, Member>({
      name: "Note",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, { userId }) => ids.map((id) => `note ${id} of ${String(userId)}`),
    });
    const shared: Member = { userId: "alice" };
    const hers = notes(shared).load(7);
    shared.userId = "bob";
    const his = notes(shared).load(7);
    await expect(hers).rejects.toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
    expect(await his).toBe("note 7 of bob");
    expect(await notes({ userId: "bob" }).load(7)).toBe("note 7 of bob");
  });
}

onEachStore("a private value of people who look alike", lookalikes);
onEachStore("a private value whose asker changes", changes);
