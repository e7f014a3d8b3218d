import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

interface Delayed {
  readonly dueAt: number;
  readonly socket: Socket;
  readonly bytes: Buffer;
}

/**
 * A TCP proxy to Redis that delays replies, as a network of that round-trip time does. Works below a millisecond, which timers do
 * not: while replies wait, it looks at the time in every turn of the event loop, and so needs a core of its own.
 */
export class DelayingProxy {
  readonly port: number;
  readonly #server: Server;
  readonly #delayMs: number;
  readonly #sockets = new Set<Socket>();
  readonly #queue: Delayed[] = [];
  #isPolling = false;

  private constructor(server: Server, delayMs: number) {
    this.#server = server;
    this.#delayMs = delayMs;
    this.port = (server.address() as AddressInfo).port;
  }

  static async start(redisPort: number, delayMs: number): Promise<DelayingProxy> {
    const server = createServer({ noDelay: true }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new DelayingProxy(server, delayMs);
    server.on("connection", (client) => proxy.#proxy(client, redisPort));
    return proxy;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #proxy(client: Socket, redisPort: number): void {
    const redis = connect({ port: redisPort, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, redis]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
    }
    client.on("data", (bytes) => redis.write(bytes));
    redis.on("data", (bytes) => {
      this.#queue.push({ dueAt: performance.now() + this.#delayMs, socket: client, bytes });
      if (!this.#isPolling) setImmediate(this.#poll);
      this.#isPolling = true;
    });
    client.on("close", () => redis.destroy());
    redis.on("close", () => client.destroy());
  }

  readonly #poll = (): void => {
    const now = performance.now();
    for (let [next] = this.#queue; next !== undefined && next.dueAt <= now; [next] = this.#queue) {
      this.#queue.shift();
      next.socket.write(next.bytes);
    }
    this.#isPolling = this.#queue.length > 0;
    if (this.#isPolling) setImmediate(this.#poll);
  };
}
