import { EventEmitter } from "node:events";
import type { RedisClient } from "graphql-cached/redis";
import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { ClientEvents } from "../../../src/redis/client-events.js";
import { ClientTracking } from "../../../src/redis/client-tracking.js";

/** A fake connection that replies to commands, and to pings while `isAlive`. */
class FakeConnection extends EventEmitter {
  isAlive = true;
  readonly commands: string[] = [];

  call(...command: string[]): Promise<unknown> {
    this.commands.push(command.join(" "));
    return Promise.resolve(command[1] === "ID" ? 7 : "OK");
  }

  subscribe(channel: string): Promise<unknown> {
    this.commands.push(`SUBSCRIBE ${channel}`);
    return Promise.resolve(1);
  }

  /** The reply to a ping waits for this promise. */
  latency: Promise<void> = Promise.resolve();

  ping(): Promise<unknown> {
    return this.isAlive ? this.latency.then(() => "PONG") : new Promise(() => undefined);
  }

  disconnect(): void {
    this.emit("end");
  }
}

/** Starts tracking on fake connections. `reported` lists what the listener was called with. */
function startTracking() {
  const clock = new FakeClock();
  const connections: FakeConnection[] = [];
  const duplicate = (): FakeConnection => {
    connections.push(new FakeConnection());
    return connections.at(-1) as FakeConnection;
  };
  const client = Object.assign(new EventEmitter(), { options: {}, status: "ready", duplicate });
  const reported: string[] = [];
  const confirmed: number[] = [];
  const tracking = new ClientTracking(client as unknown as RedisClient, {
    events: new ClientEvents(client as unknown as RedisClient),
    clock,
    prefix: "gc:1:",
    ignored: "gc:1:#log",
    listener: {
      changed: (name) => reported.push(name ?? "any key"),
      began: () => reported.push("began"),
      lost: () => reported.push("lost"),
      confirmed: (agoMs) => confirmed.push(agoMs),
    },
    onFailure: (node, error) => reported.push(`${node}${error?.message ?? "no failure"}`),
  });
  const stop = tracking.start();
  return { clock, connections, reported, confirmed, stop };
}

describe("ClientTracking", () => {
  it("enables tracking before it subscribes, and reports each changed key", async () => {
    const { connections, reported, stop } = startTracking();
    const connection = connections[0] as FakeConnection;
    connection.emit("ready");
    await settle();
    expect(connection.commands).toEqual([
      "CLIENT ID",
      "CLIENT TRACKING ON REDIRECT 7 BCAST PREFIX gc:1:",
      "SUBSCRIBE __redis__:invalidate",
    ]);
    connection.emit("messageBuffer", Buffer.from("__redis__:invalidate"), [
      Buffer.from("gc:1:a"),
      Buffer.from("gc:1:#log:{10}"),
      Buffer.from("gc:1:b"),
    ]);
    connection.emit("messageBuffer", Buffer.from("__redis__:invalidate"), null);
    expect(reported).toEqual(["began", "gc:1:a", "gc:1:b", "any key"]);
    stop();
    expect(reported.at(-1)).toBe("lost");
  });

  it("confirms what it reported before the last ping that was answered, never what a later one may hide", async () => {
    const { clock, connections, confirmed, stop } = startTracking();
    const connection = connections[0] as FakeConnection;
    connection.emit("ready");
    await settle();
    expect(confirmed).toEqual([0]);
    await clock.advance(500);
    expect(confirmed).toEqual([0, 0]);
    const reply = gate();
    connection.latency = reply.passed;
    await clock.advance(500);
    await clock.advance(300);
    reply.open();
    await settle();
    expect(confirmed).toEqual([0, 0, 300]);
    connection.isAlive = false;
    await clock.advance(999);
    expect(confirmed).toEqual([0, 0, 300]);
    stop();
  });

  it("takes no reply that belongs to an earlier connection for a sign that tracking is enabled", async () => {
    const { clock, connections, reported, stop } = startTracking();
    const [first] = connections as [FakeConnection];
    let replyToFirst: (id: number) => void = () => undefined;
    first.call = () => new Promise((resolve) => (replyToFirst = resolve));
    first.emit("ready");
    await settle();
    first.emit("end");
    await clock.advance(1_000);
    expect(connections).toHaveLength(2);
    replyToFirst(7);
    await settle();
    expect(reported).toEqual([]);
    stop();
  });

  it("reports a loss when the connection has not replied for two seconds", async () => {
    const { clock, connections, reported, stop } = startTracking();
    const [first] = connections as [FakeConnection];
    first.emit("ready");
    await settle();
    await clock.advance(10_000);
    expect(reported).toEqual(["began"]);
    first.isAlive = false;
    await clock.advance(2_000);
    expect(reported).toEqual(["began", "lost"]);
    expect(connections).toHaveLength(2);
    connections[1]?.emit("ready");
    await settle();
    expect(reported).toEqual(["began", "lost", "began"]);
    stop();
  });

  it("reports a loss as soon as the connection closes, and starts again with the next connection", async () => {
    const { clock, connections, reported, stop } = startTracking();
    connections[0]?.emit("ready");
    await settle();
    connections[0]?.emit("end");
    expect(reported).toEqual(["began", "lost"]);
    await clock.advance(200);
    connections[1]?.emit("ready");
    await settle();
    expect(reported).toEqual(["began", "lost", "began"]);
    stop();
  });

  it("reports what the server has said when it refuses to track, once, and when it does track", async () => {
    const { clock, connections, reported, stop } = startTracking();
    const refused = new Error("NOPERM this user has no permissions to run the 'client|tracking' command");
    for (let nth = 0; nth < 3; nth++) {
      const connection = connections.at(-1) as FakeConnection;
      connection.call = () => Promise.reject(refused);
      connection.emit("ready");
      await settle();
      expect(reported).toEqual([refused.message]);
      await clock.advance(2_000);
    }
    expect(connections).toHaveLength(4);
    connections[3]?.emit("ready");
    await settle();
    await clock.advance(500);
    expect(reported).toEqual([refused.message, "began", "no failure"]);
    stop();
  });
});
