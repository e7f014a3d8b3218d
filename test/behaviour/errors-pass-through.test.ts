import { GraphQLError } from "graphql";
import { gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, onEachStore } from "../support/world.js";

const typeDefs =
  "type Query { top: Int @cached(maxAge: 60) all(n: Int): [Int] @cached(maxAge: 60) value: Thing @cached(maxAge: 60) } type Thing { name: String }";

onEachStore("an error of a load", (world) => {
  it("reaches all who wait for it, in all processes, after one load", async () => {
    const door = gate();
    let loads = 0;
    const failure = new GraphQLError("no such film", { extensions: { code: "NOT_FOUND" } });
    const top = async (): Promise<never> => {
      loads++;
      await door.passed;
      throw failure;
    };
    const shared = world();
    const [first, second] = [
      shared.process(typeDefs, { Query: { top } }),
      shared.process(typeDefs, { Query: { top } }),
    ];
    const answers = [...Array.from({ length: 20 }, () => first.ask("{ top }"))];
    while (loads === 0) await settle();
    answers.push(...Array.from({ length: 20 }, () => second.ask("{ top }")));
    await settle();
    door.open();
    for (const { errors } of await Promise.all(answers)) {
      expect(errors).toHaveLength(1);
      expect(errors?.[0]?.message).toBe("no such film");
      expect(errors?.[0]?.extensions).toEqual({ code: "NOT_FOUND" });
    }
    expect(loads).toBe(1);
  });
});

describe("an error of a load", () => {
  it("is the same object for whoever loads it", async () => {
    const failure = new TypeError("broken");
    const { ask } = memoryWorld().process(typeDefs, { Query: { top: () => Promise.reject(failure) } });
    const { errors } = await ask("{ top }");
    expect(errors?.[0]?.originalError).toBe(failure);
  });

  it("of one id leaves the other ids of its batch alone", async () => {
    const { cache } = memoryWorld().process(typeDefs, {});
    const load = cache.loader<number, number>({
      name: "N",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => (id === 2 ? new Error("two") : id)),
    });
    expect(await load({}).loadMany([1, 2, 3])).toEqual([1, expect.objectContaining({ message: "two" }), 3]);
  });
});

describe("a value that cannot be stored", () => {
  it("reaches its reader as it is, is loaded again by the next, and is told of with its coordinate", async () => {
    class Thing {
      readonly name = "thing";
    }
    const { ask, events } = memoryWorld().process(typeDefs, { Query: { value: () => new Thing() } });
    expect(await dataOf(ask("{ value { name } }"))).toEqual({ value: { name: "thing" } });
    await settle();
    expect(await dataOf(ask("{ value { name } }"))).toEqual({ value: { name: "thing" } });
    const refused = events.find((event) => event.name === "value.refused");
    expect(refused).toMatchObject({ coordinate: "Query.value", error: { code: "CACHED_VALUE_UNSERIALIZABLE" } });
    expect(refused?.error.message).toBe(
      "`Query.value`: the value is not cached: expected plain data, Date, BigInt, Map, Set or Buffer, got an instance of Thing at `result`; return plain data, or declare the class in createCache({ types })",
    );
  });
});

describe("a load that never ends", () => {
  it("gives its readers an error, and other keys are not held up", async () => {
    const { ask } = memoryWorld().process(
      typeDefs,
      { Query: { top: () => new Promise(() => undefined), all: () => [1] } },
      { loadTimeoutMs: 50 },
    );
    const { errors } = await ask("{ top }");
    expect(errors?.[0]?.message).toContain("expected the load to finish within 50 ms");
    expect(await dataOf(ask("{ all }"))).toEqual({ all: [1] });
  });

  it("that asks for its own key is answered by the source", async () => {
    const process = memoryWorld().process(typeDefs, {
      Query: {
        all: async (_: unknown, { n }: { n?: number }) =>
          n === 1 ? [2] : ((await process.ask("{ all(n: 1) }")).data?.all as number[]),
      },
    });
    expect(await dataOf(process.ask("{ all }"))).toEqual({ all: [2] });
  });
});
