import type { Patch } from "../support/packed-package.js";

/** Checks without which stale reads are possible, and how each is removed. */
export const CHECKS: Readonly<Record<string, Patch>> = {
  /** A value is stored under whatever lease chain. */
  gen: { file: "src/stores/redis/scripts/store-values.ts", from: "gen ~= expected", to: "false" },
  /** What is made of entries stays as it is when one of them is invalidated by its key. */
  parts: {
    file: "src/core/responses/collected-parts.ts",
    from: "if (key !== undefined) this.#addEntry(key);",
    to: "if (key === undefined) this.#addEntry(key as never);",
  },
  /** What the invalidation clock says of keys is not heeded. */
  keys: {
    file: "src/core/tier/shared/known-positions.ts",
    from: "ofCoordinate, positions.get(entry(key)) ?? 0);",
    to: "ofCoordinate, positions.get(-1 - entry(key)) ?? 0);",
  },
  /** A read does not have the process learn what is new in the clock. */
  head: {
    file: "src/core/tier/read/hit.ts",
    from: "!isRead || invalidations.isAt(read.clock);",
    to: "true;",
  },
  /** What is in memory counts for an execution although no read was sent since it began. */
  execution: {
    file: "src/core/directive/run/cached-field.ts",
    from: "memory.serves(known, execution.since)",
    to: "memory.serves(known, 0)",
  },
  /** Those who join a load do not ask whether its result was invalidated meanwhile. */
  join: {
    file: "src/core/tier/read/miss.ts",
    from: 'if (state === "current") return respond;',
    to: 'if (state !== ("never" as string)) return respond;',
  },
  /** What the invalidation clock says of tags is not heeded. */
  clock: {
    file: "src/core/tier/shared/known-positions.ts",
    from: "latestIn(this.positions.hard, all, 0) > position",
    to: "latestIn(this.positions.hard, all, 0) < 0",
  },
};
