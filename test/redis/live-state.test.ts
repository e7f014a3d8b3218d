import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { gate } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inspectedSite } from "../support/inspected-site.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";

interface Node {
  readonly node: string;
  readonly server: Readonly<Record<string, unknown>> | null;
  readonly serverMissing: string | null;
  readonly connections: readonly {
    readonly breaker: { readonly state: string };
    readonly operations: number;
    readonly failures: number;
    readonly lastConnectionError: { readonly message: string } | null;
  }[];
}

const SERVER = "server { version role entries usedBytes maxBytes evictionPolicy evictions } serverMissing";
const CONNECTIONS =
  "connections { breaker { state } latency { p50Ms maxMs } operations failures lastConnectionError { at message } }";
const STORE = `store { name nodes { node ${SERVER} ${CONNECTIONS} } }`;
const BUDGET_MS = 100;
/** A busy machine must not look like a server that fails. */
const PATIENT = { storeTimeoutMs: 2_000 };

const lab = new RedisLab();
const clients: (Redis | Cluster)[] = [];
let server: LabNode;

beforeAll(async () => {
  server = await lab.standalone("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lfu");
});
afterAll(async () => {
  for (const client of clients) client.disconnect();
  await lab.stop();
});

function siteOn<Client extends Redis | Cluster>(client: Client, options: object = {}) {
  clients.push(client);
  const site = inspectedSite({ store: redisStore({ client }), prefix: randomUUID(), storage: PATIENT, ...options });
  const nodes = async (): Promise<readonly Node[]> =>
    (await site.inspect<{ store: { nodes: readonly Node[] } }>(STORE)).store.nodes;
  return { ...site, nodes };
}

