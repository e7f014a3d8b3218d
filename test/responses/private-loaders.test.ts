import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS, type ServerName } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { page: Page @cacheControl(maxAge: 600) }
  type Page @cacheControl(maxAge: 600) { mine: String }
`;

type Mine = (context: Context) => { load(id: number): Promise<string>; prime(id: number, value: string): unknown };

/** A site whose page has what a PRIVATE loader returns. `read`: what its resolver does with that loader. */
function openMine(
  server: ServerName,
  maxAge: number,
  read = (mine: Mine, context: Context): Promise<string> => mine(context).load(0),
) {
  const executed: unknown[] = [];
  const resolvers = {
    Query: { page: (_: unknown, __: unknown, { user }: Context) => (executed.push(user), {}) },
    Page: { mine: (_: unknown, __: unknown, context: Context) => read(mine, context) },
  };
  const { ask, cache } = openSite({ typeDefs, resolvers, server });
  const mine = cache.loader<number, string>({
    name: "Mine",
    maxAge,
    scope: "PRIVATE",
    batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
  }) as unknown as Mine;
  const expectOwn = async (users: readonly string[]): Promise<void> => {
    for (const user of users) expect((await ask("{ page { mine } }", { user })).data).toEqual({ page: { mine: user } });
  };
  return { expectOwn, executed };
}

describe.each(SERVERS)("one caller's response on %s", (server) => {
  it("is not given to another caller if a PRIVATE loader with maxAge 0 was read below a PUBLIC field", async () => {
    await openMine(server, 0).expectOwn(["ann", "bob", "ann"]);
  });

  it("is stored for that caller once an execution has shown that a PRIVATE loader is read", async () => {
    const { expectOwn, executed } = openMine(server, 60);
    await expectOwn(["ann", "ann", "ann", "bob", "bob"]);
    expect(executed).toEqual(["ann", "ann", "bob"]);
  });

  it("is not given to another caller if a resolver has primed a PRIVATE loader and then loads from it", async () => {
    const { expectOwn } = openMine(server, 60, (mine, context) => {
      mine(context).prime(0, context.user ?? "nobody");
      return mine(context).load(0);
    });
    await expectOwn(["ann", "bob", "ann"]);
  });
});

describe("Cache-Control of Apollo Server without stored responses", () => {
  it.each([
    ["loads", false],
    ["remembers", true],
  ] as const)(
    "is private if a PUBLIC loader is asked for an id from a PRIVATE one, of which the request %s a value that is not shared",
    async (_, isRemembered) => {
      interface Member extends Context {
        readonly me?: { readonly team: number } | undefined;
        readonly feeds?: { load(me: Member["me"]): Promise<string> };
      }
      const feed = (__: unknown, ___: unknown, context: Member) => (context.feeds ?? feeds(context)).load(context.me);
      const { ask, cache } = openSite({
        typeDefs: "type Query { feed: String @cacheControl(maxAge: 60) }",
        resolvers: { Query: { feed } },
        server: "Apollo Server",
        responses: false,
      });
      const users = cache.loader<string, Member["me"]>({
        name: "User",
        maxAge: 60,
        scope: "PRIVATE",
        batch: async (ids) => ids.map(() => ({ team: 1 })),
      });
      const feeds = cache.loader<Member["me"], string>({
        name: "Feed",
        maxAge: 60,
        cacheKeyFn: (me) => me?.team,
        batch: async (ids, { user }) => ids.map(() => `feed of ${user}`),
      });
      // Of the second one, it is known that its key does not have its value.
      for (const user of ["ann", "bob"]) {
        const options = { user };
        const me = await users(options).load(user);
        let context: Member = { user, me };
        if (isRemembered) context = cache.request({ ...context, feeds: feeds(options) }, options);
        if (isRemembered) await context.feeds?.load(me);
        const { data, cacheControl } = await ask("{ feed }", context);
        expect([data, cacheControl]).toEqual([{ feed: `feed of ${user}` }, "max-age=60, private"]);
      }
    },
  );
});

class Movie {
  constructor(readonly id: number) {}
  note(_args: unknown, context: Context): string {
    return `note of ${context.user}`;
  }
}

describe.each(["GraphQL Yoga", "cache.execute"] as const)("one caller's response on %s", (server) => {
  it("is not given to another caller if an instance of one of `types` has a method that gets the context", async () => {
    const { ask } = openSite({
      typeDefs: `type Query { movie: Movie @cached(maxAge: 60, scope: PUBLIC) } type Movie { id: ID! note: String }`,
      resolvers: { Query: { movie: () => new Movie(1) } },
      server,
      cache: {
        types: {
          Movie: {
            is: (value: object) => value instanceof Movie,
            encode: ({ id }: Movie) => id,
            decode: (id: number) => new Movie(id),
          },
        },
      },
    });
    for (const user of ["ann", "bob", "ann"])
      expect(await ask("{ movie { note } }", { user })).toMatchObject({ data: { movie: { note: `note of ${user}` } } });
  });
});
