import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

interface Told {
  readonly user?: string | undefined;
  readonly cart?: string;
  readonly locale?: string;
}

const typeDefs = /* GraphQL */ `
  type Query {
    home: Page @cacheControl(maxAge: 600)
    cart: String @cacheControl(maxAge: 600)
    greeting: String @cacheControl(maxAge: 600)
  }
  type Page @cacheControl(inheritMaxAge: true) { title: String isSignedIn: Boolean }
`;

function open(server: SiteOptions["server"], options: Partial<SiteOptions> = {}) {
  const lines: string[] = [];
  let executions = 0;
  const resolvers = {
    Query: {
      home: (_: unknown, __: unknown, { user }: Told) => {
        executions++;
        return { title: "Home", isSignedIn: user != null };
      },
      cart: (_: unknown, __: unknown, { cart }: Told) => cart,
      greeting: (_: unknown, __: unknown, { locale }: Told) => (locale === "de" ? "Hallo" : "Hello"),
    },
  };
  const site = openSite({
    typeDefs,
    resolvers,
    server,
    responses: { scope: "PRIVATE", guests: "PUBLIC" },
    ...options,
    cache: { logger: { warn: (line: string) => void lines.push(line), info: () => undefined }, ...options.cache },
  });
  const ask = site.ask as (query: string, context: Told) => ReturnType<typeof site.ask>;
  return { ask, lines, executions: () => executions };
}

describe.each(SERVERS)("the guests of %s, who share responses,", (server) => {
  it("get what they have asked for, although it depends on their context, which is logged", async () => {
    const { ask, lines } = open(server);
    for (const cart of ["A", "B", "C"]) expect((await ask("{ cart }", { cart })).data).toEqual({ cart });
    for (const [locale, greeting] of [
      ["de", "Hallo"],
      ["en", "Hello"],
    ] as const)
      expect((await ask("{ greeting }", { locale })).data).toEqual({ greeting });
    expect(lines.some((line) => line.includes("context.cart"))).toBe(true);
  });

  it("share a response whose execution asks who they are, since none of them has an identity", async () => {
    const { ask, executions } = open(server);
    for (const user of [undefined, undefined, "ann"])
      expect((await ask("{ home { isSignedIn } }", { user })).data).toEqual({
        home: { isSignedIn: user !== undefined },
      });
    expect(executions()).toBe(2);
  });

  it("do not get what belongs to callers whose identity is looked for in the wrong place", async () => {
    const { ask } = open(server, { cache: { identify: ((context: { userId?: string }) => context.userId) as never } });
    for (const user of ["ann", "bob"])
      expect((await ask("{ cart }", { user, cart: user })).data).toEqual({ cart: user });
  });

  it("are told apart by what `key` names", async () => {
    const { ask, executions } = open(server, {
      responses: { scope: "PRIVATE", guests: "PUBLIC", key: ["$context.locale"] },
    });
    for (const locale of ["de", "en", "de", "en"])
      expect((await ask("{ greeting home { title } }", { locale })).data).toMatchObject({
        greeting: locale === "de" ? "Hallo" : "Hello",
      });
    expect(executions()).toBe(2);
  });
});

describe.each(SERVERS)("the responses of one identity on %s", (server) => {
  it("are reported, outside of production, if what their executions read differs between its contexts", async () => {
    const { ask, lines } = open(server);
    await ask("{ greeting }", { user: "ann", locale: "en" });
    await ask("{ greeting home { title } }", { user: "ann", locale: "de" });
    expect(lines.filter((line) => line.includes("contexts of one identity"))).toEqual([
      expect.stringContaining('add "$context.locale" to `responses.key`'),
    ]);
    expect(lines.join()).not.toContain("context.user`");
  });
});
