import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { instantMs } from "./instant.js";

/** A TCP proxy to Redis that counts commands and round trips. Data that a client sends after a reply starts a new round trip. */
export class RoundTripCounter {
  readonly port: number;
  readonly #server: ReturnType<typeof createServer>;
  readonly #sockets = new Set<Socket>();
  #repliedAt: (number | undefined)[] = [];
  #commands = 0;

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
  }

  /** Starts a proxy in front of a Redis port. */
  static async start(redisPort: number): Promise<RoundTripCounter> {
    const server = createServer({ noDelay: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const counter = new RoundTripCounter(server);
    server.on("connection", (client) => counter.#proxy(client, redisPort));
    return counter;
  }

  /** Resets all counts. */
  reset(): void {
    this.#repliedAt = [];
    this.#commands = 0;
  }

  /** Returns how many round trips had completed by `instant`, on the clock of `instantMs`. */
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

  #proxy(client: Socket, redisPort: number): void {
    const redis = connect({ port: redisPort, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, redis]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
    }
    let roundTrips = this.#repliedAt;
    let roundTrip = -1;
    let isRequestPending = false;
    let unread: Buffer = Buffer.alloc(0);
    client.on("data", (chunk: Buffer) => {
      if (!isRequestPending || roundTrips !== this.#repliedAt) {
        roundTrips = this.#repliedAt;
        roundTrip = roundTrips.push(undefined) - 1;
        isRequestPending = true;
      }
      redis.write(chunk);
      unread = Buffer.concat([unread, chunk]);
      for (let end = commandEnd(unread); end > 0; end = commandEnd(unread)) {
        this.#commands++;
        unread = unread.subarray(end);
      }
    });
    redis.on("data", (chunk: Buffer) => {
      // A pushed message completes no round trip.
      if (isRequestPending) roundTrips[roundTrip] = instantMs();
      isRequestPending = false;
      client.write(chunk);
    });
    client.on("close", () => redis.destroy());
    redis.on("close", () => client.destroy());
  }
}

/** Returns the end of the first command (an array of bulk strings) in `bytes`, or 0 if it is incomplete. Source: the Redis serialization protocol. */
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
