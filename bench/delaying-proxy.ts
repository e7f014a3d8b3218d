import type { Socket } from "node:net";
import { RedisProxy } from "./redis-proxy.js";

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
  readonly #delayMs: number;
  readonly #queue: Delayed[] = [];
  #proxy: RedisProxy | undefined;
  #isPolling = false;

  private constructor(delayMs: number) {
    this.#delayMs = delayMs;
  }

  static async start(redisPort: number, delayMs: number): Promise<DelayingProxy> {
    const delaying = new DelayingProxy(delayMs);
    delaying.#proxy = await RedisProxy.start(redisPort, (client, redis) => delaying.#connect(client, redis));
    return delaying;
  }

  get port(): number {
    return (this.#proxy as RedisProxy).port;
  }

  async stop(): Promise<void> {
    await this.#proxy?.stop();
  }

  #connect(client: Socket, redis: Socket): void {
    client.on("data", (bytes) => redis.write(bytes));
    redis.on("data", (bytes) => {
      this.#queue.push({ dueAt: performance.now() + this.#delayMs, socket: client, bytes });
      if (!this.#isPolling) setImmediate(this.#poll);
      this.#isPolling = true;
    });
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
