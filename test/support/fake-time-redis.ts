import type { FakeClock } from "@graphql-cached/testing";
import type { Redis } from "ioredis";
import { acquire } from "../../src/stores/redis/scripts/acquire.js";
import { appendClock } from "../../src/stores/redis/scripts/append-clock.js";
import { raiseClock } from "../../src/stores/redis/scripts/raise-clock.js";
import { release } from "../../src/stores/redis/scripts/release.js";
import { remove } from "../../src/stores/redis/scripts/remove.js";
import { renew } from "../../src/stores/redis/scripts/renew.js";
import { storeValues } from "../../src/stores/redis/scripts/store-values.js";

const SCRIPTS = [...[acquire, storeValues, renew, release, remove], ...[appendClock, raiseClock]];
const TIME = "redis.call('TIME')";

type Argument = string | Buffer | number;

/**
 * A client of a real Redis whose scripts take their time from a clock that the test advances. The
 * scripts are otherwise unchanged. Keys expire by that clock too, whenever the test calls `expire`.
 */
export class FakeTimeRedis {
  readonly options = {};
  readonly status = "ready";
  readonly #client: Redis;
  readonly #clock: FakeClock;
  /** All script calls so far, in order. */
  readonly sent: Argument[][] = [];
  /** When each key expires on the test's clock. Keys without a ttl are not listed. */
  readonly #dropAt = new Map<string, number>();
  #runs = 0;

  constructor(client: Redis, clock: FakeClock) {
    this.#client = client;
    this.#clock = clock;
  }

  pipeline(): { callBuffer(name: string, args: Argument[]): never; exec(): Promise<[Error | null, unknown][]> } {
    const commands: { name: string; args: Argument[] }[] = [];
    const pipeline = {
      callBuffer: (name: string, args: Argument[]) => {
        commands.push({ name, args });
        return pipeline as never;
      },
      exec: async () => {
        const replies: [Error | null, unknown][] = [];
        for (const { name, args } of commands) {
          try {
            replies.push([null, await this.#call(name, args)]);
          } catch (error) {
            replies.push([error as Error, undefined]);
          }
        }
        return replies;
      },
    };
    return pipeline;
  }

  callBuffer(name: string, ...args: Argument[]): Promise<unknown> {
    return this.#call(name, args);
  }

  mgetBuffer(...keys: string[]): Promise<unknown> {
    return this.#call("mget", keys);
  }

  duplicate(): unknown {
    return { on: () => undefined, subscribe: () => Promise.resolve(), disconnect: () => undefined };
  }

  on(): void {}

  off(): void {}

  /** Carries script calls out again, as a client does that resends what got no reply. */
  async resend(calls: readonly Argument[][]): Promise<void> {
    for (const args of calls) await this.#run(args);
  }

  /** Deletes the keys that have expired on the test's clock. */
  async expire(): Promise<void> {
    for (const [key, dropAt] of this.#dropAt)
      if (dropAt <= this.#clock.now()) {
        await this.#client.del(key);
        this.#dropAt.delete(key);
      }
  }

  async #call(name: string, args: Argument[]): Promise<unknown> {
    const now = this.#clock.now();
    if (name === "time") return [Buffer.from(String(Math.floor(now / 1000))), Buffer.from(String((now % 1000) * 1000))];
    if (name !== "evalsha") return this.#client.callBuffer(name, args);
    this.sent.push(args);
    return this.#run(args);
  }

  async #run(args: Argument[]): Promise<unknown> {
    const now = this.#clock.now();
    const [sha, count, ...rest] = args;
    const lua = SCRIPTS.find((script) => script.sha === sha)?.lua;
    if (lua === undefined || !lua.includes(TIME))
      throw new Error("FakeTimeRedis: expected one of the scripts in SCRIPTS, got another; add it to the list");
    // A server runs no two scripts in one microsecond, not even those of a command that is sent again.
    this.#runs++;
    const micros = (now % 1000) * 1000 + (this.#runs % 1000);
    const luaWithFakeTime = lua.replace(TIME, `{ ${Math.floor(now / 1000)}, ${micros} }`);
    const keys = rest.slice(0, Number(count)).map(String);
    // Scripts read the remaining ttl, so the server's ttl is set to the one on the test's clock
    // first.
    for (const key of keys) await this.#setServerTtl(key, now);
    const reply = await this.#client.callBuffer("eval", [luaWithFakeTime, count as number, ...rest]);
    for (const key of keys) {
      const ttlMs = await this.#client.pttl(key);
      if (ttlMs >= 0) this.#dropAt.set(key, now + roundUp(ttlMs));
      else this.#dropAt.delete(key);
    }
    return reply;
  }

  async #setServerTtl(key: string, now: number): Promise<void> {
    const dropAt = this.#dropAt.get(key);
    if (dropAt !== undefined) await this.#client.pexpire(key, dropAt - now);
  }
}

/**
 * All durations in a schedule are multiples of 500 ms. Rounding up compensates for the real time
 * that has passed.
 */
const roundUp = (ttlMs: number): number => Math.ceil(ttlMs / 500) * 500;
