import { EventEmitter } from "node:events";
import { describe, expect, it } from "vitest";
import { ConnectionErrors } from "../../../src/stores/redis/connection-errors.js";
import { ioredisPort } from "../../../src/stores/redis/ioredis-port.js";

const OPTIONS = { options: { host: "cache-1", port: 6379 } };

function watch(properties: object = { status: "ready", ...OPTIONS }) {
  const client = Object.assign(new EventEmitter(), properties) as EventEmitter & { status: string };
  const errors = new ConnectionErrors(ioredisPort(client as never));
  return { client, errors, stop: errors.watch() };
}

describe("ConnectionErrors", () => {
  it("has the innermost errors of the client until it is connected again", () => {
    const { client, errors } = watch();
    const refused = new AggregateError([new Error("ECONNREFUSED ::1"), new Error("ECONNREFUSED 127.0.0.1")]);
    client.emit("error", Object.assign(new Error("Failed to refresh slots"), { lastNodeError: refused }));
    expect(errors.of("")?.message).toBe("ECONNREFUSED ::1, ECONNREFUSED 127.0.0.1");
    client.emit("ready");
    expect(errors.of("")).toBeUndefined();
  });

  it.each([
    ["connecting", "the client is connecting"],
    ["reconnecting", "the connection was closed, and the client is reconnecting"],
    ["end", "the client was closed, or does not reconnect"],
  ])("says what the client is doing while there is no other reason: %s", (status, doing) => {
    const { errors } = watch({ status, ...OPTIONS });
    expect(errors.of("")?.message).toBe(`not connected to cache-1:6379: ${doing}`);
  });

  it.each([
    ["the socket", { path: "/run/redis.sock" }, "/run/redis.sock"],
    ["the master of Sentinel", { sentinels: [{}], name: "shop", host: "localhost" }, "the master shop of Sentinel"],
  ])("names %s", (_what, options, place) => {
    expect(watch({ status: "close", options }).errors.of("")?.message).toContain(`not connected to ${place}:`);
  });

  it("has the last error of each node of a Cluster until that is connected again", () => {
    const node = { status: "close", options: { host: "a", port: 1 } };
    const { client, errors } = watch({ status: "ready", isCluster: true, nodes: () => [node] });
    client.emit("node error", new Error("WRONGPASS"), "a:1");
    expect(errors.of("a:1")?.message).toBe("WRONGPASS");
    expect(errors.of("b:1")).toBeUndefined();
    node.status = "ready";
    expect(errors.of("a:1")).toBeUndefined();
    node.status = "close";
    expect(errors.of("a:1")).toBeUndefined();
  });

  it("listens until the last use ends, so that no error of the client is unhandled meanwhile", () => {
    const { client, errors, stop } = watch();
    const stopSecond = errors.watch();
    stop();
    stop();
    expect(client.listenerCount("error")).toBe(1);
    stopSecond();
    expect(client.listenerCount("error")).toBe(0);
  });
});
