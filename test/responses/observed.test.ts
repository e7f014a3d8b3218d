import { AsyncLocalStorage } from "node:async_hooks";
import { memoryStore } from "graphql-cached";
import { chaosStore, FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie: String @cached(maxAge: 60, staleWhileRevalidate: 600, tags: ["Movie"]) @cacheControl(maxAge: 60)
    now(nth: Int): Int @cacheControl(maxAge: 60)
    held: Int @cacheControl(maxAge: 60)
    mine: String @cacheControl(maxAge: 60, scope: PRIVATE)
    uncached: Int
    broken: Int @cacheControl(maxAge: 60)
  }
`;

const FIRST = { movie: "Ran", now: 1 };

/** A site whose responses are observed. */
async function observing(server: SiteOptions["server"], options: Partial<SiteOptions> = {}) {
  const executions: string[] = [];
  const events: string[] = [];
  const source = { movie: "Ran", now: 1, isBroken: false };
  const hold = { gate: gate() };
  const run = (name: string): void => void executions.push(name);
  const resolvers = {
    Query: {
      movie: () => (run("movie"), source.movie),
      now: () => (run("now"), source.now),
      held: async () => (run("held"), await hold.gate.passed, source.now),
      mine: (_: unknown, __: unknown, { user }: { user?: string }) => (run("mine"), `of ${user}, ${source.now}`),
      uncached: () => (run("uncached"), source.now),
      broken: () => {
        run("broken");
        if (source.isBroken) throw new Error("away");
        return source.now;
      },
    },
  };
  const onEvent: NonNullable<SiteOptions["cache"]>["onEvent"] = (event) => {
    if (event.name === "read.observed") events.push(`${event.coordinate} ${event.outcome} ${event.comparison}`);
    options.cache?.onEvent?.(event);
    if (event.name === "entry.served" && event.coordinate === "responses") events.push(`served ${event.outcome}`);
  };
  const cache = { privacy: { requireScope: false }, ...options.cache, onEvent };
  const site = openSite({ typeDefs, resolvers, server, ...options, cache });
  await site.cache.setMode("observe", { coordinate: "responses" });
  /** Returns the observed reads of responses since the last call, such as "hit same". */
  const observed = (): string[] => events.splice(0).map((event) => event.replace("responses ", ""));
  return { ...site, executions, observed, source, hold };
}

describe.each(SERVERS)("a response that is observed on %s", (server) => {
  it("is executed for every request, stored, and compared with the stored one", async () => {
    const { ask, cache, executions, observed, source } = await observing(server);
    expect((await ask("{ now }")).data).toEqual({ now: 1 });
    expect((await ask("{ now }")).data).toEqual({ now: 1 });
    source.now = 2;
    expect((await ask("{ now }")).data).toEqual({ now: 2 });
    expect(executions).toHaveLength(3);
    expect(observed()).toEqual(["miss none", "hit same", "hit different"]);
    await cache.setMode("on", { coordinate: "responses" });
    expect((await ask("{ now }")).data).toEqual({ now: 1 });
    expect(executions).toHaveLength(3);
    expect(observed()).toEqual(["served hit"]);
  });

  it("is compared with what another process has stored", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const shared = { clock, store };
    const one = await observing(server, shared);
    const other = await observing(server, shared);
    for (const { ask } of [one, other, one, other]) expect((await ask("{ movie now }")).data).toEqual(FIRST);
    expect([...one.executions, ...other.executions].filter((field) => field === "now")).toHaveLength(4);
    expect(one.observed()).toEqual(["miss none", "hit same"]);
    expect(other.observed()).toEqual(["hit same", "hit same"]);
  });

  it("never waits for the execution of another request, nor shares it", async () => {
    const { ask, executions, hold, observed } = await observing(server);
    const asked = [ask("{ held }"), ask("{ held }"), ask("{ held }")];
    await settle();
    const late = ask("{ held }");
    await settle();
    expect(executions).toEqual(["held", "held", "held", "held"]);
    hold.gate.open();
    for (const { data } of await Promise.all([...asked, late])) expect(data).toEqual({ held: 1 });
    expect(observed()).toEqual(Array.from({ length: 4 }, () => "miss none"));
  });

  it("is a miss once a part of it was invalidated", async () => {
    const { ask, cache, observed, source } = await observing(server);
    await ask("{ movie now }");
    await ask("{ movie now }");
    source.movie = "Kagemusha";
    await cache.invalidateTags(["Movie"]);
    expect((await ask("{ movie now }")).data).toEqual({ movie: "Kagemusha", now: 1 });
    await ask("{ movie now }");
    expect(observed()).toEqual(["miss none", "hit same", "miss none", "hit same"]);
  });

  it("is not counted as different if it was invalidated while it was executed", async () => {
    const { ask, cache, executions, hold, observed, source } = await observing(server);
    hold.gate.open();
    await ask("{ movie held }");
    hold.gate = gate();
    const asked = ask("{ movie held }");
    await settle();
    expect(executions.filter((one) => one === "held")).toHaveLength(2);
    source.now = 2;
    await cache.invalidateTags(["Movie"]);
    hold.gate.open();
    expect((await asked).data).toEqual({ movie: "Ran", held: 2 });
    expect(observed()).toEqual(["miss none", "hit none"]);
  });

  it("counts stale responses separately, and compares nothing with a response that is not stored", async () => {
    const { ask, clock, observed, source } = await observing(server, { responses: { staleWhileRevalidate: 600 } });
    await ask("{ movie }");
    await clock.advance(61_000);
    source.movie = "Kagemusha";
    // Its part is served stale, so that it is not stored.
    expect((await ask("{ movie }")).data).toEqual({ movie: "Ran" });
    await clock.advance(2_000);
    expect((await ask("{ movie }")).data).toEqual({ movie: "Kagemusha" });
    await ask("{ movie }");
    expect(observed()).toEqual(["miss none", "stale none", "stale different", "hit same"]);
  });

  it("is compared with that of its own caller only", async () => {
    const { ask, executions, observed } = await observing(server);
    for (const user of ["ann", "bob", "ann", "bob", undefined])
      await ask("{ mine }", user === undefined ? {} : { user });
    expect(executions).toHaveLength(5);
    expect(observed()).toEqual(["miss none", "miss none", "hit same", "hit same"]);
  });

  it("shows a difference if the key lacks what a resolver reads from the context", async () => {
    const { ask, observed } = await observing(server, {
      typeDefs: typeDefs.replace("maxAge: 60, scope: PRIVATE", "maxAge: 60"),
    });
    await ask("{ mine }", { user: "ann" });
    expect((await ask("{ mine }", { user: "bob" })).data).toEqual({ mine: "of bob, 1" });
    expect(observed()).toEqual(["miss none", "hit different"]);
  });

  it("is not replaced by an older one if its execution fails, and is not compared then", async () => {
    const { ask, clock, observed, source } = await observing(server, { responses: { staleIfError: 600 } });
    await ask("{ broken }");
    source.isBroken = true;
    expect((await ask("{ broken }")).errors).toHaveLength(1);
    await clock.advance(61_000);
    expect((await ask("{ broken }")).errors).toHaveLength(1);
    expect(observed()).toEqual(["miss none", "hit none", "miss none"]);
  });

  it("is not looked up if the operation is not cacheable or a field of it is not on", async () => {
    const { ask, cache, executions, observed } = await observing(server);
    for (let time = 0; time < 2; time++) await ask("{ now uncached }");
    await cache.setMode("off", { coordinate: "Query.movie" });
    for (let time = 0; time < 2; time++) await ask("{ movie now }");
    expect(executions.filter((one) => one === "now")).toHaveLength(4);
    expect(observed()).toEqual([]);
  });

  it("is looked up only if it has no cached parts while everything is observed", async () => {
    const { ask, cache, observed } = await observing(server);
    await cache.setMode("observe");
    for (let time = 0; time < 2; time++) for (const query of ["{ now }", "{ movie }"]) await ask(query);
    expect(observed()).toEqual(["miss none", "Query.movie miss none", "hit same", "Query.movie hit same"]);
  });

  it("is not stored for variables that are requested only once, as if the mode was on", async () => {
    const { ask, observed } = await observing(server);
    const query = "query ($nth: Int) { now(nth: $nth) }";
    for (let nth = 0; nth < 16; nth++) await ask(query, {}, { nth });
    observed();
    for (let time = 0; time < 3; time++) await ask(query, {}, { nth: 16 });
    expect(observed()).toEqual(["miss none", "miss none", "hit same"]);
  });

  it("replaces the stored one if the request has the override REFRESH, which is not counted", async () => {
    const { ask, observed, source } = await observing(server);
    await ask("{ now }");
    source.now = 2;
    expect((await ask("{ now }", { override: "REFRESH" })).data).toEqual({ now: 2 });
    await ask("{ now }");
    expect(observed()).toEqual(["miss none", "hit same"]);
  });

  it("is executed while the store fails", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const { ask, executions, observed } = await observing(server, { clock, store });
    store.chaos.mode = "throws";
    expect((await ask("{ now }")).data).toEqual({ now: 1 });
    expect(executions).toHaveLength(1);
    expect(observed()).toEqual(["bypassed none"]);
  });

  it("is reported in the asynchronous context of its request, which knows the operation", async () => {
    const asking = new AsyncLocalStorage<string>();
    const reported: unknown[] = [];
    const { ask, source } = await observing(server, {
      cache: {
        onEvent: (event) =>
          event.name === "read.observed" && reported.push([asking.getStore(), event.outcome, event.comparison]),
      },
    });
    for (const query of ["{ now }", "{ a: now }"]) await asking.run(query, () => ask(query));
    source.now = 2;
    await asking.run("{ a: now }", () => ask("{ a: now }"));
    expect(reported).toEqual([
      ["{ now }", "miss", "none"],
      ["{ a: now }", "miss", "none"],
      ["{ a: now }", "hit", "different"],
    ]);
  });

  it("has the headers and the trace of an execution", async () => {
    const { ask, clock } = await observing(server);
    if (server === "cache.execute") return;
    await ask("{ movie now }");
    await clock.advance(20_000);
    const { cacheControl, extensions } = await ask("{ movie now }");
    expect(extensions?.cached).toEqual({ responses: { "bypassed(MODE_OBSERVE)": 1 }, "Query.movie": { hit: 1 } });
    if (server === "Apollo Server") expect(cacheControl).toBe("max-age=40, public");
  });
});
