import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import { graphql } from "graphql";
import { applyCached, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { msgpackrCodec } from "graphql-cached/msgpackr";
import { Redis } from "ioredis";
import { expect, inject, it, vi } from "vitest";
import { type Member, members, mixedUp, textOf } from "../support/members.js";
import { dataOf, memoryWorld, onEachStore, redisWorld, stored, type World } from "../support/world.js";

/** A store that gives everybody what rests under the first name of the field that was read. */
function firstComeStore(world: World, coordinate: string, seen: { first?: string } = {}) {
  return mixedUp(world.store(), (name) => {
    if (!name.includes(coordinate)) return name;
    seen.first ??= name;
    return seen.first;
  });
}

function attacks(world: () => World): void {
  it("under another's key is no value of his", async () => {
    const place = world();
    const process = members(place, { store: firstComeStore(place, "Query.me") });
    for (const userId of ["alice", "bob", "carol"]) {
      expect(await textOf(process, "{ me }", { userId })).toBe(`{"me":"me of ${userId}"}`);
      await stored(process);
    }
    expect(process.outcomes()).toEqual({ loaded: 1, "bypassed(KEY_COLLISION)": 2 });
  });

  it("is no error of his", async () => {
    const place = world();
    const typeDefs = "type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }";
    const me = (_: unknown, __: unknown, { userId }: Member) => Promise.reject(new Error(`no ${String(userId)}`));
    const seen = {};
    const [one, two] = [0, 1].map(() => {
      const store = firstComeStore(place, "Query.me", seen);
      return place.process(typeDefs, { Query: { me } }, { identify: ({ userId }: Member) => userId, store } as object);
    });
    for (const userId of ["alice", "bob", "carol"])
      for (const process of [one, two])
        expect((await process?.ask("{ me }", { userId }))?.errors?.[0]?.message).toBe(`no ${userId}`);
  });

  for (const [how, codec] of [
    ["JSON", undefined],
    ["MessagePack", msgpackrCodec()],
  ] as const)
    it(`with names that Object has comes back from ${how} as it was, and changes no other object`, async () => {
      const poison =
        '{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}},"$gc":["c",["constructor",1]],"list":[{"__proto__":[]}]}';
      const process = world().process(
        "scalar JSON type Query { given(json: JSON): JSON @cached(maxAge: 60) }",
        { Query: { given: (_: unknown, { json }: { json: unknown }) => json } },
        codec === undefined ? {} : { codec },
      );
      for (let nth = 0; nth < 2; nth++) {
        const { data } = await process.ask(
          "query Q($json: JSON) { given(json: $json) }",
          {},
          {
            json: JSON.parse(poison) as unknown,
          },
        );
        await stored(process);
        expect(JSON.stringify(data?.given)).toBe(poison);
        expect(Object.getPrototypeOf(data?.given)).toBe(Object.prototype);
      }
      expect(({} as { isAdmin?: true }).isAdmin).toBeUndefined();
      expect(process.outcomes()).toEqual({ loaded: 1, hit: 1 });
    });

  it("under a tag of somebody's choice is invalidated by that tag alone", async () => {
    const process = members(world());
    const query = "query Q($of: JSON) { inbox(of: $of) }";
    const names = ["alice", "alice2", "#recent", "#wakeChannel", "*", "__proto__", "constructor", "", "a\nb", "{a}"];
    const ask = async (of: string): Promise<string> => textOf(process, query, { userId: "eve" }, { of });
    for (const of of names) await ask(of);
    await stored(process, names.length);
    await process.cache.invalidateTags(["Inbox:*", "Inbox:#recent", "Inbox:__proto__"]);
    for (const of of names) await ask(of);
    expect(process.outcomes()).toEqual({ loaded: names.length + 3, hit: names.length - 3 });
  });
}

onEachStore("what one user has stored", attacks);

it("what one user has stored is not read under another's key, copied there byte by byte on Redis", async () => {
  const client = new Redis(inject("redisStandalone"));
  const place = redisWorld();
  const process = members(place);
  const keys = async (): Promise<string[]> => client.keys(`${place.prefix}:*Query.me:*`);
  await textOf(process, "{ me }", { userId: "alice" });
  await stored(process);
  const [hers = ""] = await keys();
  await textOf(process, "{ me }", { userId: "bob" });
  await stored(process, 2);
  const [his = ""] = (await keys()).filter((key) => key !== hers);
  await client.copy(hers, his, "REPLACE");
  expect(await textOf(process, "{ me }", { userId: "bob" })).toBe('{"me":"me of bob"}');
  await client.quit();
});

it("what one user was told of a failure is told to nobody else, copied under another's key byte by byte on Redis", async () => {
  const client = new Redis(inject("redisStandalone"));
  const place = redisWorld();
  const me = (_: unknown, __: unknown, { userId }: Member) => Promise.reject(new Error(`no ${String(userId)}`));
  const make = () =>
    place.process("type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }", { Query: { me } }, {
      identify: ({ userId }: Member) => userId,
      errorBackoffMs: 30_000,
    } as object);
  const keys = async (least: number): Promise<string[]> =>
    vi.waitFor(async () => {
      const found = await client.keys(`${place.prefix}:*Query.me:*`);
      const bodies = await Promise.all(found.map((key) => client.get(key)));
      expect(bodies.filter((body) => body?.includes("no "))).toHaveLength(least);
      return found;
    });
  const [one, two] = [make(), make()];
  await one.ask("{ me }", { userId: "alice" });
  const [hers = ""] = await keys(1);
  await one.ask("{ me }", { userId: "bob" });
  const [his = ""] = (await keys(2)).filter((key) => key !== hers);
  expect((await two.ask("{ me }", { userId: "bob" })).errors?.[0]?.message).toBe("no bob");
  expect(two.outcomes(), "he is told of the failure in the store").toEqual({ coalesced: 1 });
  await client.copy(hers, his, "REPLACE");
  expect((await two.ask("{ me }", { userId: "bob" })).errors?.[0]?.message).toBe("no bob");
  expect(two.events.map(({ name }) => name)).toContain("entry.corrupt");
  await client.quit();
});

it("an entry is shown to nobody whom `allow` does not admit, and its value to nobody", async () => {
  const process = memoryWorld().process("type Query { other: Int }", {}, {
    identify: ({ userId }: Member) => userId,
  } as object);
  const { cache } = process;
  for (const allow of [
    ({ userId }: Member) => userId === "admin",
    ({ userId }: Member) => (userId === "admin" ? true : (1 as never)),
    ({ userId }: Member) => (userId === "admin" ? Promise.resolve(true) : Promise.reject(new Error("who?"))),
  ]) {
    const schema = applyCached(
      makeExecutableSchema({
        typeDefs: [
          "directive @cached(maxAge: Int, scope: CachedScope) on FIELD_DEFINITION enum CachedScope { PUBLIC PRIVATE }",
          "type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }",
          inspectionTypeDefs,
        ],
        resolvers: [
          { Query: { me: (_: unknown, __: unknown, { userId }: Member) => `me of ${String(userId)}` } },
          inspectionResolvers(cache, { allow }) as unknown as IResolvers,
        ],
      }),
      cache,
    );
    await dataOf(graphql({ schema, source: "{ me }", contextValue: { userId: "alice" } }) as never);
    await stored(process);
    const source = '{ cacheInspection { entry(coordinate: "Query.me", private: "alice") { state valueBytes } } }';
    const answer = (userId?: string) => graphql({ schema, source, contextValue: { userId } });
    for (const userId of ["alice", "bob", undefined]) {
      const { data, errors } = await answer(userId);
      expect([data, errors?.[0]?.extensions.code]).toEqual([null, "CACHED_INSPECTION_DENIED"]);
    }
    const shown = JSON.stringify((await answer("admin")).data);
    expect(shown).toContain('"state":"VALUE"');
    expect(shown).not.toContain("alice");
  }
});
