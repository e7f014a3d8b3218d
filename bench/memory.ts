import type { CacheOptions } from "../src/index.js";

/**
 * The options of the variants of graphql-cached that keep values in the memory of a process, and of those that do not. All
 * scenarios take them from here.
 */
export const MEMORY = {
  /** Default options. */
  byDefault: {},
  /** Every tick reads its values from the store. */
  none: { memory: false },
  /** A value in memory is served for up to two seconds without asking the store. */
  twoSeconds: { memory: { maxStalenessMs: 2_000 } },
  of32MiB: { memory: { maxBytes: 32 * 2 ** 20 } },
} as const satisfies Readonly<Record<string, Pick<CacheOptions, "memory">>>;

export type MemoryName = keyof typeof MEMORY;
