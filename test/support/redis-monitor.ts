import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import type { Address } from "./redis-lab.js";

/**
 * Records the commands that reach a Redis. Each is a list of its name, in lower case, and its
 * arguments.
 */
export interface RedisMonitor {
  /**
   * Returns the commands that arrive while `work` runs and have an argument that starts with
   * `prefix`.
   */
  commandsOf(prefix: string, work: () => Promise<unknown>): Promise<readonly (readonly string[])[]>;
  /**
   * The same without what happens beside the requests, at times of its own: the history of invalidations, the reports of
   * processes, subscriptions, and the questions of memory with `maxStalenessMs`, which read no entry.
   */
  requestCommandsOf: RedisMonitor["commandsOf"];
  close(): void;
}

/**
 * Starts MONITOR on a plain socket: ioredis takes a command that arrives together with MONITOR's
 * own reply for an error.
 */
export async function monitorRedis({ host, port }: Address): Promise<RedisMonitor> {
  const socket = connect(port, host);
  const lines = createInterface(socket);
  socket.write("MONITOR\r\n");
  await once(lines, "line");
  const client = new Redis(port, host);
  const monitor: RedisMonitor = {
    async requestCommandsOf(prefix, work) {
      const beside = [`${prefix}:#log:history`, `${prefix}:#log:report`];
      const commands = await monitor.commandsOf(prefix, work);
      const isBeside = (word: string): boolean => beside.some((name) => word.startsWith(name));
      const isQuestion = ([name, ...names]: readonly string[]): boolean =>
        name === "mget" && names.every((word) => word.startsWith(`${prefix}:#`));
      return commands.filter((words) => words[0] !== "subscribe" && !isQuestion(words) && !words.some(isBeside));
    },
    async commandsOf(prefix, work) {
      const commands: string[][] = [];
      const mark = `${prefix}:${randomUUID()}`;
      const markSeen = new Promise<void>((resolve) => {
        const onLine = (line: string): void => {
          const [name = "", ...rest] = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word = ""]) => word);
          if (rest[0] === mark) {
            lines.off("line", onLine);
            resolve();
          } else if (rest.some((argument) => argument.startsWith(prefix))) commands.push([name.toLowerCase(), ...rest]);
        };
        lines.on("line", onLine);
      });
      await work();
      await client.exists(mark);
      await markSeen;
      return commands;
    },
    close() {
      socket.destroy();
      client.disconnect();
    },
  };
  return monitor;
}
