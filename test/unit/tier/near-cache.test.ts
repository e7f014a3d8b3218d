import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, gate } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import type { Key } from "../../../src/core/keys/key.js";
import { compilePolicy, type Policy } from "../../../src/core/policy/policy.js";
import type { Entry } from "../../../src/core/store/entry.js";
import { NearCache, type NearKey } from "../../../src/core/tier/near/near-cache.js";
import type { NearValue } from "../../../src/core/tier/near/near-entries.js";
import type { ReadRequest } from "../../../src/core/tier/request/request.js";
import { NO_TAGS } from "../../../src/core/tier/request/tags.js";
import type { InvalidationClock } from "../../../src/core/tier/shared/invalidation-clock.js";
import type { TagsState } from "../../../src/core/tier/shared/known-positions.js";
import { collectGarbage } from "../../support/collect-garbage.js";

/** How far the store's clock is ahead of the clock of the process. */
const AHEAD_MS = 500_000;

const START = 1_000_000;

/** Names that remember nothing yet. */
const namesOf = ({ key, tags }: ReadRequest): NearKey => ({ key, tags, near: undefined });

/** What the process knows of the invalidation clock: `outdated` has changed, `stale` was invalidated softly. */
function createInvalidations() {
  const known = {
    changes: 0,
    outdated: new Set<number>(),
    stale: new Set<number>(),
    epoch: "epoch 01",
    asOf: Number.NEGATIVE_INFINITY,
    restartedAt: Number.NEGATIVE_INFINITY,
    confirm: (sentAt: number): void => {
      known.asOf = Math.max(known.asOf, sentAt);
    },
    /** The heads that messages have told of. */
    heard: [] as Buffer[],
    hear: async (head: Buffer): Promise<void> => void known.heard.push(head),
    isAt: (head: Buffer | undefined): boolean => head !== undefined,
    catchUp: async (): Promise<boolean> => false,
    /** Keys by their names. */
    outdatedKeys: new Set<string>(),
    staleKeys: new Set<string>(),
    counts: ({ epoch }: { epoch: string }, { digest }: { digest: string }): boolean =>
      epoch === known.epoch && !known.outdatedKeys.has(digest),
    isSoftlyInvalidated: (_position: number, { digest }: { digest: string }): boolean => known.staleKeys.has(digest),
    stateOf: (subjects: readonly number[]): TagsState =>
      subjects.some((subject) => known.outdated.has(subject))
        ? "changed"
        : subjects.some((subject) => known.stale.has(subject))
          ? "stale"
          : "current",
    invalidate: (subject: number, kind: "outdated" | "stale" = "outdated"): void => {
      known.changes++;
      known[kind].add(subject);
    },
  };
  return known;
}

function nearCacheWith(bounds: { maxBytes?: number; maxEntries?: number; isFrozen?: boolean } = {}) {
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
  const near = new NearCache({
    clock,
    random: () => 0.5,
    store,
    invalidations: invalidations as unknown as InvalidationClock,
    settings: { maxBytes: 100_000, maxEntries: 100, isFrozen: true, ...bounds },
  });
  const close = (): void => near.close();
  const confirm = (): void => invalidations.confirm(clock.now());
  confirm();
  const tell = (head: Buffer | undefined): void => near.hear(head);
  const { policy } = compilePolicy({ declared: [{ maxAge: 10, earlyRefresh: 0 }], defaults: {} });
  const request = (name: string, ...subjects: number[]): ReadRequest => ({
    key: { name, variantId: "v", coordinate: "Query.a", digest: name, hash: name, input: name } as Key,
    policy,
    tags: { ...NO_TAGS, subjects },
    load: () => undefined,
  });
  const storeNow = (): number => clock.now() + AHEAD_MS;
  const entryOf = (bytes: number, readAt: number): Entry => ({
    state: "value",
    isNegative: false,
    hasRefreshFailed: false,
    loadMs: 1,
    gen: "",
    untilAt: 0,
    freshUntilAt: readAt + 8_000,
    grantedAt: readAt,

    epoch: "epoch 01",
    position: 7,
    body: new Uint8Array(bytes),
  });
  const put = (
    one: ReadRequest,
    { sentAt = clock.now(), readAt = storeNow(), value = {} as unknown, bytes = 10 } = {},
  ): void =>
    near.put(
      one,
      entryOf(bytes, readAt),
      {
        value,
        hint: undefined,
        subjects: one.tags.subjects,
      },
      readAt,
      sentAt,
    );
  const find = (names: NearKey, asked: Policy = policy) => near.get(names, asked);
  const get = (one: ReadRequest) => find(namesOf(one));
  return { clock, near, close, server, polledAt, tell, confirm, invalidations, policy, request, put, find, get };
}

