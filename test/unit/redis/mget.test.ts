import { type Command, Redis } from "ioredis";
import { afterEach, describe, expect, it, vi } from "vitest";
import { mgetOf } from "../../../src/redis/mget.js";

const clients: Redis[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.disconnect();
});

/** A real client whose commands are noted in place of being sent, and whether calls made them. */
function notingClient(options: { showFriendlyErrorStack?: boolean } = {}) {
  const client = new Redis({ ...options, lazyConnect: true });
  clients.push(client);
  const sendCommand = vi.spyOn(client, "sendCommand").mockImplementation(async () => "reply");
  const callBuffer = vi.spyOn(client, "callBuffer");
  return { client, sendCommand, callBuffer };
}

/** Returns the command that was sent last. */
const lastSent = ({ mock }: ReturnType<typeof notingClient>["sendCommand"]): Command => (mock.lastCall as [Command])[0];

describe("mgetOf", () => {
  it("sends a command of the client's own class, with the keys as they are, in place of a call", async () => {
    const { client, sendCommand } = notingClient();
    const mget = mgetOf(client);
    expect(sendCommand).not.toHaveBeenCalled();
    const keys = ["a", "b"];
    expect(await mget(keys)).toBe("reply");
    expect(sendCommand).toHaveBeenCalledOnce();
    const command = lastSent(sendCommand);
    expect(command.args).toBe(keys);
    client.callBuffer("mget", "a", "b");
    const called = lastSent(sendCommand);
    expect(command.constructor).toBe(called.constructor);
    expect(command.toWritable({})).toBe(called.toWritable({}));
    expect({ ...command, args: [], resolve: 0, reject: 0, promise: 0 }).toEqual({
      ...called,
      args: [],
      resolve: 0,
      reject: 0,
      promise: 0,
    });
  });

  it("does not connect a client that waits for its first command", () => {
    const client = new Redis({ lazyConnect: true });
    clients.push(client);
    mgetOf(client);
    expect(client.status).toBe("wait");
  });

  it("calls a client that notes where its calls were made", async () => {
    const { client, callBuffer } = notingClient({ showFriendlyErrorStack: true });
    expect(await mgetOf(client)(["a", "b"])).toBe("reply");
    expect(callBuffer.mock.calls).toEqual([["mget", "a", "b"]]);
  });

  it("calls a client that has no method to send a command, or makes its calls without it", async () => {
    for (const methods of [{}, { sendCommand: async () => "not called" }]) {
      const callBuffer = vi.fn(async () => "reply");
      expect(await mgetOf({ ...methods, options: {}, callBuffer } as never)(["a", "b"])).toBe("reply");
      expect(callBuffer.mock.lastCall).toEqual(["mget", "a", "b"]);
    }
  });

  it("calls a client whose methods work on itself only", async () => {
    class Private {
      readonly options = {};
      readonly #calls: unknown[] = [];
      readonly sendCommand = async () => "not called";
      callBuffer(...call: unknown[]): Promise<unknown> {
        this.#calls.push(call);
        return Promise.resolve(this.#calls);
      }
    }
    expect(await mgetOf(new Private() as never)(["a", "b"])).toEqual([["mget", "a", "b"]]);
  });
});
