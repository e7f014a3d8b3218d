/** The history of a prefix: one key, on a Cluster on the node of its slot. */
import { throwIfAnyFailed } from "../../core/store/answers.js";
import type { History, HistoryLimits, HistoryPart } from "../../core/store/history.js";
import type { ClientPort } from "./client-port.js";
import { runScript, send } from "./pipeline.js";
import { appendHistory as appendScript } from "./scripts/append-history.js";

const SPACE = 0x20;

export async function appendHistory(
  port: ClientPort,
  name: string,
  content: Uint8Array,
  { maxBytes, keepMs }: HistoryLimits,
): Promise<void> {
  const bytes = Buffer.from(content);
  throwIfAnyFailed(
    await runScript(
      port,
      [],
      appendScript,
      [name],
      () => ({ maxBytes, keepMs }),
      () => [bytes],
    ),
  );
}

export async function readHistory(port: ClientPort, name: string): Promise<History> {
  const replies = await send(port, [
    { name: "ZRANGE", args: [name, 0, -1] },
    { name: "TIME", args: [] },
  ]);
  throwIfAnyFailed(replies);
  const [members, [seconds, micros]] = replies as [Buffer[], [Buffer, Buffer]];
  const now = Math.floor(Number(seconds) * 1000 + Number(micros) / 1000);
  let since = now;
  const parts: HistoryPart[] = [];
  for (const member of members) {
    const end = member.indexOf(SPACE);
    const at = Math.floor(Number(end === -1 ? member : member.subarray(0, end)) / 1000);
    if (end === -1) since = at;
    else parts.push({ at, content: member.subarray(end + 1) });
  }
  return { now, since, parts };
}
