import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { setupRedis } from "../../scripts/setup-redis.mjs";
import { type Address, freePorts, HOST, type LabNode, ServerLab, until } from "./server-lab.js";

export { type Address, type LabNode, until } from "./server-lab.js";

const SLOTS = 16_384;
const MASTERS = 3;

export interface ClusterShape {
  /** Number of replicas of the first master. Default: 0. */
  readonly replicas?: number;
  readonly nodeTimeoutMs?: number;
}

export interface SentinelGroup {
  readonly name: string;
  readonly sentinels: readonly Address[];
  readonly master: LabNode;
  readonly replica: LabNode;
}

/** Starts Redis servers on free loopback ports. */
export class RedisLab extends ServerLab {
  constructor() {
    super(setupRedis().server);
  }

  /** Starts an empty server. `extra` are further command-line options. */
  async standalone(...extra: string[]): Promise<LabNode> {
    const [port] = await freePorts(1);
    return this.#startRedis(port as number, extra);
  }

  /**
   * Starts a Cluster and waits until it is ready. Returns its three masters, which share the slots,
   * followed by the replicas of the first.
   */
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
    const nodes = await Promise.all(ports.map((port) => this.#startRedis(port, args(port))));
    const clients = nodes.map(connect);
    try {
      // The same steps as `redis-cli --cluster create`, without requiring redis-cli.
      const slotsPerMaster = Math.ceil(SLOTS / MASTERS);
      for (const [index, client] of clients.slice(0, MASTERS).entries()) {
        await client.call(
          "CLUSTER",
          "ADDSLOTSRANGE",
          index * slotsPerMaster,
          Math.min(SLOTS, (index + 1) * slotsPerMaster) - 1,
        );
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

  /**
   * Starts a master, its replica, and three sentinels, and waits until the sentinels know all of
   * them.
   */
  async sentinel(): Promise<SentinelGroup> {
    const name = "lab";
    const [masterPort, replicaPort, ...sentinelPorts] = (await freePorts(5)) as [number, number, ...number[]];
    const master = await this.#startRedis(masterPort);
    const replica = await this.#startRedis(replicaPort, ["--replicaof", `${HOST} ${masterPort}`]);
    const folder = await this.folder();
    const sentinels = await Promise.all(
      sentinelPorts.map(async (port) => {
        const file = join(folder, `sentinel-${port}.conf`); // A sentinel rewrites its configuration, so each has its own file.
        const lines = [
          `port ${port}`,
          `bind ${HOST}`,
          `dir ${folder}`,
          `sentinel monitor ${name} ${HOST} ${masterPort} 2`,
          `sentinel down-after-milliseconds ${name} 500`,
          `sentinel failover-timeout ${name} 2000`,
        ];
        await writeFile(file, `${lines.join("\n")}\n`);
        return this.start(port, [file, "--sentinel"], "+monitor master");
      }),
    );
    const client = connect(sentinels[0] as Address);
    try {
      await until("the sentinels know the replica and each other", async () => {
        const fields = (await client.call("SENTINEL", "MASTER", name)) as string[];
        const numberOf = (field: string): number => Number(fields[fields.indexOf(field) + 1]);
        return numberOf("num-slaves") >= 1 && numberOf("num-other-sentinels") >= sentinels.length - 1;
      });
    } finally {
      client.disconnect();
    }
    return { name, sentinels, master, replica };
  }

  async #startRedis(port: number, extra: readonly string[] = []): Promise<LabNode> {
    const options = [
      "--port",
      String(port),
      "--bind",
      HOST,
      "--save",
      "",
      "--appendonly",
      "no",
      "--dir",
      await this.folder(),
      "--dbfilename",
      `${port}.rdb`,
      "--appendfilename",
      `${port}.aof`,
    ];
    return this.start(port, [...options, "--repl-diskless-sync-delay", "0", ...extra], "Ready to accept connections");
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

const connect = ({ host, port }: Address): Redis => new Redis(port, host, { maxRetriesPerRequest: 1 });

/** Waits until `ms` milliseconds have passed on the server of `client`. */
export async function elapsed(client: Redis, ms: number): Promise<void> {
  const key = `elapsed:${Math.random()}`;
  await client.set(key, 1, "PX", ms);
  await until(`${ms} ms have passed`, async () => (await client.exists(key)) === 0);
}
