import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RedisFaults } from "../support/redis-faults.js";
import { RedisFrames, stringsOf } from "../support/redis-frames.js";
import { until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { TcpProxy } from "../support/tcp-proxy.js";

const server = await sharedServer("redisStandalone");
let direct: Redis;
let client: Redis;
let proxy: TcpProxy;
let faults: RedisFaults;
let key: string;

for (const protocol of [2, 3] as const)
  describe(`A proxy that changes single commands and messages of RESP${protocol}`, () => {
    beforeEach(async () => {
      key = `redis-faults-${Math.random()}`;
      faults = new RedisFaults();
      proxy = await TcpProxy.before(server, faults.filter);
      direct = new Redis(server);
      client = new Redis({ host: proxy.host, port: proxy.port, protocol });
      await client.ping();
    });
    afterEach(async () => {
      client.disconnect();
      await direct.del(key);
      direct.disconnect();
      await proxy.close();
    });

    const sendAll = (): Promise<string[]> =>
      Promise.all(
        ["a", "b", "c"].map((value) => client.append(key, value).then(String, (error: Error) => error.message)),
      );
    const changeB = (fault: ReturnType<RedisFaults["onCommand"]>): void => {
      faults.onCommand = ({ name, args }) => (name === "APPEND" && args[1]?.toString() === "b" ? fault : undefined);
    };
    const expectValue = (value: string): Promise<void> =>
      until(`the value is ${value}`, async () => (await direct.get(key)) === value);

    it("sends everything on unchanged without a fault", async () => {
      expect(await sendAll()).toEqual(["1", "2", "3"]);
      expect(await client.mget(key, `${key}:absent`)).toEqual(["abc", null]);
      expect(await client.hgetall(`${key}:absent`)).toEqual({});
      await expect(client.call("NO-SUCH-COMMAND")).rejects.toThrow("unknown command");
      const large = "x".repeat(300_000);
      await client.set(key, large);
      expect(await client.get(key)).toBe(large);
      expect(faults.count).toBe(0);
    });

    it("delays a command and keeps the replies in order", async () => {
      changeB({ kind: "delay", ms: 20 });
      expect(await sendAll()).toEqual(["1", "3", "2"]);
      await expectValue("acb");
    });

    it("lets a command arrive after the client has got an error", async () => {
      changeB({ kind: "late", ms: 20 });
      expect(await sendAll()).toEqual(["1", "ERR lost by the test's proxy", "2"]);
      await expectValue("acb");
    });

    it("repeats a command later and swallows its second reply", async () => {
      changeB({ kind: "repeat", ms: 20 });
      expect(await sendAll()).toEqual(["1", "2", "3"]);
      await expectValue("abcb");
      expect(await client.get(key)).toBe("abcb");
    });

    it("drops a command", async () => {
      changeB({ kind: "drop" });
      expect(await sendAll()).toEqual(["1", "ERR lost by the test's proxy", "2"]);
      await expectValue("ac");
    });

    it("loses the reply of a command that was run", async () => {
      changeB({ kind: "lose-reply" });
      expect(await sendAll()).toEqual(["1", "ERR lost by the test's proxy", "3"]);
      await expectValue("abc");
      expect(faults.count).toBe(1);
    });

    it("delays, repeats and drops messages", async () => {
      const received: string[] = [];
      const subscriber = client.duplicate();
      try {
        subscriber.on("message", (_channel, message) => received.push(message));
        await subscriber.subscribe(key);
        const byPayload = {
          late: { kind: "delay", after: 200 },
          twice: { kind: "repeat", after: 600 },
          lost: { kind: "drop" },
        } as const;
        faults.onMessage = (payload) => byPayload[payload.toString() as keyof typeof byPayload];
        const messages = direct.pipeline();
        for (const message of ["late", "lost", "twice", "plain"]) messages.publish(key, message);
        await messages.exec();
        await until("all messages have arrived", () => received.length === 4);
        expect(received).toEqual(["twice", "plain", "late", "twice"]);
      } finally {
        subscriber.disconnect();
      }
    });

    it("swallows bytes while there is a hole, and closes the connections that have lost some", async () => {
      proxy.openHole();
      const lost = client.append(key, "a");
      const closed = new Promise((resolve) => client.once("close", resolve));
      await new Promise((resolve) => setImmediate(resolve));
      expect(await direct.exists(key)).toBe(0);
      proxy.closeHole();
      await closed;
      expect(await lost).toBe(1); // Sent again by the client after the reconnect.
    });
  });

describe("RedisFrames", () => {
  it("finds the frames of a stream, however it is cut", () => {
    const frames = [
      "+OK\r\n",
      "$3\r\na\r\n\r\n",
      "*2\r\n$-1\r\n*1\r\n:1\r\n",
      "%1\r\n+a\r\n,1.5\r\n",
      "_\r\n",
      ">1\r\n$0\r\n\r\n",
    ];
    const stream = Buffer.from(frames.join(""));
    for (let size = 1; size <= stream.length; size++) {
      const parser = new RedisFrames();
      const found: string[] = [];
      for (let at = 0; at < stream.length; at += size)
        found.push(...parser.append(stream.subarray(at, at + size)).map(String));
      expect(found).toEqual(frames);
    }
  });

  it("returns the strings of a command", () => {
    expect(stringsOf(Buffer.from("*3\r\n$3\r\nSET\r\n$2\r\n\r\n\r\n$0\r\n\r\n")).map(String)).toEqual([
      "SET",
      "\r\n",
      "",
    ]);
  });
});
