import { RedisFrames, stringsOf } from "./redis-frames.js";
import type { Filter } from "./tcp-proxy.js";

/** One command on its way to the server. */
export interface RedisCommand {
  /** In capital letters. */
  readonly name: string;
  readonly args: readonly Buffer[];
}

/**
 * What happens to a command.
 *
 * - `delay`: the server runs it `ms` later, after commands that follow it. The client gets all replies in order.
 * - `late`: the same, and the client gets an error at once.
 * - `repeat`: the server runs it a second time `ms` later. The client gets the first reply only.
 * - `drop`: the server does not run it. The client gets an error.
 * - `lose-reply`: the server runs it. The client gets an error.
 */
export type CommandFault =
  | { readonly kind: "delay" | "late" | "repeat"; readonly ms: number }
  | { readonly kind: "drop" | "lose-reply" };

/**
 * What happens to a Pub/Sub message: it comes later, comes again later, or never comes. Later is a number of
 * milliseconds, or when a promise resolves.
 */
export type MessageFault =
  | { readonly kind: "delay" | "repeat"; readonly after: number | Promise<unknown> }
  | { readonly kind: "drop" };

/** A reply that the client is to get, or that is swallowed. */
interface Slot {
  reply: Buffer | undefined;
  /** What the client gets instead of the reply. */
  readonly instead: Buffer | undefined;
}

const LOST = Buffer.from("-ERR lost by the test's proxy\r\n");
const SUBSCRIBING = /^[PS]?(UN)?SUBSCRIBE$/;
const RESP2_MESSAGE = /^[ps]?(un)?(message|subscribe)$/;

/** Acts on single commands and messages of the connections of a `TcpProxy`; pass `filter` to it. */
export class RedisFaults {
  /** Decides about each command, except those that subscribe. */
  onCommand: (command: RedisCommand) => CommandFault | undefined = () => undefined;
  /** Decides about each message. */
  onMessage: (payload: Buffer) => MessageFault | undefined = () => undefined;
  /** How many commands and messages were changed. */
  count = 0;

  /** Sends everything on unchanged again. */
  reset(): void {
    this.onCommand = () => undefined;
    this.onMessage = () => undefined;
  }

  readonly filter = (send: Filter): Filter => {
    const [requests, replies] = [new RedisFrames(), new RedisFrames()];
    const connection = new FaultyConnection(this, send);
    return {
      requests: (bytes) => {
        for (const frame of requests.append(bytes)) connection.request(frame);
      },
      replies: (bytes) => {
        for (const frame of replies.append(bytes)) connection.reply(frame);
      },
    };
  };
}

/** Keeps the replies of one connection in the order of its commands. */
class FaultyConnection {
  readonly #faults: RedisFaults;
  readonly #send: Filter;
  /** In the order in which the server gets the commands. */
  readonly #byServer: Slot[] = [];
  /** In the order in which the client has sent the commands. */
  readonly #byClient: Slot[] = [];
  #isSubscriber = false;

  constructor(faults: RedisFaults, send: Filter) {
    this.#faults = faults;
    this.#send = send;
  }

  request(frame: Buffer): void {
    const [name = "", ...args] = stringsOf(frame);
    const command = { name: name.toString("latin1").toUpperCase(), args };
    if (SUBSCRIBING.test(command.name)) {
      this.#isSubscriber = true; // Answered by messages, not by a reply.
      this.#send.requests(frame);
      return;
    }
    const fault = this.#faults.onCommand(command);
    if (fault !== undefined) this.#faults.count++;
    const answered: Slot = { reply: undefined, instead: fault?.kind === "lose-reply" ? LOST : undefined };
    const lost: Slot = { reply: LOST, instead: undefined };
    const swallowed: Slot = { reply: undefined, instead: undefined };
    this.#byClient.push(fault?.kind === "late" || fault?.kind === "drop" ? lost : answered);
    const forward = (slot: Slot): void => {
      this.#byServer.push(slot);
      this.#send.requests(frame);
    };
    if (fault?.kind === "delay") setTimeout(forward, fault.ms, answered);
    else if (fault?.kind === "late") setTimeout(forward, fault.ms, swallowed);
    else if (fault?.kind !== "drop") forward(answered);
    if (fault?.kind === "repeat") setTimeout(forward, fault.ms, swallowed);
    this.#flush();
  }

  reply(frame: Buffer): void {
    const slot = this.#isMessage(frame) ? undefined : this.#byServer.shift();
    if (slot !== undefined) {
      slot.reply = slot.instead ?? frame;
      this.#flush();
    } else if (this.#isMessage(frame)) this.#message(frame);
    else this.#send.replies(frame);
  }

  #isMessage(frame: Buffer): boolean {
    const type = String.fromCharCode(frame[0] as number);
    if (type === ">") return true;
    return type === "*" && this.#isSubscriber && RESP2_MESSAGE.test(stringsOf(frame)[0]?.toString("latin1") ?? "");
  }

  #message(frame: Buffer): void {
    const [kind, , payload = Buffer.alloc(0)] = stringsOf(frame);
    const fault = kind?.toString("latin1") === "message" ? this.#faults.onMessage(payload) : undefined;
    if (fault !== undefined) this.#faults.count++;
    if (fault?.kind !== "delay" && fault?.kind !== "drop") this.#send.replies(frame);
    if (fault?.kind !== "delay" && fault?.kind !== "repeat") return;
    const send = (): void => this.#send.replies(frame);
    if (typeof fault.after === "number") setTimeout(send, fault.after);
    else void fault.after.then(send);
  }

  #flush(): void {
    while (this.#byClient[0]?.reply !== undefined) this.#send.replies(this.#byClient.shift()?.reply as Buffer);
  }
}
