/** What runs behind the demo's page: a Redis server, if there is one to start, and two server processes. */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { setupRedis } from "../../scripts/setup-redis.mjs";
import type { Database } from "./database.js";
import type { FromProcess } from "./process.js";

/** A Redis server that the demo starts, on a socket in a temporary folder: it takes no port. */
export interface OwnRedis {
  readonly socket: string;
  readonly version: string;
  isRunning(): boolean;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Finds a Redis server to start: REDIS_SERVER, on PATH, or one that the tests have downloaded. */
export function findRedis(): OwnRedis | undefined {
  const found = findProgram();
  if (found === undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "graphql-cached-demo-"));
  const socket = join(folder, "redis.sock");
  const options = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", folder];
  let server: ChildProcess | undefined;
  process.once("exit", () => {
    server?.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    socket,
    version: found.version,
    isRunning: () => server !== undefined,
    async start() {
      if (server !== undefined) return;
      server = spawn(found.server, options, { stdio: "ignore" });
      while (!(await accepts(socket))) {
        if (server.exitCode !== null) throw new Error(`${found.server} exited with code ${server.exitCode}`);
        await pause(5);
      }
    },
    async stop() {
      if (server === undefined) return;
      const exited = once(server, "exit");
      server.kill();
      await exited;
      server = undefined;
    },
  };
}

function findProgram(): { readonly server: string; readonly version: string } | undefined {
  try {
    return setupRedis({ fetch: () => "the demo downloads nothing" });
  } catch {
    return undefined;
  }
}

function accepts(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket)
      .once("error", () => resolve(false))
      .once("connect", () => {
        connection.destroy();
        resolve(true);
      });
  });
}

/** A server process, and where it serves the site: with fields as entries, and with whole responses as well. */
export interface SiteProcess {
  readonly pid: number;
  readonly fields: string;
  readonly responses: string;
  /** Clears the cache of all processes. */
  clear(): Promise<void>;
}

/** Starts a server process on the Redis at a URL or socket, or with a store in its own memory. */
export function startProcess(database: Database, redis: string | undefined, prefix: string): Promise<SiteProcess> {
  const child = fork(new URL("./process.ts", import.meta.url), {
    env: { ...process.env, PREFIX: prefix, ...(redis === undefined ? {} : { REDIS: redis }) },
    stdio: ["ignore", "ignore", "inherit", "ipc"], // the demo prints nothing but its address, and errors
  });
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`a server process of the demo exited with code ${code}`)));
    child.on("message", async (message: FromProcess) => {
      if ("cleared" in message) return child.emit("cleared", message.cleared);
      if ("fields" in message)
        return resolve({
          ...message,
          pid: child.pid ?? 0,
          async clear() {
            const cleared = once(child, "cleared");
            child.send({ clear: true });
            const [error] = await cleared;
            if (error !== null) throw new Error(error);
          },
        });
      const rows = await database.query(message.sql, message.params);
      if (child.connected) child.send({ id: message.id, rows });
    });
  });
}
