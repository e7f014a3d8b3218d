import type { Cancel } from "../../core/base/clock.js";
import { messageOf } from "../../core/base/errors.js";
import type { ClientPort } from "./client-port.js";

/** Why the client is not connected: commands that fail meanwhile do not say it, its events do. */
export class ConnectionErrors {
  /** By node. Of the client itself: "". */
  readonly #last = new Map<string, Error>();

  constructor(private readonly port: ClientPort) {}

  /** Returns why there is no connection to `node`, if that is so and the reason known. */
  of(node: string): Error | undefined {
    const own = this.#last.get("");
    if (own !== undefined) return own;
    const doing = STATUSES.get(this.port.status());
    if (doing !== undefined) return new Error(`not connected to ${this.port.place()}: ${doing}`);
    this.#forget(node);
    return this.#last.get(node);
  }

  #forget(node: string): void {
    if (node === "" || this.port.cluster?.isConnectedTo(node) === true) this.#last.delete(node);
  }

  /** Without a listener for errors, the client would log them or end the process. */
  watch(): Cancel {
    const { events } = this.port;
    const note = (error: Error, node = ""): void => void this.#last.set(node, withoutNesting(error));
    const stops = [
      events.listen("error", (error) => note(error)),
      events.listen("ready", () => {
        for (const node of this.#last.keys()) this.#forget(node);
      }),
      events.listen("nodeError", (error, node) => note(error, node)),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  }
}

/** What a client that is not connected is doing, by its status. */
const STATUSES: ReadonlyMap<string, string> = new Map([
  ["connecting", "the client is connecting"],
  ["connect", "the client is connecting"],
  ["close", "the connection was closed"],
  ["reconnecting", "the connection was closed, and the client is reconnecting"],
  ["disconnecting", "the client is being closed"],
  ["end", "the client was closed, or does not reconnect"],
]);

/** Node.js reports one error per address, a Cluster client one per node. */
export const withoutNesting = (error: Error): Error => new Error(innermostMessage(error), { cause: error });

function innermostMessage(error: unknown): string {
  const { lastNodeError, errors } = error as { lastNodeError?: unknown; errors?: readonly unknown[] };
  if (lastNodeError !== undefined) return innermostMessage(lastNodeError);
  if (Array.isArray(errors) && errors.length > 0) return errors.map(innermostMessage).join(", ");
  return messageOf(error);
}
