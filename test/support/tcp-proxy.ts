import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Address } from "./redis-lab.js";

/** From the client to the server, or back. */
export type Direction = "requests" | "replies";

/** Sends bytes on: to the server for requests, to the client for replies. */
export type Send = (bytes: Buffer) => void;

/** Sees all bytes of one connection, and decides what is sent on, and when. */
export type Filter = Record<Direction, Send>;

interface Connection {
  readonly client: Socket;
  readonly server: Socket;
  /** Bytes that are held back, by direction. */
  readonly held: Record<Direction, Buffer[]>;
  readonly filter: Filter;
  /** Whether bytes of it have disappeared, so that it is of no use any more. */
  hasLostBytes: boolean;
}

/**
 * A bad network between clients and a server: it can be slow, be down, drop its connections,
 * swallow bytes, or hold them back and deliver them later. A filter can act on single commands.
 */
export class TcpProxy implements Address {
  readonly host = "127.0.0.1";
  /** Delay in each direction, in milliseconds. */
  latencyMs = 0;
  /** Whether new connections are accepted. */
  isUp = true;
  #isHole = false;
  #target: Address;
  readonly #filterOf: (send: Filter) => Filter;
  readonly #listener: Server;
  readonly #connections = new Set<Connection>();
  readonly #heldDirections = new Set<Direction>();
  /** The text in a request that starts the holding of a direction. */
  readonly #triggers = new Map<Direction, string>();

  private constructor(target: Address, listener: Server, filterOf: (send: Filter) => Filter) {
    this.#target = target;
    this.#listener = listener;
    this.#filterOf = filterOf;
    listener.on("connection", (client) => this.#accept(client));
  }

  /**
   * Starts a proxy in front of `target`. `filterOf` creates the filter of a connection, given the
   * functions with which it sends. Default: all bytes are sent on.
   */
  static async before(target: Address, filterOf: (send: Filter) => Filter = (send) => send): Promise<TcpProxy> {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    return new TcpProxy(target, listener, filterOf);
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
    for (const connection of this.#connections) this.#drop(connection);
  }

  /** Swallows all bytes without closing a connection, as a firewall that drops packets does. */
  openHole(): void {
    this.#isHole = true;
  }

  /** Lets bytes pass again, and closes the connections that have lost some. */
  closeHole(): void {
    this.#isHole = false;
    for (const connection of this.#connections) if (connection.hasLostBytes) this.#drop(connection);
  }

  /**
   * Holds back all bytes in `direction`, starting with the next request that contains `trigger`, or
   * at once.
   */
  hold(direction: Direction, trigger?: string): void {
    if (trigger === undefined) this.#heldDirections.add(direction);
    else this.#triggers.set(direction, trigger);
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
      for (const bytes of connection.held[direction].splice(0)) connection.filter[direction](bytes);
    }
  }

  async close(): Promise<void> {
    this.cut();
    this.#listener.close();
    await once(this.#listener, "close");
  }

  #drop(connection: Connection): void {
    connection.client.destroy();
    connection.server.destroy();
    this.#connections.delete(connection);
  }

  #accept(client: Socket): void {
    if (!this.isUp) return void client.destroy();
    const server = connect(this.#target.port, this.#target.host);
    const filter = this.#filterOf({
      requests: (bytes) => void (server.destroyed || server.write(bytes)),
      replies: (bytes) => void (client.destroyed || client.write(bytes)),
    });
    const held = { requests: [], replies: [] };
    const connection: Connection = { client, server, held, filter, hasLostBytes: false };
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
      if (this.#isHole) connection.hasLostBytes = true;
      else if (this.#heldDirections.has(direction)) connection.held[direction].push(bytes);
      else connection.filter[direction](bytes);
    };
    // Bytes stay in their order, also when the delay becomes shorter.
    const delayed: Buffer[] = [];
    from.setNoDelay(true);
    from.on("data", (bytes: Buffer) => {
      if (this.latencyMs === 0 && delayed.length === 0) return forward(bytes);
      delayed.push(bytes);
      setTimeout(() => forward(delayed.shift() as Buffer), this.latencyMs);
    });
    from.on("error", () => undefined);
    from.on("close", () => {
      to.destroy();
      this.#connections.delete(connection);
    });
  }
}
