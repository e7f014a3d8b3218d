import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { compilePolicy } from "../../../src/policy/policy.js";
import { type Entry, NO_SIGNATURE } from "../../../src/store/entry.js";
import { NearCache } from "../../../src/tier/near-cache.js";
import type { ReadRequest } from "../../../src/tier/request.js";

/** The store's clock runs this much ahead of the process's. */
const AHEAD_MS = 500_000;

function nearby(bounds: { maxBytes?: number; maxEntries?: number } = {}) {
  const clock = new FakeClock();
  const near = new NearCache(clock, () => 0.5, { maxBytes: 100_000, maxEntries: 100, isFrozen: true, ...bounds });
  near.began();
  const { policy } = compilePolicy({ declared: [{ maxAge: 10, earlyRefresh: 0 }], profiles: {}, defaults: {} });
  const request = (name: string, ...tags: string[]): ReadRequest => ({
    key: { name, coordinate: "Query.a", digest: name, input: name },
    policy,
    tags: { rule: tags.join(), names: tags, namesOf: undefined },
    load: () => undefined,
  });
  const storeNow = (): number => clock.now() + AHEAD_MS;
  const entryOf = (bytes: number): Entry => ({
    state: "value",
    isNegative: false,
    hasRefreshFailed: false,
    loadMs: 1,
    gen: "",
    untilAt: 0,
    freshUntilAt: storeNow() + 8_000,
    grantedAt: storeNow(),
    signature: NO_SIGNATURE,
    body: new Uint8Array(bytes),
  });
  const put = (
    one: ReadRequest,
    { mark = near.mark, value = {} as unknown, bytes = 10, resultTags = [] as string[] } = {},
  ): void =>
    near.put(
      one,
      entryOf(bytes),
      { value, hint: undefined, resultTags: resultTags.map((name) => ({ name, version: "n" })) },
      storeNow(),
      mark,
    );
  return { clock, near, request, put };
}

describe("the near cache", () => {
  it("has a value as long as it is fresh by the store's clock, and says for how long", async () => {
    const { clock, near, request, put } = nearby();
    put(request("a"), { value: { id: 7 } });
    await clock.advance(3_000);
    expect(near.get(request("a"))).toEqual({ value: { id: 7 }, hint: undefined, freshForMs: 5_000, ageMs: 3_000 });
    await clock.advance(5_000);
    expect(near.get(request("a"))).toBeUndefined();
  });

  it("keeps nothing of a read during which the key, a tag or a tag of the result has changed", () => {
    for (const changed of ["a", "t", "r"]) {
      const { near, request, put } = nearby();
      const { mark } = near;
      near.changed(changed);
      put(request("a", "t"), { mark, resultTags: ["r"] });
      expect(near.get(request("a", "t")), changed).toBeUndefined();
      put(request("a", "t"), { resultTags: ["r"] });
      expect(near.get(request("a", "t")), changed).toBeDefined();
    }
  });

  it("keeps nothing of a read during which anything may have changed", () => {
    for (const happens of ["changed", "lost"] as const) {
      const { near, request, put } = nearby();
      const { mark } = near;
      if (happens === "changed") near.changed(undefined);
      else {
        near.lost();
        near.began();
      }
      put(request("a"), { mark });
      expect(near.get(request("a")), happens).toBeUndefined();
    }
  });

  it("keeps nothing of a read that began before the oldest change it remembers", () => {
    const { near, request, put } = nearby();
    const { mark } = near;
    near.changed("a");
    for (let nth = 0; nth < 10_000; nth++) near.changed(`other ${nth}`);
    put(request("a"), { mark });
    expect(near.get(request("a"))).toBeUndefined();
  });

  it("drops what has changed, and everything under a tag that has", () => {
    const { near, request, put } = nearby();
    put(request("a", "t"));
    put(request("b"), { resultTags: ["t"] });
    put(request("c"));
    near.changed("t");
    expect([near.get(request("a", "t")), near.get(request("b"))]).toEqual([undefined, undefined]);
    expect(near.get(request("c"))).toBeDefined();
    near.changed("c");
    expect(near.get(request("c"))).toBeUndefined();
  });

  it("drops everything when changes may be missed, and keeps nothing until it hears of them again", () => {
    const { near, request, put } = nearby();
    put(request("a"));
    near.lost();
    expect(near.get(request("a"))).toBeUndefined();
    put(request("a"));
    expect(near.get(request("a"))).toBeUndefined();
    near.began();
    put(request("a"));
    expect(near.get(request("a"))).toBeDefined();
  });

  it("does not give a value to a request with other tags in its rule", () => {
    const { near, request, put } = nearby();
    put(request("a"));
    expect(near.get(request("a", "added in code"))).toBeUndefined();
  });

  it("is bounded by entries and by bytes: the least recently used go, and what is too large does not come in", () => {
    const byEntries = nearby({ maxEntries: 2 });
    for (const name of ["a", "b", "c"]) byEntries.put(byEntries.request(name, "t"));
    const { near, request } = byEntries;
    expect(["a", "b", "c"].map((name) => near.get(request(name, "t")) !== undefined)).toEqual([false, true, true]);
    const byBytes = nearby({ maxBytes: 2_000 });
    for (const name of ["a", "b"]) byBytes.put(byBytes.request(name), { bytes: 1_000 });
    byBytes.put(byBytes.request("c"), { bytes: 5_000 });
    const isNear = (name: string): boolean => byBytes.near.get(byBytes.request(name)) !== undefined;
    expect(["a", "b", "c"].map(isNear)).toEqual([false, true, false]);
  });

  it("freezes objects and lists through and through", () => {
    const { request, put } = nearby();
    const value = { list: [{ id: 7 }], at: new Date(0), bytes: Buffer.from("b"), map: new Map() };
    put(request("a"), { value });
    expect([value, value.list, value.list[0]].every(Object.isFrozen)).toBe(true);
  });
});
