import { gate, settle } from "@graphql-cached/testing";
import { parse } from "graphql";
import { expect, it } from "vitest";
import { openSite, SERVERS } from "./site.js";

it.each(SERVERS)("an execution on %s whose time is over is a part of no other response", async (server) => {
  let executions = 0;
  const [reached, held] = [gate(), gate()];
  const { ask, cache, clock, schema } = openSite({
    typeDefs: "type Query { hung: Int @cacheControl(maxAge: 600) page: Int @cacheControl(maxAge: 600) }",
    resolvers: {
      Query: {
        async hung() {
          reached.open();
          await held.passed;
        },
        page: () => ++executions,
      },
    },
    server,
    responses: { scope: "PUBLIC" },
    cache: { loads: { loadTimeoutMs: 1_000 } },
  });
  const asked = ask("{ hung }");
  await reached.passed;
  await clock.advance(2_000);
  const answers: unknown[] = [];
  for (let nth = 0; nth < 3; nth++) {
    const args = { schema, document: parse("{ page }"), contextValue: {} };
    answers.push((await cache.execute(args, { scope: "PUBLIC" })).data);
    await settle();
  }
  held.open();
  await asked;
  expect(answers).toEqual([{ page: 1 }, { page: 1 }, { page: 1 }]);
});