describe("the live state on Redis", () => {
  it("shows what the server says of itself, and how this process reaches it", async () => {
    const { ask, events, nodes } = siteOn(new Redis(server.port, server.host));
    await ask("{ page(id: 1) other }");
    await until("the values are stored", () => events.filter(({ name }) => name === "write.finished").length === 2);
    expect(await nodes()).toEqual([
      {
        node: "",
        server: {
          version: expect.stringMatching(/^(redis|valkey) \d+\.\d+/),
          role: "master",
          entries: expect.any(Number),
          usedBytes: expect.any(Number),
          maxBytes: 100 * 1024 * 1024,
          evictionPolicy: "allkeys-lfu",
          evictions: 0,
        },
        serverMissing: null,
        connections: [
          {
            breaker: { state: "CLOSED" },
            latency: { p50Ms: expect.any(Number), maxMs: expect.any(Number) },
            operations: expect.any(Number),
            failures: 0,
            lastConnectionError: null,
          },
        ],
      },
    ]);
    const [node] = await nodes();
    expect(node?.server?.entries).toBeGreaterThanOrEqual(3);
    expect(node?.connections[0]?.operations).toBeGreaterThan(2);
  });

  it("says why there is no report if the ACL does not allow INFO, and works otherwise", async () => {
    const admin = new Redis(server.port, server.host);
    clients.push(admin);
    await admin.call("ACL", "SETUSER", "noinfo", "on", ">password", "~*", "&*", "+@all", "-info");
    const credentials = { username: "noinfo", password: "password", enableReadyCheck: false };
    const { ask, cache, nodes } = siteOn(new Redis({ host: server.host, port: server.port, ...credentials }));
    expect((await ask("{ page(id: 1) }")).errors).toBeUndefined();
    const [node] = await nodes();
    expect(node).toMatchObject({ server: null, connections: [{ breaker: { state: "CLOSED" }, failures: 0 }] });
    expect(node?.serverMissing).toMatch(/^NOPERM .*info/);
    expect(node?.serverMissing).not.toContain("password");
    expect(await cache.health()).toMatchObject({ status: "ok" });
  });

  it("answers within its time budget while the server is frozen and after it was killed, with the connection error", async () => {
    const own = await lab.standalone();
    const client = new Redis(own.port, own.host, {
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      retryStrategy: () => 20,
    });
    const { ask, cache, nodes } = siteOn(client, { storage: { storeTimeoutMs: BUDGET_MS } });
    await until("the client is connected", async () => (await cache.health()).status === "ok");
    own.pause();
    expect((await nodes())[0]).toMatchObject({ server: null, serverMissing: expect.stringContaining("within 100 ms") });
    expect(await cache.health()).toMatchObject({ status: "unavailable", reasons: [{ code: "STORE_UNREACHABLE" }] });
    own.resume();
    await own.kill();
    await until("the connection error is known", async () => {
      await ask("{ other }");
      await cache.health();
      const [node] = await nodes();
      return node?.connections[0]?.lastConnectionError?.message.includes("ECONNREFUSED") === true;
    });
    const [node] = await nodes();
    expect(node?.server).toBeNull();
    await own.restart();
    await until("the cache is healthy again", async () => (await cache.health()).status === "ok");
    const [again] = await nodes();
    expect(again?.connections[0]).toMatchObject({
      breaker: { state: "CLOSED" },
      lastConnectionError: { message: expect.stringContaining("ECONNREFUSED") },
    });
  });

  it("shows each node of a Cluster, and which of them does not reply", async () => {
    const masters = await lab.cluster();
    const client = new Cluster([...masters], {
      enableOfflineQueue: false,
      redisOptions: { maxRetriesPerRequest: 0 },
    });
    const { cache, nodes } = siteOn(client, { storage: { storeTimeoutMs: 500 } });
    await until("the nodes are known", async () => (await cache.health()).status === "ok");
    const names = masters.map(({ host, port }) => `${host}:${port}`).sort();
    const shown = await nodes();
    expect(shown.map(({ node }) => node).sort()).toEqual(names);
    for (const { server: report, connections } of shown) {
      expect(report).toMatchObject({ role: "master", version: expect.any(String) });
      expect(connections[0]?.operations).toBeGreaterThan(0);
    }
    const [frozen] = masters as [LabNode];
    const frozenName = `${frozen.host}:${frozen.port}`;
    frozen.pause();
    const { status, reasons, store } = await cache.health();
    expect(status).toBe("degraded");
    expect(reasons).toMatchObject([{ code: "STORE_UNREACHABLE", node: frozenName }]);
    for (const { node, isReachable } of store.nodes) expect(isReachable).toBe(node !== frozenName);
    for (const { node, server: report } of await nodes()) expect(report === null).toBe(node === frozenName);
    frozen.resume();
  });

  it("is unavailable, and shows no nodes, before the client of a Cluster knows any", async () => {
    const client = new Cluster([{ host: "127.0.0.1", port: 1 }], { lazyConnect: true, enableOfflineQueue: false });
    const { cache, nodes } = siteOn(client.on("error", () => undefined));
    expect(await nodes()).toEqual([]);
    expect(await cache.health()).toMatchObject({
      status: "unavailable",
      reasons: [{ code: "STORE_UNREACHABLE", message: expect.stringContaining("does not know the nodes") }],
    });
  });

  it("shows the leases of this process and the keys that another one loads for its readers", async () => {
    const options = { prefix: randomUUID() };
    const [one, other] = [
      siteOn(new Redis(await sharedServer("redisStandalone")), options),
      siteOn(new Redis(await sharedServer("redisStandalone")), options),
    ];
    one.state.hold = gate();
    const first = one.ask("{ page(id: 1) }");
    await until(
      "the first process has the lease",
      async () => (await one.inspect<{ leases: unknown[] }>("leases { digest }")).leases.length === 1,
    );
    const second = other.ask("{ page(id: 1) }");
    const queues = "leases { digest } states { process queues { waitingReaders waitingKeys } }";
    let shown: { process: string; queues: object } | undefined;
    // Between two waits, it reads the store, and waits for nothing.
    await until("the second process waits", async () => {
      ({
        states: [shown],
      } = await other.inspect<{ states: [typeof shown] }>(queues));
      return isDeepStrictEqual(shown?.queues, { waitingReaders: 1, waitingKeys: 1 });
    });
    const { states } = await one.inspect<{ states: { process: string }[] }>(queues);
    expect(states[0]?.process).not.toBe(shown?.process);
    one.state.hold.open();
    await Promise.all([first, second]);
  });

  it("shows what the near cache holds, how often it was used, and whether it serves", async () => {
    const startedAt = Date.now();
    const own = await lab.standalone();
    const client = new Redis(own.port, own.host, {
      retryStrategy: () => 20,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
    });
    const { ask, cache, inspect } = siteOn(client, {
      nearCache: { maxEntries: 7 },
      storage: { storeTimeoutMs: BUDGET_MS },
    });
    interface Near {
      readonly entries: number;
      readonly hits: number;
      readonly isLive: boolean;
      readonly confirmedAt: string | null;
    }
    const near = async (): Promise<Near> => {
      const selection = "states { nearCache { entries maxEntries bytes maxBytes hits isLive confirmedAt } }";
      return (await inspect<{ states: [{ nearCache: Near }] }>(selection)).states[0].nearCache;
    };
    await until("the near cache has served a value", async () => {
      await ask("{ page(id: 1) }");
      return (await near()).hits > 0;
    });
    const shown = await near();
    expect(shown).toMatchObject({ entries: 1, maxEntries: 7, maxBytes: 32 * 1024 * 1024, isLive: true });
    const confirmedAt = Date.parse(shown.confirmedAt ?? "");
    expect(confirmedAt).toBeGreaterThan(startedAt - 1_000);
    expect(confirmedAt).toBeLessThan(Date.now() + 1_000);
    await ask("{ page(id: 1) }");
    expect((await near()).hits).toBe(shown.hits + 1);
    expect(await cache.health()).toMatchObject({ status: "ok", nearCache: { isLive: true } });
    await own.kill();
    await until("the near cache is not live", async () => !(await near()).isLive);
    expect(await near()).toMatchObject({ entries: 1 });
    expect(await cache.health()).toMatchObject({ status: "unavailable", nearCache: { isLive: false } });
  });
});
