import { type CacheEvent, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { type Address, RedisLab } from "../support/redis-lab.js";

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
