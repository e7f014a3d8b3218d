import { setTimeout as pause } from "node:timers/promises";
import { type ConformanceSubject, FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { type NodeRedisClient, redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { Redis as Valkey, Cluster as ValkeyCluster } from "iovalkey";
import { createClient, createCluster, createSentinel } from "redis";
import * as redis5 from "redis-5";
import { closing, itKeepsTheRules, once, subjectOf } from "../support/conformance.js";
import { sharedServer } from "../support/shared-servers.js";

const realTime = (ms: number): Promise<void> => pause(ms);

const stores: Record<string, () => ConformanceSubject | Promise<ConformanceSubject>> = {
  "the memory store": () => {
    const clock = new FakeClock();
    return subjectOf(memoryStore({ clock }), (ms) => clock.advance(ms));
  },
  "the Redis store": once(async () => {
    const client = new Redis(await sharedServer("redisStandalone"));
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subjectOf(store, realTime);
  }),
  "the Redis store on a Cluster": once(async () => {
    const client = new Cluster([...(await sharedServer("redisCluster"))]);
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subjectOf(store, realTime);
  }),
  "the Redis store behind Sentinel": once(async () => {
    const { name, sentinels } = await sharedServer("redisSentinel");
    const client = new Redis({ name, sentinels: [...sentinels] });
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subjectOf(store, realTime);
  }),
  "the Redis store on iovalkey": once(async () => {
    const client = new Valkey(await sharedServer("redisStandalone"));
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subjectOf(store, realTime);
  }),
  "the Redis store on a Cluster of iovalkey": once(async () => {
    const client = new ValkeyCluster([...(await sharedServer("redisCluster"))]);
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subjectOf(store, realTime);
  }),
  "the Redis store on node-redis": once(async () => {
    const client = createClient({ socket: await sharedServer("redisStandalone") });
    return nodeRedisSubject(client);
  }),
  "the Redis store on node-redis with RESP 2": once(async () => {
    const client = createClient({ socket: await sharedServer("redisStandalone"), RESP: 2 });
    return nodeRedisSubject(client);
  }),
  "the Redis store on node-redis 5": once(async () => {
    const client = redis5.createClient({ socket: await sharedServer("redisStandalone") });
    return nodeRedisSubject(client);
  }),
  "the Redis store on a Cluster of node-redis": once(async () => {
    const nodes = await sharedServer("redisCluster");
    return nodeRedisSubject(createCluster({ rootNodes: nodes.map((socket) => ({ socket })) }));
  }),
  "the Redis store on a Cluster of node-redis 5": once(async () => {
    const nodes = await sharedServer("redisCluster");
    return nodeRedisSubject(redis5.createCluster({ rootNodes: nodes.map((socket) => ({ socket })) }));
  }),
  "the Redis store behind Sentinel on node-redis": once(async () => {
    const { name, sentinels } = await sharedServer("redisSentinel");
    return nodeRedisSubject(createSentinel({ name, sentinelRootNodes: [...sentinels] }));
  }),
  "the Redis store behind Sentinel on node-redis 5": once(async () => {
    const { name, sentinels } = await sharedServer("redisSentinel");
    return nodeRedisSubject(redis5.createSentinel({ name, sentinelRootNodes: [...sentinels] }));
  }),
};

async function nodeRedisSubject(client: NodeRedisClient & { close(): Promise<unknown> }): Promise<ConformanceSubject> {
  await client.connect();
  closing.push(() => client.close());
  return subjectOf(redisStore({ client }), realTime);
}

for (const [name, make] of Object.entries(stores)) itKeepsTheRules(name, { make });
