import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fetchServer, setupRedis } from "../../scripts/setup-redis.mjs";
import { setupValkey } from "../../scripts/setup-valkey.mjs";
import { compiledPath } from "../support/programs.js";
import { type Address, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";

describe("RedisLab", () => {
  it("leaves no server behind when the process that started it is killed", async () => {
    const program = await compiledPath("test/support/lab-process.ts");
    const child = spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const client = new Redis(Number(line.toString()), "127.0.0.1");
    const info = await client.info("server");
    client.disconnect();
    const pid = Number(/process_id:(\d+)/.exec(info)?.[1]);
    expect(isAlive(pid)).toBe(true);
    child.kill("SIGKILL");
    await until("the server has ended", () => !isAlive(pid));
    expect(isAlive(pid)).toBe(false);
  });

  it("starts a Cluster whose three masters serve all slots", async () => {
    const nodes = await sharedServer("redisCluster");
    expect(nodes).toHaveLength(3);
    const client = new Redis(nodes[0] as Address);
    expect(await client.cluster("INFO")).toContain("cluster_slots_ok:16384");
    client.disconnect();
  });

  it("starts sentinels that know a master with a replica", async () => {
    const { name, sentinels } = await sharedServer("redisSentinel");
    const client = new Redis({ name, sentinels: [...sentinels] });
    expect(await client.info("replication")).toMatch(/role:master[\s\S]*connected_slaves:1/);
    client.disconnect();
  });
});

describe("setupRedis", () => {
  const none = { named: "", onPath: [], cache: "/nonexistent", fetch: () => "there is no network" };

  it("throws an error that lists the three ways to provide a server and why none was downloaded", () => {
    expect(() => setupRedis(none)).toThrow(
      /\(there is no network\)[\s\S]*- set REDIS_SERVER[\s\S]*- install one on PATH[\s\S]*- on Debian or Ubuntu/,
    );
  });

  it("refuses a REDIS_SERVER that is not a Redis server, without trying other locations", () => {
    expect(() => setupRedis({ named: "/bin/true" })).toThrow(
      "REDIS_SERVER: expected a redis-server or valkey-server that runs on this system, got /bin/true",
    );
  });

  it("returns the path and version of an installed server", () => {
    const { server, version } = setupRedis();
    expect(setupRedis({ named: server })).toEqual({ server, version });
  });

  it("makes the path in REDIS_SERVER absolute, since servers are started from other folders", () => {
    const folder = mkdtempSync(join(tmpdir(), "named-"));
    const server = program(folder, "redis-server", "echo v=7.0.0");
    expect(setupRedis({ named: relative(process.cwd(), server) })).toEqual({ server, version: "7.0.0" });
    rmSync(folder, { recursive: true });
  });
});

describe("fetchServer", () => {
  let folder: string;
  let cache: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "fetch-"));
    cache = join(folder, "cache");
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  /** Writes a fake server below `home`, in the layout of the package. */
  const unpack = (version: string) => (home: string) => {
    program(join(home, "root/usr/bin"), "redis-server", `echo v=${version}`);
  };

  /**
   * Puts fake versions of apt-get, apt-cache and dpkg-deb on PATH. Returns a function that reads
   * their log: the arguments and LC_ALL of each call.
   */
  function fakeApt(update: string): () => string {
    const bin = join(folder, "bin");
    const log = join(folder, "log");
    program(
      bin,
      "apt-get",
      `echo "$LC_ALL apt-get $*" >> ${log}; case "$*" in *update*) ${update};; *download*) touch x.deb;; esac`,
    );
    program(
      bin,
      "apt-cache",
      "printf '  Depends: libssl3\\n  Depends: libc6\\n  Depends: liblzf1\\n  Depends: adduser\\n'",
    );
    const unpacked = (name: string, version: string): string =>
      `printf '#!/bin/sh\\necho ${version}\\n' > "$3/usr/bin/${name}"; chmod +x "$3/usr/bin/${name}"`;
    program(
      bin,
      "dpkg-deb",
      `mkdir -p "$3/usr/bin"; ${unpacked("redis-check-rdb", "v=7.0.15")}; ${unpacked("valkey-check-rdb", "Valkey server v=8.0.1")}`,
    );
    vi.stubEnv("PATH", `${bin}:${process.env.PATH}`);
    return () => readFileSync(log, "utf8");
  }

  it("installs a server into the cache folder and leaves no temporary files", () => {
    expect(fetchServer(cache, unpack("7.0.15"))).toBeUndefined();
    expect(setupRedis({ named: "", onPath: [], cache, fetch: () => "not called" }).version).toBe("7.0.15");
    expect(readdirSync(folder)).toEqual(["cache"]);
  });

  it("keeps the server that a concurrent process has installed first", () => {
    const installFirst = (home: string): void => {
      expect(fetchServer(cache, unpack("7.0.1"))).toBeUndefined();
      unpack("7.0.2")(home);
    };
    expect(fetchServer(cache, installFirst)).toBeUndefined();
    expect(setupRedis({ named: "", onPath: [], cache }).version).toBe("7.0.1");
    expect(readdirSync(folder)).toEqual(["cache"]);
  });

  it("replaces a cached server that does not run", () => {
    mkdirSync(cache);
    writeFileSync(join(cache, "redis-server"), "half a file");
    expect(fetchServer(cache, unpack("7.0.15"))).toBeUndefined();
    expect(setupRedis({ named: "", onPath: [], cache }).version).toBe("7.0.15");
    expect(readdirSync(folder)).toEqual(["cache"]);
  });

  it("reports that the system's package is too old", () => {
    const fetch = (home: string): string | undefined => fetchServer(home, unpack("5.0.14"));
    expect(() => setupRedis({ named: "", onPath: [], cache, fetch })).toThrow(
      "this system's package has version 5.0.14",
    );
    expect(existsSync(cache)).toBe(false);
  });

  it("downloads required libraries, whatever the locale", () => {
    const readLog = fakeApt("true");
    vi.stubEnv("LC_ALL", "de_DE.UTF-8");
    expect(fetchServer(cache)).toBeUndefined();
    expect(setupRedis({ named: "", onPath: [], cache }).version).toBe("7.0.15");
    expect(readLog()).toMatch(/^C apt-get .* download redis-tools libssl3 liblzf1$/m);
  });

  it("looks for Valkey in the backports of the release as well, unless the system does so itself", () => {
    const uris = (suite: string): string =>
      `case "$*" in *print-uris*) echo "'mirror/debian/dists/one/InRelease' x 0"; echo "'mirror/debian/dists/${suite}/InRelease' x 0";; esac`;
    const sources = (): string => readFileSync(join(cache, "sources.list"), "utf8");
    fakeApt(uris("one-updates"));
    expect(setupValkey({ named: "", onPath: [], cache }).version).toBe("8.0.1");
    expect(sources()).toContain("deb mirror/debian one-backports main\n");
    rmSync(cache, { recursive: true });
    fakeApt(uris("one-backports"));
    expect(setupValkey({ named: "", onPath: [], cache }).version).toBe("8.0.1");
    expect(existsSync(join(cache, "sources.list"))).toBe(false);
  });

  it("reports an unreachable mirror instead of an unknown package", () => {
    const readLog = fakeApt("echo 'Could not resolve mirror' >&2; exit 100");
    expect(fetchServer(cache)).toContain("Could not resolve mirror");
    expect(readLog()).toContain("APT::Update::Error-Mode=any");
    expect(existsSync(cache)).toBe(false);
  });
});

function program(folder: string, name: string, script: string): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return path;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
