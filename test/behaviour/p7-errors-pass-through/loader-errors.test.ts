import { FakeClock, settle } from "@graphql-cached/testing";
import { graphql } from "graphql";
import { applyCached } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";

/** A loader whose source fails as long as `failure` is set: the whole batch, or each id with an error of its own. */
function createUsers(failing: "batch" | "id") {
  const { cache } = listen({ testing: { clock: new FakeClock() }, loads: { errorBackoffMs: 60_000 } });
  const source = { failure: new Error("the database is away") as Error | undefined };
  const calls: number[][] = [];
  const users = cache.loader({
    name: "User",
    maxAge: 60,
    batch: async (ids: readonly number[]) => {
      calls.push([...ids]);
      const { failure } = source;
      if (failure !== undefined && failing === "batch") throw failure;
      return ids.map((id) => failure ?? `user ${id}`);
    },
  });
  return { cache, calls, source, users };
}

describe.each(["batch", "id"] as const)("after a load that failed by %s, a loader", (failing) => {
  it("rejects with the same error without asking the source, until the id is cleared", async () => {
    const { calls, source, users } = createUsers(failing);
    const loader = users({});
    await expect(loader.load(1)).rejects.toBe(source.failure);
    await settle();
    await expect(loader.load(1)).rejects.toBe(source.failure);
    expect(calls).toEqual([[1]]);
  });

  for (const clear of ["clear", "clearAll"] as const)
    it(`asks the source again after ${clear}, although the error is still shared with others`, async () => {
      const { calls, source, users } = createUsers(failing);
      const loader = users({});
      const { failure } = source;
      expect(await loader.loadMany([1, 2])).toEqual([failure, failure]);
      await settle();
      source.failure = undefined;
      await expect(users({}).load(1)).rejects.toThrow("the database is away");
      if (clear === "clear") loader.clear(1).clear(2);
      else loader.clearAll();
      expect(await loader.loadMany([1, 2])).toEqual(["user 1", "user 2"]);
      expect(await loader.load(1)).toBe("user 1");
      await settle();
      expect(await users({}).load(1)).toBe("user 1");
      expect(calls.flat().sort()).toEqual([1, 1, 2, 2]);
    });

  it("asks the source again each time that the id is cleared after an error", async () => {
    const { calls, source, users } = createUsers(failing);
    const loader = users({});
    for (let nth = 0; nth < 3; nth++) {
      await expect(loader.clear(1).load(1)).rejects.toThrow("the database is away");
      await settle();
    }
    source.failure = undefined;
    expect(await loader.clear(1).load(1)).toBe("user 1");
    expect(calls).toEqual([[1], [1], [1], [1]]);
  });
});

it("asks the source again after clear inside the load of a field", async () => {
  const { cache, calls, source, users } = createUsers("id");
  const resolve = async (): Promise<string> => {
    const loader = users({});
    await loader.load(1).catch(() => undefined);
    source.failure = undefined;
    return loader.clear(1).load(1) as Promise<string>;
  };
  const sdl = "type Query { user: String @cached(maxAge: 60) }";
  const schema = applyCached(schemaOf(sdl, { Query: { user: resolve } }), cache);
  expect(await graphql({ schema, source: "{ user }", contextValue: {} })).toEqual({ data: { user: "user 1" } });
  expect(calls).toEqual([[1], [1]]);
});

describe("clear of an id that did not fail", () => {
  it("has the next load read the shared value, and that of an id whose load is under way wait for it", async () => {
    const { calls, source, users } = createUsers("batch");
    source.failure = undefined;
    const loader = users({});
    const pending = loader.load(1);
    expect(await Promise.all([pending, loader.clear(1).load(1)])).toEqual(["user 1", "user 1"]);
    await settle();
    expect(await loader.clear(1).load(1)).toBe("user 1");
    expect(calls).toEqual([[1]]);
  });
});
