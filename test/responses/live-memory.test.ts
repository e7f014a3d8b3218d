import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import { overrideStore } from "../support/override-store.js";
import { withoutMessages } from "../support/without-messages.js";
import { openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    film(id: ID!): Film @cached(maxAge: 600, tags: ["Film:{$args.id}"]) @cacheControl(maxAge: 600)
    page: Page @cacheControl(maxAge: 600)
  }
  type Page @cacheControl(maxAge: 600) {
    film(id: ID!): Film @cached(maxAge: 600, key: ["$args.id"], tags: ["Film:{$args.id}"])
  }
  type Film @cacheControl(maxAge: 600) { title: String }
`;

const PAGE = "{ page { film(id: 7) { title } } }";
const page = (title: string) => ({ page: { film: { title } } });

it.each(SERVERS)(
  "%s serves no response in which a value from memory was invalidated by another process while it was executed",
  async (server) => {
    const clock = new FakeClock();
    const store = withoutMessages(memoryStore({ clock }));
    const source = { title: "old", executed: 0, held: Promise.resolve() };
    const film = () => ({ title: source.title });
    const resolvers = {
      Query: {
        film,
        page: async () => {
          source.executed++;
          await source.held;
          return {};
        },
      },
      Page: { film },
    };
    const open = (memory: object) => openSite({ typeDefs, resolvers, server, store, clock, cache: { memory } });
    const [here, there] = [open({ maxStalenessMs: 2_000 }), open({})];
    // In memory, and known to be current for the next two seconds.
    for (let nth = 0; nth < 3; nth++) await here.ask("{ page { film(id: 7) { title } } other: film(id: 7) { title } }");
    const listGate = gate();
    source.held = listGate.passed;
    const { executed } = source;
    const earlier = here.ask(PAGE);
    while (source.executed === executed) await settle();
    source.title = "new";
    await there.cache.invalidateTags(["Film:7"]);
    source.held = Promise.resolve();
    listGate.open();
    // It began before the invalidation.
    expect((await earlier).data).toEqual(page("old"));
    for (let nth = 0; nth < 3; nth++) expect((await there.ask(PAGE)).data).toEqual(page("new"));
    await clock.advance(2_000);
    expect((await here.ask(PAGE)).data).toEqual(page("new"));
  },
);

it.each(SERVERS)("%s serves a response from memory beside reads of a node that is down", async (server) => {
  const clock = new FakeClock();
  const inner = memoryStore({ clock });
  let isDown = false;
  // All keys are on it, and another node has a copy of the head of the clock.
  const store = overrideStore(inner, {
    nodeOf: () => "node",
    read: async (names) => {
      if (isDown && names.length > 0) throw new Error("the node is down");
      return inner.read(names);
    },
  });
  let executed = 0;
  const film = () => ({ title: "new" });
  const resolvers = { Query: { film, page: () => (executed++, {}) }, Page: { film } };
  const { cache, ask } = openSite({ typeDefs, resolvers, server, store, clock });
  const other = cache.loader({ name: "Other", maxAge: 60, batch: async (ids: readonly number[]) => ids });
  for (let nth = 0; nth < 4; nth++) await ask(PAGE);
  const before = executed;
  isDown = true;
  let isOver = false;
  const readOthers = async (): Promise<void> => {
    for (let id = 0; !isOver; id++) {
      void other({}).load(id);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const others = readOthers();
  for (let nth = 0; nth < 3; nth++) expect((await ask(PAGE)).data).toEqual(page("new"));
  isOver = true;
  await others;
  expect(executed).toBe(before);
});
