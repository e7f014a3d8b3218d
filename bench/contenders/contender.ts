import type { Redis } from "ioredis";
import type { Kind } from "../report.js";
import type { Film, Source } from "../source.js";

/** How long values are fresh, and how long after that they may be served while one refresh runs (0: never), in seconds. */
export interface CachePolicy {
  readonly maxAge: number;
  readonly staleFor: number;
  /** Whether `invalidate` will be called. Some contenders need to know this on every write. */
  readonly isInvalidated: boolean;
}

/** The resources of a contender. The caller owns and closes the client, which is an ioredis Cluster in scenarios on a Cluster. */
export interface ContenderOptions {
  readonly client: Redis;
  readonly prefix: string;
  readonly source: Source;
  readonly policy: CachePolicy;
}

/** A contender in one process. */
export interface ContenderInstance {
  /** Starts a request and returns its read function, which is called once per key. Rejects with an error of the source or the contender. */
  request(): (id: string) => Promise<Film>;
  /** Resolves once the invalidation is confirmed. */
  invalidate(id: string): Promise<unknown>;
}

export interface Contender {
  readonly name: string;
  readonly kind: Kind;
  /** The module that exports it, without extension, from this folder's parent. Measured processes import no other contender. */
  readonly module: string;
  open(options: ContenderOptions): ContenderInstance;
}
