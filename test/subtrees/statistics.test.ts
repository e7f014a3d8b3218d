import { FakeClock } from "@graphql-cached/testing";
import { mapSchema } from "@graphql-tools/utils";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { fieldsOf, watchedSite } from "./watched-site.js";

const COUNTS = "stats { reads hit loaded loads }";
const SUBTREES = `${COUNTS} subtrees { ${COUNTS} }`;

describe("events", () => {
  it("tell the subtree of a field from the entry of the field itself", async () => {
    const { ask, takeEvents } = watchedSite();
    await ask("{ posts { id } }");
    expect(new Set(takeEvents("Query.posts"))).toEqual(
      new Set([
        "entry.served",
        "entry.served* true",
        "load.finished",
        "load.finished* true",
        "load.started",
        "load.started* true",
        "write.finished",
        "write.finished* true",
      ]),
    );
    await ask("{ posts { id } }");
    expect(takeEvents("Query.posts")).toEqual(["entry.served* true"]);
    await ask("{ top }");
    expect(takeEvents("Query.top")).toEqual(["load.started", "load.finished", "entry.served", "write.finished"]);
  });

  it("tell a subtree that cannot be stored from the value of the field", async () => {
    const site = watchedSite({ storage: { maxValueBytes: 40 } });
    await site.ask("{ posts { id title } }");
    const refused = site.events.flatMap((event) =>
      event.name === "value.refused" || (event.name === "write.finished" && !event.isStored) ? [event] : [],
    );
    expect(refused.some((event) => event.isSubtree === true)).toBe(true);
    expect(refused.some((event) => event.isSubtree === undefined)).toBe(true);
  });
});

describe("cacheInspection.fields", () => {
  it("count one read for a request, and subtrees apart from the entry of the field", async () => {
    const site = watchedSite();
    await site.ask("{ posts { id } }");
    for (let nth = 0; nth < 3; nth++) await site.ask("{ posts { id } }");
    const { "Query.posts": posts, "Query.top": top } = await fieldsOf(site, SUBTREES);
    expect(posts).toEqual({
      stats: { reads: 1, hit: 0, loaded: 1, loads: 1 },
      subtrees: { stats: { reads: 4, hit: 3, loaded: 1, loads: 1 } },
    });
    expect(top).toMatchObject({ subtrees: null });
  });

  it("show how many selections there are, their bytes and their holes", async () => {
    const site = watchedSite();
    await site.ask("{ posts { id } }");
    await site.ask("{ posts { id liked } }");
    await site.ask("query Again { posts { id liked } }");
    const { "Query.posts": posts, "Query.notes": notes } = await fieldsOf(
      site,
      "subtrees { stats { storedBytes hitRatio } selections holes skipped { reason subject count } }",
    );
    expect(posts).toEqual({
      subtrees: {
        stats: { storedBytes: expect.any(Number) as number, hitRatio: expect.closeTo(1 / 3) as number },
        selections: 2,
        holes: ["Post.liked"],
        skipped: [],
      },
    });
    expect((posts as { subtrees: { stats: { storedBytes: number } } }).subtrees.stats.storedBytes).toBeGreaterThan(0);
    expect(notes).toEqual({
      subtrees: { stats: { storedBytes: 0, hitRatio: null }, selections: 0, holes: [], skipped: [] },
    });
  });

  it("count each request that was executed without a subtree, although the event is published once", async () => {
    const site = watchedSite();
    for (let nth = 0; nth < 3; nth++) await site.ask("{ notes { text isMine } }");
    await site.ask("{ posts @live { id } }");
    for (let nth = 0; nth < 3; nth++) await site.ask("{ posts { id asked } }", { user: "ann" });
    const skipped = "subtrees { stats { reads } skipped { reason subject count } }";
    const { "Query.posts": posts, "Query.notes": notes } = await fieldsOf(site, skipped);
    expect(notes).toEqual({
      subtrees: { stats: { reads: 0 }, skipped: [{ reason: "LIST_WITHOUT_ID", subject: "Query.notes", count: 3 }] },
    });
    expect(posts).toEqual({
      subtrees: {
        stats: { reads: 1 },
        skipped: [
          { reason: "CONTEXT_READ", subject: "user", count: 3 },
          { reason: "DIRECTIVE", subject: "@live", count: 1 },
        ],
      },
    });
    expect(site.events.filter(({ name }) => name === "subtree.skipped")).toHaveLength(3);
  });

  it("say that the server executes a copy of the schema", async () => {
    const site = watchedSite({ change: (schema) => mapSchema(schema, {}) });
    for (let nth = 0; nth < 2; nth++) await site.ask("{ posts { id } }");
    const { "Query.posts": posts } = await fieldsOf(site, "subtrees { skipped { reason subject count } }");
    expect(posts).toEqual({ subtrees: { skipped: [{ reason: "NO_TWIN", subject: "Query.posts", count: 1 }] } });
  });

  it("show the subtrees of a field that only another process has", async () => {
    const clock = new FakeClock(1_000_000_000);
    const shared = { store: memoryStore({ clock }), testing: { clock }, inspection: { report: true } };
    const one = watchedSite(shared);
    const other = watchedSite({
      ...shared,
      typeDefs: "directive @live on FIELD type Query { top: Int @cached(maxAge: 60) }",
    });
    await one.inspect("stats { reads }");
    await other.inspect("stats { reads }");
    for (let nth = 0; nth < 3; nth++) await one.ask("{ posts { id } }");
    await one.ask("{ posts @live { id } }");
    await clock.advance(10_000);
    const { "Query.posts": posts } = await fieldsOf(
      other,
      `${COUNTS} subtrees { ${COUNTS} selections skipped { reason subject count } }`,
    );
    expect(posts).toEqual({
      stats: { reads: 2, hit: 1, loaded: 1, loads: 1 },
      subtrees: {
        stats: { reads: 3, hit: 2, loaded: 1, loads: 1 },
        selections: 1,
        skipped: [{ reason: "DIRECTIVE", subject: "@live", count: 1 }],
      },
    });
  });
});

describe("cacheInspection", () => {
  it("counts reads of subtrees in the sum of all fields", async () => {
    const { ask, inspect } = watchedSite();
    for (let nth = 0; nth < 4; nth++) await ask("{ posts { id } }");
    expect(await inspect("stats { reads hit loaded }")).toEqual({ stats: { reads: 5, hit: 3, loaded: 2 } });
  });

  it("says of an entry that its field has subtrees as well", async () => {
    const { ask, inspect } = watchedSite();
    await ask("{ posts { id } top }");
    expect(
      await inspect(
        'posts: entry(coordinate: "Query.posts") { state hasSubtrees } top: entry(coordinate: "Query.top") { state hasSubtrees }',
      ),
    ).toEqual({ posts: { state: "VALUE", hasSubtrees: true }, top: { state: "VALUE", hasSubtrees: false } });
  });
});
