import { createRequire } from "node:module";
import { asError } from "../store/answers.js";
import type { Script, ScriptArgument } from "./define-script.js";
import { isCluster, type RedisClient, type RedisClusterClient } from "./redis-client.js";

// The package's own type declarations do not compile, so it is taken untyped.
const calculateSlot = createRequire(import.meta.url)("cluster-key-slot") as (key: string) => number;

/** One command of a trip. */
export interface Command {
  readonly name: string;
  readonly args: readonly ScriptArgument[];
}

/** Keys that one node answers for, by their index, split into the calls that may hold them: one slot a call on a Cluster. */
export interface NodeKeys {
  readonly node: string;
  readonly calls: readonly (readonly number[])[];
}

/** A script call stalls the server while it runs; more keys go into a further call of the same trip. */
const KEYS_PER_SCRIPT = 50;

/**
 * Sends `commands` in one trip to one node. The answer has their length and order; a command that failed has its Error in its place.
 * On a Cluster, those whose slot is elsewhere are sent once more, each alone: the client follows a redirection, and learns of it, only where it
 * may repeat all that went together, and that it may not once TIME or a script was answered. Never rejects.
 */
export async function send(client: RedisClient, commands: readonly Command[]): Promise<readonly unknown[]> {
  const replies = await sendOnce(client, commands);
  if (!isCluster(client) || !replies.some(isElsewhere)) return replies;
  return Promise.all(
    commands.map(async (command, index) =>
      isElsewhere(replies[index]) ? (await sendOnce(client, [command]))[0] : replies[index],
    ),
  );
}

async function sendOnce(client: RedisClient, commands: readonly Command[]): Promise<readonly unknown[]> {
  if (commands.length === 0) return [];
  const [only] = commands;
  if (only !== undefined && commands.length === 1) {
    // A pipeline of one is a command with more work.
    return [await client.callBuffer(only.name, ...only.args).catch(asError)];
  }
  const pipeline = client.pipeline();
  for (const { name, args } of commands) pipeline.callBuffer(name, args as ScriptArgument[]);
  try {
    const replies = await pipeline.exec();
    return commands.map((_, index) => {
      const [error, reply] = replies?.[index] ?? [new Error("the client gave no reply"), undefined];
      return error ?? reply;
    });
  } catch (error) {
    return commands.map(() => asError(error));
  }
}

/**
 * What a Cluster's node says of a slot that has moved, and what the client says that has just heard of it: in either case nothing was run.
 * Of a slot that nobody serves, or that lies on two nodes, there is nothing to hope for within a time budget.
 */
const isElsewhere = (reply: unknown): boolean =>
  reply instanceof Error && /^(MOVED|ASK|All keys in the pipeline) /.test(reply.message);

/**
 * Sends script calls in one trip to one node, by hash, and `trailing` after them, whose replies are left out; those that the server does not know
 * go once more, as source.
 */
export async function sendScripts(
  client: RedisClient,
  calls: readonly { readonly script: Script<readonly string[]>; readonly args: readonly ScriptArgument[] }[],
  trailing: readonly Command[] = [],
): Promise<readonly unknown[]> {
  const byHash = calls.map(({ script, args }) => ({ name: "EVALSHA", args: [script.sha, ...args] }));
  const replies = (await send(client, [...byHash, ...trailing])).slice(0, calls.length);
  const unknown = calls.flatMap((_, index) => (isNoScript(replies[index]) ? [index] : []));
  const again = unknown.flatMap((index) => {
    const call = calls[index];
    return call === undefined ? [] : [{ name: "EVAL", args: [call.script.lua, ...call.args] }];
  });
  if (again.length === 0) return replies;
  const repeated = await send(client, [...again, ...trailing]);
  for (const [nth, index] of unknown.entries()) replies[index] = repeated[nth];
  return replies;
}

const isNoScript = (reply: unknown): boolean => reply instanceof Error && reply.message.startsWith("NOSCRIPT");

/** The node of a Cluster that answers for `key`. A slot whose node the client does not know yet is a node by itself. */
export function nodeOf(client: RedisClusterClient, key: string): string {
  return nodeOfSlot(client, calculateSlot(key));
}

const nodeOfSlot = (client: RedisClusterClient, slot: number): string => client.slots[slot]?.[0] ?? `slot ${slot}`;

/**
 * Which node answers for which of `keys`. Without a Cluster that is one node, and any keys share a call; on a Cluster only keys of one slot do.
 */
export function groupByNode(client: RedisClient, keys: readonly string[]): readonly NodeKeys[] {
  if (!isCluster(client)) return [{ node: "", calls: chunks([...keys.keys()]) }];
  const bySlot = new Map<number, number[]>();
  for (const [index, key] of keys.entries()) {
    const slot = calculateSlot(key);
    const indexes = bySlot.get(slot);
    if (indexes === undefined) bySlot.set(slot, [index]);
    else indexes.push(index);
  }
  const byNode = new Map<string, (readonly number[])[]>();
  for (const [slot, indexes] of bySlot) {
    const node = nodeOfSlot(client, slot);
    const calls = byNode.get(node);
    if (calls === undefined) byNode.set(node, chunks(indexes));
    else calls.push(...chunks(indexes));
  }
  return [...byNode].map(([node, calls]) => ({ node, calls }));
}

function chunks(indexes: readonly number[]): (readonly number[])[] {
  const parts: (readonly number[])[] = [];
  for (let at = 0; at < indexes.length; at += KEYS_PER_SCRIPT) parts.push(indexes.slice(at, at + KEYS_PER_SCRIPT));
  return parts;
}
