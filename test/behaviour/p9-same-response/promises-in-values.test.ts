import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = `
  type Query {
    items: [Item] @cached(maxAge: 60, tags: ["Item:{$result[].id}"])
    item: Item @cached(maxAge: 60)
    names: [String] @cached(maxAge: 60, tags: ["Name:{$result[]}"])
  }
  type Item { id: ID name: String next: Item parts: [Item] at: String }
`;

const later = <T>(value: T): Promise<T> => settle().then(() => value);
const item = (id: string) => ({ id, name: `name of ${id}` });

describe("a value with promises", () => {
  const VALUES: readonly [string, string, () => unknown][] = [
    ["a list of them", "{ items { id name } }", () => ["1", "2"].map((id) => later(item(id)))],
    ["a list with some, and null", "{ items { id } }", () => [item("1"), later(item("2")), later(null)]],
    ["a promise of promises", "{ items { id } }", () => later([later(item("1")), later(later(item("2")))])],
    ["a property", "{ item { id name } }", () => ({ id: "1", name: later("one") })],
    [
      "properties at any depth",
      "{ item { id next { id parts { id name } } } }",
      () => ({ id: "1", next: { ...item("2"), parts: [later({ id: "3", name: later("three") })] } }),
    ],
    [
      "those of an object without a prototype",
      "{ item { id name } }",
      () => Object.assign(Object.create(null) as object, { id: "1", name: later("one") }),
    ],
  ];
  it.each(VALUES)("is stored with what they resolve to: %s", async (_what, query, value) => {
    let loads = 0;
    const shared = memoryWorld();
    const resolve = () => (loads++, value());
    const start = () => shared.process(typeDefs, { Query: { items: resolve, item: resolve, names: resolve } });
    const first = start();
    const answers = await Promise.all([dataOf(first.ask(query)), dataOf(first.ask(query, {}))]);
    while (!first.events.some(({ name }) => name === "write.finished")) await settle();
    answers.push(await dataOf(start().ask(query)));
    const plain = memoryWorld().process(typeDefs.replaceAll(/@cached\([^)]*\)/g, ""), {
      Query: { items: value, item: value, names: value },
    });
    const expected = await dataOf(plain.ask(query));
    for (const answer of answers) expect(answer).toEqual(expected);
    expect(loads).toBe(1);
  });

  it("has the tags of what they resolve to", async () => {
    let loads = 0;
    const shared = memoryWorld();
    const names = () => (loads++, [later("a"), later("b")]);
    const { ask, cache, events } = shared.process(typeDefs, { Query: { names } });
    await ask("{ names }");
    while (!events.some(({ name }) => name === "write.finished")) await settle();
    await cache.invalidateTags(["Name:b"]);
    await ask("{ names }", {});
    expect(loads).toBe(2);
  });

  it("is the same from a loader on a miss and on a hit", async () => {
    const shared = memoryWorld();
    let loads = 0;
    const load = async () => {
      const { cache, events } = shared.process("type Query { a: Int }", {});
      const loader = cache.loader<number, unknown>({
        name: "Item",
        maxAge: 60,
        batch: async (ids) => ids.map((id) => (loads++, [later({ id, name: later("one") })])),
      });
      const value = await loader({}).load(1);
      while (!events.some(({ name }) => name === "write.finished" || name === "entry.served")) await settle();
      return value;
    };
    expect([await load(), await load()]).toEqual([[{ id: 1, name: "one" }], [{ id: 1, name: "one" }]]);
    expect(loads).toBe(1);
  });

  it("is not stored if one rejects, and is answered as without the cache", async () => {
    let loads = 0;
    const items = () => (loads++, [later(item("1")), settle().then(() => Promise.reject(new Error("no item")))]);
    const { ask, events } = memoryWorld().process(typeDefs, { Query: { items } });
    for (let read = 1; read <= 2; read++) {
      const { data, errors } = await ask("{ items { id } }", {});
      expect(data).toEqual({ items: [{ id: "1" }, null] });
      expect(errors?.map(({ message, path }) => [message, path])).toEqual([["no item", ["items", 1]]]);
      expect(loads).toBe(read);
    }
    const [refused] = events.filter(({ name }) => name === "value.refused");
    expect(refused).toMatchObject({
      error: {
        code: "CACHED_VALUE_UNSERIALIZABLE",
        message: expect.stringContaining("an instance of Promise at `result[0]`; await it"),
      },
    });
  });
});

it("a promise that is never resolved and not selected delays its caller for ten seconds at most", async () => {
  const clock = new FakeClock();
  const { ask } = memoryWorld(() => memoryStore({ clock })).process(
    typeDefs,
    { Query: { item: () => ({ id: "1", name: new Promise(() => undefined) }) } },
    { testing: { clock } },
  );
  const asked = dataOf(ask("{ item { id } }"));
  await clock.advance(10_000);
  expect(await asked).toEqual({ item: { id: "1" } });
});

it("neither a getter nor an object with `then` that is no promise is asked for its value", async () => {
  let asked = 0;
  const { ask } = memoryWorld().process(typeDefs, {
    Query: {
      item: () => ({
        id: "1",
        name: later("one"),
        get next() {
          asked++;
          return item("2");
        },
        // biome-ignore lint/suspicious/noThenProperty: as a query that has not been sent.
        parts: { then: () => asked++ },
      }),
    },
  });
  expect(await dataOf(ask("{ item { id name } }"))).toEqual({ item: { id: "1", name: "one" } });
  expect(asked).toBe(0);
});

it("a load holds its tags, limits and callers until its promises have resolved", async () => {
  const hold = gate();
  let loads = 0;
  const items = () => (loads++, [hold.passed.then(() => item("1"))]);
  const { ask } = memoryWorld().process(typeDefs, { Query: { items } });
  const first = dataOf(ask("{ items { id } }", {}));
  await settle();
  const second = dataOf(ask("{ items { id } }", {}));
  await settle();
  hold.open();
  expect([await first, await second]).toEqual([{ items: [{ id: "1" }] }, { items: [{ id: "1" }] }]);
  expect(loads).toBe(1);
});
