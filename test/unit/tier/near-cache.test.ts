import { AsyncLocalStorage } from "node:async_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import type { Key } from "../../../src/keys/key.js";
import { compilePolicy, type Policy } from "../../../src/policy/policy.js";
import { resultTagsOf } from "../../../src/store/body.js";
import { type Entry, NO_SIGNATURE } from "../../../src/store/entry.js";
import { NearCache, type NearNames } from "../../../src/tier/near-cache.js";
import type { NearValue } from "../../../src/tier/near-entries.js";
import type { ReadRequest } from "../../../src/tier/request.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** How far the store's clock is ahead of the clock of the process. */
const AHEAD_MS = 500_000;

/** Names that remember nothing yet. */
const namesOf = ({ key, tags }: ReadRequest): NearNames => ({ key, tagNames: tags.names, near: undefined });

function nearCacheWith(bounds: { maxBytes?: number; maxEntries?: number; isFrozen?: boolean } = {}) {
  const clock = new FakeClock();
  const near = new NearCache(clock, () => 0.5, { maxBytes: 100_000, maxEntries: 100, isFrozen: true, ...bounds });
  near.began();
  const { policy } = compilePolicy({ declared: [{ maxAge: 10, earlyRefresh: 0 }], profiles: {}, defaults: {} });
  const request = (name: string, ...tags: string[]): ReadRequest => ({
    key: { name, variantId: "v", coordinate: "Query.a", digest: name, hash: name, input: name } as Key,
    policy,
    tags: { names: tags, namesOf: undefined, any: undefined },
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
    signature: NO_SIGNATURE,
    body: new Uint8Array(bytes),
  });
  const put = (
    one: ReadRequest,
    {
      changeCount = near.changeCount,
      sentAt = clock.now(),
      readAt = storeNow(),
      value = {} as unknown,
      bytes = 10,
      resultTags = [] as string[],
      version = "n",
      scope = undefined as string | undefined,
    } = {},
  ): void =>
    near.put(
      one,
      entryOf(bytes, readAt),
      {
        value,
        hint: undefined,
        resultTags: resultTagsOf(
          resultTags,
          resultTags.map(() => version),
        ),
        tagVersions: one.tags.names.map(() => version),
      },
      readAt,
      { sentAt, changeCount },
      scope,
    );
  const find = (names: NearNames, scope?: string, asked: Policy = policy) =>
    near.get(names, asked, { nearScopes: { scope }, nearScopeOf: () => scope });
  const get = (one: ReadRequest, scope?: string) => find(namesOf(one), scope);
  return { clock, near, policy, request, put, find, get };
}

