import { EventEmitter } from "node:events";
import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { ClientEvents } from "../../../src/redis/client-events.js";
import { ReplicaWaitWriter, WriteConnection } from "../../../src/redis/replica-wait-writer.js";

describe("ReplicaWaitWriter", () => {
  const ignore = (): void => undefined;

  function createWriters(...waits: ({ replicas: number; timeoutMs: number } | undefined)[]) {
    const own = Object.assign(new EventEmitter(), { closed: 0, disconnect: () => void own.closed++ });
    const shared = Object.assign(new EventEmitter(), {
      status: "ready",
      opened: 0,
      duplicate: () => (shared.opened++, own),
    });
    const connection = new WriteConnection(shared as never, new ClientEvents(shared as never), new FakeClock());
    return { own, shared, writers: waits.map((wait) => new ReplicaWaitWriter(shared as never, connection, wait)) };
  }

  it("has one connection for all stores on a client, so that WAIT delays no reads, until the last of them closes", () => {
    const { own, shared, writers } = createWriters({ replicas: 1, timeoutMs: 50 }, { replicas: 2, timeoutMs: 50 });
    const [first, second] = writers as [ReplicaWaitWriter, ReplicaWaitWriter];
    const stops = [first.open(ignore), second.open(ignore)];
    expect(shared.opened).toBe(1);
    expect([first.client, second.client]).toEqual([own, own]);
    expect(first.trailing).toEqual([{ name: "WAIT", args: [1, 50] }]);
    expect(second.trailing).toEqual([{ name: "WAIT", args: [2, 50] }]);
    stops[0]?.();
    stops[0]?.();
    expect(own.closed).toBe(0);
    stops[1]?.();
    expect(own.closed).toBe(1);
    expect(first.client).toBe(shared);
  });

  it("uses the client of the store without waitForReplicas, whatever other stores do", () => {
    const { shared, writers } = createWriters(undefined, { replicas: 1, timeoutMs: 50 });
    const [without, other] = writers as [ReplicaWaitWriter, ReplicaWaitWriter];
    without.open(ignore);
    expect(shared.opened).toBe(0);
    other.open(ignore);
    expect(without.client).toBe(shared);
    expect(without.trailing).toEqual([]);
  });
});
