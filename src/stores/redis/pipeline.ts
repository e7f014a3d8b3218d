import { groupBy } from "../../core/base/multimap.js";
import { asError, throwIfAllFailed } from "../../core/store/answers.js";
import { type BytePart, bytesOf } from "../../core/store/entry-layout.js";
import type { ClientPort, ClusterNodes, Command } from "./client-port.js";
import { MAX_PACKED_BYTES, type Script, type ScriptArgument, type ScriptArguments } from "./define-script.js";
import { markMissingRight } from "./replies.js";

/**
 * Sends `commands` to one node in one round trip. Returns one reply per command, or an Error. Never
 * rejects. On a Cluster, commands whose slot has moved are sent once more, each on its own: ioredis
 * follows a redirection, and learns from it, only if it may repeat the whole pipeline, which it may
 * not once TIME or a script has succeeded in it.
 */
export async function send(port: ClientPort, commands: readonly Command[]): Promise<readonly unknown[]> {
  if (commands.length === 0) return [];
  port.opened ??= firstConnection(port);
  await port.opened;
  const replies = await port.send(commands);
  for (const reply of replies) if (reply instanceof Error) markMissingRight(reply);
  if (port.cluster === undefined || !replies.some(isMoved)) return replies;
  const again = async (command: Command): Promise<unknown> =>
    port.sendMoved === undefined ? (await port.send([command]))[0] : port.sendMoved(command).catch(asError);
  return Promise.all(commands.map((command, index) => (isMoved(replies[index]) ? again(command) : replies[index])));
}

/** Resolves after the first attempt to connect: without an offline queue, commands need that. */
function firstConnection(port: ClientPort): Promise<void> {
  const { events } = port;
  const status = port.status();
  if (!OPENING.includes(status)) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      for (const stop of stops) stop();
      resolve();
    };
    const stops = (["ready", "error", "closed"] as const).map((event) => events.listen(event, end));
    if (status === "wait") port.connect?.();
  });
}

const OPENING: readonly string[] = ["wait", "connecting", "connect"];

/** The keys of one node, as indexes, split into calls: of one slot each on a Cluster. */
export interface NodeKeys {
  readonly node: string;
  readonly calls: readonly (readonly number[])[];
}

/** A script blocks the server. Even, so that pairs of keys of one slot stay together. */
const KEYS_PER_SCRIPT = 50;

/** Not CLUSTERDOWN and TRYAGAIN: they are not over within a time budget. */
const isMoved = (reply: unknown): boolean =>
  reply instanceof Error && /^(MOVED|ASK|All keys in the pipeline) /.test(reply.message);

export interface ScriptCall {
  readonly script: Script<readonly string[]>;
  readonly args: readonly ScriptArgument[];
}

/** Sends calls by hash; those of scripts that the server lacks once more, with the source. */
export async function sendScripts(port: ClientPort, calls: readonly ScriptCall[]): Promise<readonly unknown[]> {
  const byHash = ({ script, args }: ScriptCall): Command => ({ name: "EVALSHA", args: [script.sha, ...args] });
  const replies = [...(await send(port, calls.map(byHash)))];
  const missing = calls.flatMap((call, index) => (isNoScript(replies[index]) ? [{ call, index }] : []));
  if (missing.length === 0) return replies;
  // The source is sent once: the server keeps the script for the calls that follow.
  const sent = new Set<string>();
  const again = missing.map(({ call }): Command => {
    if (sent.has(call.script.sha)) return byHash(call);
    sent.add(call.script.sha);
    return { name: "EVAL", args: [call.script.lua, ...call.args] };
  });
  const repeated = await send(port, again);
  for (const [nth, { index }] of missing.entries()) replies[index] = repeated[nth];
  return replies;
}

const isNoScript = (reply: unknown): boolean => reply instanceof Error && reply.message.startsWith("NOSCRIPT");

/** A slot whose node the client does not know yet has a pipeline of its own. */
export const nodeOf = (cluster: ClusterNodes, key: string): string => nodeOfSlot(cluster, slotOfKey(key));

