import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { type CacheOptions, memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS, type ServerName } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID = 1): Movie @cached(maxAge: 600, tags: ["movie"], staleWhileRevalidate: 600) @cacheControl(maxAge: 600)
    plain: String @cacheControl(maxAge: 600)
    slow: Slow @cacheControl(maxAge: 600)
  }
  type Movie @cacheControl(inheritMaxAge: true) { id: ID title: String }
  type Slow @cacheControl(maxAge: 600) { title: String id: ID movie: Movie @cached(maxAge: 600, key: ["$args"], tags: ["movie"]) @cacheControl(maxAge: 600) }
  type Mutation { rename(title: String): String @invalidates(tags: ["movie"]) }
`;
function openTwo(server: ServerName, cache: Partial<CacheOptions<Context>> = {}, responses: object | true = true) {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const state = { title: "old", until: Promise.resolve() };
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => ({ id, title: state.title }),
      plain: () => state.title,
      slow: () => state.until.then(() => ({ id: 1, title: state.title })),
    },
    Slow: { movie: () => ({ id: 1, title: state.title }) },
    Mutation: { rename: (_: unknown, { title }: { title: string }) => (state.title = title) },
  };
  const options = { typeDefs, resolvers, server, store, clock, responses: responses as never };
  const site = () => openSite({ ...options, cache: { prefix: "two", ...cache } as never });
  return { one: site(), two: site(), state, clock };
}
const MOVIE = "{ movie { title } }";
const titleOf = ({ data }: { data?: unknown }) => JSON.stringify(data).includes("new");

describe.each(SERVERS)("after an invalidation, on %s,", (server) => {
  const invalidations: Record<string, (site: ReturnType<typeof openTwo>["one"]) => Promise<unknown>> = {
    tag: ({ cache }) => cache.invalidateTags(["movie"]),
    entry: ({ cache }) => cache.invalidate({ coordinate: "Query.movie", args: { id: "1" } }),
    field: ({ cache }) => cache.invalidate({ coordinate: "Query.movie" }),
    responses: ({ cache }) =>
      Promise.all([cache.invalidate({ coordinate: "responses" }), cache.invalidate({ coordinate: "Query.movie" })]),
    clear: ({ cache }) => cache.clear(),
    write: ({ cache }) =>
      cache.mutate({ entries: [{ coordinate: "Query.movie", args: { id: "1" } }] }, () => undefined),
    mutation: ({ ask }) => ask('mutation { rename(title: "new") }'),
  };
  for (const memory of [false, {}] as const)
    for (const [name, invalidate] of Object.entries(invalidations))
      it(`by ${name}, two processes answer anew (memory: ${memory !== false})`, async () => {
        const { one, two, state } = openTwo(server, { memory });
        for (let nth = 0; nth < 3; nth++) for (const site of [one, two]) await site.ask(MOVIE);
        state.title = "new";
        await invalidate(one);
        for (const site of [two, one, two]) expect(titleOf(await site.ask(MOVIE))).toBe(true);
      });

  it("of another entry or tag, responses stay", async () => {
    const { one, two, state } = openTwo(server);
    for (let nth = 0; nth < 3; nth++) for (const site of [one, two]) await site.ask(MOVIE);
    state.title = "new";
    await one.cache.invalidate({ coordinate: "Query.movie", args: { id: 2 } });
    await one.cache.invalidateTags(["others"]);
    for (const site of [one, two]) expect(titleOf(await site.ask(MOVIE))).toBe(false);
  });

  for (const memory of [false, {}] as const)
    it(`a response that was executed meanwhile is not served (memory: ${memory !== false})`, async () => {
      const { one, two, state } = openTwo(server, { memory });
      const held = gate();
      state.until = held.passed;
      const query = "{ movie { title } slow { movie { title } } }";
      const asked = one.ask(query);
      for (let turn = 0; turn < 10; turn++) await settle();
      state.title = "new";
      await two.cache.invalidateTags(["movie"]);
      await settle();
      held.open();
      await asked;
      await settle();
      for (const site of [two, one]) expect(JSON.stringify((await site.ask(query)).data)).not.toContain("old");
    });

  it("tags of responses invalidate what is being executed", async () => {
    const { one, two, state } = openTwo(server, {}, { tags: () => ["page"] });
    const held = gate();
    state.until = held.passed;
    const asked = one.ask("{ plain slow { title } }");
    for (let turn = 0; turn < 10; turn++) await settle();
    state.title = "new";
    await two.cache.invalidateTags(["page"]);
    held.open();
    await asked;
    await settle();
    expect(JSON.stringify((await two.ask("{ plain slow { title } }")).data)).not.toContain("old");
  });

  it("a soft one serves the old response only while it is executed again, and never an older one after that", async () => {
    const { one, two, state } = openTwo(server, {}, { staleWhileRevalidate: 600 });
    for (const site of [one, two]) await site.ask(MOVIE);
    state.title = "new";
    await one.cache.invalidateTags(["movie"], { soft: true });
    for (let nth = 0; nth < 4; nth++) {
      await two.ask(MOVIE);
      await settle();
    }
    expect(titleOf(await two.ask(MOVIE))).toBe(true);
    expect(titleOf(await one.ask(MOVIE))).toBe(true);
  });

  it("nothing old is served in place of an error", async () => {
    const { one, two, state } = openTwo(server, {}, { staleIfError: 600 });
    for (const site of [one, two]) await site.ask("{ slow { title } plain }");
    state.title = "new";
    state.until = Promise.reject(new Error("away"));
    state.until.catch(() => undefined);
    await one.cache.invalidate({ coordinate: "responses" });
    const { data, errors } = await two.ask("{ slow { title } plain }");
    expect([JSON.stringify(data).includes("old"), errors?.length]).toEqual([false, 1]);
  });
});

it("a stale response has a Cache-Control that allows nobody to keep it on Apollo Server", async () => {
  const { one, clock } = openTwo("Apollo Server", {}, { staleWhileRevalidate: 600, maxAge: 10 });
  await one.ask(MOVIE);
  await clock.advance(20_000);
  const held: unknown[] = [];
  for (const answer of await Promise.all([one.ask(MOVIE), one.ask(MOVIE)])) held.push(answer.cacheControl);
  await clock.advance(9_500);
  held.push((await one.ask(MOVIE)).cacheControl);
  expect(
    held.every((one) => one === undefined || one === "no-store" || /^max-age=\d+, public$/.test(String(one))),
  ).toBe(true);
});
