import type { StoreReport } from "../store/store.js";
import { sendAlone } from "./pipeline.js";
import { isCluster, type RedisClient, type RedisClusterClient } from "./redis-client.js";

/** Returns the ids of the masters of a Cluster, as `nodeOf` does. Empty until the client knows them. */
export function masterNodes({ slots }: RedisClusterClient): readonly string[] {
  return [...new Set(slots.flatMap((nodes) => nodes?.[0] ?? []))];
}

/** Asks a server for its state with the command INFO. Rejects if it may not be run, or if there is no connection. */
export async function readServerInfo(client: RedisClient, node: string): Promise<StoreReport> {
  const server = serverOf(client, node);
  if (server === undefined) throw new Error("the client has no connection to this node");
  return parseInfo(String(await sendAlone(server, { name: "INFO", args: [] })));
}

/** Returns how many bytes have arrived from a node on its present connection. Undefined if the client does not say. */
export const bytesReceivedFrom = (client: RedisClient, node: string): number | undefined =>
  serverOf(client, node)?.stream?.bytesRead;

const serverOf = (client: RedisClient, node: string): RedisClient | undefined =>
  isCluster(client) ? nodeAt(client, node) : client;

/** Returns the client of a master, which the Cluster client may have replaced since. */
export const nodeAt = (cluster: RedisClusterClient, address: string): RedisClient | undefined =>
  cluster.nodes("master").find((master) => addressOf(master) === address);

/** The address of a node, as the slots of a Cluster name it. */
export function addressOf({ options }: RedisClient): string {
  const { host, port } = options as { readonly host?: string; readonly port?: number };
  return `${host}:${port}`;
}

/** Parses the reply to INFO: lines of the form `name:value`, such as `db0:keys=3,expires=1` for each database that has keys. */
export function parseInfo(info: string): StoreReport {
  const fields = new Map([...info.matchAll(/^(\w+):(.*?)\r?$/gm)].map(([, name = "", value = ""]) => [name, value]));
  const numberOf = (name: string): number | undefined => {
    const value = Number(fields.get(name) ?? Number.NaN);
    return Number.isFinite(value) ? value : undefined;
  };
  const [redis, valkey] = [fields.get("redis_version"), fields.get("valkey_version")];
  return {
    // Valkey has a version of Redis as well, for its clients.
    version: valkey === undefined ? redis && `redis ${redis}` : `valkey ${valkey}`,
    role: fields.get("role"),
    entries: [...info.matchAll(/^db\d+:keys=(\d+)/gm)].reduce((sum, [, keys]) => sum + Number(keys), 0),
    usedBytes: numberOf("used_memory"),
    // 0 stands for no limit.
    maxBytes: numberOf("maxmemory") || undefined,
    evictionPolicy: fields.get("maxmemory_policy"),
    evictions: numberOf("evicted_keys"),
  };
}
