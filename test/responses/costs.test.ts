import { HeaderMap } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { GraphQLObjectType, parse, validate } from "graphql";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { OperationPlanner } from "../../src/core/responses/operation-plan.js";
import { Memo } from "../../src/core/tier/request/known-key.js";
import { collectGarbage } from "../support/collect-garbage.js";
import { apolloOf, askApollo, openSite, postYoga, SERVERS, yogaOf } from "./site.js";

const typeDefs = /* GraphQL */ `
  scalar Big
  type Query {
    page: String @cacheControl(maxAge: 60)
    big: Big @cacheControl(maxAge: 60)
    flaky: String @cacheControl(maxAge: 60)
    deep: Deep @cacheControl(maxAge: 60)
    cached: Int @cached(maxAge: 60)
    uncached: Int
  }
  type Deep @cacheControl(maxAge: 60) { deep: Deep name: String }
`;
const MEGABYTE = 2 ** 20;

/** The memory of the process, without garbage. */
async function usedBytes(): Promise<number> {
  for (let turn = 0; turn < 5; turn++) {
    await new Promise(setImmediate);
    collectGarbage();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

interface Selecting {
  readonly selectionSet?: { readonly selections: readonly Selecting[] };
}

describe("planning", () => {
  /** Returns how many selections of a document are looked at. */
  function looksAt(text: string): number {
    const { cache, schema } = openSite({ typeDefs });
    const document = parse(text);
    let looks = 0;
    const watch = ({ selectionSet }: Selecting): void => {
      if (selectionSet === undefined) return;
      const { selections } = selectionSet;
      for (const one of selections) watch(one);
      Object.defineProperty(selectionSet, "selections", {
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
    for (const one of document.definitions) watch(one as Selecting);
    new OperationPlanner(partsOf(cache, "test")).plan({ schema, document });
    return looks;
  }

  it("costs the sum of a document's parts, not their product", () => {
    const fields = Array.from({ length: 2_000 }, (_, nth) => `f${nth}: name`).join(" ");
    const aliases = Array.from({ length: 1_000 }, (_, nth) => `a${nth}: deep { ...F deep { ...F } }`).join(" ");
    expect(looksAt(`{ ${aliases} } fragment F on Deep { ${fields} }`)).toBeLessThan(50_000);
    expect(looksAt(`{ ${"deep { ".repeat(1_000)} ${fields} ${"} ".repeat(1_000)} }`)).toBeLessThan(50_000);
  });

  it("looks at each type once for a field of an interface, however often it is selected", () => {
    const types = Array.from(
      { length: 300 },
      (_, nth) => `type T${nth} implements Node { id: ID! name: String node: Node nodes: [Node!] }`,
    );
    const { cache, schema } = openSite({
      typeDefs: `interface Node { id: ID! name: String node: Node nodes: [Node!] } type Query { node: Node } ${types.join("\n")}`,
    });
    const fields = Array.from({ length: 2_000 }, (_, nth) => `a${nth}: name`).join(" ");
    const fragments = Array.from({ length: 200 }, (_, nth) => `...on T${nth} { b${nth}: node { ...F } }`).join(" ");
    const document = parse(`{ node { ${fragments} ...F } } fragment F on Node { ${fields} node { id } }`);
    expect(validate(schema, document)).toEqual([]);
    const planner = new OperationPlanner(partsOf(cache, "test"));
    const looks = vi.spyOn(GraphQLObjectType.prototype, "getFields");
    onTestFinished(() => looks.mockRestore());
    planner.plan({ schema, document });
    // The fields `name`, `node` and `id` of 300 types, `node` of 200 types in fragments, and that of Query.
    expect(looks).toHaveBeenCalledTimes(3 * 300 + 200 + 1);
  });
});

describe("of operations that are asked for once", () => {
  /** Returns what asks for one operation of its own after the other, whose documents nobody keeps. */
  function open(field: string): (operations: number) => Promise<void> {
    const resolvers = { Query: { cached: () => 1, uncached: () => 1 } };
    const { cache, schema } = openSite({ typeDefs, resolvers, knowsOperations: false });
    let nth = 0;
    return async (operations) => {
      for (const end = nth + operations; nth < end; nth++)
        await cache.execute({ schema, document: parse(`query Own${nth} { ${field} }`), contextValue: {} });
    };
  }

  it.each([
    ["little is remembered", "cached", 400],
    ["less is remembered if they are not cacheable", "uncached", 140],
  ])("%s", async (_, field, bytes) => {
    const OPERATIONS = 5_000;
    const ask = open(field);
    await ask(500);
    const before = await usedBytes();
    await ask(OPERATIONS);
    expect(((await usedBytes()) - before) / OPERATIONS).toBeLessThan(bytes);
  });

  it("no response has a place in memory", async () => {
    const ask = open("cached");
    await ask(1);
    const remember = vi.spyOn(Memo.prototype, "remember");
    onTestFinished(() => remember.mockRestore());
    await ask(10);
    expect(remember).not.toHaveBeenCalled();
  });
});

describe("of names of operations that a document does not have, nothing is remembered", () => {
  const nameOf = (nth: number): string => Buffer.alloc(MEGABYTE, `operation${nth}_`).toString("latin1");
  const open = () => openSite({ typeDefs, resolvers: { Query: { page: () => "Home" } }, knowsOperations: false });

  it("by cache.execute", async () => {
    const { cache, schema } = open();
    const document = parse("{ page }");
    const ask = (nth: number) => cache.execute({ schema, document, contextValue: {}, operationName: nameOf(nth) });
    await ask(0);
    const before = await usedBytes();
    for (let nth = 1; nth <= 40; nth++) expect((await ask(nth)).errors).toHaveLength(1);
    expect(((await usedBytes()) - before) / MEGABYTE).toBeLessThan(10);
  });

  it("by GraphQL Yoga", async () => {
    const yoga = yogaOf(open());
    const ask = (nth: number) => postYoga(yoga, { query: "{ page }", operationName: nameOf(nth) });
    for (let nth = 0; nth < 5; nth++) await ask(nth);
    const before = await usedBytes();
    for (let nth = 5; nth <= 105; nth++) expect(JSON.parse(await ask(nth)).errors).toHaveLength(1);
    expect(((await usedBytes()) - before) / MEGABYTE).toBeLessThan(50);
  });
});

describe.each(SERVERS)("on %s", (server) => {
  it("responses that have expired leave their place to other operations", async () => {
    let executions = 0;
    const resolvers = { Query: { page: () => `Home ${++executions}` } };
    const { ask, clock } = openSite({ typeDefs, resolvers, server, responses: { maxOperations: 2 } });
    for (const name of ["a", "b"]) await ask(`{ ${name}: page }`);
    await clock.advance(3_600_000);
    executions = 0;
    for (let nth = 0; nth < 3; nth++) await ask("{ page }");
    expect(executions).toBe(1);
  });

  it("requests of an operation whose last response had an error do not wait for each other again", async () => {
    const state = { until: Promise.resolve(), running: 0 };
    const flaky = async () => {
      state.running++;
      await state.until;
      state.running--;
      throw new Error("away");
    };
    const { ask } = openSite({ typeDefs, resolvers: { Query: { page: () => "Home", flaky } }, server });
    for (let nth = 0; nth < 2; nth++) await ask("{ page flaky }");
    const held = gate();
    state.until = held.passed;
    const asked = Array.from({ length: 12 }, () => ask("{ page flaky }"));
    for (let turn = 0; turn < 40; turn++) await settle();
    const { running } = state;
    held.open();
    await Promise.all(asked);
    expect(running).toBe(12);
  });
});

it("Apollo Server copies no data of responses that are not stored", async () => {
  let copies = 0;
  const big = { toJSON: () => ++copies };
  const site = openSite({ typeDefs, resolvers: { Query: { big: () => big } }, knowsOperations: false });
  // The first request of an operation.
  const http = { method: "POST", headers: new HeaderMap(), search: "", body: {} };
  await askApollo(apolloOf(site), "{ big }", {}, { http });
  expect(copies).toBe(0);
});

it("cache.execute with another maxAge in each call makes no response cache for each", async () => {
  const { cache, schema } = openSite({ typeDefs, resolvers: { Query: { page: () => "Home" } } });
  const made = vi.spyOn(partsOf(cache, "test").memos, "of");
  const document = parse("{ page }");
  for (let nth = 1; nth <= 100; nth++) await cache.execute({ schema, document, contextValue: {} }, { maxAge: nth });
  expect(made.mock.calls.length).toBeLessThanOrEqual(20);
});
