import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 600)
  }
  type Page @cacheControl(maxAge: 600) { mine: String }
`;

describe.each(SERVERS)("one caller's response on %s", (server) => {
  it("is not given to another caller if a PRIVATE loader with maxAge 0 was read below a PUBLIC field", async () => {
    let mine: (context: Context) => { load(id: number): Promise<string> };
    const resolvers = {
      Query: { page: () => ({}) },
      Page: { mine: (_: unknown, __: unknown, context: Context) => mine(context).load(0) },
    };
    const { ask, cache } = openSite({ typeDefs, resolvers, server });
    mine = cache.loader<number, string>({
      name: "Mine",
      maxAge: 0,
      scope: "PRIVATE",
      batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
    }) as never;
    for (const user of ["ann", "bob", "ann"])
      expect((await ask("{ page { mine } }", { user })).data).toEqual({ page: { mine: user } });
  });

  it("is stored for that caller once an execution has shown that a PRIVATE loader is read", async () => {
    let mine: (context: Context) => { load(id: number): Promise<string> };
    const executed: (string | undefined)[] = [];
    const resolvers = {
      Query: { page: (_: unknown, __: unknown, { user }: Context) => executed.push(user) && {} },
      Page: { mine: (_: unknown, __: unknown, context: Context) => mine(context).load(0) },
    };
    const { ask, cache } = openSite({ typeDefs, resolvers, server });
    mine = cache.loader<number, string>({
      name: "Mine",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
    }) as never;
    for (const user of ["ann", "ann", "ann", "bob", "bob"])
      expect((await ask("{ page { mine } }", { user })).data).toEqual({ page: { mine: user } });
    expect(executed).toEqual(["ann", "ann", "bob"]);
  });

  it("is not given to another caller if a resolver has primed a PRIVATE loader and then loads from it", async () => {
    let mine: (context: Context) => { load(id: number): Promise<string>; prime(id: number, value: string): unknown };
    const resolvers = {
      Query: { page: () => ({}) },
      Page: {
        mine: (_: unknown, __: unknown, context: Context) => {
          mine(context).prime(0, context.user ?? "nobody");
          return mine(context).load(0);
        },
      },
    };
    const { ask, cache } = openSite({ typeDefs, resolvers, server });
    mine = cache.loader<number, string>({
      name: "Mine",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
    }) as never;
    for (const user of ["ann", "bob", "ann"])
      expect((await ask("{ page { mine } }", { user })).data).toEqual({ page: { mine: user } });
  });
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