const nodeOfSlot = (cluster: ClusterNodes, slot: number): string => cluster.masterOf(slot) ?? `slot ${slot}`;

/** Only on a Cluster, keys have to share a slot to share a call. */
export function groupByNode({ cluster }: ClientPort, keys: readonly string[]): readonly NodeKeys[] {
  if (cluster === undefined) return [{ node: "", calls: chunksOf([...keys.keys()], KEYS_PER_SCRIPT) }];
  const slots = [...groupBy(keys, slotOfKey)];
  const byNode = groupBy(slots, ([slot]) => nodeOfSlot(cluster, slot));
  return [...byNode].map(([node, positions]) => ({
    node,
    calls: positions.flatMap((position) => chunksOf((slots[position] as (typeof slots)[number])[1], KEYS_PER_SCRIPT)),
  }));
}

export function chunksOf<Item>(items: readonly Item[], size: number): (readonly Item[])[] {
  const chunks: (readonly Item[])[] = [];
  for (let at = 0; at < items.length; at += size) chunks.push(items.slice(at, at + size));
  return chunks;
}

/**
 * Sends calls to the nodes of `keys`, to all in parallel. `sendTo` resolves with a list of replies
 * for each call, or an Error. Returns one reply per key in the order of `keys`, with an Error for
 * each key whose call failed. Rejects if all calls failed.
 */
export async function sendByNode(
  port: ClientPort,
  keys: readonly string[],
  sendTo: (part: NodeKeys) => Promise<readonly unknown[]>,
): Promise<readonly unknown[]> {
  const replies = new Array<unknown>(keys.length);
  const sending = groupByNode(port, keys).map(async (part) => {
    const ofCalls = await sendTo(part);
    for (const [at, indexes] of part.calls.entries()) {
      const reply = ofCalls[at];
      for (const [place, index] of indexes.entries()) replies[index] = Array.isArray(reply) ? reply[place] : reply;
    }
  });
  await Promise.all(sending);
  throwIfAllFailed(replies);
  return replies;
}

export interface ScriptRun<Args extends readonly string[]> {
  readonly script: Script<Args>;
  readonly keys: readonly string[];
  readonly argsOf: (node: string) => ScriptArguments<Args>;
  /** Of each key. Those of a call are one argument: clients are slow to write many Buffers. */
  readonly values?: readonly (readonly BytePart[])[];
  /** Keys that follow those of each call. */
  readonly moreKeys?: readonly string[];
}

/** Runs a script over keys, which replies with a list of one for each key, or one for all. */
export const runScript = <Args extends readonly string[]>(
  port: ClientPort,
  { script, keys, argsOf, values, moreKeys }: ScriptRun<Args>,
): Promise<readonly unknown[]> =>
  sendByNode(port, keys, ({ node, calls }) => {
    const scriptCalls = calls.map((indexes): ScriptCall => {
      const names = indexes.map((index) => keys[index] as string);
      const parts = values && indexes.flatMap((index) => values[index] ?? []);
      const ofKeys = parts && [bytesOf(parts.filter((part) => !isLarge(part))), ...parts.filter(isLarge)];
      return { script: script as never, args: script.argumentsFor(names, argsOf(node), ofKeys, moreKeys) };
    });
    return sendScripts(port, scriptCalls);
  });

const isLarge = (part: BytePart): part is Buffer => typeof part === "object" && part.length > MAX_PACKED_BYTES;

const SLOTS = 16_384;

/** CRC16-CCITT (XMODEM) of every byte, the checksum that Redis Cluster uses. */
const CRC16: readonly number[] = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) !== 0 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});

/** Source: Redis Cluster specification, "Hash tags". */
function hashTagIn(key: string): string {
  const open = key.indexOf("{");
  const close = open === -1 ? -1 : key.indexOf("}", open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

/** Source: Redis Cluster specification, "Key distribution model". */
export function slotOfKey(key: string): number {
  let crc = 0;
  for (const byte of Buffer.from(hashTagIn(key), "utf8"))
    crc = ((crc << 8) ^ (CRC16[(crc >> 8) ^ byte] as number)) & 0xffff;
  return crc % SLOTS;
}
