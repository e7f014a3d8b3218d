import { type ConformanceSubject, FakeClock, gate, settle, storeConformance } from "@graphql-cached/testing";
import { createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { MapServer } from "./map-server.js";
import { mapStore } from "./map-store.js";

function subject(): ConformanceSubject {
  const clock = new FakeClock();
  const store = mapStore(new MapServer(() => clock.now()));
  const woken: ConformanceSubject["woken"] = [];
  store.open(
    { wakeChannel: "wake", reports: "reports", clock: "clock" },
    { wake: (key, entry, gen) => woken.push({ key, entry, gen }) },
  );
  return { store, woken, heard: [], elapse: (ms) => clock.advance(ms) };
}

describe("the map store", () => {
  // It tells of no heads, which the memory then asks for, and keeps no reports, which only the inspection reads.
  for (const { title, run } of storeConformance.filter(({ needs }) => needs === undefined || needs === "wakes"))
    it(title, async () => {
      await expect(run(subject(), "key")).resolves.toBeUndefined();
    });

  it("lets one of two caches load while the other waits for its value", async () => {
    const server = new MapServer();
    const open = gate();
    let loads = 0;
    const batch = async (ids: readonly number[]): Promise<string[]> => {
      loads++;
      await open.passed;
      return ids.map((id) => `film ${id}`);
    };
    const caches = [1, 2].map(() => createCache({ defaultScope: "PUBLIC", store: mapStore(server), prefix: "films" }));
    const loaders = caches.map((cache) => cache.loader({ name: "Film", maxAge: 60, batch }));
    const films = loaders.map((loader) => loader({}).load(7));
    await settle();
    open.open();
    expect(await Promise.all(films)).toEqual(["film 7", "film 7"]);
    expect(loads).toBe(1);
    await Promise.all(caches.map((cache) => cache.close()));
  });
});
