import { describe, expect, it } from "vitest";
import { ReplicaWaitWriter } from "../../../src/redis/replica-wait-writer.js";

describe("ReplicaWaitWriter", () => {
  function createWriter(wait?: { replicas: number; timeoutMs: number }) {
    const own = { closed: 0, on: () => undefined, disconnect: () => void own.closed++ };
    const shared = { opened: 0, duplicate: () => (shared.opened++, own) };
    return { own, shared, writer: new ReplicaWaitWriter(shared as never, wait) };
  }

  it("has one connection of its own for all caches, so that WAIT delays no reads, until the last of them closes", () => {
    const { own, shared, writer } = createWriter({ replicas: 1, timeoutMs: 50 });
    writer.open();
    writer.open();
    expect(shared.opened).toBe(1);
    expect(writer.client).toBe(own);
    expect(writer.trailing).toEqual([{ name: "WAIT", args: [1, 50] }]);
    writer.close();
    expect(own.closed).toBe(0);
    writer.close();
    expect(own.closed).toBe(1);
    expect(writer.client).toBe(shared);
  });

  it("uses the client of the store without waitForReplicas", () => {
    const { shared, writer } = createWriter();
    writer.open();
    expect(writer.client).toBe(shared);
    expect(shared.opened).toBe(0);
    expect(writer.trailing).toEqual([]);
  });
});
