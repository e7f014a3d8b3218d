import { FakeClock } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ReadRecord, readLog } from "../../src/core/store/clock-log.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld, type Process, waitForStores } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    value: Int @cached(maxAge: 600, staleWhileRevalidate: 600, tags: ["T"])
    item(id: ID!): Int @cached(maxAge: 60, tags: ["Item:{$args.id}"])
  }
`;

type Cache = Process["cache"];

const soft = { soft: true };
/** Everything that can be invalidated, with whether the value may be served while it is refreshed. */
const KINDS: readonly (readonly [what: string, isSoft: boolean, invalidate: (cache: Cache) => Promise<void>])[] = [
  ["a tag", false, (cache) => cache.invalidateTags(["T"])],
  ["a tag, softly", true, (cache) => cache.invalidateTags(["T"], soft)],
  ["an entry", false, (cache) => cache.invalidate({ coordinate: "Query.value", args: {} })],
  ["an entry, softly", true, (cache) => cache.invalidate({ coordinate: "Query.value", args: {} }, soft)],
  ["a coordinate", false, (cache) => cache.invalidate({ coordinate: "Query.value" })],
  ["a coordinate, softly", true, (cache) => cache.invalidate({ coordinate: "Query.value" }, soft)],
  ["everything", false, (cache) => cache.clear()],
];
const MINUTES_LATER_MS = 3 * 60_000;

describe("A Redis that restarts from a snapshot older than a confirmed invalidation", () => {
  const lab = new RedisLab();
  const clients: Redis[] = [];
  let node: LabNode;
  let admin: Redis;
  const connect = (): Redis => {
    const client = new Redis(node.port, node.host, { retryStrategy: () => 10 }).on("error", () => undefined);
    clients.push(client);
    return client;
  };
  beforeAll(async () => {
    node = await lab.standalone();
    admin = connect();
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await lab.stop();
  });

  /** Starts processes with a client each, on one source, and stores its first version. Their own time passes when the test advances it. */
  async function start(count: number) {
    await admin.flushall();
    const clock = new FakeClock();
    const source = { version: 1 };
    const newProcess = () => {
      const client = connect();
      const process = memoryWorld(() => redisStore({ client })).process(
        typeDefs,
        { Query: { value: () => source.version, item: () => source.version } },
        { prefix: "replay", testing: { clock }, storage: { storeTimeoutMs: 30_000 } },
      );
      return { process, client };
    };
    const started = Array.from({ length: count }, newProcess);
    for (const { process } of started) expect(await askValue(process)).toBe(1);
    await waitForStores(started[0]?.process as Process);
    const goBack = async (): Promise<void> => {
      await node.kill();
      await node.restart();
      await until("all are connected again", async () => (await admin.ping()) === "PONG" && clients.every(isReady));
    };
    /** Waits until the log has invalidated something later than `position`, as a process does that finds its records missing. */
    const repaired = (position: number): Promise<void> =>
      until("the invalidation is in the log again", async () => {
        await clock.advance(50);
        return (await recordsOf(admin)).some((record) => record.position > position && record.subjects.length > 0);
      });
    return { clock, source, newProcess, started, goBack, repaired };
  }

  it.each(KINDS)(
    "serves no value that was outdated by invalidating %s, although it is minutes ago",
    async (_, isSoft, invalidate) => {
      const { clock, source, newProcess, started, goBack, repaired } = await start(2);
      const [{ process: maker }, { process: other }] = started as [Started, Started];
      await admin.save();
      source.version = 2;
      await invalidate(maker.cache);
      const lost = (await recordsOf(admin)).at(-1) as ReadRecord;
      // The other one has seen it, in a read of something else.
      await dataOf(other.ask('{ item(id: "any") }'));
      await clock.advance(MINUTES_LATER_MS);
      await goBack();
      expect((await recordsOf(admin)).map(({ nonce }) => nonce)).not.toContain(lost.nonce);

      const values = [await askValue(maker), await askValue(other)];
      if (isSoft) expect([maker, other].map((process) => process.outcomes().stale)).toEqual([1, 1]);
      else expect(values).toEqual([2, 2]);
      await repaired(lost.position);
      // A process that has never known of it finds it in the log.
      const { process: late } = newProcess();
      if (!isSoft) expect(await askValue(late)).toBe(2);
      await until("all serve the new value", async () => {
        await clock.advance(50);
        const all = [await askValue(maker), await askValue(other), await askValue(late)];
        if (!isSoft) expect(all).toEqual([2, 2, 2]);
        return all.every((value) => value === 2);
      });
    },
  );

  it.each([false, true])(
    "serves no outdated value after a process that knows nothing of the loss has invalidated something else (softly: %s)",
    async (isSoft) => {
      const { source, newProcess, started, goBack, repaired } = await start(2);
      const [{ process: maker }, { process: other }] = started as [Started, Started];
      await admin.save();
      source.version = 2;
      await maker.cache.invalidateTags(["T"], { soft: isSoft });
      const lost = (await recordsOf(admin)).at(-1) as ReadRecord;
      await dataOf(other.ask('{ item(id: "any") }'));
      await goBack();
      // The log is ahead of what the two know.
      await newProcess().process.cache.invalidateTags(["Other"]);
      const [first] = [await askValue(maker), await askValue(other)];
      if (isSoft) expect(maker.outcomes().stale).toBe(1);
      else expect(first).toBe(2);
      await repaired(((await recordsOf(admin)).at(-1) as ReadRecord).position);
      expect((await recordsOf(admin)).at(-1)).toMatchObject({ kind: lost.kind, subjects: lost.subjects });
    },
  );

  it("gets an invalidation again from a process that has only seen it, after the one that made it has ended", async () => {
    const { source, newProcess, started, goBack, repaired } = await start(2);
    const [{ process: maker }, { process: other }] = started as [Started, Started];
    await admin.save();
    source.version = 2;
    await maker.cache.invalidateTags(["T"]);
    const lost = (await recordsOf(admin)).at(-1) as ReadRecord;
    await dataOf(other.ask('{ item(id: "any") }'));
    await maker.cache.close();
    await goBack();
    await dataOf(other.ask('{ item(id: "other") }'));
    await repaired(lost.position);
    expect(await askValue(newProcess().process)).toBe(2);
  });
});

/** Breaks the connection of `client`, as an idle timeout of a proxy does, and waits for the next one. */
async function reconnect(client: Redis, admin: Redis): Promise<void> {
  const reconnected = new Promise<void>((resolve) => client.once("ready", resolve));
  await admin.client("KILL", "ID", await client.client("ID"));
  await reconnected;
}

describe("A Redis whose connections break without any loss", () => {
  const lab = new RedisLab();
  const ids = Array.from({ length: 200 }, (_, nth) => `${nth}`);
  const query = `{ ${ids.map((id) => `i${id}: item(id: "${id}")`).join(" ")} }`;
  const clients: (Redis | Cluster)[] = [];
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await lab.stop();
  });

  /** Stores all items, invalidates half of them by key and half by tag, stores them again, and counts later loads. */
  async function warmUp(client: Redis | Cluster) {
    let loads = 0;
    const process = memoryWorld(() => redisStore({ client })).process(
      typeDefs,
      {
        Query: { item: () => ++loads },
      },
      { storage: { storeTimeoutMs: 5_000 } },
    );
    const stored = (): number => process.events.filter(({ name }) => name === "write.finished").length;
    await dataOf(process.ask(query));
    await until("all are stored", () => stored() === ids.length);
    for (const [nth, id] of ids.entries())
      await (nth % 2 === 0
        ? process.cache.invalidate({ coordinate: "Query.item", args: { id } })
        : process.cache.invalidateTags([`Item:${id}`]));
    await dataOf(process.ask(query));
    await until("all are stored again", () => stored() === 2 * ids.length);
    return { process, loads: () => loads };
  }

  it("repeats no invalidation on one server: every warm entry stays", async () => {
    const { host, port } = await lab.standalone();
    const client = new Redis(port, host, { retryStrategy: () => 10 });
    const admin = new Redis(port, host);
    clients.push(client, admin);
    const { process, loads } = await warmUp(client);
    const before = loads();
    const records = await recordsOf(admin);
    for (let nth = 0; nth < 3; nth++) {
      await reconnect(client, admin);
      await dataOf(process.ask(query));
      await dataOf(process.ask(query));
    }
    expect(loads()).toBe(before);
    expect(process.outcomes()).toEqual({ loaded: 2 * ids.length, hit: 6 * ids.length });
    expect(await recordsOf(admin)).toEqual(records);
  });

  it("repeats no invalidation on a Cluster, by key or by tag: every warm entry stays", async () => {
    const nodes = await lab.cluster();
    const cluster = new Cluster(
      nodes.map(({ host, port }) => ({ host, port })),
      { slotsRefreshTimeout: 2_000 },
    );
    clients.push(cluster);
    const { process, loads } = await warmUp(cluster);
    const before = loads();
    for (const { host, port } of nodes) {
      const admin = new Redis(port, host);
      clients.push(admin);
      const added = new Promise<void>((resolve) => cluster.once("+node", () => resolve()));
      await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      await cluster.refreshSlotsCache(() => undefined);
      await added;
    }
    await until("all are read from the store", async () => {
      const hits = process.outcomes().hit ?? 0;
      await dataOf(process.ask(query));
      return (process.outcomes().hit ?? 0) - hits === ids.length;
    });
    await dataOf(process.ask(query));
    expect(loads()).toBe(before);
  });
});

type Started = { readonly process: Process; readonly client: Redis };

const isReady = ({ status }: Redis): boolean => status === "ready";

async function askValue(process: Process): Promise<number> {
  return ((await dataOf(process.ask("{ value }"))) as { value: number }).value;
}

/** Returns the records in the log of the only cache on a server. */
async function recordsOf(client: Redis): Promise<readonly ReadRecord[]> {
  const [name = ""] = await client.keys("*#clock:log");
  return readLog((await client.getBuffer(name)) ?? undefined)?.records ?? [];
}
