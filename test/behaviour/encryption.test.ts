import { GraphQLError } from "graphql";
import type { CacheOptions } from "graphql-cached";
import { gate, settle } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import { dataOf, onEachStore, type Process, redisWorld, stored, type World } from "../support/world.js";

const client = new Redis({ ...inject("redisStandalone"), lazyConnect: true });
afterAll(() => client.quit());

const typeDefs = /* GraphQL */ `
  type Query {
    diary(of: String!): Diary @cached(maxAge: 60, tags: ["Diary:{$result.owner}"])
    friend(of: String!): Diary @cached(maxAge: 60)
  }
  type Diary { owner: String text: String }
`;
const [spring, autumn] = [
  { id: "2026-04", key: Buffer.alloc(32, 4).toString("base64") },
  { id: "2026-11", key: Buffer.alloc(32, 11) },
];
const encrypted = (...keys: readonly (typeof spring | typeof autumn)[]): CacheOptions<never> => ({
  encryption: { keys },
  // A failure stays known for as long as a slow machine may need to ask about it.
  errorBackoffMs: 30_000,
  storeTimeoutMs: 5_000,
});
const ASK = '{ diary(of: "Ada Lovelace") { owner text } }';
const DIARY = { owner: "Ada Lovelace", text: "nobody may read this" };

/** A process whose source counts its loads, and does as it is told. */
function writer(world: World, options: CacheOptions<never>) {
  const state = { loads: 0, failure: undefined as Error | undefined, door: undefined as Promise<void> | undefined };
  const load = async (): Promise<unknown> => {
    state.loads++;
    await state.door;
    if (state.failure !== undefined) throw state.failure;
    return DIARY;
  };
  return { state, ...world.process(typeDefs, { Query: { diary: load, friend: load } }, options) };
}

const corruptOf = ({ events }: Process): (string | undefined)[] =>
  events.map((event) => (event.name === "entry.corrupt" ? event.error.message : undefined)).filter(Boolean);

/** Everything a Redis holds under a world's prefix: names and contents. */
async function contents({ prefix }: World): Promise<Map<string, Buffer>> {
  const names = await client.keys(`${prefix}*`);
  const kept = await Promise.all(
    names.map(async (name): Promise<[string, Buffer]> => {
      const isText = (await client.type(name)) === "string";
      return [name, isText ? ((await client.getBuffer(name)) as Buffer) : Buffer.from(String(await client.dump(name)))];
    }),
  );
  return new Map(kept);
}
const entryOf = (kept: Map<string, Buffer>, coordinate: string): [string, Buffer] =>
  [...kept].find(([name]) => name.includes(coordinate)) as [string, Buffer];

