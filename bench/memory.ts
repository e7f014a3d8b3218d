import type { CacheOptions } from "../src/index.js";

/**
 * The options of the variants of graphql-cached that keep values in the memory of a process, and of those that do not. All
 * scenarios take them from here.
 */
export const MEMORY = {
  /** Default options. */
  byDefault: {},
  /** Every tick reads its values from the store. */
  none: {},
  /** A value in memory is served for up to two seconds without asking the store. */
  twoSeconds: { nearCache: {} },
  of32MiB: { nearCache: { maxBytes: 32 * 2 ** 20, maxEntries: 1_000_000 } },
} as const satisfies Readonly<Record<string, Pick<CacheOptions, "nearCache">>>;

export type MemoryName = keyof typeof MEMORY;
