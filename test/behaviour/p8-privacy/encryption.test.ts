import { gate, settle } from "@graphql-cached/testing";
import { GraphQLError } from "graphql";
import type { CacheOptions } from "graphql-cached";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { sharedServer } from "../../support/shared-servers.js";
import { dataOf, onEachStore, type Process, redisWorld, type World, waitForStores } from "../../support/world.js";

const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
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
  loads: {
    // Long enough that the failure is still shared when a slow machine reads it.
    errorBackoffMs: 30_000,
  },
  storage: { storeTimeoutMs: 5_000 },
});
const QUERY = '{ diary(of: "Ada Lovelace") { owner text } }';
const DIARY = { owner: "Ada Lovelace", text: "strictly confidential" };

/** Creates a process whose source counts its loads and can be blocked or made to fail. */
function createWriter(world: World, options: CacheOptions<never>) {
  const state = { loads: 0, failure: undefined as Error | undefined, hold: undefined as Promise<void> | undefined };
  const load = async (): Promise<unknown> => {
    state.loads++;
    await state.hold;
    if (state.failure !== undefined) throw state.failure;
    return DIARY;
  };
  return { state, ...world.process(typeDefs, { Query: { diary: load, friend: load } }, options) };
}

const corruptionsOf = ({ events }: Process): (string | undefined)[] =>
  events.map((event) => (event.name === "entry.corrupt" ? event.error.message : undefined)).filter(Boolean);

/** Returns every key of Redis under the world's prefix, with its content. */
async function redisContents({ prefix }: World): Promise<Map<string, Buffer>> {
  const names = await client.keys(`${prefix}*`);
  const contents = await Promise.all(
    names.map(async (name): Promise<[string, Buffer]> => {
      const isText = (await client.type(name)) === "string";
      return [name, isText ? ((await client.getBuffer(name)) as Buffer) : Buffer.from(String(await client.dump(name)))];
    }),
  );
  return new Map(contents);
}
const entryOf = (contents: Map<string, Buffer>, coordinate: string): [string, Buffer] =>
  [...contents].find(([name]) => name.includes(coordinate)) as [string, Buffer];

onEachStore("encryption", (world) => {
  it("lets every process that has the key read the entries", async () => {
    const shared = world();
    const [first, second] = [createWriter(shared, encrypted(autumn)), createWriter(shared, encrypted(autumn))];
    expect(await dataOf(first.ask(QUERY))).toEqual({ diary: DIARY });
    await waitForStores(first);
    expect(await dataOf(second.ask(QUERY))).toEqual({ diary: DIARY });
    expect([first.state.loads, second.state.loads]).toEqual([1, 0]);
    await first.cache.invalidateTags(["Diary:Ada Lovelace"]);
    expect(await dataOf(second.ask(QUERY))).toEqual({ diary: DIARY });
    expect(second.state.loads).toBe(1);
  });

  it("keeps entries readable during a step-by-step key rotation", async () => {
    const shared = world();
    const old = createWriter(shared, encrypted(spring));
    await old.ask(QUERY);
    await waitForStores(old);
    // Rotation: first add the new key everywhere, then move it to the front, then remove the old key.
    for (const keys of [
      [spring, autumn],
      [autumn, spring],
    ] as const) {
      const process = createWriter(shared, encrypted(...keys));
      expect(await dataOf(process.ask(QUERY))).toEqual({ diary: DIARY });
      expect(process.state.loads).toBe(0);
    }
    const last = createWriter(shared, encrypted(autumn));
    expect(await dataOf(last.ask(QUERY))).toEqual({ diary: DIARY });
    expect(last.state.loads).toBe(1);
    expect(corruptionsOf(last)).toEqual([
      "`Query.diary`: a stored entry cannot be read, so the value is loaded again: it is encrypted with a key that this process does not have; " +
        "use the same `codec`, `types`, `storage.maxValueBytes` and `encryption` in all processes",
    ]);
    await waitForStores(last);
    const during = createWriter(shared, encrypted(spring, autumn));
    expect(await dataOf(during.ask(QUERY))).toEqual({ diary: DIARY });
    expect(during.state.loads).toBe(0);
  });

  it("delivers encrypted values and failures to waiting processes", async () => {
    for (const failure of [undefined, new GraphQLError("no diary of Ada", { extensions: { code: "NONE" } })]) {
      const shared = world();
      const [first, second] = [createWriter(shared, encrypted(autumn)), createWriter(shared, encrypted(autumn))];
      const loadGate = gate();
      Object.assign(first.state, { hold: loadGate.passed, failure });
      const results = [first.ask(QUERY)];
      while (first.state.loads === 0) await settle();
      results.push(second.ask(QUERY));
      await settle();
      loadGate.open();
      for (const { data, errors } of await Promise.all(results)) {
        expect(errors?.[0]?.message).toBe(failure?.message);
        expect(errors?.[0]?.extensions).toEqual(failure?.extensions);
        expect(JSON.parse(JSON.stringify(data))).toEqual({ diary: failure === undefined ? DIARY : null });
      }
      expect([first.state.loads, second.state.loads]).toEqual([1, 0]);
    }
  });

  it("treats a failure encrypted with an unknown key as a miss", async () => {
    const shared = world();
    const [first, second] = [createWriter(shared, encrypted(spring)), createWriter(shared, encrypted(autumn))];
    first.state.failure = new Error("no diary of Ada");
    expect((await first.ask(QUERY)).errors).toHaveLength(1);
    await settle();
    expect(await dataOf(second.ask(QUERY))).toEqual({ diary: DIARY });
    expect(corruptionsOf(second)).toEqual([expect.stringContaining("a key that this process does not have")]);
  });
});

