import { randomUUID } from "node:crypto";
import { instrumentCache } from "@graphql-cached/observability/opentelemetry";
import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { context, metrics, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { type DataPoint, type Histogram, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { graphql } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { sharedServer } from "../../../test/support/shared-servers.js";
import { METRICS } from "../src/metrics.js";

const silent = { info: () => undefined, warn: () => undefined };

/** Collects when it is asked to. */
class Reader extends MetricReader {
  protected onForceFlush = async (): Promise<void> => undefined;
  protected onShutdown = async (): Promise<void> => undefined;
}

describe("the metrics of OpenTelemetry", () => {
  function startMeter() {
    const reader = new Reader();
    const meterProvider = new MeterProvider({ readers: [reader] });
    onTestFinished(() => meterProvider.shutdown());
    const collect = async () => {
      const { resourceMetrics } = await reader.collect();
      return new Map(
        resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics).map((one) => [one.descriptor.name, one]),
      );
    };
    const pointsOf = async (name: string): Promise<[unknown, unknown][]> =>
      ((await collect()).get(name)?.dataPoints ?? []).map((point) => [
        point.attributes,
        typeof point.value === "number" ? point.value : (point as DataPoint<Histogram>).value.count,
      ]);
    return { meterProvider, collect, pointsOf };
  }

  function startCache(options: Parameters<typeof createCache>[0] = {}) {
    const cache = createCache({ defaultScope: "PUBLIC", logger: silent, ...options });
    onTestFinished(() => cache.close());
    const movies = cache.loader({
      name: "Movie",
      maxAge: 60,
      batch: async (ids: readonly number[]) => ids.map((id) => (id < 0 ? new RangeError(`no movie ${id}`) : id)),
    });
    return { cache, movies };
  }

  it("read the counters of the cache when they are collected, also what was counted before", async () => {
    const { meterProvider, pointsOf } = startMeter();
    const { cache, movies } = startCache({ prefix: "shop" });
    const load = async (id: number): Promise<unknown> => {
      const value = await movies({})
        .load(id)
        .catch((error: Error) => error.message);
      await settle();
      return value;
    };
    await load(7);
    instrumentCache(cache, { meterProvider, tracerProvider: false });
    await load(7);
    await load(7);
    await load(-1);
    const own = { cache: "shop", coordinate: "Movie" };
    expect(await pointsOf("graphql_cached.reads")).toEqual([
      [{ ...own, outcome: "hit" }, 2],
      [{ ...own, outcome: "loaded" }, 2],
    ]);
    expect(await pointsOf("graphql_cached.loads")).toEqual([[own, 2]]);
    expect(await pointsOf("graphql_cached.load.failures")).toEqual([[own, 1]]);
    expect(await pointsOf("graphql_cached.load.duration")).toEqual([[{ ...own, "error.type": "RangeError" }, 1]]);
    await load(7);
    expect(await pointsOf("graphql_cached.reads")).toContainEqual([{ ...own, outcome: "hit" }, 3]);
  });

  it("have the units and buckets of the table, seconds for durations", async () => {
    const { meterProvider, collect } = startMeter();
    const clock = new FakeClock();
    const { cache } = startCache({ testing: { clock } });
    instrumentCache(cache, { meterProvider, tracerProvider: false });
    const slow = cache.loader<number, number>({
      name: "Slow",
      maxAge: 60,
      batch: async (ids) => (await clock.advance(2_000), ids),
    });
    await slow({}).load(7);
    const duration = (await collect()).get("graphql_cached.load.duration");
    expect(duration?.descriptor).toMatchObject({ unit: "s" });
    const [point] = duration?.dataPoints ?? [];
    expect((point as DataPoint<Histogram>).value.buckets.boundaries).toEqual(
      METRICS["graphql_cached.load.duration"].bounds,
    );
    expect((point as DataPoint<Histogram>).value.sum).toBe(2);
  });

  it("count invalidations, bypasses and failures of the store", async () => {
    const { meterProvider, pointsOf } = startMeter();
    const store = chaosStore(Object.assign(memoryStore(), { isShared: true }));
    const { cache, movies } = startCache({ store, prefix: "shop" });
    instrumentCache(cache, { meterProvider, tracerProvider: false });
    await cache.invalidateTags(["featured"]);
    await cache.clear();
    store.chaos.mode = "throws";
    await movies({}).load(7);
    const via = (name: string) => ({ cache: "shop", via: name, kind: "hard", confirmed: "true" });
    expect(await pointsOf("graphql_cached.invalidations")).toEqual([
      [via("cache.invalidateTags"), 1],
      [via("cache.clear"), 1],
    ]);
    expect(await pointsOf("graphql_cached.bypasses")).toEqual([
      [{ cache: "shop", coordinate: "Movie", reason: "STORE_UNAVAILABLE" }, 1],
    ]);
    expect(await pointsOf("graphql_cached.store.failures")).toEqual([[{ cache: "shop", operation: "read" }, 1]]);
    expect(await pointsOf("graphql_cached.store.duration")).toContainEqual([
      { cache: "shop", operation: "read", "error.type": "CACHED_STORE_UNAVAILABLE" },
      1,
    ]);
  });

  it("count how long callers waited for the loads of others", async () => {
    const { meterProvider, pointsOf } = startMeter();
    const store = memoryStore();
    const loading = gate();
    const batch = async (ids: readonly number[]): Promise<readonly number[]> => {
      await loading.passed;
      return ids;
    };
    const start = () => {
      const { cache } = startCache({ store, prefix: "shop" });
      instrumentCache(cache, { meterProvider, tracerProvider: false });
      return cache.loader({ name: "Slow", maxAge: 60, batch });
    };
    const [here, elsewhere] = [start(), start()];
    const first = here({}).load(7);
    await settle();
    const others = [here({}).load(7), elsewhere({}).load(7)];
    await settle();
    loading.open();
    expect(await Promise.all([first, ...others])).toEqual([7, 7, 7]);
    const own = { cache: "shop", coordinate: "Slow" };
    expect(await pointsOf("graphql_cached.wait.duration")).toEqual([
      [{ ...own, holder: "local" }, 1],
      [{ ...own, holder: "remote" }, 1],
    ]);
  });

  it("tell several caches of a process apart, and end when they are stopped", async () => {
    const { meterProvider, pointsOf } = startMeter();
    const started = ["shop", "blog"].map((prefix) => {
      const { cache, movies } = startCache({ prefix });
      return { movies, instrumentation: instrumentCache(cache, { meterProvider, tracerProvider: false }) };
    });
    const loadAll = async (id: number): Promise<void> => {
      for (const { movies } of started) await movies({}).load(id);
    };
    const [shop, blog] = ["shop", "blog"].map((cache) => ({ cache, coordinate: "Movie" }));
    await loadAll(7);
    expect(await pointsOf("graphql_cached.loads")).toEqual([
      [shop, 1],
      [blog, 1],
    ]);
    started[0]?.instrumentation.stop();
    await loadAll(8);
    // The SDK goes on to report the last value.
    expect(await pointsOf("graphql_cached.loads")).toEqual([
      [shop, 1],
      [blog, 2],
    ]);
    expect(await pointsOf("graphql_cached.load.duration")).toEqual([
      [shop, 1],
      [blog, 2],
    ]);
  });

  it("are recorded once: a second use of a meter provider is refused until the first one has stopped", async () => {
    const { meterProvider, pointsOf } = startMeter();
    const { cache, movies } = startCache({ prefix: "shop" });
    const options = { meterProvider, tracerProvider: false } as const;
    const isRefused = (): void =>
      expect(() => instrumentCache(cache, options)).toThrow(
        expect.objectContaining({
          code: "CACHED_OPTION_INVALID",
          message: expect.stringMatching(/expected a cache whose metrics are not reported yet/) as string,
        }),
      );
    const first = instrumentCache(cache, options);
    isRefused();
    instrumentCache(cache, { ...options, meterProvider: startMeter().meterProvider });
    instrumentCache(startCache({ prefix: "blog" }).cache, options);
    await movies({}).load(7);
    expect(await pointsOf("graphql_cached.load.duration")).toEqual([[{ cache: "shop", coordinate: "Movie" }, 1]]);
    first.stop();
    const second = instrumentCache(cache, options);
    first.stop();
    isRefused();
    second.stop();
  });

  it("go to the global providers by default", async () => {
    const { meterProvider, pointsOf } = startMeter();
    metrics.setGlobalMeterProvider(meterProvider);
    onTestFinished(() => metrics.disable());
    const { cache, movies } = startCache();
    instrumentCache(cache).stop();
    instrumentCache(cache, { name: "mine" });
    await movies({}).load(7);
    expect(await pointsOf("graphql_cached.loads")).toEqual([[{ cache: "mine", coordinate: "Movie" }, 1]]);
  });
});

describe("instrumentCache", () => {
  it("refuses what is not a cache, unknown and invalid options, and a second use for spans", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const tracerProvider = new BasicTracerProvider();
    const code = "CACHED_OPTION_INVALID";
    const refused = (options: unknown, message: RegExp): void => {
      const instrument = (): unknown => instrumentCache(cache, options as never);
      expect(instrument).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) as string }));
    };
    expect(() => instrumentCache({} as Cache)).toThrow(/instrumentCache: expected a cache/);
    refused(null, /expected an object of options, got null/);
    refused({ meter: 1 }, /`meter`: unknown option; known are name, meterProvider/);
    refused({ meterProvider: {}, name: "" }, /`meterProvider`: expected a MeterProvider, or false.*`name`: expected/);
    const { stop } = instrumentCache(cache, { tracerProvider });
    refused({ tracerProvider }, /got one that is instrumented; call it once, or stop\(\) first/);
    stop();
    instrumentCache(cache, { tracerProvider }).stop();
    await cache.close();
  });
});

