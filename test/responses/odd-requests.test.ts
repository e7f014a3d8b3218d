import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { GraphQLError } from "graphql";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 600)
    big: [String!] @cacheControl(maxAge: 600)
    broken(id: Int): Int @cacheControl(maxAge: 600)
    item(id: ID, at: String = "x"): String @cacheControl(maxAge: 600)
  }
  type Page @cacheControl(maxAge: 600) { titles: [String] }
`;

describe.each(SERVERS)("on %s", (server) => {
  it("errors that a resolver has swallowed keep the response from being stored", async () => {
    let isBroken = true;
    const resolvers = {
      Query: { page: () => ({}) },
      Page: {
        titles: async (_: unknown, __: unknown, context: Context) =>
          (await titles(context).loadMany([1, 2])).filter((one) => !(one instanceof Error)),
      },
    };
    const { ask, cache, clock } = openSite({ typeDefs, resolvers, server });
    const titles = cache.loader<number, string>({
      name: "Title",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => (id === 2 && isBroken ? new Error("away") : `Title ${id}`)),
    });
    await ask("{ page { titles } }");
    isBroken = false;
    await clock.advance(1_500);
    expect((await ask("{ page { titles } }")).data).toEqual({ page: { titles: ["Title 1", "Title 2"] } });
  });

  it("variables that are null, absent or a default are three keys, and long ones are executed", async () => {
    const resolvers = { Query: { item: (_: unknown, args: object) => JSON.stringify(args) } };
    const { ask } = openSite({ typeDefs, resolvers, server });
    const query = "query ($id: ID, $at: String) { item(id: $id, at: $at) }";
    const answers = [];
    for (const variables of [
      {},
      { id: null },
      { at: null },
      { id: "1", at: "x" },
      { id: 1 },
      { id: "x".repeat(70_000) },
      { id: "x".repeat(70_001) },
    ])
      for (let time = 0; time < 2; time++) answers.push(JSON.stringify((await ask(query, {}, variables)).data));
    for (let nth = 0; nth < answers.length; nth += 2) expect(answers[nth]).toBe(answers[nth + 1]);
    expect(new Set(answers).size).toBe(7 - 1);
  });

  it("answers although the response is too large to store, and the next one at once", async () => {
    let executions = 0;
    const resolvers = { Query: { big: () => Array.from({ length: 3_000 }, () => `${++executions}`.padEnd(1_000)) } };
    const { ask } = openSite({ typeDefs, resolvers, server, cache: { storage: { maxValueBytes: 100_000 } } });
    const answers = await Promise.all([ask("{ big }"), ask("{ big }")]);
    for (const { data } of answers) expect(data?.big).toHaveLength(3_000);
    expect((await ask("{ big }")).data?.big).toHaveLength(3_000);
  });

  it("errors of one caller's arguments do not keep other operations from being stored with staleIfError", async () => {
    let executions = 0;
    const resolvers = {
      Query: {
        big: () => [`${++executions}`],
        broken: () => {
          throw new GraphQLError("no such id", { extensions: { code: "NOT_FOUND" } });
        },
      },
    };
    const { ask } = openSite({ typeDefs, resolvers, server, responses: { staleIfError: 600 } });
    for (let id = 0; id < 60; id++) await ask(`query ($id: Int) { broken(id: $id) }`, {}, { id });
    await ask("{ big }");
    await ask("{ big }");
    expect(executions).toBe(1);
  });

  it("answers while the store does not reply", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    let executions = 0;
    const resolvers = { Query: { big: () => [`${++executions}`] } };
    const { ask } = openSite({ typeDefs, resolvers, server, store, clock });
    await ask("{ big }");
    const held = gate();
    (store as unknown as Record<string, unknown>).read = () =>
      held.passed.then(() => Promise.reject(new Error("away")));
    let isAnswered = false;
    const asked = ask("{ big }").then(() => (isAnswered = true));
    for (let turn = 0; turn < 10; turn++) {
      await settle();
      await clock.advance(500);
    }
    const before = isAnswered;
    held.open();
    await asked;
    expect(before).toBe(true);
  });
});