describe("the near cache", () => {
  it("serves a value for no longer than it is fresh in the store, even if the reply was evaluated late", async () => {
    const { clock, request, put, get } = nearCacheWith();
    const [sentAt, readAt] = [clock.now(), clock.now() + AHEAD_MS];
    await clock.advance(200);
    put(request("a"), { sentAt, readAt });
    await clock.advance(7_799);
    expect(get(request("a"))).toBeDefined();
    await clock.advance(1);
    expect(get(request("a"))).toBeUndefined();
  });

  it("returns a value while it is fresh on the store's clock, with its remaining freshness and age", async () => {
    const { clock, near, request, put, get } = nearCacheWith();
    put(request("a"), { value: { id: 7 } });
    await clock.advance(3_000);
    const found = get(request("a"));
    expect(found?.value).toEqual({ id: 7 });
    expect(found && near.reportOf(found, request("a").policy)).toMatchObject({ freshForMs: 5_000, ageMs: 3_000 });
    await clock.advance(5_000);
    expect(get(request("a"))).toBeUndefined();
  });

  it("serves a value under names that have found it before only as long as it would find it again", async () => {
    const { clock, near, invalidations, request, put, find } = nearCacheWith();
    const names = namesOf(request("a", 1));
    const isServed = (): boolean => find(names)?.value !== undefined;
    const found = (): boolean[] => [isServed(), isServed()];
    put(request("a", 1));
    expect(found()).toEqual([true, true]);
    invalidations.invalidate(1);
    expect(found()).toEqual([false, false]);
    invalidations.outdated.clear();
    put(request("a", 1));
    expect(found()).toEqual([true, true]);
    near.drop("a");
    expect(found()).toEqual([false, false]);
    put(request("a", 1), { value: "new" });
    expect(find(names)?.value).toBe("new");
    await clock.advance(7_999);
    expect(found()).toEqual([true, true]);
    await clock.advance(1);
    expect(found()).toEqual([false, false]);
  });

  it("gives the values that it drops back to the garbage collector, although names refer to their entries", () => {
    const { near, request, put, find } = nearCacheWith({ maxEntries: 2 });
    const names = ["a", "b", "c"].map((name) => namesOf(request(name)));
    const held = (): boolean[] => names.map((one) => one.near?.value !== undefined);
    for (const one of names) {
      put(request(one.key.name));
      find(one);
    }
    expect(held()).toEqual([false, true, true]);
    put(request("b"));
    expect(held()).toEqual([false, false, true]);
    near.drop("c");
    expect(held()).toEqual([false, false, false]);
  });

  it("measures a value by the policy of its reader, not by that of the request that stored it", async () => {
    const { clock, policy, request, put, find } = nearCacheWith();
    put(request("a"));
    const isFresh = (asked: Policy): boolean => find(namesOf(request("a")), asked) !== undefined;
    const shorter = { ...policy, maxAgeMs: 2_000 };
    const early = { ...policy, earlyRefreshBeta: 1_000_000 };
    expect([policy, shorter, early].map(isFresh)).toEqual([true, true, false]);
    await clock.advance(2_000);
    expect([policy, shorter, early].map(isFresh)).toEqual([true, false, false]);
  });

  it("does not serve a value that is due for an early refresh", async () => {
    const { clock, policy, request, put, find } = nearCacheWith();
    const early = { ...policy, earlyRefreshBeta: 1_000 };
    put({ ...request("a"), policy: early });
    const names = namesOf(request("a"));
    // The load took 1 ms and the random number is 0.5, so it is due when less than 693 ms are left.
    await clock.advance(7_306);
    expect(find(names, early)).toBeDefined();
    await clock.advance(1);
    expect(find(names, early)).toBeUndefined();
  });

  it("serves nothing two seconds after the last read that has shown what this process knows", async () => {
    const { clock, server, confirm, request, put, get } = nearCacheWith();
    server.head = undefined;
    put(request("a"));
    await clock.advance(1_999);
    expect(get(request("a"))).toBeDefined();
    await clock.advance(1);
    expect(get(request("a"))).toBeUndefined();
    confirm();
    expect(get(request("a"))).toBeDefined();
    await clock.advance(2_000);
    expect(get(request("a"))).toBeUndefined();
  });

  it("asks every half second for the head of the clock, unless a read has shown it meanwhile", async () => {
    const { clock, polledAt, confirm, request, put, get } = nearCacheWith();
    put(request("a"));
    await clock.advance(1_200);
    confirm();
    await clock.advance(1_000);
    expect(polledAt).toEqual([500, 1_000, 1_700, 2_200]);
    await clock.advance(3_000);
    expect(get(request("a"))).toBeDefined();
  });

  it("counts a poll from when it was sent", async () => {
    const { clock, near, server, request, put, get } = nearCacheWith();
    const held = gate();
    server.held = held.passed;
    put(request("a"));
    await clock.advance(1_900);
    expect(near.status).toMatchObject({ isLive: true, confirmedAt: START });
    // All later questions remain without an answer.
    server.head = undefined;
    held.open();
    await clock.advance(0);
    expect(near.status).toMatchObject({ isLive: true, confirmedAt: START + 500 });
    await clock.advance(599);
    expect(get(request("a"))).toBeDefined();
    await clock.advance(1);
    expect(get(request("a"))).toBeUndefined();
  });

  it("keeps polling, every half second, while the store does not reply or its reply cannot be read", async () => {
    const { clock, server, polledAt, request, put, get } = nearCacheWith();
    server.head = undefined;
    put(request("a"));
    await clock.advance(2_500);
    expect(get(request("a"))).toBeUndefined();
    expect(polledAt).toEqual([500, 1_000, 1_500, 2_000, 2_500]);
    server.head = Buffer.from("head");
    await clock.advance(500);
    expect(get(request("a"))).toBeDefined();
  });

  it("stops polling when no value was requested for ten seconds, and begins again with the next request", async () => {
    const { clock, polledAt, confirm, request, put, get } = nearCacheWith();
    put(request("a"));
    await clock.advance(4_000);
    expect(get(request("a"))).toBeDefined();
    await clock.advance(60_000);
    const asked = polledAt.length;
    expect(polledAt.at(-1)).toBe(14_000);
    expect(get(request("a"))).toBeUndefined();
    // The value was not served, so the store is read, which makes this process current again.
    confirm();
    put(request("a"));
    await clock.advance(3_000);
    expect(get(request("a"))).toBeDefined();
    expect(polledAt.length).toBe(asked + 6);
  });

  it("asks for nothing while it is empty, nor once it is closed", async () => {
    const { clock, close, polledAt, request, put, get } = nearCacheWith();
    expect(get(request("a"))).toBeUndefined();
    await clock.advance(2_000);
    expect(polledAt).toEqual([]);
    put(request("a"));
    close();
    get(request("a"));
    await clock.advance(2_000);
    expect(polledAt).toEqual([]);
  });

  it("stops polling when it is closed during a poll", async () => {
    const { clock, close, server, polledAt, request, put } = nearCacheWith();
    const held = gate();
    server.held = held.passed;
    put(request("a"));
    await clock.advance(500);
    close();
    held.open();
    await clock.advance(2_000);
    expect(polledAt).toEqual([500]);
  });

  it("passes the heads of messages on, and asks at once when messages may have been lost", async () => {
    const { clock, polledAt, tell, close, invalidations } = nearCacheWith();
    const heads = [Buffer.from("first"), Buffer.from("second")];
    for (const head of heads) tell(head);
    expect(invalidations.heard).toEqual(heads);
    await clock.advance(700);
    tell(undefined);
    expect(polledAt).toEqual([700]);
    close();
    tell(undefined);
    expect(polledAt).toEqual([700]);
  });

  it("ignores messages while it serves nothing, since the next read shows what is new", async () => {
    const { clock, polledAt, tell, invalidations } = nearCacheWith();
    await clock.advance(2_000);
    tell(Buffer.from("head"));
    tell(undefined);
    expect([invalidations.heard, polledAt]).toEqual([[], []]);
  });

  it("serves no value that was read before the log of the clock was replaced", async () => {
    const { clock, invalidations, confirm, request, put, get } = nearCacheWith();
    put(request("a"));
    expect(get(request("a"))).toBeDefined();
    const sentAt = clock.now();
    await clock.advance(1);
    invalidations.restartedAt = clock.now();
    invalidations.changes++;
    // The reply to a read that was sent before arrives late.
    put(request("b"), { sentAt });
    expect([get(request("a")), get(request("b"))]).toEqual([undefined, undefined]);
    await clock.advance(1);
    confirm();
    put(request("b"));
    expect(get(request("b"))).toBeDefined();
  });

  it("serves a value that it stores while one of its tags is invalidated only if that was before its load", () => {
    const { invalidations, request, put, get } = nearCacheWith();
    invalidations.invalidate(1);
    put(request("a", 1));
    expect(get(request("a", 1))).toBeUndefined();
    put(request("b", 2));
    expect(get(request("b", 2))).toBeDefined();
    invalidations.invalidate(2, "stale");
    expect(get(request("b", 2))).toBeUndefined();
  });

  it("serves no value of another epoch of the invalidation clock", () => {
    const { invalidations, request, put, get } = nearCacheWith();
    put(request("a"));
    expect(get(request("a"))).toBeDefined();
    invalidations.changes++;
    invalidations.epoch = "epoch 02";
    expect(get(request("a"))).toBeUndefined();
  });

  it("serves no value to a request one of whose own tags was invalidated since, although the value does not have it", () => {
    const { invalidations, request, put, find } = nearCacheWith();
    put(request("a", 1));
    const own = request("a", 2);
    const names = (): NearKey => namesOf({ ...own, tags: { ...own.tags, isOwn: true } });
    expect(find(names())).toBeDefined();
    invalidations.invalidate(2);
    expect(find(names())).toBeUndefined();
    expect(find(namesOf(request("a", 1)))).toBeDefined();
  });

  it.each(["outdatedKeys", "staleKeys"] as const)(
    "drops a value whose key was invalidated according to the clock: %s",
    (which) => {
      const { invalidations, request, put, get } = nearCacheWith();
      put(request("a"));
      put(request("b"));
      expect([get(request("a")), get(request("b"))]).not.toContain(undefined);
      invalidations.changes++;
      invalidations[which].add("a");
      expect(get(request("a"))).toBeUndefined();
      expect(get(request("b"))).toBeDefined();
    },
  );

  it("drops a value when one of its tags is invalidated, or when it is told to", () => {
    const { near, invalidations, request, put, get } = nearCacheWith();
    put(request("a", 1));
    put(request("b", 1, 2));
    put(request("c", 3));
    invalidations.invalidate(1);
    expect([get(request("a", 1)), get(request("b", 1, 2))]).toEqual([undefined, undefined]);
    expect(get(request("c", 3))).toBeDefined();
    near.drop("c");
    expect(get(request("c", 3))).toBeUndefined();
  });

  it("stays within maxEntries and maxBytes by dropping the oldest unused values and refusing oversized ones", () => {
    const byEntries = nearCacheWith({ maxEntries: 2 });
    for (const name of ["a", "b", "c"]) byEntries.put(byEntries.request(name, 1));
    const { request } = byEntries;
    expect(["a", "b", "c"].map((name) => byEntries.get(request(name, 1)) !== undefined)).toEqual([false, true, true]);
    const byBytes = nearCacheWith({ maxBytes: 2_000 });
    for (const name of ["a", "b"]) byBytes.put(byBytes.request(name), { value: "x".repeat(1_000) });
    byBytes.put(byBytes.request("c"), { value: "x".repeat(5_000) });
    const isCached = (name: string): boolean => byBytes.get(byBytes.request(name)) !== undefined;
    expect(["a", "b", "c"].map(isCached)).toEqual([false, true, false]);
  });

  it("counts the memory of values and tags, and the stored bytes of values that it decodes for each reader", () => {
    const { near, request, put } = nearCacheWith();
    const added = (name: string, tags: readonly number[], value: unknown, bytes = 10): number => {
      const before = near.status.bytes;
      put(request(name, ...tags), { value, bytes });
      return near.status.bytes - before;
    };
    const plain = added("a", [], "x".repeat(1_000), 20_000);
    expect(plain).toBeGreaterThan(1_400);
    expect(plain).toBeLessThan(1_600);
    expect(added("b", [1, 2], "x".repeat(1_000)) - plain).toBe(16);
    const at = { at: new Date(0) };
    const before = near.status.bytes;
    near.put(
      request("d"),
      { ...({} as Entry), freshUntilAt: 1e9, grantedAt: 0, loadMs: 1, body: new Uint8Array(5_000) },
      { value: at, hint: undefined, subjects: [], again: () => () => at },
      0,
      0,
    );
    expect(near.status.bytes - before).toBeGreaterThan(5_400);
  });

  it("freezes objects and arrays recursively", () => {
    const { request, put } = nearCacheWith();
    const value = { list: [{ id: 7 }], at: new Date(0), bytes: Buffer.from("b"), map: new Map() };
    put(request("a"), { value });
    expect([value, value.list, value.list[0]].every(Object.isFrozen)).toBe(true);
  });

  it("freezes the values of a read-only policy, also if it freezes no others", () => {
    const { request, put } = nearCacheWith({ isFrozen: false });
    const values = [{ list: [{ id: 7 }] }, { list: [{ id: 7 }] }] as const;
    const readOnly = request("a");
    put({ ...readOnly, policy: { ...readOnly.policy, readOnly: true } }, { value: values[0] });
    put(request("b"), { value: values[1] });
    const areFrozen = values.map(({ list }) => Object.isFrozen(list) && Object.isFrozen(list[0]));
    expect(areFrozen).toEqual([true, false]);
  });

  it("gives all readers one promise of a value, which keeps nothing of the request that was the first", async () => {
    const { near, request, put, get } = nearCacheWith();
    const contexts = new AsyncLocalStorage<object>();
    put(request("a"), { value: { id: 7 } });
    const readBy = (context: object): Promise<unknown> => contexts.run(context, promise);
    const promise = (): Promise<unknown> => near.promiseOf(get(request("a")) as NearValue);
    const first = new WeakRef({});
    const value = readBy(first.deref() as object);
    expect(readBy({})).toBe(value);
    await expect(value).resolves.toEqual({ id: 7 });
    // What a WeakRef has returned stays until the turn of the event loop has ended.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    expect(first.deref()).toBeUndefined();
    near.drop("a");
    put(request("a"), { value: { id: 8 } });
    await expect(readBy({})).resolves.toEqual({ id: 8 });
  });
});
