import { EventEmitter } from "node:events";
import { describe, expect, it } from "vitest";
import { ClientEvents } from "../../../src/redis/client-events.js";
import { watchFailovers } from "../../../src/redis/failover-watcher.js";

function watch(client: object): { losses: number } {
  const counts = { losses: 0 };
  watchFailovers(client as never, new ClientEvents(client as never), () => counts.losses++);
  return counts;
}

describe("watchFailovers", () => {
  it("reports a loss with each connection after the first to a single server", () => {
    const connecting = Object.assign(new EventEmitter(), { status: "connecting" });
    const connected = Object.assign(new EventEmitter(), { status: "ready" });
    const [first, second] = [watch(connecting), watch(connected)];
    for (const client of [connecting, connected]) client.emit("ready");
    expect([first.losses, second.losses]).toEqual([0, 1]);
    connecting.emit("ready");
    expect(first.losses).toBe(1);
  });

  it("reports a loss when another node of a Cluster is the master of a slot, not when the masters become known", () => {
    const client = Object.assign(new EventEmitter(), { isCluster: true, slots: [] as string[][] });
    const counts = watch(client);
    const refresh = (...slots: string[][]): number => {
      client.slots = slots;
      client.emit("refresh");
      return counts.losses;
    };
    client.emit("+node");
    expect(refresh(["a", "c"], ["b"])).toBe(0);
    expect(refresh(["a"], ["b", "c"])).toBe(0);
    expect(refresh(["c", "a"], ["b"])).toBe(1);
    expect(refresh(["c"], ["c"])).toBe(2);
    client.emit("+node");
    expect(counts.losses).toBe(3);
  });
});
