import { describe, expect, it } from "vitest";
import { commandSender, type RedisClient } from "../../../src/redis/redis-client.js";

interface MadeCommand {
  readonly name: string;
  readonly options: object;
  args: readonly string[];
}

/** A client that notes what is sent with it, and by which method. */
class NotingClient {
  static readonly Command: unknown = class implements MadeCommand {
    readonly name: string;
    readonly options: object;
    args: readonly string[];

    constructor(name: string, args: readonly string[], options: object) {
      this.name = name;
      this.args = args;
      this.options = options;
    }
  };
  readonly sent: unknown[] = [];
  readonly options: object;

  constructor(options: object) {
    this.options = options;
  }

  async callBuffer(name: string, ...args: readonly string[]): Promise<string> {
    this.sent.push({ by: "callBuffer", name, args });
    return "reply";
  }

  async sendCommand({ name, args, options }: MadeCommand): Promise<string> {
    this.sent.push({ by: "sendCommand", name, args, options });
    return "reply";
  }
}

/** A client whose class cannot make commands, like those of ioredis 5. */
class PlainClient extends NotingClient {
  static override readonly Command = undefined;
}

async function sentBy(client: NotingClient): Promise<readonly unknown[]> {
  const send = commandSender(client as unknown as RedisClient);
  expect(await send("MGET", ["a", "b"])).toBe("reply");
  return client.sent;
}

describe("commandSender", () => {
  it("sends a command of the client's class with the arguments as they are", async () => {
    expect(await sentBy(new NotingClient({}))).toEqual([
      { by: "sendCommand", name: "MGET", args: ["a", "b"], options: { replyEncoding: null } },
    ]);
  });

  it("calls clients that cannot make commands, or do more with a call than send it", async () => {
    const called = [{ by: "callBuffer", name: "MGET", args: ["a", "b"] }];
    expect(await sentBy(new PlainClient({}))).toEqual(called);
    expect(await sentBy(new NotingClient({ enableAutoPipelining: true }))).toEqual(called);
    expect(await sentBy(new NotingClient({ showFriendlyErrorStack: true }))).toEqual(called);
  });
});
