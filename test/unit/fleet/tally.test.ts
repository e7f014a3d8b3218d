import { describe, expect, it } from "vitest";
import { Channel } from "../../../src/core/telemetry/channel.js";
import { Counters } from "../../../src/core/telemetry/counters.js";
import { readCounted, writeCounted } from "../../../src/tools/fleet/report-format.js";
import { subtreeTally, talliesOf } from "../../../src/tools/fleet/tally.js";

const own = { coordinate: "Query.posts", digest: "own", kind: "field" };
const subtree = { coordinate: "Query.posts", digest: "subtree", kind: "subtree" };

describe("the tally of a field with subtrees", () => {
  const counters = new Counters();
  const channel = new Channel(counters);
  channel.served("Query.posts", own, "loaded");
  for (let nth = 0; nth < 3; nth++) channel.served("Query.posts", subtree, "hit", 100);
  channel.publish({ name: "load.finished", coordinate: "Query.posts", digest: "subtree", isSubtree: true, loadMs: 8 });
  counters.countSkip("Query.posts", "CONTEXT_READ", "a property with spaces");
  const tally = talliesOf(counters).get("Query.posts");

  it("has the counts of the field under the names that older releases know, without those of its subtrees", () => {
    const names = Object.keys(tally ?? {}).filter((name) => !name.startsWith("subtree"));
    expect(Object.fromEntries(names.map((name) => [name, tally?.[name]]))).toEqual({ reads: 1, loaded: 1 });
  });

  it("has the counts of its subtrees by the same names", () => {
    expect(subtreeTally(tally ?? {})).toMatchObject({ reads: 3, hit: 3, readBytes: 300, "loadMs:us": 8_000 });
    expect(tally).toMatchObject({ "subtreeSkip.CONTEXT_READ a property with spaces": 1 });
  });

  it("is the same after it was sent, in the format of reports that older releases read", () => {
    const tallies = talliesOf(counters);
    expect(readCounted(writeCounted({ fromAt: 0, toAt: 1, tallies, hot: undefined }))?.tallies).toEqual(tallies);
    for (const counts of tallies.values()) expect(Object.values(counts).every(Number.isFinite)).toBe(true);
  });
});
