import type { ConnectionUse } from "../telemetry/events.js";

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
