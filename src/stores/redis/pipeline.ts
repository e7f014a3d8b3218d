import { groupBy } from "../../core/store/group-by.js";
import { chunksOf } from "./chunks.js";
import type { ClientPort, ClusterNodes, Command } from "./client-port.js";
import type { Script, ScriptArgument } from "./define-script.js";
import { slotOfKey } from "./key-slot.js";

/**
 * The keys of one node, as indexes, split into calls. On a Cluster each call holds keys of one slot
 * only.
 */
export interface NodeKeys {
  readonly node: string;
  readonly calls: readonly (readonly number[])[];
}

/**
 * A script blocks the server while it runs, so further keys go into further calls of the same
 * pipeline. An even number, so that pairs of keys of one slot stay together.
 */
const KEYS_PER_SCRIPT = 50;

/**
 * Sends `commands` to one node in one round trip. Returns one reply per command, in the same order,
 * with an Error for each that failed. Never rejects.
 * On a Cluster, commands whose slot has moved are sent once more, each on its own: ioredis
 * follows a redirection, and learns from it, only if it may repeat the whole pipeline, which it may
 * not once TIME or a script has succeeded in it. `onMoved` is called first.
 */
export async function send(
  port: ClientPort,
  commands: readonly Command[],
  onMoved: () => void = () => undefined,
): Promise<readonly unknown[]> {
  if (commands.length === 0) return [];
  const replies = await port.send(commands);
  if (port.cluster === undefined || !replies.some(isMoved)) return replies;
  onMoved();
  return Promise.all(
    commands.map((command, index) => (isMoved(replies[index]) ? port.sendMoved(command) : replies[index])),
  );
}

/**
 * Whether a command was not run because its slot has moved: either the node redirected it, or the
 * client has just learned of the move and rejected the pipeline. CLUSTERDOWN (no node serves the
 * slot) and TRYAGAIN (its keys are split between two nodes) do not count: they do not resolve
 * within a time budget.
 */
const isMoved = (reply: unknown): boolean =>
  reply instanceof Error && /^(MOVED|ASK|All keys in the pipeline) /.test(reply.message);

/** A script with all its arguments. */
export interface ScriptCall {
  readonly script: Script<readonly string[]>;
  readonly args: readonly ScriptArgument[];
}

/** What keeps the calls of a pipeline from being carried out in order by one node. */
export type Disorder = "slot moved" | "script sent again";

/**
 * Sends script calls to one node by hash, in one round trip, followed by `trailing`. Calls of
 * scripts that the server does not have are sent once more, the first of each with its source. Returns one reply per
 * call; the replies to `trailing` are dropped. `onDisorder` is called if the calls were not all
 * carried out in order by one node.
 */
export async function sendScripts(
  port: ClientPort,
  calls: readonly ScriptCall[],
  trailing: readonly Command[] = [],
  onDisorder: (disorder: Disorder) => void = () => undefined,
): Promise<readonly unknown[]> {
  const onMoved = (): void => onDisorder("slot moved");
  const byHash = calls.map(({ script, args }) => ({ name: "EVALSHA", args: [script.sha, ...args] }));
  const replies = (await send(port, [...byHash, ...trailing], onMoved)).slice(0, calls.length);
  const missing = calls.flatMap((_, index) => (isNoScript(replies[index]) ? [index] : []));
  // The source is sent once: the server keeps the script for the calls that follow.
  const sent = new Set<string>();
  const bySource = missing.flatMap((index) => {
    const call = calls[index];
    if (call === undefined) return [];
    if (sent.has(call.script.sha)) return [{ name: "EVALSHA", args: [call.script.sha, ...call.args] }];
    sent.add(call.script.sha);
    return [{ name: "EVAL", args: [call.script.lua, ...call.args] }];
  });
  if (bySource.length === 0) return replies;
  if (missing.length < calls.length) onDisorder("script sent again");
  const repeated = await send(port, [...bySource, ...trailing], onMoved);
  for (const [nth, index] of missing.entries()) replies[index] = repeated[nth];
  return replies;
}

const isNoScript = (reply: unknown): boolean => reply instanceof Error && reply.message.startsWith("NOSCRIPT");

/**
 * Returns the Cluster node that serves `key`. A slot whose node the client does not know yet counts
 * as a node of its own.
 */
export function nodeOf(cluster: ClusterNodes, key: string): string {
  return nodeOfSlot(cluster, slotOfKey(key));
}

/** Returns the Cluster node that serves `slot`, see `nodeOf`. */
const nodeOfSlot = (cluster: ClusterNodes, slot: number): string => cluster.masterOf(slot) ?? `slot ${slot}`;

/**
 * Groups `keys` by the node that serves them. Without a Cluster there is one node, and any keys can
 * share a call; on a Cluster only keys of the same slot can.
 */
export function groupByNode({ cluster }: ClientPort, keys: readonly string[]): readonly NodeKeys[] {
  if (cluster === undefined) return [{ node: "", calls: chunksOf([...keys.keys()], KEYS_PER_SCRIPT) }];
  const slots = [...groupBy(keys, slotOfKey)];
  const byNode = groupBy(slots, ([slot]) => nodeOfSlot(cluster, slot));
  return [...byNode].map(([node, positions]) => ({
    node,
    calls: positions.flatMap((position) => chunksOf((slots[position] as (typeof slots)[number])[1], KEYS_PER_SCRIPT)),
  }));
}
