import type { ConnectionUse } from "../telemetry/events.js";

/**
 * What a server, or the one node of a store, says of itself. A store leaves out what it does not know. Contains no
 * names of entries and no values.
 */
export interface StoreReport {
  /** The program and its version, such as `redis 7.2.4`. */
  readonly version?: string | undefined;
  /** What the server says of its part in replication, such as `master`. */
  readonly role?: string | undefined;
  /** The number of keys, those of other applications included. */
  readonly entries?: number | undefined;
  /** The memory in use. */
  readonly usedBytes?: number | undefined;
  /** The most memory that the server uses. Undefined: there is no limit. */
  readonly maxBytes?: number | undefined;
  /** What is dropped if there is no memory, such as `allkeys-lru`. */
  readonly evictionPolicy?: string | undefined;
  /** The number of entries dropped for lack of memory since the server started. */
  readonly evictions?: number | undefined;
}

/** A connection that a store has opened for itself. `error`: why it cannot be used; undefined: it can again. */
export interface ConnectionFailure {
  readonly use: ConnectionUse;
  /** The node that it leads to. Empty if the store is one node, or if any node will do. */
  readonly node: string;
  readonly error: Error | undefined;
}

/** Learns what becomes of a store's connections. */
export interface ConnectionListener {
  /** The store is connected again, so what failed before says nothing about the next operation. */
  onReconnect(): void;
  /** A connection of the store's own cannot be used, or can again. Once for each change. */
  onOwn(failure: ConnectionFailure): void;
}
