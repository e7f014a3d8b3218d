import { EventEmitter } from "node:events";
import { FakeClock } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { IoredisPort } from "../../../src/stores/redis/ioredis-port.js";
import { ReplicaWaitWriter, WriteConnection } from "../../../src/stores/redis/replica-wait-writer.js";

describe("ReplicaWaitWriter", () => {
  const ignore = (): void => undefined;

  function createWriters(...waits: ({ replicas: number; timeoutMs: number } | undefined)[]) {
    const own = Object.assign(new EventEmitter(), {
      closed: 0,
      disconnect: () => void own.closed++,
      callBuffer: async () => "own",
    });
    const shared = Object.assign(new EventEmitter(), {
      status: "ready",
      opened: 0,
      duplicate: () => (shared.opened++, own),
      callBuffer: async () => "shared",
    });
    const port = new IoredisPort(shared as never);
    const connection = new WriteConnection(port, new FakeClock());
    return { own, shared, writers: waits.map((wait) => new ReplicaWaitWriter(port, connection, wait)) };
  }

  /** Returns which connection a command takes. */
  const takenBy = async ({ port }: ReplicaWaitWriter): Promise<unknown> =>
    (await port.send([{ name: "PING", args: [] }]))[0];

  it("has one connection for all stores on a client, so that WAIT delays no reads, until the last of them closes", async () => {
    const { own, shared, writers } = createWriters({ replicas: 1, timeoutMs: 50 }, { replicas: 2, timeoutMs: 50 });
    const [first, second] = writers as [ReplicaWaitWriter, ReplicaWaitWriter];
    const stops = [first.open(ignore), second.open(ignore)];
    expect(shared.opened).toBe(1);
    expect([await takenBy(first), await takenBy(second)]).toEqual(["own", "own"]);
    expect(first.trailing).toEqual([{ name: "WAIT", args: [1, 50] }]);
    expect(second.trailing).toEqual([{ name: "WAIT", args: [2, 50] }]);
    stops[0]?.();
    stops[0]?.();
    expect(own.closed).toBe(0);
    stops[1]?.();
    expect(own.closed).toBe(1);
    expect(await takenBy(first)).toBe("shared");
  });

  it("uses the client of the store without waitForReplicas, whatever other stores do", async () => {
    const { shared, writers } = createWriters(undefined, { replicas: 1, timeoutMs: 50 });
    const [without, other] = writers as [ReplicaWaitWriter, ReplicaWaitWriter];
    without.open(ignore);
    expect(shared.opened).toBe(0);
    other.open(ignore);
    expect(await takenBy(without)).toBe("shared");
    expect(without.trailing).toEqual([]);
  });
});
