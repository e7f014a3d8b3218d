import { describe, expect, it } from "vitest";
import type { Server } from "../src/server.js";
import { Servers } from "../src/servers.js";

describe("Servers", () => {
  const byId = new Map(["a", "b", "c"].map((id) => [id, { id } as unknown as Server]));
  const names = Array.from({ length: 300 }, (_, nth) => `name ${nth}`);

  it("spread names over all servers, and keep pinned names on theirs", () => {
    const servers = new Servers(byId);
    for (const id of byId.keys())
      expect(names.filter((name) => servers.idOf(name) === id).length).toBeGreaterThan(names.length / 6);
    for (const [server, name] of servers.pinToEach("clock")) expect(byId.get(servers.idOf(name))).toBe(server);
  });

  it("fail only the names of the server that failed, in the order of the names", async () => {
    const servers = new Servers(byId);
    const results = await servers.forEachServer(names, async (server, ownNames) => {
      if (server === byId.get("b")) throw new Error("b is down");
      return ownNames;
    });
    for (const [nth, name] of names.entries()) {
      if (servers.idOf(name) === "b") expect(results[nth]).toEqual(new Error("b is down"));
      else expect(results[nth]).toBe(name);
    }
  });
});
