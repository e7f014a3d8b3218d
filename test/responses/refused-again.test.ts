import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { page: Page @cacheControl(maxAge: 600) }
  type Page @cacheControl(maxAge: 600) { title: String }
`;

function open(server: SiteOptions["server"]) {
  const preloaded = {};
  const state = { running: 0, most: 0, until: Promise.resolve() };
  const resolvers = {
    Query: {
      page: async () => {
        state.most = Math.max(state.most, ++state.running);
        await state.until;
        state.running--;
        return {};
      },
    },
    Page: { title: () => titles(preloaded).load(1) },
  };
  const site = openSite({ typeDefs, resolvers, server });
  const titles = site.cache.loader<number, string>({
    name: "Title",
    maxAge: 60,
    batch: async (ids) => ids.map(() => "Ran"),
  });
  return { ...site, state, preload: () => titles(preloaded).load(1) };
}

describe.each(SERVERS)("on %s", (server) => {
  it("the requests of an operation whose responses are refused every time do not wait for each other once that is known", async () => {
    const { ask, state, preload } = open(server);
    await preload();
    const query = "{ page { title } }";
    for (let round = 0; round < 3; round++) await ask(query);
    const held = gate();
    state.until = held.passed as Promise<void>;
    state.most = 0;
    const asked = [ask(query), ask(query), ask(query)];
    for (let turn = 0; turn < 20; turn++) await settle();
    const { most } = state;
    held.open();
    await Promise.all(asked);
    expect(most).toBe(3);
  });
});
