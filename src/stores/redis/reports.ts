import { createHash } from "node:crypto";
import { HASH_TAGS, hashTagOf } from "../../core/keys/hash-tags.js";
import { throwIfAnyFailed } from "../../core/store/answers.js";
import {
  MAX_REPORTING,
  type ProcessReport,
  REPORTS_KEPT_MS,
  type ReportingProcess,
  type ReportReply,
  type ReportStore,
  type WriteReply,
} from "../../core/store/report-store.js";
import type { ClientPort } from "./client-port.js";
import { integerOf } from "./integer-reply.js";
import { groupByNode, send, sendScripts } from "./pipeline.js";
import { runScript } from "./run-script.js";
import { askProcesses } from "./scripts/ask-processes.js";
import { listReports } from "./scripts/list-reports.js";
import { writeReport } from "./scripts/write-report.js";

/** The member of an index that is no process: see `write-report`. */
const ASKED = "?";
/** Every part begins with the sequence of its report. */
const SEQUENCE_BYTES = 8;

/**
 * Reports of processes in Redis: a string for each part, and an index of the processes. On a Cluster there are as many
 * indexes as hash tags; a process has all of its parts and its place in the index under one of them, so that its reports go
 * to one node, and the nodes share the processes.
 */
export class RedisReports implements ReportStore {
  /** The beginning of all names. */
  name = "";
  readonly #port: ClientPort;

  constructor(port: ClientPort) {
    this.#port = port;
  }

  async write({ process, sequence, parts }: ProcessReport): Promise<WriteReply> {
    const keys = [this.#indexOf(process), ...parts.map(({ name }) => this.#nameOf(process, name))];
    const values = parts.flatMap(({ keepMs, bytes }) => [keepMs, Buffer.from(bytes)]);
    const args = writeReport.argumentsFor(keys, { process, sequence, keptMs: REPORTS_KEPT_MS }, values);
    const replies = await sendScripts(this.#port, [{ script: writeReport as never, args }]);
    throwIfAnyFailed(replies);
    const [now, askedUntilAt, added] = (replies[0] as unknown[]).map(integerOf) as [number, number, number];
    return { now, askedUntilAt: askedUntilAt > now ? askedUntilAt : 0, isFirst: added === 1 };
  }

  async list(): Promise<ReportReply & { readonly processes: readonly ReportingProcess[] }> {
    const args = { keptMs: REPORTS_KEPT_MS, maxReporting: MAX_REPORTING };
    const replies = await runScript(this.#port, [], listReports, this.#indexes(), () => args);
    throwIfAnyFailed(replies);
    const lists = replies.map((reply) => (reply as readonly Buffer[]).map(String));
    const now = Math.max(...lists.map(([at]) => Number(at)));
    const scored = lists.flatMap((list) => pairsOf(list.slice(1)));
    const askedUntilAt = Math.max(0, ...scored.filter(([id]) => id === ASKED).map(([, at]) => at));
    const processes = scored
      .filter(([id]) => id !== ASKED)
      .map(([id, reportedAt]) => ({ id, reportedAt }))
      .sort((a, b) => b.reportedAt - a.reportedAt);
    return { now, askedUntilAt: askedUntilAt > now ? askedUntilAt : 0, processes: processes.slice(0, MAX_REPORTING) };
  }

  async read(
    wanted: readonly { readonly process: string; readonly part: string }[],
  ): Promise<(Uint8Array | undefined)[]> {
    const names = wanted.map(({ process, part }) => this.#nameOf(process, part));
    const found = new Array<Uint8Array | undefined>(names.length);
    await Promise.all(
      groupByNode(this.#port, names).map(async ({ calls }) => {
        const commands = calls.map((indexes) => ({ name: "MGET", args: indexes.map((at) => names[at] as string) }));
        const replies = await send(this.#port, commands);
        throwIfAnyFailed(replies);
        for (const [nth, indexes] of calls.entries())
          for (const [place, index] of indexes.entries()) {
            const bytes = (replies[nth] as readonly (Buffer | null)[])[place];
            found[index] = bytes?.subarray(SEQUENCE_BYTES);
          }
      }),
    );
    return found;
  }

  async ask(ms: number): Promise<void> {
    throwIfAnyFailed(await runScript(this.#port, [], askProcesses, this.#indexes(), () => ({ askMs: ms })));
  }

  #indexes(): readonly string[] {
    return this.#port.cluster === undefined ? [this.name] : HASH_TAGS.map((tag) => `${this.name}:{${tag}}`);
  }

  #indexOf(process: string): string {
    return this.#port.cluster === undefined ? this.name : `${this.name}:{${hashTagOf(digestOf(process))}}`;
  }

  #nameOf(process: string, part: string): string {
    return `${this.#indexOf(process)}:${process}:${part}`;
  }
}

/** Spreads ids of any form over the hash tags. */
const digestOf = (text: string): string => createHash("sha256").update(text).digest("base64url");

/** Returns the members of a sorted set with their scores. */
const pairsOf = (list: readonly string[]): (readonly [string, number])[] =>
  list.flatMap((member, at) => (at % 2 === 0 ? [[member, Number(list[at + 1])] as const] : []));
