import { describe, expect, it } from "vitest";
import { parseInfo } from "../../../src/stores/redis/redis-store.js";

const INFO = [
  "# Server",
  "redis_version:7.2.4",
  "# Memory",
  "used_memory:1048576",
  "maxmemory:2097152",
  "maxmemory_policy:allkeys-lru",
  "# Stats",
  "evicted_keys:3",
  "# Replication",
  "role:master",
  "# Keyspace",
  "db0:keys=5,expires=1,avg_ttl=0",
  "db3:keys=2,expires=0,avg_ttl=0",
  "",
];

describe("the reply to INFO", () => {
  it("gives version, role, memory, policy, evictions, and the keys of all databases", () => {
    expect(parseInfo(INFO.join("\r\n"))).toEqual({
      version: "redis 7.2.4",
      role: "master",
      entries: 7,
      usedBytes: 1_048_576,
      maxBytes: 2_097_152,
      evictionPolicy: "allkeys-lru",
      evictions: 3,
    });
  });

  it("of a Valkey gives the version of Valkey, not the one it shows to clients of Redis", () => {
    expect(parseInfo(["redis_version:7.2.4", "valkey_version:8.0.1"].join("\r\n"))).toMatchObject({
      version: "valkey 8.0.1",
    });
  });

  it("leaves out what it does not contain, and a limit of 0, which stands for none", () => {
    expect(parseInfo("role:slave\r\nmaxmemory:0\r\nused_memory:much\r\n")).toEqual({
      version: undefined,
      role: "slave",
      entries: 0,
      usedBytes: undefined,
      maxBytes: undefined,
      evictionPolicy: undefined,
      evictions: undefined,
    });
  });
});
