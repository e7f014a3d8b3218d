import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MemcacheClient } from "memcache-client";
import { describe, expect, it } from "vitest";
import { setupMemcached } from "../../../scripts/setup-memcached.mjs";
import { sharedServer } from "../../../test/support/shared-servers.js";

describe("setupMemcached", () => {
  it("throws an error that lists the three ways to provide a server and why none was downloaded", () => {
    const none = { named: "", onPath: [], cache: "/nonexistent", fetch: () => "there is no network" };
    expect(() => setupMemcached(none)).toThrow(
      /expected a memcached server [\s\S]*\(there is no network\)[\s\S]*- set MEMCACHED_SERVER[\s\S]*- install one on PATH[\s\S]*- on Debian or Ubuntu/,
    );
  });

  it("refuses a MEMCACHED_SERVER that is not memcached or too old, without trying other locations", () => {
    expect(() => setupMemcached({ named: "/bin/true" })).toThrow(
      "MEMCACHED_SERVER: expected a memcached that runs on this system, got /bin/true",
    );
    const folder = mkdtempSync(join(tmpdir(), "memcached-"));
    const oldServer = join(folder, "memcached");
    writeFileSync(oldServer, "#!/bin/sh\necho memcached 1.4.39\n", { mode: 0o755 });
    expect(() => setupMemcached({ named: oldServer })).toThrow(
      "expected a server of version 1.5 or newer, got version 1.4.39",
    );
    rmSync(folder, { recursive: true });
  });

  it("returns the path and version of the server that the lab has started", async () => {
    const { server, version } = setupMemcached();
    expect(setupMemcached({ named: server })).toEqual({ server, version });
    const [{ host, port }] = await sharedServer("memcached");
    const client = new MemcacheClient({ server: `${host}:${port}` });
    expect(await client.version()).toEqual(["VERSION", version]);
    client.shutdown();
  });
});
