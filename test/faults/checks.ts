import type { Patch } from "../support/packed-package.js";

/** The checks without which stale reads are possible, and how each is removed. */
export const CHECKS: Readonly<Record<string, Patch>> = {
  /** A value is stored under whatever lease chain. */
  gen: { file: "src/redis/scripts/store-values.ts", from: "gen ~= ARGV[at]", to: "false" },
  /** The entry in any wake-up message is used. */
  message: { file: "src/tier/misses.ts", from: "woken.gen !== gen", to: "false" },
  /** Entries are served under whatever versions of their tags. */
  signature: { file: "src/tier/freshness.ts", from: "entry.signature !== signature", to: "false" },
  /** The tags of what is made of entries stay as they are. */
  parts: {
    file: "src/tier/invalidate.ts",
    from: "if (partTags.length > 0) await",
    to: "if (partTags.length < 0) await",
  },
  /** What the invalidation clock says of tags is not heeded. */
  clock: {
    file: "src/tier/invalidation-clock.ts",
    from: "hardAt !== undefined && hardAt > position",
    to: "hardAt !== undefined && hardAt < 0",
  },
};
