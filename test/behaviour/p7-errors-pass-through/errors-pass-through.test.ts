import { gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { GraphQLError, graphql } from "graphql";
import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it, onTestFinished } from "vitest";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, memoryWorld, onEachStore } from "../../support/world.js";

const typeDefs =
  "type Query { top: Int @cached(maxAge: 60) all(n: Int): [Int] @cached(maxAge: 60) value: Thing @cached(maxAge: 60) } type Thing { name: String }";

onEachStore("load errors", (world) => {
  it("reports one load's error to every waiter in every process", async () => {
    const loadGate = gate();
    let loads = 0;
    const failure = new GraphQLError("no such film", { extensions: { code: "NOT_FOUND" } });
    const top = async (): Promise<never> => {
      loads++;
      await loadGate.passed;
      throw failure;
    };
    const shared = world();
    const [first, second] = [
      shared.process(typeDefs, { Query: { top } }),
      shared.process(typeDefs, { Query: { top } }),
    ];
    const results = [...Array.from({ length: 20 }, () => first.ask("{ top }"))];
    while (loads === 0) await settle();
    results.push(...Array.from({ length: 20 }, () => second.ask("{ top }")));
    await settle();
    loadGate.open();
    for (const { errors } of await Promise.all(results)) {
      expect(errors).toHaveLength(1);
      expect(errors?.[0]?.message).toBe("no such film");
      expect(errors?.[0]?.extensions).toEqual({ code: "NOT_FOUND" });
    }
    expect(loads).toBe(1);
  });
});

class Rated {
  readonly n = 1;
  constructor(readonly average: Promise<never>) {}
}

it.each([
  ["its payload", "rate: Payload", (failing: Promise<never>) => ({ n: 1, average: failing })],
  ["its list", "rate: [Int]", (failing: Promise<never>) => [1, failing]],
  ["an object of its payload", "rate: Payload", (failing: Promise<never>) => ({ inner: { average: failing } })],
  ["an instance of its payload's class", "rate: Payload", (failing: Promise<never>) => new Rated(failing)],
  [
    "what a promise of its payload resolves to",
    "rate: Payload",
    (failing: Promise<never>) => ({ inner: Promise.resolve(new Rated(failing)) }),
  ],
  [
    "a list of thousands",
    "rate: [Int]",
    (failing: Promise<never>) => [failing, ...Array.from({ length: 20_000 }, async () => 1)],
  ],
])(
  "a mutation whose invalidation is slower than the failure of a promise in %s answers with that error",
  async (_, field, resultOf) => {
    const appending = gate();
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    onTestFinished(() => void process.off("unhandledRejection", note));
    const inner = memoryStore();
    const appendClock: Store["appendClock"] = async (...given) => {
      await appending.passed;
      return inner.appendClock(...given);
    };
    const { ask } = memoryWorld(() => overrideStore(inner, { appendClock })).process(
      `type Query { top: Int @cached(maxAge: 60) } type Payload { n: Int average: Float inner: Payload } type Mutation { ${field} @invalidates(tags: ["Movie:7"]) }`,
      { Mutation: { rate: () => resultOf(Promise.reject(new Error("no average"))) } },
    );
    const answer = ask(field.includes("[") ? "mutation { rate }" : "mutation { rate { n average inner { average } } }");
    await settle();
    await new Promise((resolve) => setImmediate(resolve));
    appending.open();
    expect((await answer).errors?.map(({ message }) => message)).toEqual(["no average"]);
    expect(unhandled).toEqual([]);
  },
);

describe("load errors", () => {
  it("passes the original error object through to the caller", async () => {
    const failure = new TypeError("broken");
    const { ask } = memoryWorld().process(typeDefs, { Query: { top: () => Promise.reject(failure) } });
    const { errors } = await ask("{ top }");
    expect(errors?.[0]?.originalError).toBe(failure);
  });

  const circular: unknown[] = [];
  circular.push(circular);
  const thrown: Readonly<Record<string, unknown>> = {
    undefined: undefined,
    "a string": "down",
    "a symbol": Symbol("down"),
    "an object with a message": { message: "down" },
    "an object with extensions": { message: "down", extensions: { code: "DOWN" } },
    "an empty object": {},
    "an object without a prototype": Object.assign(Object.create(null) as object, { status: 503 }),
    "a circular list": circular,
  };
  for (const [name, value] of Object.entries(thrown))
    it(`shows every caller the error that graphql makes of a thrown value that is not an error: ${name}`, async () => {
      let loads = 0;
      const top = async (): Promise<never> => {
        loads++;
        throw value;
      };
      const plain = makeExecutableSchema({ typeDefs: "type Query { top: Int }", resolvers: { Query: { top } } });
      const { errors: expected } = await graphql({ schema: plain, source: "{ top }" });
      loads = 0;
      const world = memoryWorld();
      const processes = [0, 1].map(() => world.process(typeDefs, { Query: { top } }));
      for (const { ask } of [...processes, ...processes]) {
        const { errors } = await ask("{ top }");
        expect(errors?.map((error) => error.toJSON())).toEqual(expected?.map((error) => error.toJSON()));
        expect(errors?.[0]?.originalError?.name).toBe(expected?.[0]?.originalError?.name);
      }
      // What cannot be copied is loaded by each process.
      expect(loads).toBe(["a symbol", "a circular list"].includes(name) ? 2 : 1);
    });

  it("rejects only the failed id of a batch", async () => {
    const { cache } = memoryWorld().process(typeDefs, {});
    const load = cache.loader<number, number>({
      name: "N",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => (id === 2 ? new Error("two") : id)),
    });
    expect(await load({}).loadMany([1, 2, 3])).toEqual([1, expect.objectContaining({ message: "two" }), 3]);
  });
});

describe("unserializable values", () => {
  it("returns an unserializable value unchanged, loads it again next time and reports its coordinate", async () => {
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
      "`Query.value`: the value is not cached: expected plain data, Date, BigInt, Map, Set or Buffer, got an instance of Thing at `result`; add `Thing: { is, encode, decode }` to createCache({ types }), or return plain data",
    );
  });
});

describe("a load that never settles", () => {
  it("rejects its callers after loadTimeoutMs without delaying other keys", async () => {
    const { ask } = memoryWorld().process(
      typeDefs,
      { Query: { top: () => new Promise(() => undefined), all: () => [1] } },
      { loads: { loadTimeoutMs: 50 } },
    );
    const { errors } = await ask("{ top }");
    expect(errors?.[0]?.message).toContain("expected the load to finish within 50 ms");
    expect(await dataOf(ask("{ all }"))).toEqual({ all: [1] });
  });

  it("loads directly from the source when a load requests its own key", async () => {
    const process = memoryWorld().process(typeDefs, {
      Query: {
        all: async (_: unknown, { n }: { n?: number }) =>
          n === 1 ? [2] : ((await process.ask("{ all(n: 1) }")).data?.all as number[]),
      },
    });
    expect(await dataOf(process.ask("{ all }"))).toEqual({ all: [2] });
  });
});
