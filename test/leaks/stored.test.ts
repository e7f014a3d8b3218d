import { gate } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import { graphql } from "graphql";
import { applyCached, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { Redis } from "ioredis";
import { expect, it, vi } from "vitest";
import { type Member, members, textOf, withMixedReplies } from "../support/members.js";
import { msgpackrCodec } from "../support/msgpackr-codec.js";
import { sharedServer } from "../support/shared-servers.js";
import { dataOf, memoryWorld, onEachStore, redisWorld, type World, waitForStores } from "../support/world.js";

/** A store that returns the first entry read of a field for every later key of that field. */
function firstEntryStore(world: World, coordinate: string, seen: { first?: string } = {}) {
  return withMixedReplies(world.store(), (name) => {
    if (!name.includes(coordinate)) return name;
    seen.first ??= name;
    return seen.first;
  });
}

function storedEntryTests(world: () => World): void {
  it("does not return a value that the store returns under the wrong key", async () => {
    const shared = world();
    const process = members(shared, { store: firstEntryStore(shared, "Query.me") });
    for (const userId of ["alice", "bob", "carol"]) {
      expect(await textOf(process, "{ me }", { userId })).toBe(`{"me":"me of ${userId}"}`);
      await waitForStores(process);
    }
    expect(process.outcomes()).toEqual({ loaded: 1, "bypassed(KEY_COLLISION)": 2 });
  });

  it("does not join the load of an entry that the store returns under the wrong key", async () => {
    const shared = world();
    const loadGate = gate();
    const loads: string[] = [];
    const store = firstEntryStore(shared, "Query.me");
    const process = members(shared, { store }, loads, () => loadGate.passed);
    const alice = textOf(process, "{ me }", { userId: "alice" });
    await vi.waitFor(() => expect(loads).toEqual(["me alice"]));
    const bob = textOf(process, "{ me }", { userId: "bob" });
    await vi.waitFor(() => expect(loads).toEqual(["me alice", "me bob"]));
    loadGate.open();
    expect(await Promise.all([alice, bob])).toEqual(['{"me":"me of alice"}', '{"me":"me of bob"}']);
  });

  it("does not return an error that the store returns under the wrong key", async () => {
    const shared = world();
    const typeDefs = "type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }";
    const me = (_: unknown, __: unknown, { userId }: Member) => Promise.reject(new Error(`no ${String(userId)}`));
    const seen = {};
    const [one, two] = [0, 1].map(() => {
      const store = firstEntryStore(shared, "Query.me", seen);
      return shared.process(typeDefs, { Query: { me } }, { identify: ({ userId }: Member) => userId, store } as object);
    });
    for (const userId of ["alice", "bob", "carol"])
      for (const process of [one, two])
        expect((await process?.ask("{ me }", { userId }))?.errors?.[0]?.message).toBe(`no ${userId}`);
  });

  for (const [how, codec] of [
    ["JSON", undefined],
    ["MessagePack", msgpackrCodec()],
  ] as const)
    it(`returns values with names of Object properties unchanged from ${how}, without prototype pollution`, async () => {
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
        await waitForStores(process);
        expect(JSON.stringify(data?.given)).toBe(poison);
        expect(Object.getPrototypeOf(data?.given)).toBe(Object.prototype);
      }
      expect(({} as { isAdmin?: true }).isAdmin).toBeUndefined();
      expect(process.outcomes()).toEqual({ loaded: 1, hit: 1 });
    });

  it("invalidates an entry with a user-chosen tag only by that exact tag", async () => {
    const process = members(world());
    const query = "query Q($of: JSON) { inbox(of: $of) }";
    const names = ["alice", "alice2", "#recent", "#wakeChannel", "*", "__proto__", "constructor", "", "a\nb", "{a}"];
    const ask = async (of: string): Promise<string> => textOf(process, query, { userId: "eve" }, { of });
    for (const of of names) await ask(of);
    await waitForStores(process, names.length);
    await expect(process.cache.invalidateTags(["Inbox:*"])).rejects.toThrow("tags have no wildcards");
    await process.cache.invalidateTags(["Inbox:#recent", "Inbox:__proto__"]);
    for (const of of names) await ask(of);
    expect(process.outcomes()).toEqual({ loaded: names.length + 3, hit: names.length - 3 });
  });
}

onEachStore("stored entries", storedEntryTests);

it("does not read a value that was copied to another user's key in Redis", async () => {
  const client = new Redis(await sharedServer("redisStandalone"));
  const shared = await redisWorld();
  const process = members(shared);
  const keys = async (): Promise<string[]> => client.keys(`${shared.prefix}:*Query.me:*`);
  await textOf(process, "{ me }", { userId: "alice" });
  await waitForStores(process);
  const [aliceKey = ""] = await keys();
  await textOf(process, "{ me }", { userId: "bob" });
  await waitForStores(process, 2);
  const [bobKey = ""] = (await keys()).filter((key) => key !== aliceKey);
  await client.copy(aliceKey, bobKey, "REPLACE");
  expect(await textOf(process, "{ me }", { userId: "bob" })).toBe('{"me":"me of bob"}');
  await client.quit();
});

it("does not read a failure that was copied to another user's key in Redis", async () => {
  const client = new Redis(await sharedServer("redisStandalone"));
  const shared = await redisWorld();
  const me = (_: unknown, __: unknown, { userId }: Member) => Promise.reject(new Error(`no ${String(userId)}`));
  const make = () =>
    shared.process("type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }", { Query: { me } }, {
      identify: ({ userId }: Member) => userId,
      loads: { errorBackoffMs: 30_000 },
    } as object);
  const keys = async (least: number): Promise<string[]> =>
    vi.waitFor(async () => {
      const names = await client.keys(`${shared.prefix}:*Query.me:*`);
      const bodies = await Promise.all(names.map((key) => client.get(key)));
      expect(bodies.filter((body) => body?.includes("no "))).toHaveLength(least);
      return names;
    });
  const [one, two] = [make(), make()];
  await one.ask("{ me }", { userId: "alice" });
  const [aliceKey = ""] = await keys(1);
  await one.ask("{ me }", { userId: "bob" });
  const [bobKey = ""] = (await keys(2)).filter((key) => key !== aliceKey);
  expect((await two.ask("{ me }", { userId: "bob" })).errors?.[0]?.message).toBe("no bob");
  expect(two.outcomes(), "the failure is read from the store").toEqual({ coalesced: 1 });
  await client.copy(aliceKey, bobKey, "REPLACE");
  expect((await two.ask("{ me }", { userId: "bob" })).errors?.[0]?.message).toBe("no bob");
  expect(two.events.map(({ name }) => name)).toContain("entry.corrupt");
  await client.quit();
});

it("shows an entry only to callers that `allow` admits, and its value to no caller", async () => {
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
    await waitForStores(process);
    const source = '{ cacheInspection { entry(coordinate: "Query.me", private: "alice") { state storedBytes } } }';
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
