import { gate } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const lab = new RedisLab();
let node: LabNode;
let admin: Redis;

beforeAll(async () => {
  node = await lab.standalone();
  admin = new Redis(node.port, node.host);
});
afterAll(async () => {
  admin.disconnect();
  await lab.stop();
});

const fleet = (size = 2): Fleet =>
  new Fleet({ connect: () => new Redis(node.port, node.host), servers: () => [node], size });

const waits = (site: Fleet): Promise<void> =>
  until("somebody waits", async () => {
    const [flags = 0] = await admin.getrangeBuffer(site.keyOf("a"), 3, 3);
    return flags % 2 === 1;
  });

describe("a Redis that is emptied in the middle of a load", () => {
  it("has the load done once more by those who waited for it, and keeps no value of the first", async () => {
    const site = fleet(3);
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    const others = [1, 1, 2, 2].map((nth) => site.read(nth, "a"));
    await waits(site);
    await admin.flushall();
    // The one who finds the entry gone takes the load over: one of the two other processes, and no more.
    await site.loading("a", 2);
    door.open();
    expect(await Promise.all([first, ...others])).toEqual([1, 1, 1, 1, 1]);
    await site.ended();
    expect(site.loads("a")).toBe(2);
    await site.refused(0);
  });

  it("does not get an old value, if it is also written to", async () => {
    const site = fleet();
    const door = gate();
    site.door = door.passed;
    void site.read(0, "a");
    await site.loading("a");
    await admin.flushall();
    expect(await site.write(1, "a")).toBe(true);
    const late = site.read(1, "a");
    await site.loading("a", 2);
    door.open();
    expect(await late).toBe(2);
    expect(await site.read(0, "a")).toBe(2);
    await site.ended();
    expect(site.loads("a")).toBe(2);
  });
});

describe("a Redis that forgets its scripts in the middle of a load", () => {
  it("is taught them again: the value is stored, who waited gets it, and nobody loads twice", async () => {
    const site = fleet();
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    const second = site.read(1, "a");
    await waits(site);
    await admin.script("FLUSH");
    door.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    await site.ended();
    expect(site.loads("a")).toBe(1);
  });

  it("invalidates all the same", async () => {
    const site = fleet();
    for (const by of ["tag", "key"] as const) {
      await site.read(0, by);
      await site.recovered(1, by);
      await admin.script("FLUSH");
      expect(await site.write(0, by, by)).toBe(true);
      expect(await site.read(1, by)).toBe(2);
    }
    await site.ended();
  });
});

describe("a Redis that drops a connection in the middle of a wait", () => {
  it("for data keeps its waiters waiting for the one load, and the holder's value is stored", async () => {
    const site = fleet();
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    const second = site.read(1, "a");
    await waits(site);
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await until("the clients are back", () => site.clients.every(({ status }) => status === "ready"));
    door.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    await site.ended();
    await site.recovered(1, "a");
    expect(site.loads("a")).toBe(1);
  });

  it("for wake-ups costs a poll, not a load", async () => {
    const site = fleet();
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    const second = site.read(1, "a");
    await waits(site);
    await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    door.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    await site.ended();
    expect(site.loads("a")).toBe(1);
  });
});
