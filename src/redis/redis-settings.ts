import { HASH_TAGS } from "../keys/hash-tags.js";
import { throwIfAnyFailed } from "../store/answers.js";
import { integerOf } from "./integer-reply.js";
import { send, sendScripts } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import type { ReplicaWaitWriter } from "./replica-wait-writer.js";
import { replaceSettings } from "./scripts/replace-settings.js";

/** The settings of a prefix in Redis: one key, which on a Cluster is on the node of the log of the invalidation clock. */
export class RedisSettings {
  readonly #client: RedisClient;
  readonly #writer: ReplicaWaitWriter;
  #name = "";

  constructor(client: RedisClient, writer: ReplicaWaitWriter) {
    this.#client = client;
    this.#writer = writer;
  }

  open(name: string): void {
    this.#name = isCluster(this.#client) ? `${name}:{${HASH_TAGS[0]}}` : name;
  }

  async read(): Promise<Uint8Array | undefined> {
    const [reply] = await send(this.#client, [{ name: "GET", args: [this.#name] }]);
    // Anything else at the key counts as no settings, as in `replace-settings`.
    if (reply instanceof Error && reply.message.startsWith("WRONGTYPE")) return undefined;
    throwIfAnyFailed([reply]);
    return Buffer.isBuffer(reply) ? reply : undefined;
  }

  async replace(expected: Uint8Array | undefined, content: Uint8Array): Promise<boolean> {
    const args = { expected: Buffer.from(expected ?? []), content: Buffer.from(content) };
    const { client, trailing } = this.#writer;
    const call = { script: replaceSettings, args: replaceSettings.argumentsFor([this.#name], args) };
    const [reply] = await sendScripts(client, [call], trailing);
    throwIfAnyFailed([reply]);
    return integerOf(reply) === 1;
  }
}
