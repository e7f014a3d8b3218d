import { FakeClock, settle } from "@graphql-cached/testing";
import { type IoredisClient, type RedisPipeline, redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { appendToClock, writeRecord } from "../../../src/core/store/clock-log.js";
import { appendClock } from "../../../src/stores/redis/scripts/append-clock.js";

/** A client whose pipelines reply with `replies`. */
function clientWith(...replies: readonly unknown[]): IoredisClient {
  const pipeline: RedisPipeline = {
    callBuffer: () => pipeline,
    exec: async () => replies.map((reply) => (reply instanceof Error ? [reply, undefined] : [null, reply])),
  };
  return {
    options: {},
    status: "ready",
    pipeline: () => pipeline,
    callBuffer: async () => replies[0],
    mgetBuffer: async () => replies[0],
    duplicate: () => undefined,
    on: () => undefined,
    off: () => undefined,
  };
}

const TIMES = { leaseMs: 1_000, graceMs: 0, patienceMs: 0 };

describe("redisStore with failing calls", () => {
  it("counts a lease as held if its renewal got no reply", async () => {
    // Each call holds 50 keys.
    const holds = Array.from({ length: 60 }, (_, nth) => ({ key: `k${nth}`, token: "t".repeat(16) }));
    const renewed = Array.from({ length: 50 }, (_, nth) => (nth === 7 ? 0 : 1));
    const store = redisStore({ client: clientWith(renewed, new Error("CLUSTERDOWN Hash slot not served")) });
    const isHeld = await store.renew(holds, TIMES);
    expect(isHeld.flatMap((held, index) => (held ? [] : [index]))).toEqual([7]);
  });

  it("rejects a renewal if every call failed", async () => {
    const store = redisStore({ client: clientWith(new Error("LOADING Redis is loading the dataset in memory")) });
    await expect(store.renew([{ key: "k", token: "t".repeat(16) }], TIMES)).rejects.toThrow("LOADING");
  });

  it("rejects the removal of keys if one of its calls failed", async () => {
    const keys = Array.from({ length: 60 }, (_, nth) => `k${nth}`);
    const failure = new Error("CLUSTERDOWN Hash slot not served");
    for (const failing of [0, 1]) {
      const sent: (readonly unknown[])[] = [];
      const pipeline: RedisPipeline = {
        callBuffer: (_name, args) => {
          sent.push(args);
          return pipeline;
        },
        exec: async () => sent.map((args, nth) => (nth === failing ? [failure, undefined] : [null, args.at(-1)])),
      };
      const store = redisStore({ client: { ...clientWith(), pipeline: () => pipeline } });
      await expect(store.remove(keys)).rejects.toThrow("CLUSTERDOWN");
    }
  });
});

describe("redisStore.acquire", () => {
  it("gives each key of a request a token of its own", async () => {
    const tokens: string[] = [];
    let calls = 0;
    const pipeline: RedisPipeline = {
      callBuffer: (_command, args) => {
        calls++;
        // Of each key, two numbers with the token between them.
        const values = args.at(-1) as Buffer;
        for (let at = 8; at < values.length; at += 32) tokens.push(values.toString("hex", at, at + 16));
        return pipeline;
      },
      exec: async () => Array.from({ length: calls }, () => [null, []]),
    };
    const store = redisStore({ client: { ...clientWith(), pipeline: () => pipeline } });
    const requests = Array.from({ length: 120 }, (_, nth) => ({
      key: `k${nth}`,
      oldestPosition: 0,
      supersededAt: 0,
    }));
    await store.acquire(requests, TIMES, { epoch: "an epoch", position: 1 }).catch(() => undefined);
    expect(calls).toBe(3);
    expect(new Set(tokens).size).toBe(120);
    for (const token of tokens) expect(token).toMatch(/^[0-9a-f]{32}$/);
  });
});

describe("redisStore.appendClock", () => {
  it("appends all records in one command, whose reply has to be a head that ends with the last of them", async () => {
    const sent: (readonly unknown[])[] = [];
    const records = [1, 2].map((subject) => writeRecord({ kind: "hard", subjects: [subject] }));
    const { head } = appendToClock(undefined, records, 1_000, 10_000);
    const callBuffer = async (_name: string, ...args: unknown[]) => {
      sent.push(args);
      return head;
    };
    const store = redisStore({ client: { ...clientWith(), callBuffer } });
    expect(await store.appendClock(records)).toBe(head);
    expect(sent.map(([sha]) => sha)).toEqual([appendClock.sha]);
    expect(sent[0]?.slice(-2)).toEqual(records);
    const message = "append-clock: expected the head of the invalidation clock, got another reply";
    await expect(store.appendClock(records.slice(0, 1))).rejects.toThrow(message);
  });
});

describe("a redisStore whose client mixes up replies", () => {
  const REPLIES: readonly (readonly [string, unknown])[] = [
    ["a number", 1],
    ["a status", Buffer.from("OK")],
    ["null", null],
    ["the reply of MGET", [null]],
    ["the reply to another call", Buffer.from("12345678")],
  ];
  const storeWith = (reply: unknown): Store => {
    let calls = 0;
    const pipeline: RedisPipeline = {
      callBuffer: () => {
        calls++;
        return pipeline;
      },
      exec: async () => Array.from({ length: calls }, () => [null, reply]),
    };
    const client = { ...clientWith(), callBuffer: async () => reply, pipeline: () => pipeline };
    const store = redisStore({ client: { ...client, duplicate: () => ({ on: () => undefined }) } as never });
    store.open({ wakeChannel: "wake", reports: "reports", clock: "clock" }, { wake: () => undefined });
    return store;
  };

  it.each(REPLIES)("confirms nothing by %s", async (_, reply) => {
    const message = "expected the reply to this call, got another one from the client";
    const store = storeWith(reply);
    await expect(store.remove(["k"], { soft: true })).rejects.toThrow(message);
    const invalidation = writeRecord({ kind: "hard", subjects: [1] });
    const other = "append-clock: expected the head of the invalidation clock, got another reply";
    for (const records of [[], [invalidation]]) await expect(store.appendClock(records)).rejects.toThrow(other);
  });
});

describe("redisStore.read", () => {
  it("counts the server's time from before it was requested, so that a busy process serves nothing beyond its age", async () => {
    const clock = new FakeClock();
    const client = clientWith([Buffer.from("1000"), Buffer.from("0")], [null]);
    const pipeline = client.pipeline();
    const exec = async () => {
      const replies = await pipeline.exec();
      // The replies have arrived, but the process is busy for three seconds before it reads them.
      await clock.advance(3_000);
      return replies;
    };
    const busyClient = { ...client, pipeline: (): RedisPipeline => ({ callBuffer: () => busyPipeline, exec }) };
    const busyPipeline = busyClient.pipeline();
    const { readings } = await redisStore({ client: busyClient, clock }).read(["k"]);
    expect(readings).toEqual([{ kind: "read", entry: undefined, now: 1_003_000 }]);
  });
});

describe("redisStore.open", () => {
  it("refuses caches with different prefixes, whose wake-up messages have different channels", () => {
    const subscriber = { on: () => undefined, subscribe: async () => undefined, disconnect: () => undefined };
    const store = redisStore({ client: { ...clientWith(), duplicate: () => subscriber } });
    const open = (wakeChannel: string) => () =>
      store.open({ wakeChannel, reports: "reports", clock: "clock" }, { wake: () => undefined });
    expect(open("a")).not.toThrow();
    expect(open("a")).not.toThrow();
    expect(open("b")).toThrow("createCache: `store`: expected a store that no cache with another `prefix` uses");
  });

  it("makes every waiter check its key after each connection of the subscriber, since messages may have been lost", async () => {
    const woken: unknown[] = [];
    const listeners = new Map<string, () => void>();
    const subscriber = {
      on: (event: string, listener: () => void) => void listeners.set(event, listener),
      subscribe: async () => undefined,
      disconnect: () => undefined,
    };
    const store = redisStore({ client: { ...clientWith(), duplicate: () => subscriber } });
    store.open(
      { wakeChannel: "wake", reports: "reports", clock: "clock" },
      {
        wake: (...event) => woken.push(event),
      },
    );
    for (const connection of [1, 2]) {
      listeners.get("ready")?.();
      await settle();
      expect(woken).toEqual(Array(connection).fill([undefined, undefined, undefined]));
    }
  });

  it("ignores messages on the wake-up channel that it did not send", () => {
    const woken: unknown[] = [];
    let receive = (_channel: Buffer, _message: Buffer): void => undefined;
    const subscriber = {
      on: (event: string, listener: never) => {
        if (event === "messageBuffer") receive = listener;
      },
      subscribe: async () => undefined,
      disconnect: () => undefined,
    };
    const store = redisStore({ client: { ...clientWith(), duplicate: () => subscriber } });
    store.open(
      { wakeChannel: "wake", reports: "reports", clock: "clock" },
      {
        wake: (...event) => woken.push(event),
      },
    );
    const length = (bytes: number): Buffer => Buffer.from([bytes, 0]);
    const foreign = [
      Buffer.alloc(0),
      Buffer.from("x"),
      Buffer.from("hello"),
      Buffer.concat([length(200), Buffer.alloc(16), Buffer.from("key")]),
      Buffer.alloc(17),
    ];
    for (const message of foreign) expect(() => receive(Buffer.from("wake"), message)).not.toThrow();
    expect(woken).toEqual([]);
    receive(Buffer.from("wake"), Buffer.concat([length(3), Buffer.from("g".repeat(16)), Buffer.from("key")]));
    expect(woken).toEqual([["key", undefined, "g".repeat(16)]]);
  });
});
