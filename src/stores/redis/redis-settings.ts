/** The settings of a prefix in Redis: one key, which on a Cluster is on the node of the log of the invalidation clock. */
import { HASH_TAGS } from "../../core/keys/hash-tags.js";
import { throwIfAnyFailed } from "../../core/store/answers.js";
import type { ClientPort } from "./client-port.js";
import { send, sendScripts } from "./pipeline.js";
import type { ReplicaWaitWriter } from "./replica-wait-writer.js";
import { integerOf } from "./replies.js";
import { replaceSettings as replaceScript } from "./scripts/replace-settings.js";

export const settingsKey = ({ cluster }: ClientPort, name: string): string =>
  cluster === undefined ? name : `${name}:{${HASH_TAGS[0]}}`;

export async function readSettings(port: ClientPort, key: string): Promise<Uint8Array | undefined> {
  const [reply] = await send(port, [{ name: "GET", args: [key] }]);
  // Anything else at the key counts as no settings, as in `replace-settings`.
  if (reply instanceof Error && reply.message.startsWith("WRONGTYPE")) return undefined;
  throwIfAnyFailed([reply]);
  return Buffer.isBuffer(reply) ? reply : undefined;
}

export async function replaceSettings(
  { port, trailing }: ReplicaWaitWriter,
  key: string,
  expected: Uint8Array | undefined,
  content: Uint8Array,
): Promise<boolean> {
  const values = { expected: Buffer.from(expected ?? []), content: Buffer.from(content) };
  const args = replaceScript.argumentsFor([key], values);
  const [reply] = await sendScripts(port, [{ script: replaceScript, args }], trailing);
  throwIfAnyFailed([reply]);
  return integerOf(reply) === 1;
}
