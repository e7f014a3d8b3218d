import { createHash } from "node:crypto";
import { HASH_TAGS, hashTagOf } from "../../core/keys/hash-tags.js";
import { throwIfAnyFailed } from "../../core/store/answers.js";
import {
  type History,
  type HistoryLimits,
  type HistoryPart,
  MAX_REPORTING,
  REPORTS_KEPT_MS,
  type ReportStore,
  replyAt,
} from "../../core/store/report-store.js";
import type { ClientPort } from "./client-port.js";
import { groupByNode, runScript, send, sendScripts } from "./pipeline.js";
import { integerOf } from "./replies.js";
import { appendHistory as appendScript } from "./scripts/append-history.js";
import { askProcesses } from "./scripts/ask-processes.js";
import { listReports } from "./scripts/list-reports.js";
import { writeReport } from "./scripts/write-report.js";

/**
 * Reports of processes in Redis: a string for each part, and an index of the processes. On a Cluster there are as many
 * indexes as hash tags; a process has all of its parts and its place in the index under one of them, so that its reports go
 * to one node, and the nodes share the processes. `prefixName`: what all names begin with.
 */
export function redisReports(port: ClientPort, prefixName: () => string): ReportStore {
  const indexes = (): readonly string[] =>
    port.cluster === undefined ? [prefixName()] : HASH_TAGS.map((tag) => `${prefixName()}:{${tag}}`);
  const indexOf = (process: string): string =>
    port.cluster === undefined ? prefixName() : `${prefixName()}:{${hashTagOf(digestOf(process))}}`;
  const nameOf = (process: string, part: string): string => `${indexOf(process)}:${process}:${part}`;

  return {
    async write({ process, sequence, parts }) {
      const keys = [indexOf(process), ...parts.map(({ name }) => nameOf(process, name))];
      const values = parts.flatMap(({ keepMs, bytes }) => [keepMs, Buffer.from(bytes)]);
      const args = writeReport.argumentsFor(keys, { process, sequence, keptMs: REPORTS_KEPT_MS }, values);
      const replies = await sendScripts(port, [{ script: writeReport as never, args }]);
      throwIfAnyFailed(replies);
      const [now, askedUntilAt, added] = (replies[0] as unknown[]).map(integerOf) as [number, number, number];
      return { ...replyAt(now, askedUntilAt), isFirst: added === 1 };
    },
    async list() {
      const args = { keptMs: REPORTS_KEPT_MS, maxReporting: MAX_REPORTING };
      const replies = await runScript(port, { script: listReports, keys: indexes(), argsOf: () => args });
      throwIfAnyFailed(replies);
      const lists = replies.map((reply) => (reply as readonly Buffer[]).map(String));
      const now = Math.max(...lists.map(([at]) => Number(at)));
      const scored = lists.flatMap((list) => pairsOf(list.slice(1)));
      const askedUntilAt = Math.max(0, ...scored.filter(([id]) => id === ASKED).map(([, at]) => at));
      const processes = scored
        .filter(([id]) => id !== ASKED)
        .map(([id, reportedAt]) => ({ id, reportedAt }))
        .sort((a, b) => b.reportedAt - a.reportedAt);
      return { ...replyAt(now, askedUntilAt), processes: processes.slice(0, MAX_REPORTING) };
    },
    async read(wanted) {
      const names = wanted.map(({ process, part }) => nameOf(process, part));
      const found = new Array<Uint8Array | undefined>(names.length);
      await Promise.all(
        groupByNode(port, names).map(async ({ calls }) => {
          const commands = calls.map((places) => ({ name: "MGET", args: places.map((at) => names[at] as string) }));
          const replies = await send(port, commands);
          throwIfAnyFailed(replies);
          for (const [nth, places] of calls.entries())
            for (const [at, place] of places.entries())
              found[place] = (replies[nth] as readonly (Buffer | null)[])[at]?.subarray(SEQUENCE_BYTES);
        }),
      );
      return found;
    },
    async ask(ms) {
      throwIfAnyFailed(await runScript(port, { script: askProcesses, keys: indexes(), argsOf: () => ({ askMs: ms }) }));
    },
  };
}

/** The member of an index that is no process: see `write-report`. */
const ASKED = "?";
/** Every part begins with the sequence of its report. */
const SEQUENCE_BYTES = 8;

const digestOf = (text: string): string => createHash("sha256").update(text).digest("base64url");

const pairsOf = (list: readonly string[]): (readonly [string, number])[] =>
  list.flatMap((member, at) => (at % 2 === 0 ? [[member, Number(list[at + 1])] as const] : []));

/** The history of a prefix: one key, on a Cluster on the node of its slot. */

const SPACE = 0x20;

export async function appendHistory(
  port: ClientPort,
  name: string,
  content: Uint8Array,
  { maxBytes, keepMs }: HistoryLimits,
): Promise<void> {
  const argsOf = (): { maxBytes: number; keepMs: number } => ({ maxBytes, keepMs });
  const values = [Buffer.from(content)];
  throwIfAnyFailed(await runScript(port, { script: appendScript, keys: [name], argsOf, valuesOf: () => values }));
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
