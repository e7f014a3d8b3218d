import type { StoreReport } from "../../core/store/store-state.js";
import type { ClientPort } from "./client-port.js";

/** Asks a server for its state with the command INFO. Rejects if it may not be run, or if there is no connection. */
export async function readServerInfo(port: ClientPort, node: string): Promise<StoreReport> {
  return parseInfo(String(await port.ask(node, { name: "INFO", args: [] })));
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
