import { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { openSite } from "./site.js";

describe("a response without a server that has cache hints", () => {
  it("is one caller's if the load of one of its values has set the hint PRIVATE elsewhere", async () => {
    const typeDefs = /* GraphQL */ `
      type Query {
        hinted: Int @cached(maxAge: 600, scope: PUBLIC) @cacheControl(maxAge: 600)
        now: Int @cacheControl(maxAge: 600)
      }
    `;
    let loads = 0;
    let executions = 0;
    const resolvers = {
      Query: {
        hinted: (_: unknown, __: unknown, ___: unknown, info: Partial<Info>) => {
          info.cacheControl?.setCacheHint({ scope: "PRIVATE" });
          return ++loads;
        },
        now: () => ++executions,
      },
    };
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const shared = { typeDefs, resolvers, store, clock };
    await openSite({ ...shared, server: "Apollo Server", responses: false }).ask("{ hinted }");
    const { ask } = openSite({ ...shared, server: "cache.execute" });
    const seen: unknown[] = [];
    for (const user of ["ann", "ann", "ann", "bob", "bob"])
      seen.push((await ask("{ hinted now }", { user })).data?.now);
    expect(seen).toEqual([1, 2, 2, 3, 3]);
    expect(loads).toBe(1);
  });
});

interface Info {
  readonly cacheControl: { setCacheHint(hint: object): void };
}
