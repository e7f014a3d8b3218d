import type { Clock } from "../../core/base/clock.js";
import type { ClientPort } from "./client-port.js";
import { ConnectionErrors } from "./connection-errors.js";
import { WriteConnection } from "./replica-wait-writer.js";
import { Subscriber } from "./subscriber.js";

/** What all stores on a client share: the connections that they open besides it, and why it is not connected. */
export class ClientConnections {
  readonly errors: ConnectionErrors;
  readonly subscriber: Subscriber;
  readonly writes: WriteConnection;

  constructor(port: ClientPort, clock: Clock) {
    this.errors = new ConnectionErrors(port);
    this.subscriber = new Subscriber(port, clock);
    this.writes = new WriteConnection(port, clock);
  }
}

const CONNECTIONS: unique symbol = Symbol("graphql-cached.connections");

/** Returns what the stores on a client share. It hangs on the port, and so on the client. `clock`: used if there is none yet. */
export function connectionsOf(port: ClientPort, clock: Clock): ClientConnections {
  const shared = port as { [CONNECTIONS]?: ClientConnections };
  shared[CONNECTIONS] ??= new ClientConnections(port, clock);
  return shared[CONNECTIONS];
}
