import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { instantMs } from "./instant.js";

/** A way to Redis that counts round trips: what a client sends after it has heard something is a new one. */
export class TripCounter {
  readonly port: number;
  readonly #server: ReturnType<typeof createServer>;
  readonly #sockets = new Set<Socket>();
  #repliedAt: (number | undefined)[] = [];

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
  }

  static async before(redisPort: number): Promise<TripCounter> {
    const server = createServer({ noDelay: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const counter = new TripCounter(server);
    server.on("connection", (client) => counter.#pass(client, redisPort));
    return counter;
  }

  /** Forgets the trips so far. */
  reset(): void {
    this.#repliedAt = [];
  }

  /** How many trips had their reply by `instant`, on the clock of `instantMs`. */
  repliedBy(instant: number): number {
    return this.#repliedAt.filter((at) => at !== undefined && at <= instant).length;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(client: Socket, redisPort: number): void {
    const redis = connect({ port: redisPort, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, redis]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
    }
    let trips = this.#repliedAt;
    let trip = -1;
    let isAsking = false;
    client.on("data", (chunk) => {
      if (!isAsking || trips !== this.#repliedAt) {
        trips = this.#repliedAt;
        trip = trips.push(undefined) - 1;
        isAsking = true;
      }
      redis.write(chunk);
    });
    redis.on("data", (chunk) => {
      // A message that nobody asked for answers no trip.
      if (isAsking) trips[trip] = instantMs();
      isAsking = false;
      client.write(chunk);
    });
    client.on("close", () => redis.destroy());
    redis.on("close", () => client.destroy());
  }
}
