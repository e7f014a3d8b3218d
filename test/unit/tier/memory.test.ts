import { FakeClock, gate } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { createPacking } from "../../../src/core/codec/packing.js";
import type { Key } from "../../../src/core/keys/key.js";
import { compilePolicy, type Policy } from "../../../src/core/policy/policy.js";
import { Memory } from "../../../src/core/tier/memory/memory.js";
import { KnownKey, Memos } from "../../../src/core/tier/request/known-key.js";
import { NO_TAGS } from "../../../src/core/tier/request/tags.js";
import type { InvalidationClock } from "../../../src/core/tier/shared/invalidation-clock.js";

/** How far the store's clock is ahead of the clock of the process. */
const AHEAD_MS = 500_000;
const START = 1_000_000;
const MAX_BYTES = 100_000;

/** What the process knows of the invalidation clock. */
function createInvalidations() {
  const known = {
    changes: 0,
    outdated: new Set<number>(),
    compared: 0,
    asOf: Number.NEGATIVE_INFINITY,
    confirmedRead: 0,
    restartedAt: Number.NEGATIVE_INFINITY,
    confirm: (sentAt: number, nth = 0): void => {
      known.asOf = Math.max(known.asOf, sentAt);
      known.confirmedRead = Math.max(known.confirmedRead, nth);
    },
    noteTime: (): void => undefined,
    /** The heads that messages have told of. */
    heard: [] as Buffer[],
    hear: async (head: Buffer): Promise<void> => void known.heard.push(head),
    isAt: (head: Buffer | undefined): boolean => head !== undefined,
    catchUp: async (): Promise<boolean> => false,
    isUntouched: (position: number, _key: Key, subjects: readonly number[]): boolean => {
      known.compared++;
      return position === 7 && !subjects.some((subject) => known.outdated.has(subject));
    },
    invalidate: (subject: number): void => {
      known.changes++;
      known.outdated.add(subject);
    },
  };
  return known;
}

/** A memory whose values count for two seconds, unless `maxStalenessMs` says something else. */
function memoryWith({ maxBytes = MAX_BYTES, maxStalenessMs = 2_000 } = {}) {
  const clock = new FakeClock(START);
  const invalidations = createInvalidations();
  /** What the store replies to each question, and when it was asked. */
  const server = { head: Buffer.from("head") as Buffer | undefined, held: undefined as Promise<void> | undefined };
  const polledAt: number[] = [];
  const store = {
    read: async (keys: readonly string[]) => {
      expect(keys).toEqual([]);
      polledAt.push(clock.now() - START);
      const { head } = server;
      await server.held;
      return { readings: [], clock: head };
    },
  };
  const memos = new Memos(maxBytes);
  const packing = createPacking({ compressAboveBytes: 1_000_000, maxValueBytes: 1_000_000 } as never);
  const known = invalidations as unknown as InvalidationClock;
  const settings = { maxBytes, maxStalenessMs };
  const memory = new Memory({ clock, store, invalidations: known, packing, memos, settings });
  const confirm = (nth = 0): void => invalidations.confirm(clock.now(), nth);
  confirm();
  const memo = memos.of("test");
  const slot = memo.slotOf("test");
  const { policy } = compilePolicy({ declared: [{ maxAge: 10, earlyRefresh: 0 }], defaults: {} });
  const key = (name: string, tags = NO_TAGS): KnownKey => {
    const row = memo.row(name);
    const known = row.keys[slot] ?? new KnownKey({ name } as Key, tags, row);
    if (row.keys[slot] === undefined) memo.remember(known, slot);
    return known;
  };
  /** Keeps a value that has been fresh for 2 of 10 seconds. Returns what its reader gets. */
  const put = (
    name: string,
    {
      value = 1 as unknown,
      subjects = [] as readonly number[],
      readAt = clock.now(),
      now = clock.now() + AHEAD_MS,
      of = policy as Policy,
      known = key(name),
    } = {},
  ): unknown => {
    const content = packing.encode(value) as string;
    const entry = { freshUntilAt: now + 8_000, grantedAt: now, loadMs: 1, position: 7 };
    const shown = { entry, value, content, subjects: subjects as never, hint: undefined, own: undefined, readAt, now };
    return memory.put(known, of, shown) ? memory.take(known) : value;
  };
  const serves = (name: string, since = 1): boolean => memory.serves(key(name), since);
  return { clock, memory, server, polledAt, confirm, invalidations, memos, policy, key, put, serves };
}

