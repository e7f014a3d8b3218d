import { type Gate, gate, settle } from "@graphql-cached/testing";
import { GraphQLError } from "graphql";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type ServerName } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 60)
    film: Film @cached(maxAge: 60, staleWhileRevalidate: 600, tags: ["Film"]) @cacheControl(maxAge: 60)
    mine: Int @cached(maxAge: 60, staleWhileRevalidate: 600, scope: PRIVATE) @cacheControl(maxAge: 60, scope: PRIVATE)
  }
  type Page @cacheControl(inheritMaxAge: true) { views: Int }
  type Film @cacheControl(inheritMaxAge: true) { title: String }
`;

/** A site whose page waits for `held`, if that is set, and fails while `isBroken`. */
function open(server: ServerName) {
  const source = { views: 0, isBroken: false, held: undefined as Gate | undefined };
  const page = async (): Promise<object> => {
    const views = ++source.views;
    await source.held?.passed;
    if (source.isBroken) throw new Error("The source is broken");
    return { views };
  };
  const resolvers = { Query: { page, film: () => ({ title: `Film ${++source.views}` }), mine: () => ++source.views } };
  return { ...openSite({ typeDefs, resolvers, server, responses: { staleWhileRevalidate: 600 } }), source };
}

const views = ({ data }: { readonly data?: unknown }): number | undefined =>
  (data as { readonly page: { readonly views: number } | null }).page?.views;

const EXECUTING = SERVERS.filter((server) => server !== "Apollo Server");

describe.each(EXECUTING)("a stale response on %s", (server) => {
  it("is served at once, to everybody, while one execution in the background refreshes it", async () => {
    const { ask, clock, source } = open(server);
    await ask("{ page { views } }");
    await clock.advance(61_000);
    source.held = gate();
    const answers = await Promise.all([1, 2, 3].map(() => ask("{ page { views } }")));
    expect(answers.map(views)).toEqual([1, 1, 1]);
    expect(source.views).toBe(2);
    source.held.open();
    await settle();
    expect(views(await ask("{ page { views } }"))).toBe(2);
    expect(source.views).toBe(2);
  });

  it("stays until its window is over if its refresh has errors, which nobody gets", async () => {
    const { ask, clock, source } = open(server);
    await ask("{ page { views } }");
    await clock.advance(61_000);
    source.isBroken = true;
    for (const _ of [1, 2]) expect(await ask("{ page { views } }")).toMatchObject({ data: { page: { views: 1 } } });
    expect(source.views).toBe(2);
    source.isBroken = false;
    await clock.advance(5_000);
    for (const _ of [1, 2]) await ask("{ page { views } }");
    expect(views(await ask("{ page { views } }"))).toBe(3);
    await clock.advance(700_000);
    expect(views(await ask("{ page { views } }"))).toBe(4);
  });

  it("is not replaced by what was executed before an invalidation", async () => {
    const { ask, cache, clock, source } = open(server);
    await ask("{ page { views } film { title } }");
    await clock.advance(61_000);
    source.held = gate();
    await ask("{ page { views } film { title } }");
    await cache.invalidateTags(["Film"]);
    const asked = ask("{ page { views } film { title } }");
    await settle();
    source.held.open();
    const answer = await asked;
    expect(await ask("{ page { views } film { title } }")).toMatchObject({ data: answer.data });
    expect(answer.data).not.toMatchObject({ film: { title: "Film 2" } });
  });

  it("of one caller is refreshed for this caller", async () => {
    const { ask, clock } = open(server);
    const ann = await ask("{ mine }", { user: "ann" });
    const bob = await ask("{ mine }", { user: "bob" });
    expect(ann.data).not.toEqual(bob.data);
    await clock.advance(61_000);
    expect((await ask("{ mine }", { user: "ann" })).data).toEqual(ann.data);
    expect((await ask("{ mine }", { user: "bob" })).data).toEqual(bob.data);
    const again = [await ask("{ mine }", { user: "ann" }), await ask("{ mine }", { user: "bob" })];
    expect(again.map(({ data }) => data)).toEqual([{ mine: 3 }, { mine: 4 }]);
    expect((await ask("{ mine }", {})).data).not.toEqual(ann.data);
  });
});

it("one request waits for a refresh on Apollo Server, while others get the stale response", async () => {
  const { ask, clock, source } = open("Apollo Server");
  await ask("{ page { views } }");
  await clock.advance(61_000);
  source.held = gate();
  const first = ask("{ page { views } }");
  await settle();
  expect(views(await ask("{ page { views } }"))).toBe(1);
  source.held.open();
  expect(views(await first)).toBe(2);
});

it.each(SERVERS)(
  "a response on %s that is executed for a caller with permission, while its executions fail for others, leaves no lease without an execution behind",
  async (server) => {
    let isForbidden = true;
    const page = () => {
      if (isForbidden) throw new GraphQLError("not for you", { extensions: { code: "FORBIDDEN" } });
      return { views: 1 };
    };
    const responses = { staleWhileRevalidate: 600 };
    const { ask, clock } = openSite({ typeDefs, resolvers: { Query: { page } }, server, responses });
    for (const _ of [1, 2]) expect((await ask("{ page { views } }")).errors).toHaveLength(1);
    isForbidden = false;
    expect(views(await ask("{ page { views } }"))).toBe(1);
    await clock.advance(1_500);
    let answered: unknown;
    void ask("{ page { views } }").then((answer) => {
      answered = answer.data;
    });
    for (let turn = 0; turn < 20; turn++) await settle();
    const answeredAtOnce = answered;
    // A load that never ends would keep the cache from closing.
    await clock.advance(60_000);
    expect(answeredAtOnce).toEqual({ page: { views: 1 } });
  },
);
