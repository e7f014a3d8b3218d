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
const READY_MS = 15_000;

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** One running server. */
export interface LabNode extends Address {
  /** Stops it where it stands, as a frozen machine would; `resume` lets it go on. */
  pause(): void;
  resume(): void;
  /** Ends it at once, as a power cut would. */
  kill(): Promise<void>;
  /** Starts it again on its port, with what its folder holds. Resolves once it serves. */
  restart(...extra: string[]): Promise<void>;
}

/** Starts servers of one program on loopback ports, and ends them all; also if the process that started them is killed. */
export class ServerLab {
  readonly #server: string;
  readonly #guardians = new Set<ChildProcess>();
  #folder: Promise<string> | undefined;

  constructor(server: string) {
    this.#server = server;
  }

  /** Ends every server that this lab started, and removes their folder. */
  async stop(): Promise<void> {
    await Promise.all([...this.#guardians].map(end));
    if (this.#folder !== undefined) await rm(await this.#folder, { recursive: true, force: true });
  }

  protected home(): Promise<string> {
    this.#folder ??= mkdtemp(join(tmpdir(), "server-lab-"));
    return this.#folder;
  }

  /** Resolves once the server on `port` is ready: its log says `sign`, or where there is none, it takes connections. */
  protected async start(port: number, args: readonly string[], sign?: string): Promise<LabNode> {
    let server = await this.#spawn(port, args, sign);
    return {
      host: HOST,
      port,
      pause: () => void process.kill(server.pid, "SIGSTOP"),
      resume: () => void process.kill(server.pid, "SIGCONT"),
      kill: () => end(server.guardian),
      restart: async (...extra) => {
        server = await this.#spawn(port, [...args, ...extra], sign);
      },
    };
  }

  async #spawn(
    port: number,
    args: readonly string[],
    sign: string | undefined,
  ): Promise<{ readonly guardian: ChildProcess; readonly pid: number }> {
    const guardian = spawn(process.execPath, [GUARDIAN, this.#server, ...args], {
      stdio: ["pipe", "pipe", "pipe"],
      cwd: await this.home(),
    });
    this.#guardians.add(guardian);
    guardian.once("exit", () => this.#guardians.delete(guardian));
    let log = "";
    const take = (chunk: Buffer): void => {
      log += chunk;
    };
    guardian.stdout.on("data", take);
    guardian.stderr.on("data", take);
    await until(`the server on port ${port} is ready`, () => {
      if (guardian.exitCode !== null)
        throw new Error(`the server on port ${port} ended with ${guardian.exitCode}:\n${log}`);
      return sign === undefined ? log.includes("pid ") && takesConnections(port) : log.includes(sign);
    });
    guardian.stdout.off("data", take).resume();
    guardian.stderr.off("data", take).resume();
    return { guardian, pid: Number(/^pid (\d+)/m.exec(log)?.[1]) };
  }
}

async function end(guardian: ChildProcess): Promise<void> {
  if (guardian.exitCode !== null || guardian.signalCode !== null) return;
  const gone = once(guardian, "exit");
  guardian.stdin?.end();
  await gone;
}

/** Asks again and again until `isSo` says yes; the servers have no other way of telling. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`it was expected within ${READY_MS} ms that ${what}`);
    await pause(10);
  }
}

/** A port is let go before its server takes it, so it is not given twice. */
const given = new Set<number>();

/** Free ports whose neighbours 10,000 above, where a Redis Cluster has its bus, are free too. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  const held: Server[] = [];
  while (ports.length < count) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (given.has(port)) continue;
    given.add(port);
    const pair = await Promise.all([hold(port), hold(port + 10_000)]);
    held.push(...pair.filter((server) => server !== undefined));
    if (pair.every((server) => server !== undefined)) ports.push(port);
  }
  await Promise.all(held.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function hold(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, HOST, () => resolve(server));
  });
}

function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, HOST);
    const answer = (is: boolean) => (): void => {
      socket.destroy();
      resolve(is);
    };
    socket.once("connect", answer(true)).once("error", answer(false));
  });
}
