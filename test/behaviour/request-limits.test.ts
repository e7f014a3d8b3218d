import { ApolloServer } from "@apollo/server";
import { cachedPlugin } from "graphql-cached/apollo";
import { gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { memoryWorld } from "../support/world.js";

describe("slots for loads", () => {
  it("are given to requests in turn, however many loads one of them has", async () => {
    const gates = new Map<string, ReturnType<typeof gate>>();
    const begun: string[] = [];
    const { ask } = memoryWorld().process(
      "type Query { slow(id: ID): ID @cached(maxAge: 60) }",
      {
        Query: {
          slow: async (_: unknown, { id }: { id: string }) => {
            begun.push(id);
            const own = gate();
            gates.set(id, own);
            await own.passed;
            return id;
          },
        },
      },
      { loads: { maxConcurrentLoads: 2 } },
    );
    const many = ask(`{ ${Array.from({ length: 8 }, (_, n) => `a${n}: slow(id: "a${n}")`).join(" ")} }`);
    while (begun.length < 2) await settle();
    const one = ask('{ slow(id: "b") }');
    await settle();
    gates.get("a0")?.open();
    while (begun.length < 3) await settle();
    gates.get("a1")?.open();
    while (begun.length < 4) await settle();
    expect(begun.slice(2)).toContain("b");
    for (let open = 0; open < 20; open++) {
      for (const each of gates.values()) each.open();
      await settle();
    }
    await Promise.all([many, one]);
  });
});

describe("a value that GraphQL refuses", () => {
  it("is not stored on Apollo Server, whose plugins replace all resolvers", async () => {
    let loads = 0;
    const { schema, cache } = memoryWorld().process(
      "type Query { item: Item @cached(maxAge: 60) } type Item { id: ID! }",
      { Query: { item: () => ({ id: ++loads === 1 ? null : "7" }) } },
    );
    const server = new ApolloServer({
      schema,
      plugins: [
        cachedPlugin(cache),
        { requestDidStart: async () => ({ executionDidStart: async () => ({ willResolveField: () => undefined }) }) },
      ],
    });
    const ask = async () => {
      const { body } = await server.executeOperation({ query: "{ item { id } }" });
      return body.kind === "single" ? { ...body.singleResult.data } : undefined;
    };
    expect(await ask()).toEqual({ item: null });
    await settle();
    expect(await ask()).toEqual({ item: { id: "7" } });
    await server.stop();
  });
});