describe("encryption on Redis", () => {
  it("leaves no argument, value or error text readable in Redis, in keys or in content", async () => {
    const world = await redisWorld();
    const process = createWriter(world, encrypted(autumn));
    await process.ask(QUERY);
    await waitForStores(process);
    process.state.failure = new Error("Ada Lovelace has no friends");
    await process.ask('{ friend(of: "Ada Lovelace") { text } }');
    await settle();
    const contents = await redisContents(world);
    expect(entryOf(contents, "Query.diary")[1].length).toBeGreaterThan(150);
    expect(entryOf(contents, "Query.friend")[1].length).toBeGreaterThan(100);
    for (const [name, bytes] of contents)
      for (const word of ["Ada", "Lovelace", "strictly", "confidential", "owner", "friends", "$result"])
        expect(Buffer.concat([Buffer.from(name), bytes]).includes(word), `${word} in ${name}`).toBe(false);
  });

  it("treats an entry that was modified or copied to another key as a miss", async () => {
    const world = await redisWorld();
    const process = createWriter(world, encrypted(autumn));
    const friend = '{ friend(of: "Ada Lovelace") { owner text } }';
    await process.ask(friend);
    await waitForStores(process);
    const [friendKey, friendBytes] = entryOf(await redisContents(world), "Query.friend");
    await process.ask('{ friend(of: "Grace Hopper") { owner text } }');
    await waitForStores(process, 2);
    const [, otherBytes] = [...(await redisContents(world))].find(
      ([name]) => name !== friendKey && name.includes("Query.friend"),
    ) as [string, Buffer];
    const changed = Buffer.from(friendBytes);
    changed.writeUInt8(changed.readUInt8(changed.length - 1) ^ 1, changed.length - 1);
    for (const [round, bytes] of [changed, otherBytes].entries()) {
      await client.set(friendKey, bytes);
      expect(await dataOf(process.ask(friend))).toEqual({ friend: DIARY });
      expect(process.state.loads).toBe(3 + round);
      expect(corruptionsOf(process)).toHaveLength(round + 1);
      expect(corruptionsOf(process).at(-1)).toContain("it was modified after encryption, or copied from another key");
      await waitForStores(process, 3 + round);
    }
  });
});
