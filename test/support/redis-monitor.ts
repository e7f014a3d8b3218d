import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import type { Address } from "./redis-lab.js";

/** Hears which commands reach a Redis: each a list of its name, in small letters, and its arguments. */
export interface RedisMonitor {
  /** The commands with an argument that begins with `prefix` and come while `work` runs. */
  commandsOf(prefix: string, work: () => Promise<unknown>): Promise<readonly (readonly string[])[]>;
  close(): void;
}

/** By MONITOR, on a socket of its own: ioredis takes a command that is told together with MONITOR's own reply for an error. */
export async function monitorRedis({ host, port }: Address): Promise<RedisMonitor> {
  const socket = connect(port, host);
  const lines = createInterface(socket);
  socket.write("MONITOR\r\n");
  await once(lines, "line");
  const client = new Redis(port, host);
  return {
    async commandsOf(prefix, work) {
      const commands: string[][] = [];
      const mark = `${prefix}:${randomUUID()}`;
      const isOver = new Promise<void>((resolve) => {
        const take = (line: string): void => {
          const [name = "", ...rest] = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word = ""]) => word);
          if (rest[0] === mark) {
            lines.off("line", take);
            resolve();
          } else if (rest.some((argument) => argument.startsWith(prefix))) commands.push([name.toLowerCase(), ...rest]);
        };
        lines.on("line", take);
      });
      await work();
      await client.exists(mark);
      await isOver;
      return commands;
    },
    close() {
      socket.destroy();
      client.disconnect();
    },
  };
}
