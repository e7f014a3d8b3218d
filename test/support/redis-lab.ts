import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { setupRedis } from "../../scripts/setup-redis.mjs";

const HOST = "127.0.0.1";
const GUARDIAN = fileURLToPath(new URL("./guardian.mjs", import.meta.url));
const READY_MS = 15_000;
const SLOTS = 16_384;
const MASTERS = 3;

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

export interface ClusterShape {
  /** How many replicas the first master has. */
  readonly replicas?: number;
  readonly nodeTimeoutMs?: number;
}

export interface SentinelGroup {
  readonly name: string;
  readonly sentinels: readonly Address[];
  readonly master: LabNode;
  readonly replica: LabNode;
}

/** Starts Redis servers on free loopback ports, on demand, and ends them all; also if the process that started them is killed. */
export class RedisLab {
  readonly #server = setupRedis().server;
  readonly #guardians = new Set<ChildProcess>();
  #folder: Promise<string> | undefined;

  /** A server of its own, empty. */
  async standalone(...extra: string[]): Promise<LabNode> {
    const [port] = await freePorts(1);
    return this.#serve(port as number, extra);
  }

  /** Three masters that share the slots, and after them the first one's replicas, ready to serve. */
  async cluster({ replicas = 0, nodeTimeoutMs = 2_000 }: ClusterShape = {}): Promise<readonly LabNode[]> {
    const ports = await freePorts(MASTERS + replicas);
    const args = (port: number): string[] => [
      "--cluster-enabled",
      "yes",
      "--cluster-config-file",
      `nodes-${port}.conf`,
      "--cluster-node-timeout",
      String(nodeTimeoutMs),
    ];
    const nodes = await Promise.all(ports.map((port) => this.#serve(port, args(port))));
    const clients = nodes.map(connect);
    try {
      // What redis-cli --cluster create does, without needing redis-cli.
      const share = Math.ceil(SLOTS / MASTERS);
      for (const [index, client] of clients.slice(0, MASTERS).entries()) {
        await client.call("CLUSTER", "ADDSLOTSRANGE", index * share, Math.min(SLOTS, (index + 1) * share) - 1);
        await client.call("CLUSTER", "SET-CONFIG-EPOCH", index + 1);
      }
      for (const node of nodes.slice(1)) await clients[0]?.call("CLUSTER", "MEET", HOST, node.port);
      await until("the cluster's state is ok", async () => {
        const infos = await Promise.all(clients.map((client) => client.call("CLUSTER", "INFO") as Promise<string>));
        return infos.every(
          (info) => info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${nodes.length}`),
        );
      });
      await replicate(clients.slice(MASTERS), clients[0] as Redis);
    } finally {
      for (const client of clients) client.disconnect();
    }
    return nodes;
  }

  /** A master, its replica, and three sentinels that know each other. */
  async sentinel(): Promise<SentinelGroup> {
    const name = "lab";
    const [masterPort, replicaPort, ...sentinelPorts] = (await freePorts(5)) as [number, number, ...number[]];
    const master = await this.#serve(masterPort);
    const replica = await this.#serve(replicaPort, ["--replicaof", `${HOST} ${masterPort}`]);
    const folder = await this.#home();
    const sentinels = await Promise.all(
      sentinelPorts.map(async (port) => {
        const file = join(folder, `sentinel-${port}.conf`); // A sentinel rewrites its file, so each has its own.
        const lines = [
          `port ${port}`,
          `bind ${HOST}`,
          `dir ${folder}`,
          `sentinel monitor ${name} ${HOST} ${masterPort} 2`,
          `sentinel down-after-milliseconds ${name} 500`,
          `sentinel failover-timeout ${name} 2000`,
        ];
        await writeFile(file, `${lines.join("\n")}\n`);
        return this.#start(port, [file, "--sentinel"], "+monitor master");
      }),
    );
    const client = connect(sentinels[0] as Address);
    try {
      await until("the sentinels know the replica and each other", async () => {
        const facts = (await client.call("SENTINEL", "MASTER", name)) as string[];
        const fact = (key: string): number => Number(facts[facts.indexOf(key) + 1]);
        return fact("num-slaves") >= 1 && fact("num-other-sentinels") >= sentinels.length - 1;
      });
    } finally {
      client.disconnect();
    }
    return { name, sentinels, master, replica };
  }

  /** Ends every server that this lab started, and removes their folder. */
  async stop(): Promise<void> {
    await Promise.all([...this.#guardians].map(end));
    if (this.#folder !== undefined) await rm(await this.#folder, { recursive: true, force: true });
  }

  #home(): Promise<string> {
    this.#folder ??= mkdtemp(join(tmpdir(), "redis-lab-"));
    return this.#folder;
  }

  async #serve(port: number, extra: readonly string[] = []): Promise<LabNode> {
    const own = [
      "--port",
      String(port),
      "--bind",
      HOST,
      "--save",
      "",
      "--appendonly",
      "no",
      "--dir",
      await this.#home(),
      "--dbfilename",
      `${port}.rdb`,
      "--appendfilename",
      `${port}.aof`,
    ];
    return this.#start(port, [...own, "--repl-diskless-sync-delay", "0", ...extra], "Ready to accept connections");
  }

  async #start(port: number, args: readonly string[], sign: string): Promise<LabNode> {
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

  async #spawn(port: number, args: readonly string[], sign: string): Promise<{ guardian: ChildProcess; pid: number }> {
    const guardian = spawn(process.execPath, [GUARDIAN, this.#server, ...args], {
      stdio: ["pipe", "pipe", "pipe"],
      cwd: await this.#home(),
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
      return log.includes(sign);
    });
    guardian.stdout.off("data", take).resume();
    guardian.stderr.off("data", take).resume();
    return { guardian, pid: Number(/^pid (\d+)/m.exec(log)?.[1]) };
  }
}

async function replicate(replicas: readonly Redis[], master: Redis): Promise<void> {
  const id = await master.call("CLUSTER", "MYID");
  for (const replica of replicas) await replica.call("CLUSTER", "REPLICATE", id as string);
  await until("the first master's replicas follow it", async () => {
    const roles = await Promise.all(replicas.map((replica) => replica.info("replication")));
    return roles.every((role) => role.includes("master_link_status:up"));
  });
}

async function end(guardian: ChildProcess): Promise<void> {
  if (guardian.exitCode !== null || guardian.signalCode !== null) return;
  const gone = once(guardian, "exit");
  guardian.stdin?.end();
  await gone;
}

const connect = ({ host, port }: Address): Redis => new Redis(port, host, { maxRetriesPerRequest: 1 });

/** Asks again and again until `isSo` says yes; the servers have no other way of telling. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`it was expected within ${READY_MS} ms that ${what}`);
    await pause(10);
  }
}

/** Waits until that much time has passed on the server that `client` asks. */
export async function elapsed(client: Redis, ms: number): Promise<void> {
  const key = `elapsed:${Math.random()}`;
  await client.set(key, 1, "PX", ms);
  await until(`${ms} ms have passed`, async () => (await client.exists(key)) === 0);
}

/** Free ports whose cluster bus, 10,000 above, is free too. */
async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  const held: Server[] = [];
  while (ports.length < count) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
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