describe("the spans of OpenTelemetry", () => {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const tracer = tracerProvider.getTracer("test");
  beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
  afterEach(() => exporter.reset());
  afterAll(() => context.disable());

  const spansOf = (name: string): ReadableSpan[] => exporter.getFinishedSpans().filter((span) => span.name === name);
  const spanOf = (name: string): ReadableSpan => {
    const [span] = spansOf(name);
    if (span === undefined) throw new Error(`no span ${name} of ${exporter.getFinishedSpans().map((one) => one.name)}`);
    return span;
  };
  const idOf = (span: ReadableSpan): string => span.spanContext().spanId;

  /** Runs a request in a span of its own. */
  const inRequest = async <T>(name: string, run: () => Promise<T>): Promise<T> =>
    tracer.startActiveSpan(name, async (span) => {
      try {
        return await run();
      } finally {
        span.end();
      }
    });

  function startSite(load: (id: string) => unknown, options: Parameters<typeof createCache>[0] = {}) {
    const cache = createCache({
      defaultScope: "PUBLIC",
      prefix: "shop",
      logger: silent,
      defaults: { jitter: 0, earlyRefresh: 0 },
      ...options,
    });
    onTestFinished(() => cache.close());
    const instrumentation = instrumentCache(cache, {
      tracerProvider,
      meterProvider: false,
      serverAddress: "db.internal",
    });
    onTestFinished(() => instrumentation.stop());
    const typeDefs = [
      cachedTypeDefs,
      "type Query { movie(id: ID!): String @cached(maxAge: 60, staleWhileRevalidate: 60) }",
    ];
    const resolvers = { Query: { movie: (_: unknown, { id }: { id: string }) => load(id) } };
    const schema = applyCached(makeExecutableSchema({ typeDefs, resolvers }), cache);
    const ask = async (id: number) => {
      const result = await graphql({ schema, source: `{ movie(id: ${id}) }`, contextValue: {} });
      await settle();
      return result.data?.movie ?? result.errors?.[0]?.message;
    };
    return { cache, ask };
  }

  it("of loads are children of the request's span, and spans of the database are their children", async () => {
    const { ask } = startSite(async (id) => {
      tracer.startSpan(`SELECT ${id}`).end();
      await settle();
      tracer.startSpan(`SELECT again ${id}`).end();
      return id;
    });
    expect(await Promise.all([1, 2].map((id) => inRequest(`request ${id}`, () => ask(id))))).toEqual(["1", "2"]);
    const loads = spansOf("graphql_cached.load Query.movie");
    expect(loads).toHaveLength(2);
    for (const id of [1, 2]) {
      const load = loads.find((one) => one.parentSpanContext?.spanId === idOf(spanOf(`request ${id}`)));
      expect(load?.spanContext().traceId).toBe(spanOf(`request ${id}`).spanContext().traceId);
      expect(spanOf(`SELECT ${id}`).parentSpanContext?.spanId).toBe(load?.spanContext().spanId);
      expect(spanOf(`SELECT again ${id}`).parentSpanContext?.spanId).toBe(load?.spanContext().spanId);
      expect(load?.attributes).toEqual({
        "graphql_cached.cache": "shop",
        "graphql_cached.coordinate": "Query.movie",
        "graphql_cached.refresh": false,
        "graphql_cached.lease": expect.stringMatching(/^[0-9a-f]+$/) as string,
      });
    }
  });

  it("of hits are none but that of the store read", async () => {
    const { ask } = startSite((id) => id);
    await ask(7);
    exporter.reset();
    await inRequest("request", () => ask(7));
    expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual(["graphql_cached.store read", "request"]);
    const { attributes, kind, parentSpanContext } = spanOf("graphql_cached.store read");
    expect(parentSpanContext?.spanId).toBe(idOf(spanOf("request")));
    expect([kind, attributes]).toEqual([
      2,
      {
        "graphql_cached.cache": "shop",
        "db.system.name": "memory",
        "db.operation.name": "read",
        "server.address": "db.internal",
      },
    ]);
  });

  it("of a Redis Cluster have the database system that OpenTelemetry knows", async () => {
    const { ask } = startSite((id) => id, { store: { ...memoryStore(), name: "redis cluster" } });
    await inRequest("request", () => ask(7));
    expect(spanOf("graphql_cached.store read").attributes["db.system.name"]).toBe("redis");
  });

  it("of waiters have a link to the span of the load that they waited for", async () => {
    const loading = gate();
    const { ask } = startSite(() => loading.passed.then(() => "loaded"));
    const first = inRequest("first", () => ask(7));
    await settle();
    const second = inRequest("second", () => ask(7));
    await settle();
    loading.open();
    expect(await Promise.all([first, second])).toEqual(["loaded", "loaded"]);
    const load = spanOf("graphql_cached.load Query.movie");
    const wait = spanOf("graphql_cached.wait Query.movie");
    expect(load.parentSpanContext?.spanId).toBe(idOf(spanOf("first")));
    expect(wait.parentSpanContext?.spanId).toBe(idOf(spanOf("second")));
    expect(wait.links.map((link) => link.context)).toEqual([load.spanContext()]);
    expect(wait.attributes["graphql_cached.lease"]).toBe(load.attributes["graphql_cached.lease"]);
  });

  const stores: Readonly<Record<string, () => Promise<() => Store>>> = {
    "the memory store": async () => {
      const store = memoryStore();
      return () => store;
    },
    Redis: async () => {
      const server = await sharedServer("redisStandalone");
      return () => {
        const client = new Redis(server);
        onTestFinished(() => void client.disconnect());
        return redisStore({ client });
      };
    },
  };

  it.each(Object.keys(stores))(
    "of waiters in another process have the lease of the load in common with its span, on %s",
    async (name) => {
      const storeOf = (await stores[name]?.()) as () => Store;
      const prefix = `spans-${randomUUID()}`;
      const loading = gate();
      const load = vi.fn(() => loading.passed.then(() => "loaded"));
      const start = () => startSite(load, { store: storeOf(), prefix, storage: { storeTimeoutMs: 1_000 } });
      const [here, there] = [start(), start()];
      const first = inRequest("first", () => here.ask(7));
      await vi.waitFor(() => expect(load).toHaveBeenCalledTimes(1));
      const isAsking = vi.waitFor(() => expect(spansOf("graphql_cached.store acquire")).toHaveLength(2));
      const second = inRequest("second", () => there.ask(7));
      await isAsking;
      await settle();
      loading.open();
      expect(await Promise.all([first, second])).toEqual(["loaded", "loaded"]);
      expect(load).toHaveBeenCalledTimes(1);
      const wait = spanOf("graphql_cached.wait Query.movie");
      expect(wait.links).toEqual([]);
      expect(wait.attributes["graphql_cached.lease"]).toEqual(expect.stringMatching(/^[0-9a-f]+$/));
      expect(wait.attributes["graphql_cached.lease"]).toBe(
        spanOf("graphql_cached.load Query.movie").attributes["graphql_cached.lease"],
      );
    },
  );

  it("of refreshes are traces of their own, with a link to the request that found the stale value", async () => {
    const { cache, ask } = startSite((id) => id);
    await ask(7);
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } }, { soft: true });
    exporter.reset();
    await inRequest("request", () => ask(7));
    await settle();
    const load = spanOf("graphql_cached.load Query.movie");
    expect(load.parentSpanContext).toBeUndefined();
    expect(load.attributes["graphql_cached.refresh"]).toBe(true);
    expect(load.links.map((link) => link.context.spanId)).toEqual([idOf(spanOf("request"))]);
  });

  it("of failed loads have the type of the error and not its message", async () => {
    const { ask } = startSite(() => {
      throw new RangeError("alice@example.com");
    });
    expect(await inRequest("request", () => ask(7))).toBe("alice@example.com");
    const { status, attributes, events } = spanOf("graphql_cached.load Query.movie");
    expect([status, attributes["error.type"], events]).toEqual([{ code: SpanStatusCode.ERROR }, "RangeError", []]);
  });

  it("of a tracer that throws do not fail requests", async () => {
    const cache = createCache({ defaultScope: "PUBLIC", logger: silent });
    onTestFinished(() => cache.close());
    let calls = 0;
    const startSpan = (): never => {
      calls++;
      throw new Error("no more spans");
    };
    const broken = { getTracer: () => ({ startSpan, startActiveSpan: startSpan }) };
    instrumentCache(cache, { tracerProvider: broken, meterProvider: false });
    const movies = cache.loader({ name: "Movie", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    const reads = inRequest("request", () => Promise.all([movies({}).load(7), movies({}).load(7)]));
    expect(await reads).toEqual([7, 7]);
    // The read, the lease, the load, and the wait of the other caller.
    expect(calls).toBeGreaterThanOrEqual(4);
  });

  it("end when the instrumentation is stopped", async () => {
    const cache = createCache({ defaultScope: "PUBLIC", logger: silent });
    onTestFinished(() => cache.close());
    instrumentCache(cache, { tracerProvider }).stop();
    const movies = cache.loader({ name: "Movie", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    await inRequest("request", () => movies({}).load(7));
    expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual(["request"]);
    expect(trace.getActiveSpan()).toBeUndefined();
  });
});
