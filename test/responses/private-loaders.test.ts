import { parse } from "graphql";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 600)
  }
  type Page @cacheControl(maxAge: 600) { mine: String }
`;

type Mine = (context: Context) => { load(id: number): Promise<string>; prime(id: number, value: string): unknown };

/** A site whose page has what a PRIVATE loader returns. `read`: what its resolver does with that loader. */
function openMine(
  server: (typeof SERVERS)[number],
  {
    maxAge,
    page = () => ({}),
    read = (mine, context) => mine(context).load(0),
  }: {
    readonly maxAge: number;
    readonly page?: (parent: unknown, args: unknown, context: Context) => unknown;
    readonly read?: (mine: Mine, context: Context) => Promise<string>;
  },
) {
  const resolvers = {
    Query: { page },
    Page: { mine: (_: unknown, __: unknown, context: Context) => read(mine, context) },
  };
  const { ask, cache } = openSite({ typeDefs, resolvers, server });
  const mine = cache.loader<number, string>({
    name: "Mine",
    maxAge,
    scope: "PRIVATE",
    batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
  }) as unknown as Mine;
  return async (users: readonly string[]): Promise<void> => {
    for (const user of users) expect((await ask("{ page { mine } }", { user })).data).toEqual({ page: { mine: user } });
  };
}

describe.each(SERVERS)("one caller's response on %s", (server) => {
  it("is not given to another caller if a PRIVATE loader with maxAge 0 was read below a PUBLIC field", async () => {
    await openMine(server, { maxAge: 0 })(["ann", "bob", "ann"]);
  });

  it("is stored for that caller once an execution has shown that a PRIVATE loader is read", async () => {
    const executed: (string | undefined)[] = [];
    const expectOwn = openMine(server, { maxAge: 60, page: (_, __, { user }) => executed.push(user) && {} });
    await expectOwn(["ann", "ann", "ann", "bob", "bob"]);
    expect(executed).toEqual(["ann", "ann", "bob"]);
  });

  it("is not given to another caller if a resolver has primed a PRIVATE loader and then loads from it", async () => {
    const expectOwn = openMine(server, {
      maxAge: 60,
      read: (mine, context) => {
        mine(context).prime(0, context.user ?? "nobody");
        return mine(context).load(0);
      },
    });
    await expectOwn(["ann", "bob", "ann"]);
  });
});

describe("Cache-Control of Apollo Server without stored responses", () => {
  /** Returns the header of a page whose resolver does something with a PRIVATE loader. */
  async function headerAfter(
    maxAge: number,
    read: (mine: ReturnType<Mine>, context: Context, site: ReturnType<typeof openSite>) => unknown,
  ): Promise<string | undefined> {
    const site: ReturnType<typeof openSite> = openSite({
      typeDefs:
        "type Query { page: String @cacheControl(maxAge: 60) other: Int @cached(maxAge: 60) @cacheControl(maxAge: 60) }",
      resolvers: {
        Query: {
          other: () => 7,
          page: (_: unknown, __: unknown, context: Context) => read(mine(context), context, site),
        },
      },
      server: "Apollo Server",
      responses: false,
    });
    const mine = site.cache.loader<number, string>({
      name: "Mine",
      maxAge,
      scope: "PRIVATE",
      batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
    }) as unknown as Mine;
    return (await site.ask("{ page }", { user: "ann" })).cacheControl;
  }

  it("is private after a read of a PRIVATE loader that is not cached", async () => {
    expect(await headerAfter(0, (mine) => mine.load(0))).toBe("max-age=60, private");
  });

  it("is private after a read of a PRIVATE loader that a resolver has primed", async () => {
    const read = (mine: ReturnType<Mine>) => {
      mine.prime(0, "ann");
      return mine.load(0);
    };
    expect(await headerAfter(60, read)).toBe("max-age=60, private");
  });

  it.each([["PUBLIC"], ["PRIVATE"]] as const)(
    "is private after a read of a PRIVATE loader that comes after a %s cache.execute in the same context",
    async (scope) => {
      const header = await headerAfter(60, async (mine, contextValue, { cache, schema }) => {
        await cache.execute({ schema, document: parse("{ other }"), contextValue }, { scope });
        return mine.load(0);
      });
      expect(header).toBe("max-age=60, private");
    },
  );
});

const cachedDefs = /* GraphQL */ `
  type Query { movie: Movie @cached(maxAge: 60, scope: PUBLIC) }
  type Movie { id: ID! note: String }
`;

class Movie {
  constructor(readonly id: number) {}
  note(_args: unknown, context: Context): string {
    return `note of ${context.user}`;
  }
}

describe.each(["GraphQL Yoga", "cache.execute"] as const)("one caller's response on %s", (server) => {
  it("is not given to another caller if an instance of one of `types` has a method that gets the context", async () => {
    const resolvers = { Query: { movie: () => new Movie(1) } };
    const types = {
      Movie: {
        is: (value: object) => value instanceof Movie,
        encode: ({ id }: Movie) => id,
        decode: (id: number) => new Movie(id),
      },
    };
    const { ask } = openSite({ typeDefs: cachedDefs, resolvers, server, cache: { types } });
    for (const user of ["ann", "bob", "ann"]) {
      const { data, errors } = await ask("{ movie { note } }", { user });
      expect([data, errors]).toEqual([{ movie: { note: `note of ${user}` } }, undefined]);
    }
  });
});
