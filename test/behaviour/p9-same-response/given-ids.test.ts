import { afterEach, describe, expect, it, vi } from "vitest";
import { memoryWorld } from "../../support/world.js";

type Id = number | string;

afterEach(() => void vi.unstubAllEnvs());

/** A process with one loader of films. */
function start(batch: (ids: readonly Id[]) => readonly unknown[], options: object = {}) {
  const process = memoryWorld().process("type Query { a: Int }", {});
  const films = process.cache.loader<Id, unknown>({
    name: "Film",
    maxAge: 60,
    batch: async (ids) => batch(ids) as (unknown | Error)[],
    ...options,
  });
  return { films, loadMany: (ids: readonly Id[]) => films({}).loadMany(ids) };
}

describe("a batch function", () => {
  it("gets ids that cannot be changed outside of production", async () => {
    const changes: readonly ((ids: Id[]) => unknown)[] = [
      (ids) => ids.reverse(),
      (ids) => ids.pop(),
      (ids) => ids.push(1),
    ];
    for (const change of changes)
      for (const options of [{}, { maxAge: 0 }]) {
        const { films } = start((ids) => change(ids as Id[]) as Id[], options);
        for (const result of await films({}).loadMany([3, 1])) expect(result).toBeInstanceOf(TypeError);
      }
  });
});

describe("a guard", () => {
  it("gets ids that it cannot change outside of production, and is ignored if it has changed them", async () => {
    for (const env of ["test", "production"]) {
      vi.stubEnv("NODE_ENV", env);
      const exists = { has: async (ids: readonly Id[]) => (ids as Id[]).reverse().map((id) => id !== 1) };
      const { loadMany } = start((ids) => ids, { exists });
      expect(await loadMany([3, 1]), env).toEqual([3, 1]);
    }
  });

  it("is ignored if it returns fewer answers than it was asked for", async () => {
    const exists = { has: async (ids: readonly Id[]) => ids.slice(1).map(() => false) };
    const { loadMany } = start((ids) => ids, { exists });
    expect(await loadMany([3, 1])).toEqual([3, 1]);
  });
});
