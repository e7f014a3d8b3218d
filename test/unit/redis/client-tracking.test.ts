import { EventEmitter } from "node:events";
import type { RedisClient } from "graphql-cached/redis";
import { FakeClock, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { ClientTracking } from "../../../src/redis/client-tracking.js";

/** A connection that answers what it is asked, as long as `isAlive`. */
class Connection extends EventEmitter {
  isAlive = true;
  reconnects = 0;
  readonly asked: string[] = [];

  call(...command: string[]): Promise<unknown> {
    this.asked.push(command.join(" "));
    return Promise.resolve(command[1] === "ID" ? 7 : "OK");
  }

  subscribe(channel: string): Promise<unknown> {
    this.asked.push(`SUBSCRIBE ${channel}`);
    return Promise.resolve(1);
  }

  ping(): Promise<unknown> {
    return this.isAlive ? Promise.resolve("PONG") : new Promise(() => undefined);
  }

  disconnect(reconnect = false): void {
    if (reconnect) this.reconnects++;
  }
}

function followed() {
  const clock = new FakeClock();
  const connection = new Connection();
  const client = { options: {}, duplicate: () => connection, on: () => undefined, off: () => undefined };
  const told: string[] = [];
  const source = new ClientTracking(client as unknown as RedisClient, clock, "gc:1:", {
    changed: (name) => told.push(name ?? "anything"),
    began: () => told.push("began"),
    lost: () => told.push("lost"),
  });
  const end = source.start();
  return { clock, connection, told, end };
}

describe("the source of changes", () => {
  it("asks for the changes before it listens, and tells of each", async () => {
    const { connection, told, end } = followed();
    connection.emit("ready");
    await settle();
    expect(connection.asked).toEqual([
      "CLIENT ID",
      "CLIENT TRACKING ON REDIRECT 7 BCAST PREFIX gc:1:",
      "SUBSCRIBE __redis__:invalidate",
    ]);
    connection.emit("messageBuffer", Buffer.from("__redis__:invalidate"), [
      Buffer.from("gc:1:a"),
      Buffer.from("gc:1:b"),
    ]);
    connection.emit("messageBuffer", Buffer.from("__redis__:invalidate"), null);
    expect(told).toEqual(["began", "gc:1:a", "gc:1:b", "anything"]);
    end();
    expect(told.at(-1)).toBe("lost");
  });

  it("takes a connection that does not answer for lost, two seconds after it was last heard at the latest", async () => {
    const { clock, connection, told, end } = followed();
    connection.emit("ready");
    await settle();
    await clock.advance(10_000);
    expect(told).toEqual(["began"]);
    connection.isAlive = false;
    await clock.advance(2_000);
    expect(told).toEqual(["began", "lost"]);
    expect(connection.reconnects).toBe(1);
    connection.isAlive = true;
    connection.emit("ready");
    await settle();
    expect(told).toEqual(["began", "lost", "began"]);
    end();
  });

  it("takes a closed connection for lost at once, and begins again with the next", async () => {
    const { connection, told, end } = followed();
    connection.emit("ready");
    await settle();
    connection.emit("close");
    connection.emit("ready");
    await settle();
    expect(told).toEqual(["began", "lost", "began"]);
    end();
  });
});