onEachStore("encrypted entries", (world) => {
  it("are read by every process that has the key", async () => {
    const shared = world();
    const [first, second] = [writer(shared, encrypted(autumn)), writer(shared, encrypted(autumn))];
    expect(await dataOf(first.ask(ASK))).toEqual({ diary: DIARY });
    await stored(first);
    expect(await dataOf(second.ask(ASK))).toEqual({ diary: DIARY });
    expect([first.state.loads, second.state.loads]).toEqual([1, 0]);
    await first.cache.invalidateTags(["Diary:Ada Lovelace"]);
    expect(await dataOf(second.ask(ASK))).toEqual({ diary: DIARY });
    expect(second.state.loads).toBe(1);
  });

  it("stay readable while their key is changed in a fleet, step by step", async () => {
    const shared = world();
    const old = writer(shared, encrypted(spring));
    await old.ask(ASK);
    await stored(old);
    // First every process learns of the new key, then it is put first, then the old one is taken away.
    for (const keys of [
      [spring, autumn],
      [autumn, spring],
    ] as const) {
      const process = writer(shared, encrypted(...keys));
      expect(await dataOf(process.ask(ASK))).toEqual({ diary: DIARY });
      expect(process.state.loads).toBe(0);
    }
    const last = writer(shared, encrypted(autumn));
    expect(await dataOf(last.ask(ASK))).toEqual({ diary: DIARY });
    expect(last.state.loads).toBe(1);
    expect(corruptOf(last)).toEqual([
      "an entry of `Query.diary` was expected to be readable and is not: it is encrypted with a key that this process does not have; " +
        "it is loaded again, see that all processes have the same `codec`, `types`, `maxValueBytes` and `encryption`",
    ]);
    await stored(last);
    const during = writer(shared, encrypted(spring, autumn));
    expect(await dataOf(during.ask(ASK))).toEqual({ diary: DIARY });
    expect(during.state.loads).toBe(0);
  });

  it("wake those who wait for them, and failures do too", async () => {
    for (const failure of [undefined, new GraphQLError("no diary of Ada", { extensions: { code: "NONE" } })]) {
      const shared = world();
      const [first, second] = [writer(shared, encrypted(autumn)), writer(shared, encrypted(autumn))];
      const door = gate();
      Object.assign(first.state, { door: door.passed, failure });
      const answers = [first.ask(ASK)];
      while (first.state.loads === 0) await settle();
      answers.push(second.ask(ASK));
      await settle();
      door.open();
      for (const { data, errors } of await Promise.all(answers)) {
        expect(errors?.[0]?.message).toBe(failure?.message);
        expect(errors?.[0]?.extensions).toEqual(failure?.extensions);
        expect(JSON.parse(JSON.stringify(data))).toEqual({ diary: failure === undefined ? DIARY : null });
      }
      expect([first.state.loads, second.state.loads]).toEqual([1, 0]);
    }
  });

  it("that tell of a failure are never an error to whom they cannot be read by", async () => {
    const shared = world();
    const [first, second] = [writer(shared, encrypted(spring)), writer(shared, encrypted(autumn))];
    first.state.failure = new Error("no diary of Ada");
    expect((await first.ask(ASK)).errors).toHaveLength(1);
    await settle();
    expect(await dataOf(second.ask(ASK))).toEqual({ diary: DIARY });
    expect(corruptOf(second)).toEqual([expect.stringContaining("a key that this process does not have")]);
  });
});

describe("an encrypted Redis", () => {
  it("holds nothing of what users said or got, neither in names nor in values nor in failures", async () => {
    const world = redisWorld();
    const process = writer(world, encrypted(autumn));
    await process.ask(ASK);
    await stored(process);
    process.state.failure = new Error("Ada Lovelace has no friends");
    await process.ask('{ friend(of: "Ada Lovelace") { text } }');
    await settle();
    const kept = await contents(world);
    expect(entryOf(kept, "Query.diary")[1].length).toBeGreaterThan(150);
    expect(entryOf(kept, "Query.friend")[1].length).toBeGreaterThan(100);
    for (const [name, bytes] of kept)
      for (const word of ["Ada", "Lovelace", "nobody", "read", "owner", "friends", "$result"])
        expect(Buffer.concat([Buffer.from(name), bytes]).includes(word), `${word} in ${name}`).toBe(false);
  });

  it("whose entries are tampered with, or put under another key, gives misses", async () => {
    const world = redisWorld();
    const process = writer(world, encrypted(autumn));
    const friend = '{ friend(of: "Ada Lovelace") { owner text } }';
    await process.ask(friend);
    await stored(process);
    const [friendName, friendBytes] = entryOf(await contents(world), "Query.friend");
    await process.ask('{ friend(of: "Grace Hopper") { owner text } }');
    await stored(process, 2);
    const [, otherBytes] = [...(await contents(world))].find(
      ([name]) => name !== friendName && name.includes("Query.friend"),
    ) as [string, Buffer];
    const changed = Buffer.from(friendBytes);
    changed.writeUInt8(changed.readUInt8(changed.length - 1) ^ 1, changed.length - 1);
    for (const [round, bytes] of [changed, otherBytes].entries()) {
      await client.set(friendName, bytes);
      expect(await dataOf(process.ask(friend))).toEqual({ friend: DIARY });
      expect(process.state.loads).toBe(3 + round);
      expect(corruptOf(process)).toHaveLength(round + 1);
      expect(corruptOf(process).at(-1)).toContain("it was modified after encryption, or copied from another key");
      await stored(process, 3 + round);
    }
  });
});
