import { expect, it } from "vitest";
import { dataOf, memoryWorld, waitForStores } from "../support/world.js";

it("evaluates and stores a value by the tags of its own reader, although another reader of the tick gives its key other tags", async () => {
  const typeDefs = /* GraphQL */ `
    type Query {
      top(id: Int, by: Int): Int @cached(maxAge: 60, key: ["$args.id"], tags: ["By:{$args.by}"])
    }
  `;
  let loads = 0;
  const { ask, events } = memoryWorld().process(typeDefs, { Query: { top: () => ++loads } });
  await ask("{ top(id: 1, by: 1) }");
  await waitForStores({ events });
  const answers = [ask("{ top(id: 1, by: 1) }"), ask("{ top(id: 1, by: 2) }")].map(dataOf);
  expect(await Promise.all(answers)).toEqual([{ top: 1 }, { top: 2 }]);
  await waitForStores({ events }, 2);
  expect(await dataOf(ask("{ top(id: 1, by: 2) }"))).toEqual({ top: 2 });
});

it("gives each request of a tick a copy of the value, and none the source's own object", async () => {
  const typeDefs = "type Query { film: Film @cached(maxAge: 60) } type Film { id: Int }";
  const own = { id: 1 };
  const seen: unknown[] = [];
  const { ask } = memoryWorld().process(typeDefs, {
    Query: { film: () => own },
    Film: { id: (film: typeof own) => (seen.push(film), film.id) },
  });
  const answers = [ask("{ film { id } }"), ask("{ film { id } }")].map(dataOf);
  expect(await Promise.all(answers)).toEqual(Array(2).fill({ film: own }));
  expect(seen).toHaveLength(2);
  expect(new Set([own, ...seen]).size).toBe(3);
});
