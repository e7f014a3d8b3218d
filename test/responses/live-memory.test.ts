import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
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
