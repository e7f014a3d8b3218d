import type { CachedError } from "../errors.js";

/** How a read ended; every read ends in exactly one. `rescued`: a stale value was served because the load failed. */
export type ReadOutcome = "hit" | "stale" | "staleIfError" | "loaded" | "coalesced" | "bypassed";

/** Why the cache stepped aside. */
export type BypassReason =
  | "KEY_UNUSABLE"
  | "NO_IDENTITY"
  | "UNCACHEABLE"
  | "WRITE_IN_PROGRESS"
  | "STORE_UNAVAILABLE"
  | "WAIT_TIMEOUT"
  | "NESTED"
  | "DOES_NOT_EXIST"
  | "REQUESTED"
  | "KEY_COLLISION"
  | "CLOSED";

/** What an event is about. Never a value, an argument or a whole key. */
interface About {
  readonly coordinate: string;
  /** The key's digest; empty where no key could be made. */
  readonly digest: string;
}

/** Everything the cache tells about itself; names are `noun.participle`. */
export type CacheEvent =
  | ({ readonly name: "entry.served"; readonly outcome: Exclude<ReadOutcome, "bypassed"> } & About)
  | ({ readonly name: "resolver.bypassed"; readonly reason: BypassReason; readonly error?: CachedError } & About)
  | ({ readonly name: "load.started"; readonly isRefresh: boolean } & About)
  | ({ readonly name: "load.finished"; readonly loadMs: number } & About)
  | ({ readonly name: "load.failed"; readonly error: unknown } & About)
  /** It was not begun, since its source has too much to do or has failed too often. */
  | ({ readonly name: "load.refused"; readonly error: unknown } & About)
  | ({ readonly name: "write.finished"; readonly isStored: boolean } & About)
  | ({ readonly name: "value.refused"; readonly error: CachedError } & About)
  | ({ readonly name: "entry.corrupt"; readonly error: CachedError } & About)
  | ({ readonly name: "lease.lost" } & About)
  /** The load of a PUBLIC value has read a property of its request's context that is not in its key; told once of each, outside of production. */
  | ({ readonly name: "context.read"; readonly property: string } & About)
  /** A refresh went to the queue, or the queue refused it and it runs here. */
  | ({ readonly name: "refresh.enqueued" } & About)
  | ({ readonly name: "refresh.rejected"; readonly error: unknown } & About)
  /** `node` is empty where the store is one node. */
  | { readonly name: "store.failed"; readonly node: string; readonly operation: string; readonly error: unknown }
  | { readonly name: "store.recovered"; readonly node: string };

export type Listener = (event: CacheEvent) => void;
