import { describe, expect, it } from "vitest";
import type { ClientPort } from "../../../src/stores/redis/client-port.js";
import { defineScript } from "../../../src/stores/redis/define-script.js";
import { ioredisPort } from "../../../src/stores/redis/ioredis-port.js";
import { groupByNode, send, sendScripts, slotOfKey } from "../../../src/stores/redis/pipeline.js";

type Reply = [error: Error | null, reply: unknown];

/** A client of ioredis whose round trips reply with the next of `replies`; `sent` has the commands of each. */
function clientWith(replies: unknown[][], isCluster = false): { port: ClientPort; sent: string[][] } {
  const sent: string[][] = [];
  const reply = (commands: string[]): Reply[] => {
    sent.push(commands);
    return (replies.shift() ?? []).map((one): Reply => (one instanceof Error ? [one, undefined] : [null, one]));
  };
  const client = {
    isCluster,
    slots: [],
    callBuffer: async (name: string, ...args: unknown[]) => {
      const [[error, value] = [new Error("no reply"), undefined]] = reply([`${name} ${args[0]}`]);
      if (error !== null) throw error;
      return value;
    },
    pipeline: () => {
      const commands: string[] = [];
      return {
        callBuffer: (name: string, args: unknown[]) => commands.push(`${name} ${args[0]}`),
        exec: async () => reply(commands),
      };
    },
  };
  return { port: ioredisPort(client as never), sent };
}

const [one, other] = ["one", "other"].map((name) => defineScript({ name, args: [], lua: "return 1" })) as [
  ReturnType<typeof defineScript>,
  ReturnType<typeof defineScript>,
];
const noScript = new Error("NOSCRIPT No matching script");
const moved = new Error("MOVED 1 127.0.0.1:7000");

describe("sendScripts", () => {
  it("sends calls of lost scripts again, the source once, and keeps the other replies", async () => {
    const { port, sent } = clientWith([
      ["a", noScript, noScript],
      ["b", "c"],
    ]);
    const calls = [one, other, other].map((script) => ({ script, args: script.argumentsFor(["k"], {}) }));
    expect(await sendScripts(port, calls as never)).toEqual(["a", "b", "c"]);
    expect(sent).toEqual([
      [`evalsha ${one.sha}`, `evalsha ${other.sha}`, `evalsha ${other.sha}`],
      [`eval ${other.lua}`, `evalsha ${other.sha}`],
    ]);
  });
});

describe("send", () => {
  const commands = ["a", "b", "c"].map((key) => ({ name: "GET", args: [key] }));

  it("sends the commands whose slot of a Cluster has moved again, each on its own, and no others", async () => {
    const { port, sent } = clientWith([["A", moved, new Error("CLUSTERDOWN")], ["B"]], true);
    expect(await send(port, commands)).toEqual(["A", "B", new Error("CLUSTERDOWN")]);
    expect(sent).toEqual([["get a", "get b", "get c"], ["get b"]]);
  });

  it("returns an error for each command to which the client gives no reply", async () => {
    const { port } = clientWith([["A"]]);
    const [first, ...rest] = await send(port, commands);
    expect(first).toBe("A");
    expect(rest).toEqual(Array(2).fill(expect.objectContaining({ message: expect.stringContaining("got none") })));
  });
});

describe("groupByNode", () => {
  it("makes calls of at most 50 keys, and on a Cluster of keys of one slot", () => {
    const keys = Array.from({ length: 60 }, (_, nth) => `{a}${nth}`);
    const [{ calls }] = groupByNode(clientWith([]).port, keys) as [ReturnType<typeof groupByNode>[number]];
    expect(calls.map(({ length }) => length)).toEqual([50, 10]);
    const slots: string[][] = [];
    for (const key of ["{a}", "{b}"]) slots[slotOfKey(key)] = ["node 1", "its replica"];
    slots[slotOfKey("{c}")] = ["node 2"];
    const port = ioredisPort({ isCluster: true, slots } as never);
    expect(groupByNode(port, ["{a}1", "{c}1", "{b}1", "{a}2", "{d}1"])).toEqual([
      { node: "node 1", calls: [[0, 3], [2]] },
      { node: "node 2", calls: [[1]] },
      { node: `slot ${slotOfKey("{d}1")}`, calls: [[4]] },
    ]);
  });
});

describe("slotOfKey", () => {
  it("is the checksum of the hash tag, or of the whole key if there is none, as Redis computes it", () => {
    expect(slotOfKey("123456789")).toBe(0x31c3);
    expect(slotOfKey("{user1000}.following")).toBe(slotOfKey("user1000"));
    expect(slotOfKey("foo{{bar}}zap")).toBe(slotOfKey("{bar"));
    expect(slotOfKey("foo{bar}{zap}")).toBe(slotOfKey("bar"));
    // What CLUSTER KEYSLOT replies.
    expect(slotOfKey("foo{}{bar}")).toBe(8_363);
    expect(slotOfKey("}foo{bar")).toBe(7_622);
  });
});
