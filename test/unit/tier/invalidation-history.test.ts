import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import type { Subject } from "../../../src/core/keys/key.js";
import type { Store } from "../../../src/core/store/store.js";
import { InvalidationHistory, type RecordedCall } from "../../../src/core/tier/invalidation/invalidation-history.js";
import { memoryStore } from "../../../src/stores/memory/memory-store.js";

interface HistoryStore {
  appendHistory: NonNullable<Store["appendHistory"]>;
  readHistory: NonNullable<Store["readHistory"]>;
}

const ONE = { id: "0011223344556677", host: "one", pid: 1 };
const TWO = { id: "8899aabbccddeeff", host: "two", pid: 2 };
const COLLECT_MS = 250;

function createHistories() {
  const clock = new FakeClock();
  const inner = memoryStore({ clock });
  const calls: number[] = [];
  const state = { fails: false, held: undefined as Promise<unknown> | undefined };
  const store: Pick<Store, "appendHistory" | "readHistory"> = {
    appendHistory: async (content, limits) => {
      calls.push(content.byteLength);
      if (state.fails) throw new Error("full");
      await state.held;
      await inner.appendHistory?.(content, limits);
    },
    readHistory: () => inner.readHistory?.() as ReturnType<NonNullable<Store["readHistory"]>>,
  };
  const histories = [ONE, TWO].map((process) => new InvalidationHistory(store, clock, process));
  return { clock, calls, state, histories: histories as [InvalidationHistory, InvalidationHistory] };
}

const call = (clock: FakeClock, more: Partial<RecordedCall> = {}): RecordedCall => ({
  kind: "hard",
  cause: { via: "cache.invalidateTags" },
  beganAt: clock.now(),
  isConfirmed: true,
  ...more,
});
const tag = (nth: number): Subject => nth;
const tags = (...subjects: Subject[]) => ({ keys: [], tags: subjects });
const noTime = (): Promise<number> => Promise.reject(new Error("not needed"));

