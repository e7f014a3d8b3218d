import { setTimeout as sleep } from "node:timers/promises";
import type { RefreshJob } from "graphql-cached";
import { expect, it, vi } from "vitest";
import { chaosStore } from "../../src/testing/chaos-store.js";
import { gate } from "../../src/testing/gate.js";
import { type Member, members, textOf } from "../support/members.js";
import { dataOf, memoryWorld, onEachStore, redisWorld, stored, type World } from "../support/world.js";

const PEOPLE = Array.from({ length: 20 }, (_, nth) => `user-${nth}.`);

/** That nobody was told of somebody else. */
async function apart(ask: (userId: string) => Promise<string>): Promise<void> {
  const texts = await Promise.all(PEOPLE.map(ask));
  for (const [nth, text] of texts.entries())
    for (const [other, userId] of PEOPLE.entries()) expect(text.includes(userId)).toBe(other === nth);
}

function crossings(world: () => World): void {
  it("stay apart in one tick, in which all are one read and one leaseRequest for leases", async () => {
    const process = members(world());
    const ask = (userId: string): Promise<string> =>
      textOf(process, "{ me account { secret } node { note } }", { userId });
    await apart(ask);
    await apart(ask);
    expect(process.outcomes()).toMatchObject({ hit: expect.any(Number) });
  });

  it("stay apart in a loader's batches", async () => {
    const { cache } = members(world());
    const notes = cache.loader<number, string, Member>({
      name: "Note",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, { userId }) => ids.map((id) => `${id} of ${String(userId)}`),
    });
    for (let nth = 0; nth < 2; nth++)
      await apart(async (userId) => (await notes({ userId }).loadMany([1, 2, 3])).join());
  });

  it("are not joined by another user while a load is under way, but by their own", async () => {
    const door = gate();
    const loads: string[] = [];
    const process = members(world(), {}, loads, () => door.passed);
    const askers = ["alice", "bob", "alice", "bob"].map((userId) => textOf(process, "{ me }", { userId }));
    await vi.waitFor(() => expect(loads).toHaveLength(2));
    const late = textOf(process, "{ me }", { userId: "alice" });
    door.open();
    expect(await Promise.all([...askers, late])).toEqual(
      ["alice", "bob", "alice", "bob", "alice"].map((userId) => `{"me":"me of ${userId}"}`),
    );
    expect(loads).toEqual(["me alice", "me bob"]);
  });

  it("stay apart where they are served stale, and where they are refreshed", async () => {
    const loads: string[] = [];
    const process = members(world(), {}, loads);
    for (const userId of ["alice", "bob"]) await textOf(process, "{ me }", { userId });
    await stored(process, 2);
    for (const userId of ["alice", "bob"])
      await process.cache.invalidate({ coordinate: "Query.me", private: userId }, { soft: true });
    for (const userId of ["bob", "alice", "bob"])
      expect(await textOf(process, "{ me }", { userId })).toBe(`{"me":"me of ${userId}"}`);
    expect(process.outcomes().stale).toBeGreaterThanOrEqual(2);
    await stored(process, 4);
    for (const userId of ["alice", "bob"])
      expect(await textOf(process, "{ me }", { userId })).toBe(`{"me":"me of ${userId}"}`);
    expect([...loads].sort((a, b) => a.localeCompare(b))).toEqual(["me alice", "me alice", "me bob", "me bob"]);
  });

  it("fallback only their own user when the source fails", async () => {
    let isDown = false;
    const process = members(world(), {}, [], () => {
      if (isDown) throw new Error("source is down");
    });
    await textOf(process, "{ fallback }", { userId: "alice" });
    await stored(process);
    isDown = true;
    await sleep(1_100);
    expect(await textOf(process, "{ fallback }", { userId: "alice" })).toBe('{"fallback":"fallback of alice"}');
    expect((await process.ask("{ fallback }", { userId: "bob" })).errors?.[0]?.message).toBe("source is down");
    expect((await process.ask("{ fallback }", {})).errors?.[0]?.message).toBe("source is down");
  });

  it("share an error with nobody else", async () => {
    const place = world();
    const failing = {
      Query: { me: (_: unknown, __: unknown, { userId }: Member) => Promise.reject(new Error(`no ${String(userId)}`)) },
    };
    const typeDefs = "type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }";
    const [one, two] = [0, 1].map(() =>
      place.process(typeDefs, failing, { identify: ({ userId }: Member) => userId } as object),
    );
    for (const process of [one, two])
      for (const userId of ["alice", "bob", undefined, "alice"])
        expect((await process?.ask("{ me }", { userId }))?.errors?.[0]?.message).toBe(`no ${userId}`);
  });

  it("are not in what a mutation answers, sent again by somebody else", async () => {
    const process = members(world());
    const query = 'query Q { inbox(of: "alice") }';
    for (const userId of ["alice", "bob", "alice"]) {
      expect(await textOf(process, "mutation { read }", { userId })).toBe(`{"read":"read by ${userId}"}`);
      expect(await textOf(process, query, { userId })).toContain(`inbox of ${userId}`);
    }
  });

  it("never travel to a worker, even if others' do", async () => {
    const jobs: RefreshJob[] = [];
    const process = members(world(), { refreshQueue: (job: RefreshJob) => void jobs.push(job) });
    const secrets = process.cache.loader<number, string, Member>({
      name: "Secret",
      maxAge: 60,
      staleWhileRevalidate: 60,
      scope: "PRIVATE",
      batch: async (ids, { userId }) => ids.map((id) => `${id} of ${String(userId)}`),
    });
    await textOf(process, "{ me }", { userId: "alice" });
    await secrets({ userId: "alice" }).load(1);
    await stored(process, 2);
    await process.cache.invalidate({ coordinate: "Query.me", private: "alice" }, { soft: true });
    await textOf(process, "{ me }", { userId: "alice" });
    await stored(process, 3);
    expect(jobs).toEqual([]);
  });
}

onEachStore("private values of many users", crossings);

it("private values that a process keeps near it stay apart", async () => {
  const process = members(redisWorld(), { nearCache: {} });
  for (let nth = 0; nth < 5; nth++)
    await apart((userId) => textOf(process, "{ me node { note } account { secret } }", { userId }));
  expect(await dataOf(process.ask("{ me }", {}))).toEqual({ me: "me of undefined" });
});

it("private values stay apart while the store is away, and loads are shared without it", async () => {
  const store = chaosStore(memoryWorld().store());
  const process = members(memoryWorld(() => store));
  store.chaos.mode = "throws";
  for (let nth = 0; nth < 2; nth++) await apart((userId) => textOf(process, "{ me account { secret } }", { userId }));
});
