import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, inject, it, vi } from "vitest";
import { fetchServer, setupRedis } from "../../scripts/setup-redis.mjs";
import { type Address, until } from "../support/redis-lab.js";

describe("the lab", () => {
  it("leaves no server behind when the process that started it is killed", async () => {
    const program = fileURLToPath(new URL("../support/lab-process.ts", import.meta.url));
    const child = spawn(process.execPath, ["--import", "tsx", program], { stdio: ["ignore", "pipe", "inherit"] });
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

  it("has a Cluster whose three masters serve all slots", async () => {
    const nodes = inject("redisCluster");
    expect(nodes).toHaveLength(3);
    const client = new Redis(nodes[0] as Address);
    expect(await client.cluster("INFO")).toContain("cluster_slots_ok:16384");
    client.disconnect();
  });

  it("has sentinels that know a master with a replica", async () => {
    const { name, sentinels } = inject("redisSentinel");
    const client = new Redis({ name, sentinels: [...sentinels] });
    expect(await client.info("replication")).toMatch(/role:master[\s\S]*connected_slaves:1/);
    client.disconnect();
  });
});

describe("looking for a Redis server", () => {
  const none = { onPath: [], cache: "/nonexistent", fetch: () => "there is no network" };

  it("ends in an error that names the three ways to one, and why it could not be fetched", () => {
    expect(() => setupRedis(none)).toThrow(
      /\(there is no network\)[\s\S]*- set REDIS_SERVER[\s\S]*- put one on PATH[\s\S]*- on Debian or Ubuntu/,
    );
  });

  it("refuses a REDIS_SERVER that is none, and does not look elsewhere", () => {
    expect(() => setupRedis({ named: "/bin/true" })).toThrow(
      "REDIS_SERVER names /bin/true, which is no redis-server or valkey-server that runs here",
    );
  });

  it("finds a server that is there", () => {
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

describe("fetching a Redis server", () => {
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

  /** Puts a server below `home`, as the package has it. */
  const unpack = (version: string) => (home: string) => {
    program(join(home, "root/usr/bin"), "redis-server", `echo v=${version}`);
  };

  /** An apt-get, apt-cache and dpkg-deb of our own on PATH. They write down what they are asked, and in which language. */
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
    const server = `printf '#!/bin/sh\\necho v=7.0.15\\n' > "$3/usr/bin/redis-check-rdb"; chmod +x "$3/usr/bin/redis-check-rdb"`;
    program(bin, "dpkg-deb", `mkdir -p "$3/usr/bin"; ${server}`);
    vi.stubEnv("PATH", `${bin}:${process.env.PATH}`);
    return () => readFileSync(log, "utf8");
  }

  it("puts a server where it is found from then on, and leaves nothing beside it", () => {
    expect(fetchServer(cache, unpack("7.0.15"))).toBeUndefined();
    expect(setupRedis({ named: "", onPath: [], cache, fetch: () => "not asked" }).version).toBe("7.0.15");
    expect(readdirSync(folder)).toEqual(["cache"]);
  });

  it("leaves the server of a process that was faster where it is", () => {
    const faster = (home: string): void => {
      expect(fetchServer(cache, unpack("7.0.1"))).toBeUndefined();
      unpack("7.0.2")(home);
    };
    expect(fetchServer(cache, faster)).toBeUndefined();
    expect(setupRedis({ named: "", onPath: [], cache }).version).toBe("7.0.1");
    expect(readdirSync(folder)).toEqual(["cache"]);
  });

  it("replaces what was left there and does not run", () => {
    mkdirSync(cache);
    writeFileSync(join(cache, "redis-server"), "half a file");
    expect(fetchServer(cache, unpack("7.0.15"))).toBeUndefined();
    expect(setupRedis({ named: "", onPath: [], cache }).version).toBe("7.0.15");
    expect(readdirSync(folder)).toEqual(["cache"]);
  });

  it("says so if the system's package is too old", () => {
    const fetch = (home: string): string | undefined => fetchServer(home, unpack("5.0.14"));
    expect(() => setupRedis({ named: "", onPath: [], cache, fetch })).toThrow(
      "this system's package has version 5.0.14",
    );
    expect(existsSync(cache)).toBe(false);
  });

  it("takes the libraries along that a small system lacks, whatever language its user speaks", () => {
    const asked = fakeApt("true");
    vi.stubEnv("LC_ALL", "de_DE.UTF-8");
    expect(fetchServer(cache)).toBeUndefined();
    expect(setupRedis({ named: "", onPath: [], cache }).version).toBe("7.0.15");
    expect(asked()).toMatch(/^C apt-get .* download redis-tools libssl3 liblzf1$/m);
  });

  it("tells of a mirror that cannot be reached, not of a package that is not known for that reason", () => {
    const asked = fakeApt("echo 'Could not resolve mirror' >&2; exit 100");
    expect(fetchServer(cache)).toContain("Could not resolve mirror");
    expect(asked()).toContain("APT::Update::Error-Mode=any");
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
