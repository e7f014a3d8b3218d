import { settle } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { now: Int @cacheControl(maxAge: 60) }
`;

function open(server: "Apollo Server" | "GraphQL Yoga", plugins: readonly unknown[]) {
  let executions = 0;
  const resolvers = { Query: { now: () => ++executions } };
  return { ...openSite({ typeDefs, resolvers, server, plugins }), count: () => executions };
}

it("keeps a response although another plugin of Apollo Server sets a header of each request before its operation", async () => {
  const plugin = {
    requestDidStart: async ({ response }: { response: { http: { headers: Map<string, string> } } }) => {
      response.http.headers.set("x-request-id", "1");
    },
  };
  const { ask, count } = open("Apollo Server", [plugin]);
  await ask("{ now }");
  await ask("{ now }");
  expect(count()).toBe(1);
});

it("does not keep what another plugin of GraphQL Yoga has answered in place of the execution", async () => {
  let isFirst = true;
  const plugin = {
    onExecute({ setResultAndStopExecution }: { setResultAndStopExecution(result: object): void }) {
      if (isFirst) setResultAndStopExecution({ data: { now: -1 } });
      isFirst = false;
    },
  };
  const { ask } = open("GraphQL Yoga", [plugin]);
  expect((await ask("{ now }")).data).toEqual({ now: -1 });
  await settle();
  expect((await ask("{ now }")).data).toEqual({ now: 1 });
});

it.each(SERVERS)(
  "%s stores no response if none of its cached fields was read, as when another cache has answered",
  async (server) => {
    let executions = 0;
    const { ask } = openSite({
      typeDefs: `type Query {
      now: Int @cacheControl(maxAge: 60)
      cached: Int @cached(maxAge: 60) @cacheControl(maxAge: 60)
    }`,
      resolvers: { Query: { now: () => ++executions, cached: () => 1 } },
      server,
    });
    const query = "query ($reads: Boolean!) { now cached @include(if: $reads) }";
    for (const reads of [false, false, true, true]) await ask(query, {}, { reads });
    expect(executions).toBe(3);
  },
);
