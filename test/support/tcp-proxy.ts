import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Address } from "./redis-lab.js";

/** Which way bytes go: what a client asks, or what its server answers. */
export type Way = "requests" | "replies";

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** What has not been passed on yet, each way. */
  readonly kept: Record<Way, Buffer[]>;
}

/** A bad network between clients and a server: slow, cut, or one that delivers late what it was given in time. */
export class TcpProxy implements Address {
  readonly host = "127.0.0.1";
  /** How long bytes travel, each way. */
  latencyMs = 0;
  /** Whether new connections are taken. */
  isUp = true;
  #target: Address;
  readonly #listener: Server;
  readonly #pairs = new Set<Pair>();
  readonly #held = new Set<Way>();
  readonly #marks = new Map<Way, string>();

  private constructor(target: Address, listener: Server) {
    this.#target = target;
    this.#listener = listener;
    listener.on("connection", (client) => this.#join(client));
  }

  static async before(target: Address): Promise<TcpProxy> {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    return new TcpProxy(target, listener);
  }

  get port(): number {
    return (this.#listener.address() as { port: number }).port;
  }

  /** New connections go there; those that stand stay where they are. */
  pointTo(target: Address): void {
    this.#target = target;
  }

  /** Ends every connection, and forgets what was under way. */
  cut(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
    this.#pairs.clear();
  }

  /** Bytes that go this way wait, from the next request on in which `mark` stands. */
  hold(way: Way, mark: string): void {
    this.#marks.set(way, mark);
  }

  /** How many bytes wait. */
  waiting(way: Way): number {
    return [...this.#pairs].reduce((sum, { kept }) => sum + Buffer.concat(kept[way]).length, 0);
  }

  /** Delivers what waited, and lets the rest through. */
  deliver(way: Way): void {
    this.#held.delete(way);
    this.#marks.delete(way);
    for (const pair of this.#pairs) {
      const to = way === "requests" ? pair.server : pair.client;
      for (const bytes of pair.kept[way].splice(0)) to.write(bytes);
    }
  }

  async close(): Promise<void> {
    this.cut();
    this.#listener.close();
    await once(this.#listener, "close");
  }

  #join(client: Socket): void {
    if (!this.isUp) return void client.destroy();
    const server = connect(this.#target.port, this.#target.host);
    const pair: Pair = { client, server, kept: { requests: [], replies: [] } };
    this.#pairs.add(pair);
    this.#pass(pair, "requests", client, server);
    this.#pass(pair, "replies", server, client);
  }

  #mark(request: Buffer): void {
    for (const [way, mark] of this.#marks) if (request.includes(mark)) this.#held.add(way);
  }

  #pass(pair: Pair, way: Way, from: Socket, to: Socket): void {
    const pass = (bytes: Buffer): void => {
      if (way === "requests") this.#mark(bytes);
      if (this.#held.has(way)) pair.kept[way].push(bytes);
      else if (!to.destroyed) to.write(bytes);
    };
    from.setNoDelay(true);
    from.on("data", (bytes: Buffer) => {
      if (this.latencyMs === 0) pass(bytes);
      else setTimeout(pass, this.latencyMs, bytes);
    });
    from.on("error", () => undefined);
    from.on("close", () => {
      to.destroy();
      this.#pairs.delete(pair);
    });
  }
}
