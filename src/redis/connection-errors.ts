import type { Cancel } from "../clock.js";
import { messageOf } from "../errors.js";
import type { RedisClient } from "./redis-client.js";

/**
 * Remembers why the client cannot connect. Commands that fail meanwhile say only that there is no
 * connection; the reason (refused, wrong password) arrives as an event of the client.
 */
export class ConnectionErrors {
  readonly #client: RedisClient;
  #last: Error | undefined;
  #uses = 0;

  constructor(client: RedisClient) {
    this.#client = client;
  }

  /** The last error of the client, until it is connected again. */
  get last(): Error | undefined {
    return this.#last;
  }

  /**
   * Starts to listen. Without a listener for errors, the client would log them or end the process.
   * Returns a function that stops it after the last use.
   */
  watch(): Cancel {
    if (this.#uses++ === 0) {
      this.#client.on("error", this.#onError);
      this.#client.on("ready", this.#onReady);
    }
    let isWatching = true;
    return () => {
      if (!isWatching) return;
      isWatching = false;
      if (--this.#uses > 0) return;
      this.#client.off("error", this.#onError);
      this.#client.off("ready", this.#onReady);
    };
  }

  readonly #onError = (error: Error): void => {
    this.#last = new Error(describeConnectionError(error), { cause: error });
  };

  readonly #onReady = (): void => {
    this.#last = undefined;
  };
}

/** The message of the innermost error: Node reports one error per address, a Cluster client one per node. */
function describeConnectionError(error: unknown): string {
  const { lastNodeError, errors } = error as { lastNodeError?: unknown; errors?: readonly unknown[] };
  if (lastNodeError !== undefined) return describeConnectionError(lastNodeError);
  if (Array.isArray(errors) && errors.length > 0) return errors.map(describeConnectionError).join(", ");
  return messageOf(error);
}
