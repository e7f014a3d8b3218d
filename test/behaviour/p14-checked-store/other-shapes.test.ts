import { expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    film: Film @cached(maxAge: 60)
    films: [Film!] @cached(maxAge: 60)
    found: Found @cached(maxAge: 60)
    titles: [String] @cached(maxAge: 60)
    count: Int @cached(maxAge: 60)
    share: Float @cached(maxAge: 60)
    title: String @cached(maxAge: 60)
    isOpen: Boolean @cached(maxAge: 60)
  }
  type Film { title: String! year: Int }
  union Found = Film
`;
const FILM = { title: "Heat", year: 1995 };
const QUERIES: Readonly<Record<string, { query: string; value: unknown; shapes: readonly string[] }>> = {
  film: {
    query: "{ film { title } }",
    value: FILM,
    shapes: ["5", '"Heat"', "true", "[]", '{"title":null}', '{"title":{}}'],
  },
  films: { query: "{ films { title } }", value: [FILM], shapes: ["5", '"Heat"', '{"title":"Heat"}', "[5]", "[null]"] },
  found: {
    query: "{ found { ... on Film { title } } }",
    value: { ...FILM, __typename: "Film" },
    shapes: ["5", "[]", '{"__typename":"Other"}'],
  },
  titles: { query: "{ titles }", value: ["Heat"], shapes: ["5", '"Heat"', "{}", "[{}]"] },
  count: { query: "{ count }", value: 7, shapes: ['"many"', "{}", "1.5", "3000000000", "[]"] },
  share: { query: "{ share }", value: 0.5, shapes: ['"half"', "{}"] },
  title: { query: "{ title }", value: "Heat", shapes: ["{}", "[]"] },
  isOpen: { query: "{ isOpen }", value: true, shapes: ['"yes"', "{}"] },
};

const CASES = Object.entries(QUERIES).flatMap(([name, { query, value, shapes }]) =>
  shapes.map((shape) => ({ name, query, value, shape })),
);

it.each(CASES)(
  "a hit that GraphQL refuses is loaded again, and the next one is a hit: $name is $shape",
  async ({ query, value, shape }) => {
    const world = memoryWorld();
    const inner = world.store();
    // Whether the value comes back as other JSON, until a value is stored.
    let isReshaped = false;
    const store = overrideStore(inner, {
      async read(keys) {
        const read = await inner.read(keys);
        const readings = read.readings.map((reading) => {
          if (!isReshaped || reading.kind !== "read" || reading.entry === undefined) return reading;
          const body = Buffer.from(reading.entry.body);
          const at = body.lastIndexOf(JSON.stringify(value));
          return {
            ...reading,
            entry: { ...reading.entry, body: Buffer.concat([body.subarray(0, at), Buffer.from(shape)]) },
          };
        });
        return { ...read, readings };
      },
      storeValues(requests) {
        isReshaped = false;
        return inner.storeValues(requests);
      },
    });
    let loads = 0;
    const resolverOf =
      ({ value: loaded }: { value: unknown }) =>
      () => (loads++, structuredClone(loaded));
    const Query = Object.fromEntries(Object.entries(QUERIES).map(([field, one]) => [field, resolverOf(one)]));
    const { ask, cache, outcomes } = world.process(typeDefs, { Query }, { store, memory: false } as never);
    const read = async (): Promise<unknown> => {
      const data = await dataOf(ask(query));
      await partsOf(cache, "test").drain();
      return data;
    };
    const expected = await read();
    isReshaped = true;
    expect([await read(), await read()]).toEqual([expected, expected]);
    expect([loads, outcomes()]).toEqual([2, { loaded: 2, hit: 1 }]);
  },
);

it("a value whose shape GraphQL accepts is a hit, whatever it is: a number as a text, a set as a list, 5 for an object of which nothing is read", async () => {
  const world = memoryWorld();
  const resolvers = {
    Query: { title: () => 7, count: () => "7", isOpen: () => 1, film: () => 5 },
    Film: { title: (id: number) => `film ${id}` },
  };
  const process = world.process(typeDefs, resolvers);
  for (let nth = 0; nth < 2; nth++) {
    expect(await dataOf(process.ask("{ title count isOpen film { title year } }"))).toEqual({
      title: "7",
      count: 7,
      isOpen: true,
      film: { title: "film 5", year: null },
    });
    await partsOf(process.cache, "test").drain();
  }
  expect(process.outcomes()).toEqual({ loaded: 4, hit: 4 });
});
