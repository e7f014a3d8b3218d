import { type CacheEvent, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { type Address, type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { TcpProxy } from "../support/tcp-proxy.js";

const standaloneServer = await sharedServer("redisStandalone");

const PASSWORD = "correct horse";
const lab = new RedisLab();
let server: Address;

beforeAll(async () => {
  server = await lab.standalone();
  const admin = new Redis(server.port, server.host);
  await admin.config("SET", "requirepass", PASSWORD);
  admin.disconnect();
});
afterAll(() => lab.stop());

/** Reads once through a client with these options, until the reason why it cannot connect is known. */
async function failure({
  host,
  port,
  password,
}: Address & { readonly password?: string }): Promise<{ readonly event: string; readonly line: string | undefined }> {
  const client = new Redis({
    host,
    port,
    ...(password === undefined ? {} : { password }),
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
  });
  const events: CacheEvent[] = [];
  const lines: string[] = [];
  const hasFailed = new Promise((resolve) => client.once("error", resolve));
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: redisStore({ client }),
    prefix: "connection-errors",
    logger: { info: () => undefined, warn: (line) => lines.push(line) },
    onEvent: (event) => events.push(event),
  });
  onTestFinished(async () => {
    await cache.close();
    client.disconnect();
  });
  await hasFailed;
  const values = cache.loader({ name: "Value", maxAge: 1, batch: async (ids: readonly number[]) => ids });
  expect(await values({}).load(7)).toBe(7);
  const event = await vi.waitFor(() => {
    const found = events.find(({ name }) => name === "store.failed");
    expect(found).toBeDefined();
    return found;
  });
  return { event: String((event as { error?: unknown }).error), line: lines[0] };
}

/** A cache on a client that has been connected, through a network that can break. */
async function connectedCache() {
  const proxy = await TcpProxy.before(standaloneServer);
  const client = new Redis(proxy.port, proxy.host, { maxRetriesPerRequest: 0, enableOfflineQueue: false });
  const lines: string[] = [];
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: redisStore({ client }),
    prefix: "connection-errors",
    logger: { info: () => undefined, warn: (line) => lines.push(line) },
  });
  onTestFinished(async () => {
    await cache.close();
    client.disconnect();
    await proxy.close();
  });
  await until("the client is connected", () => client.status === "ready");
  const values = cache.loader({ name: "Value", maxAge: 1, batch: async (ids: readonly number[]) => ids });
  /** Reads once, and returns the first log line. */
  const read = async (): Promise<string | undefined> => {
    expect(await values({}).load(7)).toBe(7);
    return lines[0];
  };
  return { proxy, client, read };
}

describe("a store whose client was connected", () => {
  it("says in its first log line that the connection was closed, before the client has tried to open another one", async () => {
    const { proxy, client, read } = await connectedCache();
    proxy.isUp = false;
    proxy.cut();
    await until("the client has noticed it", () => client.status !== "ready");
    expect(await read()).toMatch(
      new RegExp(`\\(connection: not connected to 127.0.0.1:${proxy.port}: the connection was closed`),
    );
  });

  it.each(["quit", "disconnect"] as const)("says that the client was closed: %s", async (end) => {
    const { proxy, client, read } = await connectedCache();
    await client[end]();
    await until("it is closed", () => client.status === "end");
    expect(await read()).toContain(
      `(connection: not connected to 127.0.0.1:${proxy.port}: the client was closed, or does not reconnect)`,
    );
  });

  it("says why a node of a Cluster cannot be reached", async () => {
    const nodes = await lab.cluster();
    const client = new Cluster(nodes.map(({ host, port }) => ({ host, port })));
    const errors: string[] = [];
    const cache = createCache({
      defaultScope: "PUBLIC",
      store: redisStore({ client }),
      prefix: "connection-errors",
      logger: { info: () => undefined, warn: () => undefined },
      onEvent: (event) => event.name === "store.failed" && errors.push(String(event.error)),
    });
    onTestFinished(async () => {
      await cache.close();
      client.disconnect();
    });
    await until("the client is connected", () => client.status === "ready");
    const [, , last] = nodes as [LabNode, LabNode, LabNode];
    await last.kill();
    const values = cache.loader({ name: "Value", maxAge: 1, batch: async (ids: readonly number[]) => ids });
    let nth = 0;
    await until("a failure says it", async () => {
      await values({}).load(nth++);
      return errors.some((error) => error.includes(`(connection: connect ECONNREFUSED 127.0.0.1:${last.port})`));
    });
  });
});

describe("a store that cannot connect", () => {
  it("reports a refused connection with its address, in the event and in the log line", async () => {
    const { event, line } = await failure({ host: "127.0.0.1", port: 1 });
    for (const text of [event, line]) expect(text).toContain("connection: connect ECONNREFUSED 127.0.0.1:1");
  });

  it("reports a wrong password", async () => {
    const { event, line } = await failure({ ...server, password: "wrong" });
    for (const text of [event, line]) expect(text).toContain("connection: WRONGPASS");
  });

  it("reports a missing password", async () => {
    const { event, line } = await failure({ ...server });
    for (const text of [event, line]) expect(text).toContain("NOAUTH");
  });
});
