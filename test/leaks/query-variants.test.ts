import { describe, expect, it } from "vitest";
import { members, textOf } from "../support/members.js";
import { memoryWorld, onEachStore, type World } from "../support/world.js";

/** Queries that reach a private field. Each has misled caches that rely on the response names. */
const QUERIES: Readonly<Record<string, string>> = {
  "by its name": "{ me }",
  "by an alias": "{ everyones: me }",
  "by the alias of a public field": "{ node: me  me: __typename }",
  "by a named fragment": "query Q { ...F } fragment F on Query { me }",
  "by fragments in fragments": "{ ...F } fragment F on Query { ...G } fragment G on Query { m: me }",
  "by an inline fragment": "{ ... on Query { me } ... { again: me } }",
  "on an interface": "{ node { note } }",
  "on an interface, by a fragment on the object type": "{ node { ... on Page { n: note } } }",
  "on the members of a union": "{ things { ... on Page { note } ... on Photo { note } } }",
  "on a list below a public value": "{ node { ... on Page { parts { note } } } }",
  "below a private value": "{ account { secret plain } }",
  "as an uncached field of a private value": "{ account { plain } }",
  "under directives": "query Q($yes: Boolean = true) { me @include(if: $yes) x: me @skip(if: false) }",
  "twice in one request": "{ a: me b: me node { note again: note } }",
};

/** Two users and an anonymous caller, each before and after the others. */
const READERS = ["alice", undefined, "bob", "alice", undefined, "bob"];

function queryTests(world: () => World): void {
  for (const [how, query] of Object.entries(QUERIES))
    it(`returns a private field only to its own user when queried ${how}`, async () => {
      const process = members(world());
      for (const userId of READERS) {
        const text = await textOf(process, query, { userId });
        expect(text).toContain(`of ${String(userId)}`);
        for (const other of READERS) if (other !== userId) expect(text).not.toContain(`of ${String(other)}`);
      }
      expect(process.outcomes()["bypassed(NO_IDENTITY)"], "anonymous callers bypass the cache").toBeGreaterThan(0);
    });

  it("caches private fields for identified users only and shares public fields with everyone", async () => {
    const loads: string[] = [];
    const process = members(world(), {}, loads);
    for (const userId of READERS) await textOf(process, "{ node { id note } }", { userId });
    expect(loads).toEqual(["note alice", "note undefined", "note bob", "note undefined"]);
    expect(process.outcomes()).toEqual({ loaded: 3, hit: 7, "bypassed(NO_IDENTITY)": 2 });
  });
}

onEachStore("private fields", queryTests);

describe("names of Object properties", () => {
  it("does not resolve names of Object properties as fields or coordinates", async () => {
    const process = members(memoryWorld());
    for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
      const { errors } = await process.ask(`{ ${name} }`, { userId: "alice" });
      expect(errors?.[0]?.message).toContain("Cannot query field");
      await expect(process.cache.invalidate({ coordinate: name })).rejects.toMatchObject({
        code: "CACHED_COORDINATE_UNKNOWN",
      });
    }
  });
});
