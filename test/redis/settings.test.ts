import { randomUUID } from "node:crypto";
import { Cluster, type Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { read, serverOfItsOwn, start, untilHit } from "../support/counted-process.js";
import { until } from "../support/redis-lab.js";
import { monitorRedis } from "../support/redis-monitor.js";
import { sharedServer } from "../support/shared-servers.js";

describe("The settings on one server", () => {
  const { address, connect } = serverOfItsOwn();

  it("cost a warm hit nothing", async () => {
    const prefix = randomUUID();
    const process = start(connect(), prefix);
    await untilHit(process);
    const monitor = await monitorRedis(address());
    const commands = await monitor.requestCommandsOf(prefix, () => read(process));
    monitor.close();
    const names = [expect.stringContaining(":Query.value:"), `${prefix}:#clock`];
    expect(commands).toEqual([["mget", ...names]]);
  });

  it("leave the values in the near cache of another process when they change", async () => {
    const prefix = randomUUID();
    const [near, other] = [start(connect(), prefix, { nearCache: {} }), start(connect(), prefix)];
    const monitor = await monitorRedis(address());
    const isNear = async (): Promise<boolean> =>
      (await monitor.requestCommandsOf(prefix, () => read(near))).length === 0;
    await until("the value is in the near cache", isNear);
    await other.cache.setMode("off", { coordinate: "Query.other" });
    await until("the value is served from the near cache again", isNear);
    expect(near.loads()).toBe(1);
    monitor.close();
  });

  const OVERWRITES: Readonly<Record<string, (client: Redis, key: string) => Promise<unknown>>> = {
    "a list": async (client, key) => (await client.del(key), await client.lpush(key, "x")),
    "three bytes": (client, key) => client.set(key, "abc"),
    nothing: (client, key) => client.set(key, ""),
    "half of them": async (client, key) => client.set(key, ((await client.get(key)) as string).slice(0, 20)),
    "no key": (client, key) => client.del(key),
  };
  it.each(Object.keys(OVERWRITES))(
    "are written again, and a mode is known to all processes, after %s has replaced them, and no value is loaded again",
    async (content) => {
      const prefix = randomUUID();
      const client = connect();
      const [one, two] = [start(client, prefix), start(client, prefix)];
      for (const process of [one, two]) await untilHit(process);
      await one.cache.setMode("off", { coordinate: "Query.other" });
      await read(two);
      const settings = async (): Promise<unknown> => {
        const text = (await client.get(`${prefix}:#settings`).catch(() => "")) || "{}";
        const { modes, coordinates = [] } = JSON.parse(text) as { modes?: object; coordinates?: string[] };
        return { modes, coordinates: coordinates.sort() };
      };
      const before = await settings();
      await OVERWRITES[content]?.(client, `${prefix}:#settings`);
      // A process that starts knows nothing but what it reads.
      const third = start(client, prefix);
      for (const process of [one, two, third]) await untilHit(process);
      await expect.poll(() => settings().catch(() => undefined)).toEqual(before);
      await third.cache.setMode("off", { coordinate: "Query.value" });
      for (const process of [one, two, third]) {
        await read(process);
        expect(process.outcomes()["bypassed(MODE_OFF)"]).toBe(1);
      }
      expect([one, two, third].map(({ loads }) => loads() - 1).reduce((sum, loads) => sum + loads)).toBe(1);
    },
  );

  it("are changed on a full server, which evicts nothing", async () => {
    const prefix = randomUUID();
    const client = connect();
    const [one, two] = [start(client, prefix), start(client, prefix)];
    for (const process of [one, two]) await untilHit(process);
    await client.config("SET", "maxmemory-policy", "noeviction");
    await client.config("SET", "maxmemory", "1");
    try {
      await one.cache.setMode("off", { coordinate: "Query.value" });
      await read(two);
      expect(two.outcomes()).toMatchObject({ "bypassed(MODE_OFF)": 1 });
      await one.cache.setMode("on", { coordinate: "Query.value" });
      await untilHit(two);
      // Also if there are none yet.
      await client.del(`${prefix}:#settings`);
      await one.cache.setMode("off");
      expect(await client.get(`${prefix}:#settings`)).toContain('"mode":"off"');
    } finally {
      await client.config("SET", "maxmemory", "0");
    }
  });
});

describe("The settings on a Cluster", () => {
  it("are one key, on the node of the log of the clock", async () => {
    const cluster = new Cluster([...(await sharedServer("redisCluster"))]).on("error", () => undefined);
    const prefix = randomUUID();
    const process = start(cluster, prefix);
    await untilHit(process);
    const { nodeOf } = partsOf(process.cache, "test").store;
    const found = await Promise.all(cluster.nodes("master").map((node) => node.keys(`${prefix}:#*`)));
    const [settings, ...others] = found.flat().filter((name) => name.includes("#settings"));
    expect(others).toEqual([]);
    const log = found.flat().find((name) => name.includes("#clock:log"));
    expect(nodeOf?.(settings as string)).toBe(nodeOf?.(log as string));
    await process.cache.setMode("off");
    await read(process);
    expect(process.outcomes()).toMatchObject({ "bypassed(MODE_OFF)": 1 });
    await process.cache.close();
    cluster.disconnect();
  });
});
