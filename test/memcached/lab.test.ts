import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MemcacheClient } from "memcache-client";
import { describe, expect, inject, it } from "vitest";
import { setupMemcached } from "../../scripts/setup-memcached.mjs";

describe("looking for a memcached server", () => {
  it("ends in an error that names the three ways to one, and why it could not be fetched", () => {
    const none = { named: "", onPath: [], cache: "/nonexistent", fetch: () => "there is no network" };
    expect(() => setupMemcached(none)).toThrow(
      /no memcached server [\s\S]*\(there is no network\)[\s\S]*- set MEMCACHED_SERVER[\s\S]*- put one on PATH[\s\S]*- on Debian or Ubuntu/,
    );
  });

  it("refuses a MEMCACHED_SERVER that is none or too old, and does not look elsewhere", () => {
    expect(() => setupMemcached({ named: "/bin/true" })).toThrow(
      "MEMCACHED_SERVER names /bin/true, which is no memcached that runs here",
    );
    const folder = mkdtempSync(join(tmpdir(), "memcached-"));
    const old = join(folder, "memcached");
    writeFileSync(old, "#!/bin/sh\necho memcached 1.4.39\n", { mode: 0o755 });
    expect(() => setupMemcached({ named: old })).toThrow("version 1.4.39; at least 1.5 was expected");
    rmSync(folder, { recursive: true });
  });

  it("finds the one that the lab has started", async () => {
    const { server, version } = setupMemcached();
    expect(setupMemcached({ named: server })).toEqual({ server, version });
    const [{ host, port }] = inject("memcached");
    const client = new MemcacheClient({ server: `${host}:${port}` });
    expect(await client.version()).toEqual(["VERSION", version]);
    client.shutdown();
  });
});