describe("InvalidationHistory", () => {
  it("gives each record one id, in all processes and before and after it is written", async () => {
    const { clock, histories } = createHistories();
    const [one, two] = histories;
    for (const history of [one, two, one]) history.add(tags(tag(1)), call(clock));
    const ids = async (history: InvalidationHistory) => (await history.read(noTime)).records.map(({ id }) => id).sort();
    const ofOne = [`${ONE.id}-1`, `${ONE.id}-2`];
    const ofTwo = [`${TWO.id}-1`];
    expect([await ids(one), await ids(two)]).toEqual([ofOne, ofTwo]);
    await clock.advance(COLLECT_MS);
    expect([await ids(one), await ids(two)]).toEqual([
      [...ofOne, ...ofTwo],
      [...ofOne, ...ofTwo],
    ]);
  });

  it("appends the records of a quarter of a second in one call, for all processes to read", async () => {
    const { clock, calls, histories } = createHistories();
    const [one, two] = histories;
    const beganAt = clock.now();
    for (let nth = 0; nth < 10; nth++) one.add(tags(tag(nth)), call(clock));
    one.add(tags(), call(clock));
    expect(calls).toHaveLength(0);
    await clock.advance(COLLECT_MS - 1);
    one.add(
      { ...tags(), coordinates: ["Query.movie"] },
      call(clock, { kind: "soft", cause: { via: "@invalidates", mutation: "Mutation.m" } }),
    );
    expect((await two.read(noTime)).records).toEqual([]);
    await clock.advance(1);
    expect(calls).toHaveLength(1);
    const { now, isOwnOnly, records, processes } = await two.read(noTime);
    expect({ now, isOwnOnly }).toEqual({ now: clock.now(), isOwnOnly: false });
    expect(records).toHaveLength(11);
    expect(records.at(-1)).toEqual({
      id: `${ONE.id}-11`,
      kind: "soft",
      via: "@invalidates",
      mutation: "Mutation.m",
      isConfirmed: true,
      isClear: false,
      coordinates: ["Query.movie"],
      keys: [],
      tags: [],
      nameCount: 0,
      beganAt: beganAt + COLLECT_MS - 1,
      endedAt: beganAt + COLLECT_MS - 1,
      process: ONE,
    });
    expect([...processes.keys()].sort()).toEqual([ONE.id, TWO.id]);
    await clock.advance(10 * COLLECT_MS);
    expect(calls).toHaveLength(1);
  });

  it("shows the records of its own process at once, each once, also while they are being appended", async () => {
    const { clock, state, histories } = createHistories();
    const [one] = histories;
    one.add(tags(tag(1)), call(clock));
    expect((await one.read(noTime)).records).toHaveLength(1);
    state.held = gate().passed;
    await clock.advance(COLLECT_MS);
    one.add(tags(tag(2)), call(clock));
    expect((await one.read(noTime)).records.map((record) => record.tags)).toEqual([["1"], ["2"]]);
  });

  it("lists the records of a process in their order although some took longer to reach the store than others", async () => {
    const { clock, state, histories } = createHistories();
    const [one, two] = histories;
    await clock.advance(1_000);
    one.add(tags(tag(1)), call(clock, { beganAt: clock.now() - 500 }));
    await clock.advance(COLLECT_MS - 1);
    one.add(tags(tag(2)), call(clock));
    const held = gate();
    state.held = held.passed;
    await clock.advance(2);
    one.add(tags(tag(3)), call(clock));
    await clock.advance(2);
    two.add(tags(tag(1)), call(clock));
    held.open();
    await settle();
    const ids = async () => (await one.read(noTime)).records.map(({ id }) => id);
    const ofOne = [1, 2, 3].map((nth) => `${ONE.id}-${nth}`);
    expect(await ids()).toEqual(ofOne);
    await clock.advance(COLLECT_MS);
    expect(await ids()).toEqual([...ofOne, `${TWO.id}-1`]);
  });

  it("keeps the records that the store does not take, and appends them later with their times", async () => {
    const { clock, calls, state, histories } = createHistories();
    const [one, two] = histories;
    state.fails = true;
    const beganAt = clock.now();
    one.add(tags(tag(1)), call(clock, { isConfirmed: false }));
    await clock.advance(COLLECT_MS);
    await settle();
    state.fails = false;
    await clock.advance(2_000);
    expect(calls).toHaveLength(2);
    const [record] = (await two.read(noTime)).records;
    expect(record).toMatchObject({ isConfirmed: false, beganAt, endedAt: beganAt });
  });

  it("drops the oldest of too many records, and says since when none is missing", async () => {
    const { clock, calls, state, histories } = createHistories();
    const [one, two] = histories;
    const startedAt = clock.now();
    state.fails = true;
    for (let nth = 0; nth < 3_000; nth++) {
      one.add(tags(tag(nth)), call(clock));
      await clock.advance(1);
    }
    state.fails = false;
    await clock.advance(5_000);
    for (const bytes of calls) expect(bytes).toBeLessThan(400_000);
    const { since, records } = await two.read(noTime);
    expect(records.length).toBeGreaterThan(500);
    expect(records.length).toBeLessThan(3_000);
    expect(since).toBe((records[0]?.beganAt as number) - 1);
    expect(since).toBeGreaterThan(startedAt);
    expect(records.at(-1)?.beganAt).toBe(startedAt + 2_999);
  });

  it("drops nothing of what the store is just taking, although more than it may keep is added meanwhile", async () => {
    const { clock, state, histories } = createHistories();
    const [one, two] = histories;
    const startedAt = clock.now();
    const held = gate();
    state.held = held.passed;
    await clock.advance(1_000);
    // A record of a thousand tags is some 20 kilobytes.
    const thousand = tags(...Array.from({ length: 1_000 }, (_, nth) => 2 ** 50 + nth));
    const addMany = () => {
      for (let nth = 0; nth < 12; nth++) one.add(thousand, call(clock));
    };
    addMany();
    await clock.advance(COLLECT_MS);
    addMany();
    expect((await one.read(noTime)).records).toHaveLength(24);
    held.open();
    await settle();
    await clock.advance(1_000);
    const { since, records } = await two.read(noTime);
    expect([records.length, since]).toEqual([24, startedAt]);
  });

  it("drops the oldest of what waits while the store is taking others, and none of those", async () => {
    const { clock, state, histories } = createHistories();
    const [one, two] = histories;
    const held = gate();
    state.held = held.passed;
    one.add(tags(tag(1)), call(clock));
    await clock.advance(COLLECT_MS);
    for (let nth = 0; nth < 3_000; nth++) {
      one.add(tags(tag(nth)), call(clock));
      await clock.advance(1);
    }
    const lastAt = clock.now() - 1;
    held.open();
    await settle();
    await clock.advance(1_000);
    const { since, records } = await two.read(noTime);
    const taken = records.find(({ id }) => id === `${ONE.id}-1`);
    const waited = records.filter((record) => record !== taken);
    expect(taken).toBeDefined();
    expect(waited.length).toBeLessThan(3_000);
    expect(waited.map(({ beganAt }) => beganAt)).toEqual(waited.map((_, nth) => lastAt - waited.length + 1 + nth));
    expect(since).toBe((waited[0]?.beganAt as number) - 1);
  });

  it("names 1,000 tags and 1,000 keys of an invalidation at most, and says how many there were", async () => {
    const { clock, histories } = createHistories();
    const keys = Array.from({ length: 1_100 }, (_, nth) => ({
      name: "unused",
      coordinate: "Query.movie",
      variantId: "v",
      form: 1,
      digest: `digest-of-key-${nth}`,
    }));
    histories[0].add({ keys, tags: Array.from({ length: 1_200 }, (_, nth) => tag(nth)) }, call(clock));
    const [record] = (await histories[0].read(noTime)).records;
    expect([record?.keys.length, record?.tags.length, record?.nameCount]).toEqual([1_000, 1_000, 2_300]);
    expect(record?.keys[0]).toBe("Query.movie:digest-of-ke");
  });

  it("remembers those of its own process, within bounds, if the store keeps no history", async () => {
    const clock = new FakeClock();
    const history = new InvalidationHistory({}, clock, ONE);
    const startedAt = clock.now();
    history.add(tags(tag(1)), call(clock));
    await clock.advance(1_000);
    const storeNow = 5_000_000;
    const first = await history.read(async () => storeNow);
    expect(first).toMatchObject({ isOwnOnly: true, now: storeNow, since: storeNow - 1_000 });
    expect(first.records).toMatchObject([{ beganAt: storeNow - 1_000, process: ONE }]);
    for (let nth = 0; nth < 20_000; nth++) history.add(tags(tag(nth)), call(clock));
    const later = await history.read(async () => storeNow);
    expect(later.records.length).toBeLessThan(5_000);
    expect(later.since).toBe(storeNow);
    expect(clock.now()).toBe(startedAt + 1_000);
  });

  it("appends what is left when it is closed, behind what is being appended", async () => {
    const { clock, calls, state, histories } = createHistories();
    const [one, two] = histories;
    const held = gate();
    state.held = held.passed;
    one.add(tags(tag(1)), call(clock));
    await clock.advance(COLLECT_MS);
    one.add(tags(tag(2)), call(clock));
    const closing = one.close();
    await settle();
    expect(calls).toHaveLength(1);
    held.open();
    await closing;
    expect(calls).toHaveLength(2);
    expect((await two.read(noTime)).records).toHaveLength(2);
  });

  it("skips parts and records that this release cannot read, and says that earlier ones may be missing", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock }) as HistoryStore;
    const bound: Pick<Store, "appendHistory" | "readHistory"> = {
      appendHistory: (content, limits) => store.appendHistory(content, limits),
      readHistory: () => store.readHistory(),
    };
    const one = new InvalidationHistory(bound, clock, ONE);
    const two = new InvalidationHistory(bound, clock, TWO);
    one.add(tags(tag(1)), call(clock));
    await clock.advance(COLLECT_MS);
    const [own] = (await store.readHistory()).parts;
    const part = JSON.parse(Buffer.from(own?.content ?? []).toString()) as { records: object[] };
    const [record] = part.records;
    const limits = { maxBytes: 1024 * 1024, keepMs: 3_600_000 };
    const later: object[] = [
      { ...record, kind: "archive" },
      { ...record, kind: "toString" },
      { ...record, tags: { count: 1 } },
      { ...record, keys: [7] },
      { ...record, via: undefined },
      { ...record, agoMs: "soon" },
      { ...record, agoMs: 1e300 },
      { ...record, nameCount: 2 ** 40 },
    ].map((each, nth) => ({ ...each, nth: nth + 10 }));
    for (const content of [
      { ...part, process: TWO, records: [...later, null, 7, { ...record, nth: 9, more: { of: "it" } }] },
      { ...part, process: { ...TWO, pid: "a" } },
      { ...part, process: null },
      { ...part, lostAgoMs: "a" },
      [],
      null,
    ]) {
      await clock.advance(1_000);
      await store.appendHistory(Buffer.from(JSON.stringify(content)), limits);
      const { records, since } = await two.read(noTime);
      expect(records.map(({ process, tags }) => [process.id, tags])).toEqual([
        [ONE.id, ["1"]],
        [TWO.id, ["1"]],
      ]);
      expect(since).toBe(clock.now());
    }
  });

  it("keeps the records of a store that throws, or returns no promise, and appends them later", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock }) as HistoryStore;
    let mishap: (() => never) | (() => undefined) | undefined = () => {
      throw new Error("not connected");
    };
    const appendHistory: Store["appendHistory"] = (content, limits) =>
      mishap === undefined ? store.appendHistory(content, limits) : (mishap() as unknown as Promise<void>);
    const history = new InvalidationHistory({ appendHistory, readHistory: () => store.readHistory() }, clock, ONE);
    history.add(tags(tag(1)), call(clock));
    await clock.advance(COLLECT_MS);
    expect((await store.readHistory()).parts).toHaveLength(0);
    mishap = undefined;
    await clock.advance(2_000);
    expect((await store.readHistory()).parts).toHaveLength(1);
  });
});

it("InvalidationHistory.flush resolves for every caller only when all that was added before is appended", async () => {
  const { clock, calls, state, histories } = createHistories();
  const [one] = histories;
  const write = gate();
  state.held = write.passed;
  one.add(tags(tag(1)), call(clock));
  let ended = 0;
  const flushes = [one.flush(), one.flush()].map((flush) => flush.then(() => ended++));
  await settle();
  one.add(tags(tag(2)), call(clock));
  await clock.advance(COLLECT_MS);
  expect([calls.length, ended]).toEqual([1, 0]);
  write.open();
  await Promise.all(flushes);
  await clock.advance(COLLECT_MS);
  expect(calls).toHaveLength(2);
  expect((await one.read(noTime)).records).toHaveLength(2);
});