describe("the memory of a process", () => {
  it("serves a value for no longer than it is fresh in the store, even if the reply was evaluated late", async () => {
    const { clock, put, serves } = memoryWith();
    const [readAt, now] = [clock.now(), clock.now() + AHEAD_MS];
    await clock.advance(200);
    put("a", { readAt, now });
    await clock.advance(7_799);
    expect(serves("a")).toBe(true);
    await clock.advance(1);
    expect(serves("a")).toBe(false);
  });

  it("remembers how long a value is fresh, and since when", async () => {
    const { clock, key, put } = memoryWith();
    put("a");
    expect(key("a").kept).toMatchObject({ freshUntilAt: START + 8_000, grantedAt: START });
    await clock.advance(3_000);
    put("a");
    expect(key("a").kept).toMatchObject({ freshUntilAt: START + 11_000, grantedAt: START + 3_000 });
  });

  it("keeps no value that is not fresh, and none beyond the `maxAge` of its policy", async () => {
    const { clock, policy, put, serves } = memoryWith();
    put("a", { now: clock.now() + AHEAD_MS, of: { ...policy, maxAgeMs: 0 } });
    put("b", { of: { ...policy, maxAgeMs: 2_000 } });
    expect([serves("a"), serves("b")]).toEqual([false, true]);
    await clock.advance(2_000);
    expect(serves("b")).toBe(false);
  });

  it("does not serve a value that can be due for an early refresh", async () => {
    const { clock, policy, put, serves } = memoryWith();
    put("a", { of: { ...policy, earlyRefreshBeta: 100 } });
    // The load took 1 ms, and no random number has a logarithm below -37.
    await clock.advance(4_299);
    expect(serves("a")).toBe(true);
    await clock.advance(1);
    expect(serves("a")).toBe(false);
  });

  describe("without `maxStalenessMs`", () => {
    it("serves nobody for longer than two seconds after the read, and asks for nothing by itself", async () => {
      const { clock, confirm, put, serves, polledAt } = memoryWith({ maxStalenessMs: 0 });
      put("a");
      confirm(1);
      await clock.advance(1_999);
      expect(serves("a")).toBe(true);
      await clock.advance(1);
      expect(serves("a")).toBe(false);
      confirm(2);
      expect(serves("a")).toBe(true);
      expect(polledAt).toEqual([]);
    });

    it("ignores messages, since the next read shows what is new", async () => {
      const { memory, polledAt, invalidations } = memoryWith({ maxStalenessMs: 0 });
      memory.hear(Buffer.from("head"));
      memory.hear(undefined);
      expect([invalidations.heard, polledAt]).toEqual([[], []]);
    });
  });

  it("serves nothing `maxStalenessMs` after the last read that has shown what this process knows", async () => {
    for (const maxStalenessMs of [2_000, 300]) {
      const { clock, server, confirm, put, serves } = memoryWith({ maxStalenessMs });
      server.head = undefined;
      put("a");
      await clock.advance(maxStalenessMs - 1);
      expect(serves("a")).toBe(true);
      await clock.advance(1);
      expect(serves("a")).toBe(false);
      confirm();
      expect(serves("a")).toBe(true);
    }
  });

  it("asks every half second for the head of the clock, unless a read has shown it meanwhile", async () => {
    const { clock, polledAt, confirm, put, serves } = memoryWith();
    put("a");
    await clock.advance(1_200);
    confirm();
    await clock.advance(1_000);
    expect(polledAt).toEqual([500, 1_000, 1_700, 2_200]);
    await clock.advance(3_000);
    expect(serves("a")).toBe(true);
  });

  it("asks more often if values count for less than a second", async () => {
    const { clock, polledAt, put } = memoryWith({ maxStalenessMs: 300 });
    put("a");
    await clock.advance(500);
    expect(polledAt).toEqual([150, 300, 450]);
  });

  it("counts a poll from when it was sent", async () => {
    const { clock, memory, server, put, serves } = memoryWith();
    const held = gate();
    server.held = held.passed;
    put("a");
    await clock.advance(1_900);
    expect([memory.isLive, memory.status.confirmedAt]).toEqual([true, START]);
    // All later questions remain without an answer.
    server.head = undefined;
    held.open();
    await clock.advance(0);
    expect([memory.isLive, memory.status.confirmedAt]).toEqual([true, START + 500]);
    await clock.advance(599);
    expect(serves("a")).toBe(true);
    await clock.advance(1);
    expect(serves("a")).toBe(false);
  });

  it("keeps polling, every half second, while the store does not reply or its reply cannot be read", async () => {
    const { clock, server, polledAt, put, serves } = memoryWith();
    server.head = undefined;
    put("a");
    await clock.advance(2_500);
    expect(serves("a")).toBe(false);
    expect(polledAt).toEqual([500, 1_000, 1_500, 2_000, 2_500]);
    server.head = Buffer.from("head");
    await clock.advance(500);
    expect(serves("a")).toBe(true);
  });

  it("stops polling when no value was requested for ten seconds, and begins again with the next request", async () => {
    const { clock, polledAt, confirm, put, serves } = memoryWith();
    put("a");
    await clock.advance(4_000);
    expect(serves("a")).toBe(true);
    await clock.advance(60_000);
    const asked = polledAt.length;
    expect(polledAt.at(-1)).toBe(14_000);
    expect(serves("a")).toBe(false);
    // The value was not served, so the store is read, which makes this process current again.
    confirm();
    put("a");
    await clock.advance(3_000);
    expect(serves("a")).toBe(true);
    expect(polledAt.length).toBe(asked + 6);
  });

  it("asks for nothing while it is empty, nor once it is closed", async () => {
    const { clock, memory, polledAt, put, serves } = memoryWith();
    expect(serves("a")).toBe(false);
    await clock.advance(2_000);
    expect(polledAt).toEqual([]);
    put("a");
    memory.close();
    serves("a");
    await clock.advance(2_000);
    expect(polledAt).toEqual([]);
  });

  it("stops polling when it is closed during a poll", async () => {
    const { clock, memory, server, polledAt, put } = memoryWith();
    const held = gate();
    server.held = held.passed;
    put("a");
    await clock.advance(500);
    memory.close();
    held.open();
    await clock.advance(2_000);
    expect(polledAt).toEqual([500]);
  });

  it("passes the heads of messages on, and asks at once when messages may have been lost", async () => {
    const { clock, memory, polledAt, invalidations } = memoryWith();
    const heads = [Buffer.from("first"), Buffer.from("second")];
    for (const head of heads) memory.hear(head);
    expect(invalidations.heard).toEqual(heads);
    await clock.advance(700);
    memory.hear(undefined);
    expect(polledAt).toEqual([700]);
    memory.close();
    memory.hear(undefined);
    expect(polledAt).toEqual([700]);
  });

  it("ignores messages while it serves nothing, since the next read shows what is new", async () => {
    const { clock, memory, polledAt, invalidations } = memoryWith();
    await clock.advance(2_000);
    memory.hear(Buffer.from("head"));
    memory.hear(undefined);
    expect([invalidations.heard, polledAt]).toEqual([[], []]);
  });

  it("serves no value that was read before the log of the clock was replaced", async () => {
    const { clock, invalidations, confirm, put, serves } = memoryWith();
    put("a");
    expect(serves("a")).toBe(true);
    const readAt = clock.now();
    await clock.advance(1);
    invalidations.restartedAt = clock.now();
    invalidations.changes++;
    // The reply to a read that was sent before arrives late.
    put("b", { readAt });
    expect([serves("a"), serves("b")]).toEqual([false, false]);
    await clock.advance(1);
    confirm();
    put("b");
    expect(serves("b")).toBe(true);
  });

  it("compares a value with what was invalidated once, not at each hit", () => {
    const { invalidations, put, serves } = memoryWith();
    put("a", { subjects: [1] });
    for (let nth = 0; nth < 3; nth++) expect(serves("a")).toBe(true);
    expect(invalidations.compared).toBe(1);
    invalidations.invalidate(2);
    for (let nth = 0; nth < 3; nth++) expect(serves("a")).toBe(true);
    expect(invalidations.compared).toBe(2);
  });

  it("keeps nothing for a key that does not decide about its tags, and nothing for one that is not remembered", () => {
    const { key, put, serves } = memoryWith();
    key("a", { ...NO_TAGS, isOwn: true });
    const value = { id: 7 };
    expect(put("a", { value })).toBe(value);
    const unremembered = new KnownKey({ name: "b" } as Key, NO_TAGS);
    expect(put("b", { value, known: unremembered })).toBe(value);
    expect([serves("a"), unremembered.kept]).toEqual([false, undefined]);
  });

  it("counts values, their tags and their keys, and nothing of them once they are dropped", () => {
    const { memory, memos, key, put } = memoryWith();
    key("a");
    key("b");
    key("c");
    const keys = memory.status.bytes;
    const added = (name: string, value: unknown, subjects: readonly number[] = []): number => {
      const before = memory.status.bytes;
      put(name, { value, subjects });
      return memory.status.bytes - before;
    };
    const plain = added("a", "x".repeat(1_000));
    expect(plain).toBeGreaterThan(1_000);
    expect(plain).toBeLessThan(1_300);
    expect(added("b", "x".repeat(1_000), [1, 2]) - plain).toBe(16);
    // It is kept as text.
    expect(added("c", { at: new Date(0), text: "x".repeat(500) })).toBeGreaterThan(600);
    expect(added("a", "x".repeat(1_000))).toBe(0);
    for (const name of ["a", "b", "c", "c"]) memory.drop(key(name));
    expect([memory.status.bytes, memos.bytes]).toEqual([keys, keys]);
  });

  it("takes no more than `maxBytes`, keeps what is used, and forgets what is not", () => {
    const { memory, put, serves } = memoryWith({ maxBytes: 40_000 });
    put("used", { value: "x".repeat(1_000) });
    put("unused", { value: "x".repeat(1_000) });
    for (let nth = 0; nth < 200; nth++) {
      put(`n${nth}`, { value: "x".repeat(1_000 + nth) });
      expect(memory.status.bytes).toBeLessThanOrEqual(40_000);
      expect(serves("used")).toBe(true);
    }
    expect([serves("unused"), serves("n0"), serves("n199")]).toEqual([false, false, true]);
    expect(memory.status.bytes).toBeGreaterThan(15_000);
  });

  it("refuses a value that takes more than an eighth of it, and gives it to its reader", () => {
    const { put, serves } = memoryWith({ maxBytes: 40_000 });
    const value = { text: "x".repeat(6_000) };
    expect([put("a", { value }), serves("a")]).toEqual([value, false]);
    put("b", { value: { text: "x".repeat(4_000) } });
    expect(serves("b")).toBe(true);
  });

  it("gives a reader the value also if there is no room left for it", () => {
    const { key, put } = memoryWith({ maxBytes: 40_000 });
    const known = Array.from({ length: 40 }, (_, nth) => key(`n${nth}`));
    for (const one of known) {
      const value = { text: "x".repeat(4_000) };
      expect(put(one.key.name, { value, known: one })).toEqual(value);
    }
  });

  it("says how much it may take, and when what it knows was confirmed", () => {
    const { memory } = memoryWith();
    expect(memory.status).toMatchObject({ maxBytes: MAX_BYTES, confirmedAt: START });
  });
});
