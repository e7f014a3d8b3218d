import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it, vi } from "vitest";
import { openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    rate: Int @cached(maxAge: 60, tags: ["Rate"]) @cacheControl(maxAge: 60)
  }
`;

describe.each(SERVERS)("on %s", (server) => {
  it("a response is not stored as fresh whose value was softly invalidated while it was loaded for another request", async () => {
    const source = { version: 1, loads: 0, hold: Promise.resolve() as Promise<unknown> };
    const rate = async (): Promise<number> => {
      const { version } = source;
      source.loads++;
      await source.hold;
      return version;
    };
    const { ask, cache } = openSite({ typeDefs, resolvers: { Query: { rate } }, server });
    const loadGate = gate();
    source.hold = loadGate.passed;
    // Another operation loads the value, and the invalidation comes before this one asks for it.
    const other = ask("{ other: rate }");
    await vi.waitFor(() => expect(source.loads).toBe(1));
    source.version = 2;
    await cache.invalidateTags(["Rate"], { soft: true });
    const first = ask("{ rate }");
    for (let nth = 0; nth < 3; nth++) await settle();
    loadGate.open();
    expect((await first).data).toEqual({ rate: 1 });
    await other;
    await settle();
    for (let nth = 0; nth < 3; nth++) {
      await ask("{ rate }");
      await settle();
    }
    expect((await ask("{ rate }")).data).toEqual({ rate: 2 });
    expect(source.loads).toBe(2);
  });
});
