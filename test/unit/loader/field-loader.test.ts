import { describe, expect, it } from "vitest";
import type { Key } from "../../../src/core/keys/key.js";
import { FieldLoader, type FieldRequest } from "../../../src/core/loader/field-loader.js";
import type { Entry } from "../../../src/core/store/entry.js";
import type { Reads } from "../../../src/core/tier/read/hit.js";
import type { Loaded } from "../../../src/core/tier/request/loaded.js";
import type { ReadEnding } from "../../../src/core/tier/request/request.js";
import { NO_TAGS } from "../../../src/core/tier/request/tags.js";

const entry = { state: "value" } as Entry;
const loaded = { kind: "loaded" } as Loaded;

const LIMITS = { maxKeyBytes: 1_000_000, maxTagCombinations: 1_000 };

/** A field loader, and what it has passed on for those who read a key again. */
function createLoader() {
  const again: [ReadEnding, unknown][] = [];
  const result = Promise.resolve("value");
  const tier = {
    loads: { running: 0 },
    nestingOf: () => "none",
    read: () => result,
    responder: { respondAgain: (_: unknown, first: ReadEnding, value: unknown) => again.push([first, value]) },
    invalidations: { shownPosition: 0, restarts: 0 },
  };
  const invalidations = { count: 0, hasChangedSince: () => false };
  const loader = new FieldLoader(tier as unknown as Reads, invalidations, LIMITS);
  return { loader, again, result };
}

const requestOf = (readOnly: boolean, variantId = "v"): FieldRequest =>
  ({
    key: { name: `gc:2:Query.a:${variantId}:`, coordinate: "Query.a", variantId, form: 1 } satisfies Partial<Key>,
    tags: NO_TAGS,
    policy: { readOnly },
  }) as unknown as FieldRequest;

describe("what an execution remembers of a read", () => {
  it("is the promise of the first reader until there is an entry that others get values of their own from", () => {
    const { loader, again, result } = createLoader();
    const first = requestOf(false);
    void loader.read(first);
    void loader.read(requestOf(false));
    first.ending?.endWith(entry);
    void loader.read(requestOf(false));
    expect(again).toEqual([
      [first.ending, result],
      [first.ending, undefined],
    ]);
    expect(first.ending?.origin).toBe(entry);
  });

  it("is the promise as well if the value is read-only, or comes from a load", () => {
    for (const [readOnly, origin] of [
      [true, entry],
      [false, loaded],
    ] as const) {
      const { loader, again, result } = createLoader();
      const first = requestOf(readOnly);
      void loader.read(first);
      first.ending?.endWith(origin);
      void loader.read(requestOf(readOnly));
      expect(again).toEqual([[first.ending, result]]);
    }
  });

  it("is nothing to another schema's field of the same name, whose resolver is called with the same info", () => {
    const { loader, again } = createLoader();
    const requests = [requestOf(false, "one"), requestOf(false, "other")];
    for (const request of requests) void loader.read(request);
    for (const { ending } of requests) expect(ending).toBeDefined();
    expect(again).toEqual([]);
  });

  it("does not refer to the request, with the arguments and the context of its field", () => {
    const { loader } = createLoader();
    const first = requestOf(false);
    void loader.read(first);
    const { ending } = first;
    expect(Object.values(ending as ReadEnding)).not.toContain(first);
    expect(Object.values(ending as ReadEnding)).not.toContain(first.key);
  });
});
