import { EventEmitter } from "node:events";
import type { RedisClient } from "graphql-cached/redis";
import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { ClientTracking } from "../../../src/redis/client-tracking.js";

/** A fake connection that replies to commands, and to pings while `isAlive`. */
class FakeConnection extends EventEmitter {
  isAlive = true;
  reconnects = 0;
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

  disconnect(reconnect = false): void {
    if (reconnect) this.reconnects++;
  }
}

/** Starts tracking on a fake connection. `reported` lists what the listener was called with. */
function startTracking() {
  const clock = new FakeClock();
  const connection = new FakeConnection();
  const client = { options: {}, duplicate: () => connection, on: () => undefined, off: () => undefined };
  const reported: string[] = [];
  const confirmed: number[] = [];
  const tracking = new ClientTracking(client as unknown as RedisClient, clock, "gc:1:", "gc:1:#log", {
    changed: (name) => reported.push(name ?? "any key"),
    began: () => reported.push("began"),
    lost: () => reported.push("lost"),
    confirmed: (agoMs) => confirmed.push(agoMs),
  });
  const stop = tracking.start();
  return { clock, connection, reported, confirmed, stop };
}

describe("ClientTracking", () => {
  it("enables tracking before it subscribes, and reports each changed key", async () => {
    const { connection, reported, stop } = startTracking();
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
    const { clock, connection, confirmed, stop } = startTracking();
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
    const { connection, reported, stop } = startTracking();
    let replyToFirst: (id: number) => void = () => undefined;
    const call = connection.call.bind(connection);
    connection.call = () => new Promise((resolve) => (replyToFirst = resolve));
    connection.emit("ready");
    await settle();
    connection.emit("close");
    connection.call = () => new Promise(() => undefined);
    connection.emit("ready");
    connection.call = call;
    replyToFirst(7);
    await settle();
    expect(connection.commands).toEqual([]);
    expect(reported).toEqual([]);
    stop();
  });

  it("reports a loss when the connection has not replied for two seconds", async () => {
    const { clock, connection, reported, stop } = startTracking();
    connection.emit("ready");
    await settle();
    await clock.advance(10_000);
    expect(reported).toEqual(["began"]);
    connection.isAlive = false;
    await clock.advance(2_000);
    expect(reported).toEqual(["began", "lost"]);
    expect(connection.reconnects).toBe(1);
    connection.isAlive = true;
    connection.emit("ready");
    await settle();
    expect(reported).toEqual(["began", "lost", "began"]);
    stop();
  });

  it("reports a loss as soon as the connection closes, and starts again with the next connection", async () => {
    const { connection, reported, stop } = startTracking();
    connection.emit("ready");
    await settle();
    connection.emit("close");
    expect(reported).toEqual(["began", "lost"]);
    connection.emit("ready");
    await settle();
    expect(reported).toEqual(["began", "lost", "began"]);
    stop();
  });
});
