import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Address } from "./redis-lab.js";

/** From the client to the server, or back. */
export type Direction = "requests" | "replies";

interface Connection {
  readonly client: Socket;
  readonly server: Socket;
  /** Bytes that are held back, by direction. */
  readonly held: Record<Direction, Buffer[]>;
}

/**
 * A bad network between clients and a server: it can be slow, be down, drop its connections, or
 * hold back bytes and deliver them later.
 */
export class TcpProxy implements Address {
  readonly host = "127.0.0.1";
  /** Delay in each direction, in milliseconds. */
  latencyMs = 0;
  /** Whether new connections are accepted. */
  isUp = true;
  #target: Address;
  readonly #listener: Server;
  readonly #connections = new Set<Connection>();
  readonly #heldDirections = new Set<Direction>();
  /** The text in a request that starts the holding of a direction. */
  readonly #triggers = new Map<Direction, string>();

  private constructor(target: Address, listener: Server) {
    this.#target = target;
    this.#listener = listener;
    listener.on("connection", (client) => this.#accept(client));
  }

  /** Starts a proxy in front of `target`. */
  static async before(target: Address): Promise<TcpProxy> {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    return new TcpProxy(target, listener);
  }

  get port(): number {
    return (this.#listener.address() as { port: number }).port;
  }

  /** Sends new connections to another server. Existing connections stay. */
  pointTo(target: Address): void {
    this.#target = target;
  }

  /** Closes every connection and drops the bytes in transit. */
  cut(): void {
    for (const { client, server } of this.#connections) {
      client.destroy();
      server.destroy();
    }
    this.#connections.clear();
  }

  /**
   * Holds back all bytes in `direction`, starting with the next request that contains `trigger`.
   */
  hold(direction: Direction, trigger: string): void {
    this.#triggers.set(direction, trigger);
  }

  /** Returns the number of bytes that are held back. */
  heldBytes(direction: Direction): number {
    return [...this.#connections].reduce((sum, { held }) => sum + Buffer.concat(held[direction]).length, 0);
  }

  /** Delivers the bytes that were held back, and stops holding. */
  deliver(direction: Direction): void {
    this.#heldDirections.delete(direction);
    this.#triggers.delete(direction);
    for (const connection of this.#connections) {
      const to = direction === "requests" ? connection.server : connection.client;
      for (const bytes of connection.held[direction].splice(0)) to.write(bytes);
    }
  }

  async close(): Promise<void> {
    this.cut();
    this.#listener.close();
    await once(this.#listener, "close");
  }

  #accept(client: Socket): void {
    if (!this.isUp) return void client.destroy();
    const server = connect(this.#target.port, this.#target.host);
    const connection: Connection = { client, server, held: { requests: [], replies: [] } };
    this.#connections.add(connection);
    this.#forward(connection, "requests", client, server);
    this.#forward(connection, "replies", server, client);
  }

  #checkTriggers(request: Buffer): void {
    for (const [direction, trigger] of this.#triggers)
      if (request.includes(trigger)) this.#heldDirections.add(direction);
  }

  #forward(connection: Connection, direction: Direction, from: Socket, to: Socket): void {
    const forward = (bytes: Buffer): void => {
      if (direction === "requests") this.#checkTriggers(bytes);
      if (this.#heldDirections.has(direction)) connection.held[direction].push(bytes);
      else if (!to.destroyed) to.write(bytes);
    };
    from.setNoDelay(true);
    from.on("data", (bytes: Buffer) => {
      if (this.latencyMs === 0) forward(bytes);
      else setTimeout(forward, this.latencyMs, bytes);
    });
    from.on("error", () => undefined);
    from.on("close", () => {
      to.destroy();
      this.#connections.delete(connection);
    });
  }
}
