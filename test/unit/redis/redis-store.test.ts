import { type RedisClient, type RedisPipeline, redisStore } from "graphql-cached/redis";
import { describe, expect, it } from "vitest";

/** A client whose server answers the calls of one trip in turn with these. */
function clientWith(...replies: readonly unknown[]): RedisClient {
  const pipeline: RedisPipeline = {
    callBuffer: () => pipeline,
    exec: async () => replies.map((reply) => (reply instanceof Error ? [reply, undefined] : [null, reply])),
  };
  return {
    options: {},
    status: "ready",
    pipeline: () => pipeline,
    callBuffer: async () => replies[0],
    duplicate: () => undefined,
    on: () => undefined,
    off: () => undefined,
  };
}

const TIMES = { leaseMs: 1_000, graceMs: 0, patienceMs: 0 };

describe("a redis store that gets half an answer", () => {
  it("takes no lease for lost that it could not ask about", async () => {
    // Fifty keys go in a call.
    const holds = Array.from({ length: 60 }, (_, nth) => ({ key: `k${nth}`, token: "t".repeat(16) }));
    const answers = Array.from({ length: 50 }, (_, nth) => (nth === 7 ? 0 : 1));
    const store = redisStore({ client: clientWith(answers, new Error("CLUSTERDOWN Hash slot not served")) });
    const isHeld = await store.renew(holds, TIMES);
    expect(isHeld.flatMap((held, index) => (held ? [] : [index]))).toEqual([7]);
  });

  it("rejects only if it got none", async () => {
    const store = redisStore({ client: clientWith(new Error("LOADING Redis is loading the dataset in memory")) });
    await expect(store.renew([{ key: "k", token: "t".repeat(16) }], TIMES)).rejects.toThrow("LOADING");
  });
});

describe("an invalidation of tags", () => {
  it("is one trip where one server has the record and the tags", async () => {
    const client = clientWith([Buffer.from("12345678"), Buffer.from("7")], 1);
    let trips = 0;
    const counted = { ...client, pipeline: () => (trips++, client.pipeline()) };
    await redisStore({ client: counted }).invalidateTags(["a", "b"], 1_000);
    expect(trips).toBe(1);
  });

  it("is made again, the record first, where a script was not known: in the wrong order a fill could slip through", async () => {
    const noScript = new Error("NOSCRIPT No matching script");
    const client = clientWith(noScript, 1);
    const sent: string[] = [];
    const spied = {
      ...client,
      callBuffer: async (_name: string, ...args: unknown[]) => {
        sent.push(/graphql-cached (\S+)/.exec(String(args[0]))?.[1] ?? "by hash");
        return sent.at(-1) === "by hash" ? noScript : [Buffer.from("12345678"), Buffer.from("7")];
      },
    };
    await redisStore({ client: spied }).invalidateTags(["a"], 1_000);
    expect(sent.filter((name) => name !== "by hash")).toEqual(["log-tags", "change-tags"]);
  });
});
