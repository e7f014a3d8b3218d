import { throwIfAnyFailed } from "../../core/store/answers.js";
import type { History, HistoryLimits, HistoryPart } from "../../core/store/history.js";
import type { ClientPort } from "./client-port.js";
import { send } from "./pipeline.js";
import { runScript } from "./run-script.js";
import { appendHistory } from "./scripts/append-history.js";

const SPACE = 0x20;

/** The history of a prefix: one key, on a Cluster on the node of its slot. */
export class RedisHistory {
  /** The name of the key. */
  name = "";
  readonly #port: ClientPort;

  constructor(port: ClientPort) {
    this.#port = port;
  }

  async append(content: Uint8Array, { maxBytes, keepMs }: HistoryLimits): Promise<void> {
    const replies = await runScript(
      this.#port,
      [],
      appendHistory,
      [this.name],
      () => ({ maxBytes, keepMs }),
      () => [Buffer.from(content)],
    );
    throwIfAnyFailed(replies);
  }

  async read(): Promise<History> {
    const replies = await send(this.#port, [
      { name: "ZRANGE", args: [this.name, 0, -1] },
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
}
