import type { Patch } from "../support/packed-package.js";

/** Checks without which stale reads are possible, and how each is removed. */
export const CHECKS: Readonly<Record<string, Patch>> = {
  /** A value is stored under whatever lease chain. */
  gen: { file: "src/redis/scripts/store-values.ts", from: "gen ~= ARGV[at]", to: "false" },
  /** What is made of entries stays as it is when one of them is invalidated by its key. */
  parts: {
    file: "src/responses/collected-parts.ts",
    from: "if (key !== undefined) this.#addEntry(key);",
    to: "if (key === undefined) this.#addEntry(key as never);",
  },
  /** What the invalidation clock says of keys is not heeded. */
  keys: {
    file: "src/tier/invalidation-clock.ts",
    from: "return hardAt === undefined || position >= hardAt;",
    to: "return true;",
  },
  /** What the invalidation clock says of tags is not heeded. */
  clock: {
    file: "src/tier/invalidation-clock.ts",
    from: "hardAt !== undefined && hardAt > position",
    to: "hardAt !== undefined && hardAt < 0",
  },
};
