import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { instantMs } from "./instant.js";

/** A way to Redis that counts commands and round trips: what a client sends after it has heard something is a new trip. */
export class TripCounter {
  readonly port: number;
  readonly #server: ReturnType<typeof createServer>;
  readonly #sockets = new Set<Socket>();
  #repliedAt: (number | undefined)[] = [];
  #commands = 0;

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

  /** Forgets what was counted so far. */
  reset(): void {
    this.#repliedAt = [];
    this.#commands = 0;
  }

  /** How many trips had their reply by `instant`, on the clock of `instantMs`. */
  repliedBy(instant: number): number {
    return this.#repliedAt.filter((at) => at !== undefined && at <= instant).length;
  }

  get commands(): number {
    return this.#commands;
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
    let unread: Buffer = Buffer.alloc(0);
    client.on("data", (chunk: Buffer) => {
      if (!isAsking || trips !== this.#repliedAt) {
        trips = this.#repliedAt;
        trip = trips.push(undefined) - 1;
        isAsking = true;
      }
      redis.write(chunk);
      unread = Buffer.concat([unread, chunk]);
      for (let end = commandEnd(unread); end > 0; end = commandEnd(unread)) {
        this.#commands++;
        unread = unread.subarray(end);
      }
    });
    redis.on("data", (chunk: Buffer) => {
      // A message that nobody asked for answers no trip.
      if (isAsking) trips[trip] = instantMs();
      isAsking = false;
      client.write(chunk);
    });
    client.on("close", () => redis.destroy());
    redis.on("close", () => client.destroy());
  }
}

/** Where the first command in `bytes`, an array of strings, ends; 0 if it is not there in full. Source: the Redis serialization protocol. */
function commandEnd(bytes: Buffer): number {
  let at = 0;
  const readLength = (): number => {
    const end = bytes.indexOf("\r\n", at);
    if (end < 0) return -1;
    const length = Number(bytes.toString("latin1", at + 1, end));
    at = end + 2;
    return length;
  };
  for (let left = readLength(); left > 0; left--) {
    const length = readLength();
    at += length + 2;
    if (length < 0 || at > bytes.length) return 0;
  }
  return at;
}
