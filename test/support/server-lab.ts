import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const HOST = "127.0.0.1";
const GUARDIAN = fileURLToPath(new URL("./guardian.mjs", import.meta.url));
const READY_MS = 45_000;

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** One running server. */
export interface LabNode extends Address {
  /** Freezes the process (SIGSTOP), as if its machine had frozen. `resume` continues it. */
  pause(): void;
  resume(): void;
  /** Kills the process at once, as a power cut would. */
  kill(): Promise<void>;
  /**
   * Starts the server again on the same port and with the same folder. Resolves once it is ready.
   */
  restart(...extra: string[]): Promise<void>;
}

/**
 * Starts servers of one program on loopback ports. All of them end with `stop`, and also if the
 * process that started them is killed.
 */
export class ServerLab {
  readonly #program: string;
  readonly #guardians = new Set<ChildProcess>();
  #folderPath: Promise<string> | undefined;

  constructor(program: string) {
    this.#program = program;
  }

  /** Ends every server of this lab and removes their folder. */
  async stop(): Promise<void> {
    await Promise.all([...this.#guardians].map(end));
    if (this.#folderPath !== undefined) await rm(await this.#folderPath, { recursive: true, force: true });
  }

  /** The folder in which all servers of this lab run. */
  protected folder(): Promise<string> {
    this.#folderPath ??= mkdtemp(join(tmpdir(), "server-lab-"));
    return this.#folderPath;
  }

  /**
   * Starts a server. It is ready once its log contains `readyLine` or, without one, once it accepts
   * connections.
   */
  protected async start(port: number, args: readonly string[], readyLine?: string): Promise<LabNode> {
    let server = await this.#spawn(port, args, readyLine);
    return {
      host: HOST,
      port,
      pause: () => void process.kill(server.pid, "SIGSTOP"),
      resume: () => void process.kill(server.pid, "SIGCONT"),
      kill: () => end(server.guardian),
      restart: async (...extra) => {
        server = await this.#spawn(port, [...args, ...extra], readyLine);
      },
    };
  }

  async #spawn(
    port: number,
    args: readonly string[],
    readyLine: string | undefined,
  ): Promise<{ readonly guardian: ChildProcess; readonly pid: number }> {
    const guardian = spawn(process.execPath, [GUARDIAN, this.#program, ...args], {
      stdio: ["pipe", "pipe", "pipe"],
      cwd: await this.folder(),
    });
    this.#guardians.add(guardian);
    guardian.once("exit", () => this.#guardians.delete(guardian));
    let log = "";
    const appendToLog = (chunk: Buffer): void => {
      log += chunk;
    };
    guardian.stdout.on("data", appendToLog);
    guardian.stderr.on("data", appendToLog);
    await until(`the server on port ${port} is ready`, () => {
      if (guardian.exitCode !== null)
        throw new Error(`the server on port ${port} exited with code ${guardian.exitCode}:\n${log}`);
      // On a busy machine, the server can be ready before the guardian has written its pid.
      if (pidIn(log) === undefined) return false;
      return readyLine === undefined ? acceptsConnections(port) : log.includes(readyLine);
    });
    guardian.stdout.off("data", appendToLog).resume();
    guardian.stderr.off("data", appendToLog).resume();
    return { guardian, pid: pidIn(log) as number };
  }
}

/** Returns the pid of the server from the line that the guardian has written. Undefined if it is not complete. */
function pidIn(log: string): number | undefined {
  const pid = /^pid (\d+)\n/m.exec(log)?.[1];
  return pid === undefined ? undefined : Number(pid);
}

async function end(guardian: ChildProcess): Promise<void> {
  if (guardian.exitCode !== null || guardian.signalCode !== null) return;
  const exited = once(guardian, "exit");
  guardian.stdin?.end();
  await exited;
}

/**
 * Polls until `condition` holds, for what servers do not announce. `what` describes it in the error
 * after a timeout.
 */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`timed out after ${READY_MS} ms, waiting until ${what}`);
    await pause(10);
  }
}

/**
 * Ports that were returned before. A port is released before its server binds it, so it must not be
 * returned twice.
 */
const usedPorts = new Set<number>();

/**
 * Returns free ports. The port 10,000 above each, which Redis Cluster uses for its bus, is free
 * too. Both are below 32,768, where Linux begins to take ports for outgoing connections: a client
 * that connects before the server has started, or while it is down, cannot take its port.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  const listeners: Server[] = [];
  while (ports.length < count) {
    const port = 10_000 + Math.floor(Math.random() * 10_000);
    if (usedPorts.has(port)) continue;
    usedPorts.add(port);
    const pair = await Promise.all([listen(port), listen(port + 10_000)]);
    listeners.push(...pair.filter((server) => server !== undefined));
    if (pair.every((server) => server !== undefined)) ports.push(port);
  }
  await Promise.all(listeners.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function listen(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, HOST, () => resolve(server));
  });
}

function acceptsConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, HOST);
    const finish = (isAccepted: boolean) => (): void => {
      socket.destroy();
      resolve(isAccepted);
    };
    socket.once("connect", finish(true)).once("error", finish(false));
  });
}
