import { CachedError } from "../base/errors.js";
import type { Channel } from "../telemetry/channel.js";
import type { ConnectionFailure } from "./store-state.js";

/**
 * The connections that a store has opened for itself and that cannot be used. No operation fails for them, so without this nobody
 * would notice. Published once for each cause: after new credentials, all of them fail for the same one.
 */
export class OwnConnections {
  readonly #channel: Channel;
  readonly #failures = new Map<string, ConnectionFailure>();

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  get failures(): readonly ConnectionFailure[] {
    return [...this.#failures.values()];
  }

  report(failure: ConnectionFailure): void {
    const { use, node, error } = failure;
    const id = `${use} ${node}`;
    if (error === undefined) {
      if (this.#failures.delete(id) && this.#failures.size === 0)
        this.#channel.publish({ name: "connection.recovered" });
      return;
    }
    const isPublished = this.failures.some((other) => other.error?.message === error.message);
    this.#failures.set(id, failure);
    if (isPublished) return;
    const message = `store: the connection for ${use} cannot be used: ${error.message}`;
    this.#channel.publish({
      name: "connection.failed",
      use,
      node,
      error: new CachedError("CACHED_STORE_UNAVAILABLE", message, { cause: error }),
    });
  }
}
