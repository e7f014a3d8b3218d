import type { Redis } from "ioredis";
import type { Film, Source } from "./source.js";

/** How long values are fresh, in seconds: longer than any scenario. */
export const MAX_AGE_S = 600;

/** The resources of a contender. The caller owns and closes the client. */
export interface ContenderOptions {
  readonly client: Redis;
  readonly prefix: string;
  readonly source: Source;
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
  open(options: ContenderOptions): ContenderInstance;
}
