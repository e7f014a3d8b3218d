import { ApolloServer } from "@apollo/server";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { OperationPlanner } from "../../src/core/responses/operation-plan.js";
import { HINTS, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  scalar Big
  type Query {
    page: String @cacheControl(maxAge: 60)
    big: Big @cacheControl(maxAge: 60)
    flaky: String @cacheControl(maxAge: 60)
    deep: Deep @cacheControl(maxAge: 60)
  }
  type Deep @cacheControl(maxAge: 60) { deep: Deep name: String }
`;

function planning() {
  const cache = createCache({ defaultScope: "PUBLIC", logger: { warn: () => undefined, info: () => undefined } });
  onTestFinished(() => cache.close());
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, typeDefs] }), cache);
  return {
    /** How many selections were looked at. */
    counted(text: string): number {
      const document = parse(text);
      let looks = 0;
      const watch = (set: { selections: readonly object[] } | undefined): void => {
        if (set === undefined) return;
        const { selections } = set;
        for (const one of selections) watch((one as { selectionSet?: { selections: readonly object[] } }).selectionSet);
        Object.defineProperty(set, "selections", {
          configurable: true,
          enumerable: true,
          get() {
            looks += selections.length;
            return selections;
          },
          // `print` of graphql 16.6 sets it on its copies.
          set(value: unknown) {
            Object.defineProperty(this, "selections", { value });
          },
        });
      };
      for (const one of document.definitions)
        watch((one as { selectionSet?: { selections: readonly object[] } }).selectionSet);
      new OperationPlanner(partsOf(cache, "test")).plan({ schema, document });
      return looks;
    },
  };
}

describe("planning", () => {
  it("costs the sum of a document's parts, not their product", () => {
    const { counted } = planning();
    const fields = Array.from({ length: 2_000 }, (_, nth) => `f${nth}: name`).join(" ");
    const aliases = Array.from({ length: 1_000 }, (_, nth) => `a${nth}: deep { ...F deep { ...F } }`).join(" ");
    expect(counted(`{ ${aliases} } fragment F on Deep { ${fields} }`)).toBeLessThan(50_000);
    expect(counted(`{ ${"deep { ".repeat(1_000)} ${fields} ${"} ".repeat(1_000)} }`)).toBeLessThan(50_000);
  });
});

describe.each(SERVERS)("on %s", (server) => {
  it("responses that have expired leave their place to other operations", async () => {
    const executions: string[] = [];
    const resolvers = { Query: { page: () => `Home ${executions.push("page")}` } };
    const { ask, clock } = openSite({ typeDefs, resolvers, server, responses: { maxOperations: 2 } });
    for (const name of ["a", "b"]) await ask(`{ ${name}: page }`);
    await clock.advance(3_600_000);
    executions.length = 0;
    for (let nth = 0; nth < 3; nth++) await ask("{ page }");
    expect(executions).toHaveLength(1);
  });

  it("requests of an operation whose last response had an error do not wait for each other again", async () => {
    const state = { until: Promise.resolve() as Promise<unknown>, running: 0 };
    const resolvers = {
      Query: {
        page: () => "Home",
        flaky: async () => {
          state.running++;
          await state.until;
          state.running--;
          throw new Error("away");
        },
      },
    };
    const { ask } = openSite({ typeDefs, resolvers, server });
    for (let nth = 0; nth < 2; nth++) await ask("{ page flaky }");
    const held = gate();
    state.until = held.passed as Promise<unknown>;
    const asked = Array.from({ length: 12 }, () => ask("{ page flaky }"));
    for (let turn = 0; turn < 40; turn++) await settle();
    const { running } = state;
    held.open();
    await Promise.all(asked);
    expect(running).toBe(12);
  });
});

it("Apollo Server copies no data of responses that are not stored", async () => {
  const clock = new FakeClock();
  const cache = createCache({
    defaultScope: "PUBLIC",
    testing: { clock },
    logger: { warn: () => undefined, info: () => undefined },
  });
  onTestFinished(() => cache.close());
  let copies = 0;
  const big = { toJSON: () => ++copies };
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, HINTS, typeDefs],
      resolvers: { Query: { big: () => big } } as never,
    }),
    cache,
  );
  const apollo = new ApolloServer({ schema, plugins: [cachedPlugin(cache as never, { responses: true })] });
  onTestFinished(() => apollo.stop());
  // The first request of an operation.
  await apollo.executeOperation({ query: "{ big }" });
  await settle();
  expect(copies).toBe(0);
});

it("cache.execute with another maxAge in each call makes no response cache for each", async () => {
  const { cache, schema } = openSite({
    typeDefs,
    resolvers: { Query: { page: () => "Home" } },
    server: "cache.execute",
  });
  const made = vi.spyOn(partsOf(cache, "test").memos, "of");
  const document = parse("{ page }");
  for (let nth = 1; nth <= 100; nth++) await cache.execute({ schema, document, contextValue: {} }, { maxAge: nth });
  expect(made.mock.calls.length).toBeLessThanOrEqual(20);
});
