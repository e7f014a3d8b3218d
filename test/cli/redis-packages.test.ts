import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { type ImportPackage, redisSource } from "../../src/tools/cli/redis.js";
import { RedisLab } from "../support/redis-lab.js";

const lab = new RedisLab();
/** A server of its own, since connections are counted. */
const { host, port } = await lab.standalone();
const admin = new Redis(port, host);
afterAll(async () => {
  admin.disconnect();
  await lab.stop();
});

/** As in a project that has these packages only. */
const having =
  (...installed: string[]): ImportPackage =>
  (name) =>
    installed.includes(name) ? import(name) : Promise.reject(new Error(`Cannot find package '${name}'`));

const place = (path = "") => ({
  url: `redis://${host}:${port}${path}`,
  prefix: `packages-${process.pid}`,
  normalizeTag: undefined,
  timeoutMs: 5_000,
});

describe.each(["ioredis", "iovalkey", "redis"])("--redis in a project that has %s only", (name) => {
  it("asks the caches of the server, and leaves no connection", async () => {
    const connections = async (): Promise<number> =>
      String(await admin.client("LIST"))
        .trim()
        .split("\n").length;
    const source = await redisSource("mode", place("/0"), having(name));
    expect(await source.ask("{ cacheInspection { store { name } modes { mode } } }", {})).toEqual({
      data: { cacheInspection: { store: { name: "redis" }, modes: [] } },
      errors: [],
    });
    expect(await connections()).toBeGreaterThan(1);
    await source.close();
    await expect.poll(connections).toBe(1);
  });

  it("says why it cannot be used", async () => {
    await expect(redisSource("mode", place("/9999"), having(name))).rejects.toThrow(/cannot be used: .*out of range/);
    await expect(redisSource("mode", { ...place(), url: "redis://127.0.0.1:1" }, having(name))).rejects.toThrow(
      /Redis at 127\.0\.0\.1:1: cannot be used: .*ECONNREFUSED/,
    );
    await expect(redisSource("mode", place("/notadb"), having(name))).rejects.toThrow(
      "expected the number of a database",
    );
  });
});

it("--redis says what to install in a project without any of these packages", async () => {
  await expect(redisSource("mode", place(), having())).rejects.toThrow(
    "mode: --redis needs the package ioredis, iovalkey or redis; run npm install ioredis",
  );
});
