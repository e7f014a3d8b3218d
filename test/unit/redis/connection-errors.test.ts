import { EventEmitter } from "node:events";
import { describe, expect, it } from "vitest";
import { ConnectionErrors } from "../../../src/redis/connection-errors.js";

describe("ConnectionErrors", () => {
  it("has the innermost errors of the client until it is connected again", () => {
    const client = new EventEmitter();
    const errors = new ConnectionErrors(client as never);
    errors.watch();
    const refused = new AggregateError([new Error("ECONNREFUSED ::1"), new Error("ECONNREFUSED 127.0.0.1")]);
    client.emit("error", Object.assign(new Error("Failed to refresh slots"), { lastNodeError: refused }));
    expect(errors.last?.message).toBe("ECONNREFUSED ::1, ECONNREFUSED 127.0.0.1");
    client.emit("ready");
    expect(errors.last).toBeUndefined();
  });

  it("listens until the last use ends, so that no error of the client is unhandled meanwhile", () => {
    const client = new EventEmitter();
    const errors = new ConnectionErrors(client as never);
    const [stopFirst, stopSecond] = [errors.watch(), errors.watch()];
    stopFirst();
    stopFirst();
    expect(client.listenerCount("error")).toBe(1);
    stopSecond();
    expect(client.listenerCount("error")).toBe(0);
  });
});
