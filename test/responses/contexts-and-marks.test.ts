import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import { readRecords } from "../../src/core/store/clock-log.js";
import { openSite } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie: String @cached(maxAge: 600, tags: ["Movie:1"])
    page: String @cacheControl(maxAge: 600)
    slow: String @cacheControl(maxAge: 600)
  }
`;

function world() {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const source = { title: "Ran", slow: Promise.resolve() as Promise<unknown>, loads: 0 };
  const start = (closes = true) => {
    const resolvers = {
      Query: {
        movie: () => source.title,
        page: (_: unknown, __: unknown, context: { ready?: unknown }) =>
          context.ready ?? titles(context as never).load(1),
        slow: () => source.slow.then(() => "slow"),
      },
    };
    const { cache, execute } = openSite({ typeDefs, resolvers, store, clock, closes });
    const titles = cache.loader<number, string>({
      name: "Title",
      maxAge: 60,
      tags: (id) => [`Movie:${id}`],
      batch: async (ids) => (source.loads++, ids.map(() => source.title)),
    });
    const ask = async (query: string, context: object = {}) => JSON.stringify(await execute(query, context));
    return { cache, titles, ask };
  };
  return { clock, store, source, start };
}

/** Whether a record of the invalidation clock begins a write. */
const isBegin = (record: Buffer): boolean =>
  readRecords(Buffer.concat([Buffer.alloc(8), record]))?.[0]?.kind === "begin";

it("a response that was stored between the first invalidation of a write and its mark is not served once the writer has died", async () => {
  const { clock, store, source, start } = world();
  const [marked, held] = [gate(), gate()];
  const append = store.appendClock.bind(store);
  store.appendClock = async (records) => {
    if (records.some(isBegin)) {
      marked.open();
      await held.passed;
    }
    return append(records);
  };
  const writer = start(false);
  const reader = start();
  const begun = gate();
  void writer.cache.mutate({ tags: ["Movie:1"] }, async () => {
    source.title = "Ran, restored";
    begun.open();
    await new Promise(() => undefined); // dies
  });
  await marked.passed;
  for (let time = 0; time < 5; time++) await reader.ask("{ movie }");
  held.open();
  await begun.passed;
  await clock.advance(59_000);
  // The same with the value alone.
  const alone = start();
  expect(await alone.ask("{ movie __typename }")).toContain("restored");
  expect(await reader.ask("{ movie }")).toContain("restored");
});

it("a context that two operations have shared for a while is read as before once both have ended", async () => {
  const { clock, source, start } = world();
  const { titles, ask } = start();
  // Control: with `const shared = () => ({})`, the last load is a hit.
  const shared = {};
  const [first, second] = [gate(), gate()];
  source.slow = first.passed;
  const one = ask("{ slow }", shared);
  await settle();
  source.slow = second.passed;
  const other = ask("{ slow page }", shared);
  await settle();
  first.open();
  await one;
  second.open();
  await other;
  await titles(shared).clearAll().load(1);
  await settle();
  await clock.advance(40_000);
  const { loads } = source;
  await titles(shared).clearAll().load(1);
  expect(source.loads).toBe(loads);
});

/** Throws for what the resolvers do not read. */
function knownOf(name: string | symbol): undefined {
  if (name !== "ready") throw new Error(String(name));
}

it.each([
  ["frozen", () => Object.freeze({})],
  ["a proxy that knows no other properties", () => new Proxy({}, { get: (_, name) => knownOf(name) })],
  [
    "an instance with private fields",
    () =>
      new (class {
        #own = 1;
        get ready() {
          return this.#own === 1 ? undefined : 1;
        }
      })(),
  ],
])("responses are stored if the context is %s", async (_, contextOf) => {
  const { source, start } = world();
  const { ask } = start();
  await ask("{ page }", contextOf());
  source.title = "other";
  expect(await ask("{ page }", contextOf())).toContain("Ran");
});
