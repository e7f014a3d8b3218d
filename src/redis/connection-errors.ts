import type { Cancel } from "../clock.js";
import { messageOf } from "../errors.js";
import type { ClientEvents } from "./client-events.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import { addressOf, nodeAt } from "./server-info.js";

/**
 * Knows why the client is not connected. Commands that fail meanwhile say only that there is no
 * connection; the reason (refused, wrong password) arrives as an event of the client.
 */
export class ConnectionErrors {
  readonly #client: RedisClient;
  readonly #events: ClientEvents;
  /** The last error of the client, until it is connected again. */
  #last: Error | undefined;
  /** The last errors of nodes of a Cluster, by address. */
  readonly #ofNodes = new Map<string, Error>();

  constructor(client: RedisClient, events: ClientEvents) {
    this.#client = client;
    this.#events = events;
  }

  /** Returns why there is no connection to `node`, as far as that is known; undefined if there is one. */
  of(node: string): Error | undefined {
    if (this.#last !== undefined) return this.#last;
    const doing = STATUSES.get(this.#client.status);
    if (doing !== undefined) return new Error(`not connected to ${placeOf(this.#client)}: ${doing}`);
    if (!isCluster(this.#client) || !this.#ofNodes.has(node)) return undefined;
    if (nodeAt(this.#client, node)?.status === "ready") this.#ofNodes.delete(node);
    return this.#ofNodes.get(node);
  }

  /**
   * Starts to listen. Without a listener for errors, the client would log them or end the process.
   * Returns a function that ends this use.
   */
  watch(): Cancel {
    const stops = [
      this.#events.listen("error", (error: Error) => {
        this.#last = withoutNesting(error);
      }),
      this.#events.listen("ready", () => {
        this.#last = undefined;
        this.#ofNodes.clear();
      }),
      this.#events.listen("node error", (error: Error, node: string) => {
        this.#ofNodes.set(node, withoutNesting(error));
      }),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  }
}

/** What ioredis is doing if it is not connected, by its status. Commands that fail then do not say it. */
const STATUSES: ReadonlyMap<string, string> = new Map([
  ["connecting", "the client is connecting"],
  ["connect", "the client is connecting"],
  ["close", "the connection was closed"],
  ["reconnecting", "the connection was closed, and the client is reconnecting"],
  ["disconnecting", "the client is being closed"],
  ["end", "the client was closed, or does not reconnect"],
]);

function placeOf(client: RedisClient): string {
  const { path, sentinels, name } = client.options as { path?: string; sentinels?: unknown; name?: string };
  if (isCluster(client)) return "the Cluster";
  return path ?? (sentinels ? `the master ${name} of Sentinel` : addressOf(client));
}

/** Returns an error with the message of the innermost error: Node reports one error per address, a Cluster client one per node. */
export const withoutNesting = (error: Error): Error => new Error(innermostMessage(error), { cause: error });

function innermostMessage(error: unknown): string {
  const { lastNodeError, errors } = error as { lastNodeError?: unknown; errors?: readonly unknown[] };
  if (lastNodeError !== undefined) return innermostMessage(lastNodeError);
  if (Array.isArray(errors) && errors.length > 0) return errors.map(innermostMessage).join(", ");
  return messageOf(error);
}
