import { gate, settle } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { apolloOf, type Context, openSite } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    quick: String @cacheControl(maxAge: 60)
    slow: String @cacheControl(maxAge: 60)
    mine: String @cacheControl(maxAge: 60, scope: PRIVATE)
  }
`;

/** Apollo Server with batches. `state.until`: when the slow field returns. Returns what asks for several queries at once. */
async function openBatches() {
  const state = { until: Promise.resolve() as Promise<unknown>, executions: 0 };
  const resolvers = {
    Query: {
      quick: () => "quick",
      slow: async () => {
        state.executions++;
        await state.until;
        return "slow";
      },
      mine: (_: unknown, __: unknown, { user }: Context) => user,
    },
  };
  const apollo = apolloOf(openSite({ typeDefs, resolvers }), { csrfPrevention: false, allowBatchedHttpRequests: true });
  await apollo.start();
  const ask = async (queries: string[], user?: string) => {
    const { headers, body } = await apollo.executeHTTPGraphQLRequest({
      httpGraphQLRequest: {
        method: "POST",
        headers: new Map([["content-type", "application/json"]]) as never,
        search: "",
        body: queries.map((query) => ({ query })),
      },
      context: async () => ({ user }) as Context,
    });
    await settle();
    return { control: headers.get("cache-control"), text: (body as { string: string }).string };
  };
  return { state, ask };
}

it("a batch of Apollo Server stores each of its responses once, whichever ends first, and sends them as they were", async () => {
  const { state, ask } = await openBatches();
  const held = gate();
  state.until = held.passed;
  const queries = ["{ quick }", "{ slow }", "{ slow }", "{ a: slow }"];
  const first = ask(queries);
  for (let turn = 0; turn < 10; turn++) await settle();
  held.open();
  const { text } = await first;
  expect((await ask(queries)).text).toBe(text);
  expect(state.executions).toBe(2);
});

it("a batch of Apollo Server says no more of caches than its narrowest response, hit or miss", async () => {
  const { ask } = await openBatches();
  for (const user of ["ann", "ann", "bob", "bob"])
    for (const queries of [
      ["{ quick }", "{ mine }"],
      ["{ mine }", "{ quick }"],
    ]) {
      const { control, text } = await ask(queries, user);
      expect(text).toContain(user);
      expect(control).toBe("max-age=60, private");
    }
});
