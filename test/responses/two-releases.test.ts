import { FakeClock } from "@graphql-cached/testing";
import { type ApplyCachedOptions, memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = (key = "") => /* GraphQL */ `
  type Query {
    movie(id: ID!, lang: String): String @cached(maxAge: 60${key}) @cacheControl(maxAge: 60)
    now: Int @cacheControl(maxAge: 60)
  }
`;
/** Makes the keys of `Query.movie` in another way. */
const OTHER_FORM = ', key: ["$args.id"]';

/** Two releases that keep responses in one store, which differ in how they make the keys of a field. */
function openReleases(server: SiteOptions["server"]) {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const open = (key = "") => {
    let executions = 0;
    const resolvers = { Query: { movie: () => "Heat", now: () => ++executions } };
    return openSite({ typeDefs: typeDefs(key), resolvers, server, store, clock });
  };
  return { clock, old: open(), next: open(OTHER_FORM) };
}

describe.each(SERVERS)("the response cache of two releases on %s", (server) => {
  const query = "{ now movie(id: 1) }";
  const entry = (id: number) => ({ coordinate: "Query.movie", args: { id } });

  it("serves no response of the one with an entry of a field after the other one has invalidated a key of it that it makes in another way", async () => {
    const { clock, old, next } = openReleases(server);
    const now = async (): Promise<unknown> => (await next.ask(query)).data?.now;
    expect([await now(), await now()]).toEqual([1, 1]);
    await old.cache.invalidate(entry(1));
    expect([await now(), await now()]).toEqual([2, 2]);
    await old.cache.mutate({ entries: [entry(1)] }, async () => expect(await now()).toBe(3));
    // For how long a response that could not be stored is not tried again.
    await clock.advance(10_000);
    const kept = await now();
    expect(await now()).toBe(kept);
    await next.cache.invalidate(entry(2));
    expect(await now()).toBe(kept);
  });

  it.each<[ApplyCachedOptions, ApplyCachedOptions]>([
    [{}, { entityTags: true }],
    [{ entityTags: { exceptTypes: ["User"] } }, { entityTags: true }],
    [{ entityTags: true, idFields: { User: "name" } }, { entityTags: true }],
  ])("serves none of a release that tags entities in another way: %j and %j", async (before, after) => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    let title = "old";
    const open = (applied: ApplyCachedOptions) =>
      openSite({
        typeDefs: /* GraphQL */ `
          type Query { user: User @cacheControl(maxAge: 60) }
          type Mutation { rename: User }
          type User @cacheControl(maxAge: 60) { id: ID! name: String title: String }
        `,
        resolvers: {
          Query: { user: () => ({ id: "1", name: "a", title }) },
          Mutation: { rename: () => ({ id: "1", name: "b" }) },
        },
        ...{ server, store, clock, applied },
      });
    const [old, next] = [open(before), open(after)];
    for (const { ask } of [old, next, next])
      expect((await ask("{ user { title } }")).data).toEqual({ user: { title: "old" } });
    title = "new";
    await next.ask("mutation { rename { id } }");
    expect((await next.ask("{ user { title } }")).data).toEqual({ user: { title: "new" } });
  });
});
