import { settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    rate: Int @cacheControl(maxAge: 600)
    mine: String @cacheControl(maxAge: 600)
    unbound: String @cacheControl(maxAge: 600)
    plain: Int @cacheControl(maxAge: 600)
  }
`;

describe.each(SERVERS)("a response with a function in it, on %s", (server) => {
  const open = () => {
    let executions = 0;
    const resolvers = {
      Query: {
        rate: () => (executions++, rates("EUR")),
        mine: (_: unknown, __: unknown, context: Context) => mine(context),
        unbound: (_: unknown, __: unknown, context: Context) => unbound(context.user ?? ""),
        plain: () => plain(),
      },
    };
    const site = openSite({ typeDefs, resolvers, server });
    const { cache } = site;
    let rate = 0;
    const rates = cache.wrap({ name: "rates", maxAge: 60, tags: ["Rates"], load: (_currency: string) => ++rate });
    const mine = cache.wrap({
      name: "mine",
      maxAge: 60,
      scope: "PRIVATE",
      context: (context: Context) => context,
      load: ({ user }: Context) => `of ${user}`,
    });
    const unbound = cache.wrap({
      name: "unbound",
      maxAge: 60,
      scope: "PRIVATE",
      identify: (user: string) => user,
      load: (user: string) => `of ${user}`,
    });
    const plain = cache.wrap({ name: "plain", maxAge: 0, load: () => 1 });
    return { ...site, rates, executions: () => executions };
  };

  it.each([
    ["by tag", ({ cache }: ReturnType<typeof open>) => cache.invalidateTags(["Rates"])],
    ["by the call", ({ rates }: ReturnType<typeof open>) => rates.clear("EUR")],
    ["as a whole", ({ cache }: ReturnType<typeof open>) => cache.invalidate({ function: "rates" })],
  ])("is kept as long as its values are, and is invalidated with them %s", async (_how, invalidate) => {
    const site = open();
    expect((await site.ask("{ rate }")).data).toEqual({ rate: 1 });
    await settle();
    expect((await site.ask("{ rate }")).data).toEqual({ rate: 1 });
    expect(site.executions()).toBe(1);
    await invalidate(site);
    expect((await site.ask("{ rate }")).data).toEqual({ rate: 2 });
    await settle();
    await site.clock.advance(61_000);
    expect((await site.ask("{ rate }")).data).toEqual({ rate: 3 });
  });

  it.each(["{ rate mine }", "{ rate unbound }", "{ rate plain }"])(
    "gives nobody what is of another: %s",
    async (query) => {
      const { ask } = open();
      for (const user of ["alice", "bob", "alice"]) {
        const { data } = await ask(query, { user });
        await settle();
        for (const [field, value] of Object.entries(data ?? {}))
          if (typeof value === "string") expect(value, field).toBe(`of ${user}`);
      }
    },
  );

  it("is not kept for all with a PRIVATE function of no request, or one that is not cached", async () => {
    for (const query of ["{ rate unbound }", "{ rate plain }"]) {
      const { ask, executions } = open();
      for (let nth = 1; nth <= 3; nth++) {
        await ask(query, { user: "alice" });
        await settle();
        expect(executions()).toBe(nth);
      }
    }
  });
});
