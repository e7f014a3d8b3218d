import { randomUUID } from "node:crypto";
import { FakeClock } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { beforeEach, describe, expect, it } from "vitest";
import { RedisFaults } from "../support/redis-faults.js";
import { until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { afterCaches, dataOf, memoryWorld, waitForStores } from "../support/world.js";

const standaloneServer = await sharedServer("redisStandalone");

const typeDefs = "type Query { value(id: ID!): Int @cached(maxAge: 600) }";
/** As many failures in a row open the breaker. */
const FAILURES = 5;

let network: TcpProxy;
/** The names of the commands that reach the server, in their order. */
let commands: string[];
beforeEach(async () => {
  const faults = new RedisFaults();
  commands = [];
  faults.onCommand = ({ name }) => void commands.push(name);
  network = await TcpProxy.before(standaloneServer, faults.filter);
  afterCaches(() => network.close());
});

/** A process whose time stands still, so that no pause of the breaker ends by itself, and no repetition begins. */
function startProcess(options: object = {}) {
  const client = new Redis(network.port, network.host, {
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    retryStrategy: () => 5,
  });
  client.on("error", () => undefined);
  afterCaches(async () => client.disconnect());
  const versions = new Map<string, number>();
  const versionOf = (id: string): number => versions.get(id) ?? 1;
  const process = memoryWorld(() => redisStore({ client })).process(
    typeDefs,
    { Query: { value: (_: unknown, { id }: { id: string }) => versionOf(id) } },
    { prefix: `reconnects-${randomUUID()}`, testing: { clock: new FakeClock() }, ...options },
  );
  const ask = async (id = "1"): Promise<unknown> =>
    ((await dataOf(process.ask(`{ value(id: "${id}") }`))) as { value: unknown }).value;
  const breaker = async () => (await process.cache.health()).store.nodes[0]?.breaker.state;
  return {
    ...process,
    client,
    ask,
    breaker,
    invalidate: (id = "1"): Promise<void> => {
      versions.set(id, versionOf(id) + 1);
      return process.cache.invalidate({ coordinate: "Query.value", args: { id } });
    },
    /** Ends the connection, and reads until the breaker is open. */
    goDown: async (): Promise<void> => {
      network.isUp = false;
      network.cut();
      await until("the client has noticed it", () => client.status !== "ready");
      for (let nth = 0; nth < FAILURES; nth++) await ask("other");
      expect(await breaker()).toBe("OPEN");
    },
    comeUp: async (): Promise<void> => {
      network.isUp = true;
      await until("the client is connected again", () => client.status === "ready");
    },
  };
}

describe("A client that is connected again", () => {
  it("ends the pause of the breaker, so that the first read is a hit", async () => {
    const { ask, client, goDown, comeUp, outcomes, breaker, ...process } = startProcess();
    await until("the client is connected", () => client.status === "ready");
    expect(await ask()).toBe(1);
    await waitForStores(process);
    await goDown();
    await comeUp();
    const { hit = 0 } = outcomes();
    expect(await ask()).toBe(1);
    expect(outcomes().hit).toBe(hit + 1);
    expect(await breaker()).toBe("CLOSED");
  });

  it("ends the pause of the breaker when it is connected for the first time", async () => {
    network.isUp = false;
    const { ask, comeUp, breaker, ...process } = startProcess();
    for (let nth = 0; nth < FAILURES; nth++) expect(await ask("other")).toBe(1);
    expect(await breaker()).toBe("OPEN");
    await comeUp();
    expect(await ask()).toBe(1);
    await waitForStores(process);
    expect(await ask()).toBe(1);
    expect(process.outcomes()).toMatchObject({ loaded: 1, hit: 1 });
  });

  it("repeats invalidations before anything is read", async () => {
    const { ask, cache, client, goDown, comeUp, invalidate, outcomes, ...process } = startProcess();
    await until("the client is connected", () => client.status === "ready");
    // Reads as soon as it can, before the store can do anything.
    let isReading = false;
    const reads: Promise<unknown>[] = [];
    client.prependListener("ready", () => {
      if (isReading) reads.push(ask(), ask("2"));
    });
    for (const id of ["1", "2"]) expect(await ask(id)).toBe(1);
    await waitForStores(process, 2);
    await goDown();
    await expect(invalidate()).rejects.toThrow();
    isReading = true;
    commands.length = 0;
    await comeUp();
    await until("it has read", () => reads.length === 2);
    expect(await Promise.all(reads)).toEqual([2, 1]);
    await until("the invalidation is confirmed", async () => {
      return (await cache.health()).unconfirmedInvalidations.count === 0;
    });
    const sent = commands.filter((name) => name === "MGET" || name.startsWith("EVAL"));
    expect(sent[0]).toMatch(/^EVAL/);
    expect(outcomes().hit).toBe(1);
  });

  it("serves hits and confirms invalidations in each of the moments in which there is a network", async () => {
    const { ask, cache, client, goDown, comeUp, invalidate, outcomes, ...process } = startProcess();
    await until("the client is connected", () => client.status === "ready");
    const MOMENTS = 12;
    for (let moment = 1; moment <= MOMENTS; moment++) {
      expect(await ask("kept")).toBe(1);
      expect(await ask()).toBe(moment);
      // What was stored now is served in the next moment.
      await waitForStores(process, moment + 1);
      await goDown();
      await expect(invalidate()).rejects.toThrow();
      await comeUp();
      // Until then, what is loaded is not stored.
      await until("it is confirmed", async () => (await cache.health()).unconfirmedInvalidations.count === 0);
    }
    expect(outcomes().hit).toBe(MOMENTS - 1);
    const confirmed = process.events.filter((event) => event.name === "invalidation.finished" && event.isConfirmed);
    expect(confirmed).toHaveLength(MOMENTS);
  });

  it("opens the breaker again with the first failure", async () => {
    const { ask, breaker, client, goDown, comeUp } = startProcess();
    await until("the client is connected", () => client.status === "ready");
    await goDown();
    await comeUp();
    network.isUp = false;
    network.cut();
    await until("the client has noticed it", () => client.status !== "ready");
    await ask();
    expect(await breaker()).toBe("OPEN");
  });
});
