import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { describe, expect, inject, it } from "vitest";
import { setupRedis } from "../../scripts/setup-redis.mjs";
import { type Address, until } from "../support/redis-lab.js";

describe("the lab", () => {
  it("leaves no server behind when the process that started it is killed", async () => {
    const program = fileURLToPath(new URL("../support/lab-process.ts", import.meta.url));
    const child = spawn(process.execPath, ["--import", "tsx", program], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const client = new Redis(Number(line.toString()), "127.0.0.1");
    const info = await client.info("server");
    client.disconnect();
    const pid = Number(/process_id:(\d+)/.exec(info)?.[1]);
    expect(isAlive(pid)).toBe(true);
    child.kill("SIGKILL");
    await until("the server has ended", () => !isAlive(pid));
    expect(isAlive(pid)).toBe(false);
  });

  it("has a Cluster whose three masters serve all slots", async () => {
    const nodes = inject("redisCluster");
    expect(nodes).toHaveLength(3);
    const client = new Redis(nodes[0] as Address);
    expect(await client.cluster("INFO")).toContain("cluster_slots_ok:16384");
    client.disconnect();
  });

  it("has sentinels that know a master with a replica", async () => {
    const { name, sentinels } = inject("redisSentinel");
    const client = new Redis({ name, sentinels: [...sentinels] });
    expect(await client.info("replication")).toMatch(/role:master[\s\S]*connected_slaves:1/);
    client.disconnect();
  });
});

describe("looking for a Redis server", () => {
  const none = { onPath: [], cache: "/nonexistent", fetch: () => "there is no network" };

  it("ends in an error that names the three ways to one, and why it could not be fetched", () => {
    expect(() => setupRedis(none)).toThrow(
      /\(there is no network\)[\s\S]*- set REDIS_SERVER[\s\S]*- put one on PATH[\s\S]*- on Debian or Ubuntu/,
    );
  });

  it("refuses a REDIS_SERVER that is none, and does not look elsewhere", () => {
    expect(() => setupRedis({ named: "/bin/true" })).toThrow(
      "REDIS_SERVER names /bin/true, which is no redis-server or valkey-server that runs here",
    );
  });

  it("finds a server that is there", () => {
    const { server, version } = setupRedis();
    expect(setupRedis({ named: server })).toEqual({ server, version });
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
