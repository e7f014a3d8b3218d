import { gate, settle } from "@graphql-cached/testing";
import { execute, parse } from "graphql";
import { expect, it } from "vitest";
import { itOnGraphql17 } from "../support/graphql-17.js";
import { openSubtrees } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { page: Page @cached(maxAge: 60, subtree: true) }
  type Page { id: ID! title: String }
`;

function open() {
  const held = gate();
  const signals: (AbortSignal | undefined)[] = [];
  let titles = 0;
  const resolvers = {
    Query: { page: () => ({ id: 1 }) },
    Page: {
      title: async (
        _: unknown,
        __: unknown,
        ___: unknown,
        info: { getAbortSignal?: () => AbortSignal | undefined },
      ) => {
        const signal = info.getAbortSignal?.();
        signals.push(signal);
        await held.passed;
        signal?.throwIfAborted();
        return `title ${++titles}`;
      },
    },
  };
  return { ...openSubtrees({ typeDefs, resolvers }), held, signals, count: () => titles };
}

it("a request that waits for the build of a request that has ended gets its value", async () => {
  const { ask, held, count } = open();
  const ended = new AbortController();
  const first = ask("{ page { title } }", { request: { signal: ended.signal } });
  await settle();
  const others = [ask("{ page { title } }"), ask("{ page { title } }")];
  await settle();
  ended.abort();
  await settle();
  held.open();
  for (const other of others) {
    const { data, errors } = await other;
    expect([data, errors]).toEqual([{ page: { title: expect.stringMatching(/^title \d$/) } }, undefined]);
  }
  await first.catch(() => undefined);
  const before = count();
  const { data } = await ask("{ page { title } }");
  expect(data).toEqual({ page: { title: expect.stringMatching(/^title \d$/) } });
  expect(count() - before).toBeLessThanOrEqual(1);
});

it("a request that ends while it waits leaves the build to the others", async () => {
  const { ask, held, count } = open();
  const ended = new AbortController();
  const first = ask("{ page { title } }");
  await settle();
  const waiting = ask("{ page { title } }", { request: { signal: ended.signal } });
  await settle();
  ended.abort();
  held.open();
  expect((await first).data).toEqual({ page: { title: "title 1" } });
  await waiting.catch(() => undefined);
  expect((await ask("{ page { title } }")).data).toEqual({ page: { title: "title 1" } });
  expect(count()).toBe(1);
});

itOnGraphql17("resolvers of a build get the signal of the load: one caller that hangs up does not end it", async () => {
  const { cache, schema, ask, held, signals } = open();
  const ended = new AbortController();
  const { document, finish } = cache.prepare(schema, parse("{ page { title } }"));
  const args = { schema, document, contextValue: {}, abortSignal: ended.signal };
  const first = Promise.resolve(execute(args)).then(finish, (error: unknown) => error);
  await settle();
  const other = ask("{ page { title } }");
  await settle();
  ended.abort();
  await first;
  expect(signals[0]?.aborted).toBe(false);
  held.open();
  const { data, errors } = await other;
  expect([data, errors]).toEqual([{ page: { title: "title 1" } }, undefined]);
});
