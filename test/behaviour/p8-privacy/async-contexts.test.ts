import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { memoryWorld, redisWorld, type World } from "../../support/world.js";

interface Session {
  readonly userId: string;
}

const USERS = ["anna", "ben", "cleo"] as const;
const identify = ({ userId }: Session): string => userId;
/** What resolvers take the user from, as with the session of a web framework. */
const session = new AsyncLocalStorage<Session>();
const nameOfUser = (): string => session.getStore()?.userId ?? "nobody";

/** Asks for each user at the same time, each in an asynchronous context of its own. */
const forAll = <T>(ask: (user: Session) => Promise<T>): Promise<T[]> =>
  Promise.all(USERS.map((userId) => session.run({ userId }, () => ask({ userId }))));

describe.each<[string, () => World | Promise<World>]>([
  ["memory", memoryWorld],
  ["Redis", redisWorld],
])("loads of several requests of one tick (%s)", (_, world) => {
  const profileOf = async (maxConcurrentLoads: number) =>
    (await world()).process(
      "type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }",
      { Query: { me: async () => `profile of ${nameOfUser()}` } },
      { identify, loads: { maxConcurrentLoads } },
    );

  it.each([
    ["at once", 10],
    ["one after the other", 1],
  ])("run in the asynchronous context of their own request, %s", async (__, maxConcurrentLoads) => {
    const { ask } = await profileOf(maxConcurrentLoads);
    // Otherwise the first request waits for the settings alone.
    await session.run({ userId: "first" }, () => ask("{ me }", { userId: "first" }));
    const expected = USERS.map((userId) => ({ me: `profile of ${userId}` }));
    expect((await forAll((user) => ask("{ me }", user))).map(({ data }) => data)).toEqual(expected);
    await settle();
    expect((await forAll((user) => ask("{ me }", user))).map(({ data }) => data)).toEqual(expected);
  });

  it("call the batch function of a loader in the asynchronous context of their own request", async () => {
    const { cache } = (await world()).process("type Query { unused: Int }", {}, { identify });
    const notes = cache.loader({
      name: "Note",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids: readonly number[], _context: Session) => ids.map((id) => `${id} of ${nameOfUser()}`),
    });
    await session.run({ userId: "first" }, () => notes({ userId: "first" }).load(1));
    expect(await forAll((user) => notes(user).loadMany([1, 2]))).toEqual(
      USERS.map((userId) => [`1 of ${userId}`, `2 of ${userId}`]),
    );
  });
});

it("a load that begins when the load of another process has failed to store runs in the context of its own request", async () => {
  const world = memoryWorld();
  const { passed, open } = gate();
  const typeDefs = "type Query { film(id: Int): String @cached(maxAge: 60) }";
  const slow = world.process(typeDefs, {
    Query: {
      film: async () => {
        await passed;
        throw Object.assign(new Error("aborted"), { extensions: { code: "UNAUTHENTICATED" } });
      },
    },
  });
  const { ask } = world.process(typeDefs, {
    Query: { film: async (__: unknown, { id }: { id: number }) => `${id} for ${nameOfUser()}` },
  });
  const failing = Promise.all([1, 2, 3].map((id) => slow.ask(`{ film(id: ${id}) }`)));
  await settle();
  const waiting = Promise.all(
    USERS.map((userId, nth) => session.run({ userId }, () => ask(`{ film(id: ${nth + 1}) }`))),
  );
  await settle();
  open();
  await failing;
  expect((await waiting).map(({ data }) => data)).toEqual(
    USERS.map((userId, nth) => ({ film: `${nth + 1} for ${userId}` })),
  );
});

it("the `exists` guard of a loader runs outside of the asynchronous context of any of the requests that it answers for", async () => {
  const { cache } = memoryWorld().process("type Query { unused: Int }", {});
  const checked: unknown[] = [];
  const films = cache.loader({
    name: "Film",
    maxAge: 60,
    batch: async (ids: readonly string[]) => ids.map((id) => `${id} for ${nameOfUser()}`),
    exists: { has: async (ids: readonly string[]) => (checked.push([nameOfUser(), ...ids]), ids.map(() => true)) },
  });
  expect(await forAll((user) => films(user).load(user.userId))).toEqual(
    USERS.map((userId) => `${userId} for ${userId}`),
  );
  expect(checked).toEqual([["nobody", ...USERS]]);
});

it.each([
  ["the loader", false],
  ["a loader that its batch function reads", true],
])("a load of %s runs in the context of its own request, not with the refreshes of others' ids", async (_, isInner) => {
  const clock = new FakeClock();
  const { cache } = memoryWorld(() => memoryStore({ clock })).process(
    "type Query { unused: Int }",
    {},
    { testing: { clock }, defaults: { jitter: 0 } },
  );
  const seen: string[] = [];
  const note = async (ids: readonly number[]) => (seen.push(`${ids.join()} for ${nameOfUser()}`), [...ids]);
  const inner = cache.loader<number, number, object>({ name: "Inner", maxAge: isInner ? 60 : 1_000, batch: note });
  const films = cache.loader<number, number, object>({
    name: "Film",
    maxAge: 60,
    staleWhileRevalidate: 60,
    batch: isInner ? async (ids, context) => (await inner(context).loadMany(ids)) as number[] : note,
  });
  await session.run({ userId: "anna" }, () => films({}).load(1));
  await settle();
  await clock.advance(70_000);
  await session.run({ userId: "ben" }, () => films({}).loadMany([1, 2]));
  await settle();
  expect(seen).toEqual(["1 for anna", ...seen.slice(1).sort()]);
  expect(seen.slice(1).sort()).toEqual(["1 for nobody", "2 for ben"]);
});

describe("a refresh in the background", () => {
  const setUp = (scope: "PUBLIC" | "PRIVATE") => {
    const clock = new FakeClock();
    const { ask } = memoryWorld(() => memoryStore({ clock })).process(
      `type Query { me: String @cached(maxAge: 60, staleWhileRevalidate: 60, scope: ${scope}) }`,
      { Query: { me: async () => `for ${nameOfUser()}` } },
      { identify, testing: { clock }, defaults: { jitter: 0 } },
    );
    const askAs = (userId: string) => session.run({ userId }, async () => (await ask("{ me }", { userId })).data);
    const askAfterRefresh = async (userId: string) => {
      await askAs(userId);
      await settle();
      await clock.advance(70_000);
      await askAs(userId);
      await settle();
      return askAs(userId);
    };
    return askAfterRefresh;
  };

  it("runs in the asynchronous context of the caller whom a PRIVATE value belongs to", async () => {
    expect(await setUp("PRIVATE")("ben")).toEqual({ me: "for ben" });
  });

  it("runs outside of the asynchronous context of any request if its value is PUBLIC", async () => {
    expect(await setUp("PUBLIC")("ben")).toEqual({ me: "for nobody" });
  });

  it("runs outside of the asynchronous context of any request if the first request has created the cache", async () => {
    const askAfterRefresh = session.run({ userId: "first" }, () => setUp("PUBLIC"));
    expect(await askAfterRefresh("ben")).toEqual({ me: "for nobody" });
  });
});
