import { HASH_TAGS } from "../../core/keys/hash-tags.js";
import { throwIfAnyFailed } from "../../core/store/answers.js";
import type { ClientPort } from "./client-port.js";
import { integerOf } from "./integer-reply.js";
import { send, sendScripts } from "./pipeline.js";
import type { ReplicaWaitWriter } from "./replica-wait-writer.js";
import { replaceSettings } from "./scripts/replace-settings.js";

/** The settings of a prefix in Redis: one key, which on a Cluster is on the node of the log of the invalidation clock. */
export class RedisSettings {
  readonly #port: ClientPort;
  readonly #writer: ReplicaWaitWriter;
  #name = "";

  constructor(port: ClientPort, writer: ReplicaWaitWriter) {
    this.#port = port;
    this.#writer = writer;
  }

  open(name: string): void {
    this.#name = this.#port.cluster === undefined ? name : `${name}:{${HASH_TAGS[0]}}`;
  }

  async read(): Promise<Uint8Array | undefined> {
    const [reply] = await send(this.#port, [{ name: "GET", args: [this.#name] }]);
    // Anything else at the key counts as no settings, as in `replace-settings`.
    if (reply instanceof Error && reply.message.startsWith("WRONGTYPE")) return undefined;
    throwIfAnyFailed([reply]);
    return Buffer.isBuffer(reply) ? reply : undefined;
  }

  async replace(expected: Uint8Array | undefined, content: Uint8Array): Promise<boolean> {
    const args = { expected: Buffer.from(expected ?? []), content: Buffer.from(content) };
    const { port, trailing } = this.#writer;
    const call = { script: replaceSettings, args: replaceSettings.argumentsFor([this.#name], args) };
    const [reply] = await sendScripts(port, [call], trailing);
    throwIfAnyFailed([reply]);
    return integerOf(reply) === 1;
  }
}
