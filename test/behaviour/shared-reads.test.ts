import { expect, it } from "vitest";
import { dataOf, memoryWorld, waitForStores } from "../support/world.js";

it("judges a value by the tags of its own reader, although another reader of the tick gives its key other tags", async () => {
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
});
