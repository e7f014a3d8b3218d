import { collectMetrics } from "@graphql-cached/observability/prometheus";
import { chaosStore, settle } from "@graphql-cached/testing";
import { type Cache, createCache, memoryStore } from "graphql-cached";
import { Counter, Registry } from "prom-client";
import { describe, expect, it, onTestFinished } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { METRICS } from "../src/metrics.js";

function startCache(options: Parameters<typeof createCache>[0] = {}) {
  const cache = createCache({
    defaultScope: "PUBLIC",
    logger: { info: () => undefined, warn: () => undefined },
    ...options,
  });
  onTestFinished(() => cache.close());
  const movies = cache.loader({ name: "Movie", maxAge: 60, batch: async (ids: readonly number[]) => ids });
  const load = async (): Promise<void> => {
    await movies({}).load(7);
    await settle();
  };
  return { cache, load };
}

/** The samples of a registry whose names match, without the buckets and without zeros. */
async function samplesOf(register: Registry, name: RegExp): Promise<string[]> {
  const lines = (await register.metrics()).split("\n");
  return lines.filter((line) => name.test(line) && !/^#|_bucket|_sum| 0$/.test(line));
}

describe("the metrics of Prometheus", () => {
  it("read the counters of the cache when they are scraped, and do not add them up", async () => {
    const register = new Registry();
    const { cache, load } = startCache({ prefix: "shop" });
    await load();
    collectMetrics(cache, { register });
    await load();
    for (let nth = 0; nth < 2; nth++)
      expect(await samplesOf(register, /reads|loads/)).toEqual([
        'graphql_cached_reads_total{cache="shop",coordinate="Movie",outcome="hit"} 1',
        'graphql_cached_reads_total{cache="shop",coordinate="Movie",outcome="loaded"} 1',
        'graphql_cached_loads_total{cache="shop",coordinate="Movie"} 1',
      ]);
  });

  it("have a histogram of seconds for loads and for store operations", async () => {
    const register = new Registry();
    const store = chaosStore(Object.assign(memoryStore(), { isShared: true }));
    const { cache, load } = startCache({ prefix: "shop", store });
    collectMetrics(cache, { register });
    await load();
    store.chaos.mode = "throws";
    await load();
    expect(await samplesOf(register, /load_duration/)).toEqual([
      'graphql_cached_load_duration_seconds_count{cache="shop",coordinate="Movie"} 2',
    ]);
    expect(new Set(await samplesOf(register, /store_duration.*"read"/))).toEqual(
      new Set([
        'graphql_cached_store_duration_seconds_count{cache="shop",operation="read",error_type="CACHED_STORE_UNAVAILABLE"} 1',
        'graphql_cached_store_duration_seconds_count{cache="shop",operation="read"} 1',
      ]),
    );
  });

  it("measure no operations of a store in the memory of the process", async () => {
    const register = new Registry();
    const { cache, load } = startCache();
    collectMetrics(cache, { register });
    await load();
    expect(await samplesOf(register, /store_duration/)).toEqual([]);
    expect(partsOf(cache, "test").channel.storeListeners).toEqual([]);
  });

  it("tell several caches of a process apart, and leave the registry with the last one", async () => {
    const register = new Registry();
    const [shop, blog] = [startCache({ prefix: "shop" }), startCache()];
    const collections = [
      collectMetrics(shop.cache, { register }),
      collectMetrics(blog.cache, { register, name: "blog" }),
    ];
    await shop.load();
    await blog.load();
    const shopLoads = 'graphql_cached_loads_total{cache="shop",coordinate="Movie"} 1';
    const blogLoads = 'graphql_cached_loads_total{cache="blog",coordinate="Movie"} 1';
    expect(await samplesOf(register, /loads/)).toEqual([shopLoads, blogLoads]);
    collections[0]?.stop();
    expect(await samplesOf(register, /loads/)).toEqual([blogLoads]);
    collections[0]?.stop();
    collections[1]?.stop();
    expect(await register.metrics()).toBe("\n");
  });

  it("count a cache once that is added twice, until both collections are stopped", async () => {
    const register = new Registry();
    const { cache, load } = startCache({ prefix: "shop" });
    const collections = [collectMetrics(cache, { register }), collectMetrics(cache, { register, name: "shop" })];
    await load();
    const loads = 'graphql_cached_loads_total{cache="shop",coordinate="Movie"} 1';
    const durations = 'graphql_cached_load_duration_seconds_count{cache="shop",coordinate="Movie"} 1';
    expect(await samplesOf(register, /loads_total|load_duration/)).toEqual([loads, durations]);
    expect(() => collectMetrics(cache, { register, name: "other" })).toThrow(
      'collectMetrics: `name`: expected "shop", under which the registry has this cache, got "other"',
    );
    collections[0]?.stop();
    collections[0]?.stop();
    expect(await samplesOf(register, /loads_total/)).toEqual([loads]);
    collections[1]?.stop();
    expect(await register.metrics()).toBe("\n");
    await load();
    collectMetrics(cache, { register });
    expect(await samplesOf(register, /loads_total/)).toEqual([loads]);
  });

  it("stay in a registry that was emptied and filled again when an older collection stops", async () => {
    const register = new Registry();
    const { cache, load } = startCache({ prefix: "shop" });
    const older = collectMetrics(cache, { register });
    register.clear();
    collectMetrics(cache, { register });
    older.stop();
    await load();
    expect(await samplesOf(register, /loads_total/)).toEqual([
      'graphql_cached_loads_total{cache="shop",coordinate="Movie"} 1',
    ]);
  });

  it("have the names that OpenTelemetry's metrics get in Prometheus", async () => {
    const register = new Registry();
    collectMetrics(startCache().cache, { register });
    const names = (await register.getMetricsAsJSON()).map(({ name, type }) => [name, type]);
    expect(names).toEqual(
      Object.entries(METRICS).map(([name, { kind }]) => [
        `${name.replaceAll(".", "_")}_${kind === "counter" ? "total" : "seconds"}`,
        kind,
      ]),
    );
  });

  it("refuse what is no cache and no registry, and names that are taken", async () => {
    const { cache } = startCache();
    const register = new Registry();
    new Counter({ name: "graphql_cached_loads_total", help: "of another program", registers: [register] });
    expect(() => collectMetrics({} as Cache, { register })).toThrow(/collectMetrics: expected a cache/);
    expect(() => collectMetrics(cache, {} as never)).toThrow(
      /`register`: expected a Registry of prom-client, got undef/,
    );
    expect(() => collectMetrics(cache, { register, name: 7, prefix: 1 } as never)).toThrow(
      /`name`: expected a non-empty string, got 7; `prefix`: unknown option/,
    );
    expect(() => collectMetrics(cache, { register })).toThrow(/without a metric `graphql_cached_loads_total`/);
    expect((await register.getMetricsAsJSON()).map(({ name }) => name)).toEqual(["graphql_cached_loads_total"]);
  });
});
