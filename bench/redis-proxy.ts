import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** Connects a client to Redis: what passes between the two is up to it. */
type Connect = (client: Socket, redis: Socket) => void;

/** A TCP proxy to Redis. */
export class RedisProxy {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
  }

  static async start(redisPort: number, connectTo: Connect): Promise<RedisProxy> {
    const server = createServer({ noDelay: true }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new RedisProxy(server);
    server.on("connection", (client) => proxy.#accept(client, redisPort, connectTo));
    return proxy;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(client: Socket, redisPort: number, connectTo: Connect): void {
    const redis = connect({ port: redisPort, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, redis]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
    }
    connectTo(client, redis);
    client.on("close", () => redis.destroy());
    redis.on("close", () => client.destroy());
  }
}
