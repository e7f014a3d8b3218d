import type { Redis } from "ioredis";
import type { Film, Source } from "../source.js";

/** How long values are fresh, and how long after that they may be served while one refresh runs; 0 is not at all. Whole seconds. */
export interface Keeping {
  readonly maxAge: number;
  readonly staleFor: number;
  /** Whether `invalidate` will be called: some need to know at every write. */
  readonly isInvalidated: boolean;
}

/** What a contender works with. The client stays its owner's. */
export interface Equipment {
  readonly client: Redis;
  readonly prefix: string;
  readonly source: Source;
  readonly keeping: Keeping;
}

/** One way to cache on Redis, in one process. */
export interface Decoded {
  /** Begins one request; what it gives reads one key, and is called once for each. Rejects with the source's error, or the contender's own. */
  request(): (id: string) => Promise<Film>;
  /** Resolves once the invalidation is confirmed. */
  invalidate(id: string): Promise<unknown>;
}

/** `floor` is the least that batching on Redis costs; `recipe` and `peer` are what ours is compared with. */
export interface Contender {
  readonly name: string;
  readonly kind: "ours" | "floor" | "recipe" | "peer";
  open(equipment: Equipment): Decoded;
}