describe("the near cache", () => {
  it("serves a value for no longer than it is fresh in the store, even if the reply was evaluated late", async () => {
    const { clock, near, request, put, get } = nearCacheWith();
    const [sentAt, readAt] = [clock.now(), clock.now() + AHEAD_MS];
    await clock.advance(200);
    put(request("a"), { sentAt, readAt });
    await clock.advance(7_799);
    near.confirmed(0);
    expect(get(request("a"))).toBeDefined();
    await clock.advance(1);
    expect(get(request("a"))).toBeUndefined();
  });

  it("returns a value while it is fresh on the store's clock, with its remaining freshness and age", async () => {
    const { clock, near, request, put, get } = nearCacheWith();
    put(request("a"), { value: { id: 7 } });
    await clock.advance(3_000);
    near.confirmed(0);
    const found = get(request("a"));
    expect(found?.value).toEqual({ id: 7 });
    expect(found && near.reportOf(found, request("a").policy)).toMatchObject({ freshForMs: 5_000, ageMs: 3_000 });
    await clock.advance(5_000);
    near.confirmed(0);
    expect(get(request("a"))).toBeUndefined();
  });

  it("serves a value under names that have found it before only as long as it would find it again", async () => {
    const { clock, near, request, put, find } = nearCacheWith();
    const names = namesOf(request("a", "t"));
    const isServed = (scope?: string): boolean => find(names, scope)?.value !== undefined;
    const found = (): boolean[] => [isServed(), isServed("other"), isServed()];
    put(request("a", "t"));
    expect(found()).toEqual([true, false, true]);
    near.changed("t");
    expect(found()).toEqual([false, false, false]);
    put(request("a", "t"));
    expect(found()).toEqual([true, false, true]);
    near.changed("a");
    expect(found()).toEqual([false, false, false]);
    put(request("a", "t"));
    near.changed(undefined);
    expect(found()).toEqual([false, false, false]);
    put(request("a", "t"), { value: "new" });
    expect(find(names)?.value).toBe("new");
    near.lost();
    expect(found()).toEqual([false, false, false]);
    near.began();
    put(request("a", "t"));
    await clock.advance(7_999);
    near.confirmed(0);
    expect(found()).toEqual([true, false, true]);
    await clock.advance(1);
    near.confirmed(0);
    expect(found()).toEqual([false, false, false]);
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
    near.lost();
    expect(held()).toEqual([false, false, false]);
  });

  it("measures a value by the policy of its reader, not by that of the request that stored it", async () => {
    const { clock, near, policy, request, put, find } = nearCacheWith();
    put(request("a"));
    const isFresh = (asked: Policy): boolean => find(namesOf(request("a")), undefined, asked) !== undefined;
    const shorter = { ...policy, maxAgeMs: 2_000 };
    const early = { ...policy, earlyRefreshBeta: 1_000_000 };
    expect([policy, shorter, early].map(isFresh)).toEqual([true, true, false]);
    await clock.advance(2_000);
    near.confirmed(0);
    expect([policy, shorter, early].map(isFresh)).toEqual([true, false, false]);
  });

  it("does not serve a value that is due for an early refresh", async () => {
    const { clock, near, policy, request, put, find } = nearCacheWith();
    const early = { ...policy, earlyRefreshBeta: 1_000 };
    put({ ...request("a"), policy: early });
    const names = namesOf(request("a"));
    // The load took 1 ms and the random number is 0.5, so it is due when less than 693 ms are left.
    await clock.advance(7_306);
    near.confirmed(0);
    expect(find(names, undefined, early)).toBeDefined();
    await clock.advance(1);
    near.confirmed(0);
    expect(find(names, undefined, early)).toBeUndefined();
  });

  it("serves no value to requests with other tags, whose invalidation would not reach it", () => {
    const { request, put, get } = nearCacheWith();
    put(request("a", "t"));
    expect(get(request("a", "t"))).toBeDefined();
    expect([get(request("a", "u")), get(request("a")), get(request("a", "t", "u"))]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("serves no value that was stored under another scope of the control record", () => {
    const { request, put, get } = nearCacheWith();
    put(request("a"), { scope: "before" });
    expect(get(request("a"), "before")).toBeDefined();
    expect(get(request("a"), "after")).toBeUndefined();
    expect(get(request("a"))).toBeUndefined();
  });

  it("serves nothing once the store has not confirmed for two seconds that all changes were reported", async () => {
    const { clock, near, request, put, get } = nearCacheWith();
    put(request("a"));
    await clock.advance(1_999);
    expect(get(request("a"))).toBeDefined();
    await clock.advance(1);
    expect(get(request("a"))).toBeUndefined();
    near.confirmed(2_000);
    expect(get(request("a"))).toBeUndefined();
    near.confirmed(1_500);
    expect(get(request("a"))).toBeDefined();
    await clock.advance(500);
    expect(get(request("a"))).toBeUndefined();
  });

  it("serves the values under a tag again once a read has shown that its version did not change", () => {
    const { near, request, put, get } = nearCacheWith();
    put(request("a", "t"));
    put(request("b"), { resultTags: ["t"] });
    const { changeCount } = near;
    near.changed("t");
    put(request("c", "t"), { changeCount });
    expect([get(request("a", "t")), get(request("b")), get(request("c", "t"))]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    put(request("c", "t"));
    expect(get(request("a", "t"))).toBeDefined();
    expect(get(request("b"))).toBeDefined();
    near.changed("t");
    put(request("c", "t"), { version: "changed" });
    expect(get(request("c", "t"))).toBeDefined();
    expect([get(request("a", "t")), get(request("b"))]).toEqual([undefined, undefined]);
  });

  it("does not store the result of a read during which the key or one of its tags has changed", () => {
    for (const changed of ["a", "t", "r"]) {
      const { near, request, put, get } = nearCacheWith();
      const { changeCount } = near;
      near.changed(changed);
      put(request("a", "t"), { changeCount, resultTags: ["r"] });
      expect(get(request("a", "t")), changed).toBeUndefined();
      put(request("a", "t"), { resultTags: ["r"] });
      expect(get(request("a", "t")), changed).toBeDefined();
    }
  });

  it("does not store the result of a read during which changes may have been missed", () => {
    for (const event of ["changed", "lost"] as const) {
      const { near, request, put, get } = nearCacheWith();
      const { changeCount } = near;
      if (event === "changed") near.changed(undefined);
      else {
        near.lost();
        near.began();
      }
      put(request("a"), { changeCount });
      expect(get(request("a")), event).toBeUndefined();
    }
  });

  it("does not store the result of a read that began before the oldest remembered change", () => {
    const { near, request, put, get } = nearCacheWith();
    const { changeCount } = near;
    near.changed("a");
    for (let nth = 0; nth < 10_000; nth++) near.changed(`other ${nth}`);
    put(request("a"), { changeCount });
    expect(get(request("a"))).toBeUndefined();
  });

  it("drops a value when its key or one of its tags changes", () => {
    const { near, request, put, get } = nearCacheWith();
    put(request("a", "t"));
    put(request("b"), { resultTags: ["t"] });
    put(request("c"));
    near.changed("t");
    expect([get(request("a", "t")), get(request("b"))]).toEqual([undefined, undefined]);
    expect(get(request("c"))).toBeDefined();
    near.changed("c");
    expect(get(request("c"))).toBeUndefined();
  });

  it("drops everything when changes may be missed, and stores nothing until they are reported again", () => {
    const { near, request, put, get } = nearCacheWith();
    put(request("a"));
    near.lost();
    expect(get(request("a"))).toBeUndefined();
    put(request("a"));
    expect(get(request("a"))).toBeUndefined();
    near.began();
    put(request("a"));
    expect(get(request("a"))).toBeDefined();
  });

  it("stays within maxEntries and maxBytes by dropping the oldest unused values and refusing oversized ones", () => {
    const byEntries = nearCacheWith({ maxEntries: 2 });
    for (const name of ["a", "b", "c"]) byEntries.put(byEntries.request(name, "t"));
    const { request } = byEntries;
    expect(["a", "b", "c"].map((name) => byEntries.get(request(name, "t")) !== undefined)).toEqual([false, true, true]);
    const byBytes = nearCacheWith({ maxBytes: 2_000 });
    for (const name of ["a", "b"]) byBytes.put(byBytes.request(name), { value: "x".repeat(1_000) });
    byBytes.put(byBytes.request("c"), { value: "x".repeat(5_000) });
    const isCached = (name: string): boolean => byBytes.get(byBytes.request(name)) !== undefined;
    expect(["a", "b", "c"].map(isCached)).toEqual([false, true, false]);
  });

  it("counts the memory of values and tags, and the stored bytes of values that it decodes for each reader", () => {
    const { near, request, put } = nearCacheWith();
    const added = (name: string, tags: readonly string[], value: unknown, bytes = 10): number => {
      const before = near.status.bytes;
      put(request(name, ...tags), { value, bytes });
      return near.status.bytes - before;
    };
    const plain = added("a", [], "x".repeat(1_000), 20_000);
    expect(plain).toBeGreaterThan(1_400);
    expect(plain).toBeLessThan(1_600);
    expect(added("b", ["t"], "x".repeat(1_000)) - plain).toBeGreaterThan(200);
    expect(added("c", ["t"], "x".repeat(1_000)) - plain).toBe(32);
    const at = { at: new Date(0) };
    const before = near.status.bytes;
    near.put(
      request("d"),
      { ...({} as Entry), freshUntilAt: 1e9, grantedAt: 0, loadMs: 1, body: new Uint8Array(5_000) },
      { value: at, hint: undefined, resultTags: undefined, tagVersions: [], again: () => () => at },
      0,
      { sentAt: 0, changeCount: near.changeCount },
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
    near.changed("a");
    put(request("a"), { value: { id: 8 } });
    await expect(readBy({})).resolves.toEqual({ id: 8 });
  });
});
