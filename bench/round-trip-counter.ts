import type { Socket } from "node:net";
import { instantMs } from "./instant.js";
import { RedisProxy } from "./redis-proxy.js";

/** A TCP proxy to Redis that counts commands and round trips. Data that a client sends after a reply starts a new round trip. */
export class RoundTripCounter {
  #proxy: RedisProxy | undefined;
  #repliedAt: (number | undefined)[] = [];
  #commands = 0;

  /** Starts a proxy in front of a Redis port. */
  static async start(redisPort: number): Promise<RoundTripCounter> {
    const counter = new RoundTripCounter();
    counter.#proxy = await RedisProxy.start(redisPort, (client, redis) => counter.#connect(client, redis));
    return counter;
  }

  get port(): number {
    return (this.#proxy as RedisProxy).port;
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
    await this.#proxy?.stop();
  }

  #connect(client: Socket, redis: Socket): void {
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
