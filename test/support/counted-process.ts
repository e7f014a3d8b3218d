import { redisStore } from "graphql-cached/redis";
import { type Cluster, Redis } from "ioredis";
import { afterAll, beforeAll } from "vitest";
import { RedisLab, until } from "./redis-lab.js";
import { dataOf, memoryWorld, type Process } from "./world.js";

export const typeDefs =
  "type Query { value(id: ID!): Int @cached(maxAge: 60) other(id: ID!): Int @cached(maxAge: 60) }";
export const storage = { storeTimeoutMs: 2_000 };

/** Starts a process on Redis whose source returns the number of its loads so far. */
export function start(client: Redis | Cluster, prefix: string, options: object = {}): Process & { loads(): number } {
  let loads = 0;
  const store = redisStore({ client });
  const process = memoryWorld(() => store).process(
    typeDefs,
    { Query: { value: () => ++loads } },
    { prefix, storage, ...options },
  );
  return Object.assign(process, { loads: () => loads });
}

export const read = async ({ ask }: Process, id = "7"): Promise<unknown> =>
  ((await dataOf(ask(`{ value(id: "${id}") }`))) as { value: unknown }).value;

/** Reads `id` until the read is a hit. */
export async function untilHit(process: Process, id = "7"): Promise<void> {
  const hits = (): number => process.outcomes().hit ?? 0;
  const before = hits();
  await until(`a hit of ${id}`, async () => (await read(process, id), hits() > before));
}

/** A server for the tests of one `describe`, and clients of it. Both end with them. */
export function serverOfItsOwn() {
  const lab = new RedisLab();
  const clients: Redis[] = [];
  let address: { host: string; port: number };
  beforeAll(async () => {
    address = await lab.standalone();
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await lab.stop();
  });
  return {
    clients,
    address: () => address,
    connect: (): Redis => {
      const client = new Redis({ ...address });
      clients.push(client);
      return client;
    },
  };
}
