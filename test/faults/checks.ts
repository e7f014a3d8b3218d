import type { Patch } from "../support/packed-package.js";

/** The checks without which stale reads are possible, and how each is removed. */
export const CHECKS: Readonly<Record<string, Patch>> = {
  /** A value is stored under whatever lease chain. */
  gen: { file: "src/redis/scripts/store-values.ts", from: "gen ~= ARGV[at]", to: "false" },
  /** The entry in any wake-up message is used. */
  message: { file: "src/tier/misses.ts", from: "woken.gen !== gen", to: "false" },
  /** Entries are served under whatever listing of their variant. */
  signature: { file: "src/tier/freshness.ts", from: "entry.signature !== signature", to: "false" },
  /** What is made of entries stays as it is when one of them is invalidated by its key. */
  parts: { file: "src/tier/invalidate.ts", from: "...[...holders].map(anyOf),", to: "" },
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
