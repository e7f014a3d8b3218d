import { setTimeout as sleep } from "node:timers/promises";
import { chaosStore, gate } from "@graphql-cached/testing";
import type { RefreshJob } from "graphql-cached";
import { expect, it, vi } from "vitest";
import { type Member, members, textOf } from "../support/members.js";
import { dataOf, memoryWorld, onEachStore, redisWorld, type World, waitForStores } from "../support/world.js";

const USERS = Array.from({ length: 20 }, (_, nth) => `user-${nth}.`);

/** Calls `ask` for all users at once and expects each text to name its own user only. */
async function expectSeparate(ask: (userId: string) => Promise<string>): Promise<void> {
  const texts = await Promise.all(USERS.map(ask));
  for (const [nth, text] of texts.entries())
    for (const [other, userId] of USERS.entries()) expect(text.includes(userId)).toBe(other === nth);
}

function concurrencyTests(world: () => World): void {
  it("keeps users apart in one tick, whose reads and lease requests are batched", async () => {
    const process = members(world());
    const ask = (userId: string): Promise<string> =>
      textOf(process, "{ me account { secret } node { note } }", { userId });
    await expectSeparate(ask);
    await expectSeparate(ask);
    expect(process.outcomes()).toMatchObject({ hit: expect.any(Number) });
  });

  it("keeps users apart in the batches of a loader", async () => {
    const { cache } = members(world());
    const notes = cache.loader<number, string, Member>({
      name: "Note",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, { userId }) => ids.map((id) => `${id} of ${String(userId)}`),
    });
    for (let nth = 0; nth < 2; nth++)
      await expectSeparate(async (userId) => (await notes({ userId }).loadMany([1, 2, 3])).join());
  });

  it("lets only the same user join a load in progress", async () => {
    const loadGate = gate();
    const loads: string[] = [];
    const process = members(world(), {}, loads, () => loadGate.passed);
    const requests = ["alice", "bob", "alice", "bob"].map((userId) => textOf(process, "{ me }", { userId }));
    await vi.waitFor(() => expect(loads).toHaveLength(2));
    const late = textOf(process, "{ me }", { userId: "alice" });
    loadGate.open();
    expect(await Promise.all([...requests, late])).toEqual(
      ["alice", "bob", "alice", "bob", "alice"].map((userId) => `{"me":"me of ${userId}"}`),
    );
    expect(loads).toEqual(["me alice", "me bob"]);
  });

  it("keeps users apart when values are served stale and refreshed", async () => {
    const loads: string[] = [];
    const process = members(world(), {}, loads);
    for (const userId of ["alice", "bob"]) await textOf(process, "{ me }", { userId });
    await waitForStores(process, 2);
    for (const userId of ["alice", "bob"])
      await process.cache.invalidate({ coordinate: "Query.me", private: userId }, { soft: true });
    for (const userId of ["bob", "alice", "bob"])
      expect(await textOf(process, "{ me }", { userId })).toBe(`{"me":"me of ${userId}"}`);
    expect(process.outcomes().stale).toBeGreaterThanOrEqual(2);
    await waitForStores(process, 4);
    for (const userId of ["alice", "bob"])
      expect(await textOf(process, "{ me }", { userId })).toBe(`{"me":"me of ${userId}"}`);
    expect([...loads].sort((a, b) => a.localeCompare(b))).toEqual(["me alice", "me alice", "me bob", "me bob"]);
  });

  it("serves a stale fallback only to its own user when the source fails", async () => {
    let isDown = false;
    const process = members(world(), {}, [], () => {
      if (isDown) throw new Error("source is down");
    });
    await textOf(process, "{ fallback }", { userId: "alice" });
    await waitForStores(process);
    isDown = true;
    await sleep(1_100);
    expect(await textOf(process, "{ fallback }", { userId: "alice" })).toBe('{"fallback":"fallback of alice"}');
    expect((await process.ask("{ fallback }", { userId: "bob" })).errors?.[0]?.message).toBe("source is down");
    expect((await process.ask("{ fallback }", {})).errors?.[0]?.message).toBe("source is down");
  });

  it("does not share a load error with another user", async () => {
    const shared = world();
    const failing = {
      Query: { me: (_: unknown, __: unknown, { userId }: Member) => Promise.reject(new Error(`no ${String(userId)}`)) },
    };
    const typeDefs = "type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }";
    const [one, two] = [0, 1].map(() =>
      shared.process(typeDefs, failing, { identify: ({ userId }: Member) => userId } as object),
    );
    for (const process of [one, two])
      for (const userId of ["alice", "bob", undefined, "alice"])
        expect((await process?.ask("{ me }", { userId }))?.errors?.[0]?.message).toBe(`no ${userId}`);
  });

  it("does not share private values between users that send the same mutation", async () => {
    const process = members(world());
    const query = 'query Q { inbox(of: "alice") }';
    for (const userId of ["alice", "bob", "alice"]) {
      expect(await textOf(process, "mutation { read }", { userId })).toBe(`{"read":"read by ${userId}"}`);
      expect(await textOf(process, query, { userId })).toContain(`inbox of ${userId}`);
    }
  });

  it("never queues the refresh of a private value", async () => {
    const jobs: RefreshJob[] = [];
    const process = members(world(), { loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } });
    const secrets = process.cache.loader<number, string, Member>({
      name: "Secret",
      maxAge: 60,
      staleWhileRevalidate: 60,
      scope: "PRIVATE",
      batch: async (ids, { userId }) => ids.map((id) => `${id} of ${String(userId)}`),
    });
    await textOf(process, "{ me }", { userId: "alice" });
    await secrets({ userId: "alice" }).load(1);
    await waitForStores(process, 2);
    await process.cache.invalidate({ coordinate: "Query.me", private: "alice" }, { soft: true });
    await textOf(process, "{ me }", { userId: "alice" });
    await waitForStores(process, 3);
    expect(jobs).toEqual([]);
  });
}

onEachStore("private values of many users", concurrencyTests);

it("keeps users apart in memory that counts for two seconds", async () => {
  const process = members(await redisWorld(), { memory: { maxStalenessMs: 2_000 } });
  for (let nth = 0; nth < 5; nth++)
    await expectSeparate((userId) => textOf(process, "{ me node { note } account { secret } }", { userId }));
  expect(await dataOf(process.ask("{ me }", {}))).toEqual({ me: "me of undefined" });
});

it("keeps users apart while the store is unavailable and loads are shared within the process", async () => {
  const store = chaosStore(memoryWorld().store());
  const process = members(memoryWorld(() => store));
  store.chaos.mode = "throws";
  for (let nth = 0; nth < 2; nth++)
    await expectSeparate((userId) => textOf(process, "{ me account { secret } }", { userId }));
});
