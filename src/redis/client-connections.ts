import type { Clock } from "../clock.js";
import { ClientEvents } from "./client-events.js";
import { ConnectionErrors } from "./connection-errors.js";
import type { RedisClient } from "./redis-client.js";
import { WriteConnection } from "./replica-wait-writer.js";
import { Subscriber } from "./subscriber.js";

/** What all stores on a client share: a listener for each of its events, and the connections that they open besides it. */
export class ClientConnections {
  readonly events: ClientEvents;
  readonly errors: ConnectionErrors;
  readonly subscriber: Subscriber;
  readonly writes: WriteConnection;

  constructor(client: RedisClient, clock: Clock) {
    this.events = new ClientEvents(client);
    this.errors = new ConnectionErrors(client, this.events);
    this.subscriber = new Subscriber(client, this.events, clock);
    this.writes = new WriteConnection(client, this.events, clock);
  }
}

const CONNECTIONS: unique symbol = Symbol("graphql-cached.connections");

/** Returns what the stores on `client` share. It hangs on the client, whose life it shares. `clock`: used if there is none yet. */
export function connectionsOf(client: RedisClient, clock: Clock): ClientConnections {
  const shared = client as { [CONNECTIONS]?: ClientConnections };
  const connections = shared[CONNECTIONS] ?? new ClientConnections(client, clock);
  if (shared[CONNECTIONS] === undefined) Object.defineProperty(client, CONNECTIONS, { value: connections });
  return connections;
}
