import { chaosStore, gate } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const BUDGET_MS = 50;
const FROZEN_MS = 2_000;
const lab = new RedisLab();
let node: LabNode;

beforeAll(async () => {
  node = await lab.standalone();
});
afterAll(() => lab.stop());
afterEach(() => node.resume());

type Chaotic = ReturnType<typeof chaosStore>;

/** Two processes, and how many operations each has asked of its store. */
function fleet(): { readonly site: Fleet; readonly asked: () => number } {
  const stores: Chaotic[] = [];
  const site = new Fleet({
    connect: () => new Redis(node.port, node.host),
    servers: () => [node],
    cache: { storeTimeoutMs: BUDGET_MS },
    wrap: (store) => {
      const counted = chaosStore(store);
      stores.push(counted);
      return counted;
    },
  });
  const asked = (): number =>
    stores.reduce((sum, { chaos }) => sum + [...chaos.asked.values()].reduce((all, count) => all + count, 0), 0);
  return { site, asked };
}

describe("a Redis that is frozen for two seconds under load", () => {
  it("fails no request, is hardly asked while the breaker is open, and is used again afterwards", async () => {
    const { site, asked } = fleet();
    for (const nth of [0, 1]) await site.recovered(nth, "warm");
    const failures = (): number =>
      site.processes.reduce((sum, { events }) => sum + events.filter(({ name }) => name === "store.failed").length, 0);
    node.pause();
    const end = performance.now() + FROZEN_MS;
    let requests = 0;
    let askedBefore = 0;
    let slowestMs = 0;
    while (performance.now() < end) {
      const startedAt = performance.now();
      await Promise.all([0, 1].flatMap((nth) => [site.read(nth, "warm"), site.read(nth, `id ${requests}`)]));
      slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      requests += 4;
      // Five failures a process open the breakers; from there on only probes are let through.
      if (askedBefore === 0 && failures() >= 10) askedBefore = asked();
    }
    const askedWhileOpen = asked() - askedBefore;
    node.resume();
    expect(requests).toBeGreaterThan(100);
    // The pause begins with 250 ms and doubles: three or four probes of one operation in each of the two processes.
    expect(askedWhileOpen).toBeLessThanOrEqual(12);
    expect(slowestMs).toBeLessThan(20 * BUDGET_MS);
    for (const nth of [0, 1]) await site.recovered(nth, "warm");
    await site.ended();
    for (const { events } of site.processes)
      expect(events.filter(({ name }) => name === "store.recovered").length).toBeGreaterThanOrEqual(1);
  });

  it("answers with one load a process at a time, when all ask for one key", async () => {
    const { site } = fleet();
    for (const nth of [0, 1]) await site.recovered(nth, "warm");
    node.pause();
    const door = gate();
    site.door = door.passed;
    const answers = [0, 1].flatMap((nth) => Array.from({ length: 50 }, () => site.read(nth, "a")));
    await site.loading("a", 2);
    door.open();
    expect(new Set(await Promise.all(answers))).toEqual(new Set([1]));
    node.resume();
    await site.ended();
    expect(site.loads("a")).toBe(2);
    for (const nth of [0, 1]) await site.recovered(nth, "warm");
  });

  it("keeps an invalidation that it did not confirm, and serves no older value once it has", async () => {
    const { site } = fleet();
    for (const id of ["key", "tag"]) for (const nth of [0, 1]) await site.recovered(nth, id);
    node.pause();
    const writes = (["key", "tag"] as const).map((by) => site.write(0, by, by));
    expect(await Promise.all(writes)).toEqual([false, false]);
    node.resume();
    for (const id of ["key", "tag"])
      await until(`the new value of ${id} is served`, async () => (await site.read(1, id)) === 2);
    for (const id of ["key", "tag"]) expect(await site.read(0, id)).toBe(2);
    await site.ended();
  });

  it("takes no value of a load that it slept through, if that was written to", async () => {
    const { site } = fleet();
    for (const nth of [0, 1]) await site.recovered(nth, "warm");
    const door = gate();
    site.door = door.passed;
    const early = site.read(0, "a");
    await site.loading("a");
    node.pause();
    door.open();
    expect(await early).toBe(1);
    await until("the fill was given up", () =>
      Boolean(site.processes[0]?.events.some(({ name }) => name === "store.failed")),
    );
    node.resume();
    await until("the write is acknowledged", () => site.write(1, "a"));
    for (const nth of [0, 1]) expect(await site.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await site.ended();
  });
});
