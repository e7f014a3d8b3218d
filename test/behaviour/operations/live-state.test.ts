import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { inspectedSite } from "../../support/inspected-site.js";

const NOW = Date.parse("2026-01-02T03:04:05.000Z");
const ID = expect.stringMatching(/^[0-9a-f]{16}$/);

function createSite(options: object = {}) {
  const clock = new FakeClock(NOW);
  const store = chaosStore(memoryStore({ clock }));
  const site = inspectedSite({ store, prefix: "live", testing: { clock }, ...options });
  return { ...site, advance: (ms: number) => clock.advance(ms), chaos: store.chaos };
}

describe("cacheInspection.leases", () => {
  it("shows loads under way, oldest first, with their age and the callers that wait for them", async () => {
    const { advance, ask, inspect, state } = createSite();
    state.hold = gate();
    const answers = [ask("{ page(id: 1) }"), ask("{ page(id: 1) }")];
    await settle();
    await advance(1_500);
    // Joins the load that is under way.
    answers.push(ask("{ page(id: 1) }"), ask("{ page(id: 2) }"));
    await settle();
    const selection = "process coordinate digest state since forMs isRefresh waiters";
    const { leases } = await inspect<{ leases: unknown[] }>(`leases { ${selection} }`);
    const lease = { process: ID, coordinate: "Query.page", digest: expect.any(String), state: "LOADING" };
    expect(leases).toEqual([
      { ...lease, since: "2026-01-02T03:04:05.000Z", forMs: 1_500, isRefresh: false, waiters: 3 },
      { ...lease, since: "2026-01-02T03:04:06.500Z", forMs: 0, isRefresh: false, waiters: 1 },
    ]);
    expect(await inspect("leases(first: 1) { forMs }")).toEqual({ leases: [{ forMs: 1_500 }] });
    expect(await inspect("leases(first: 0) { forMs }")).toEqual({ leases: [] });
    state.hold.open();
    await Promise.all(answers);
    await settle();
    expect(await inspect("leases { forMs } states { leases }")).toEqual({ leases: [], states: [{ leases: 0 }] });
  });

  it("shows a background refresh, for which no caller waits", async () => {
    const { advance, ask, inspect, state } = createSite();
    await ask("{ page(id: 1) }");
    await advance(61_000);
    state.hold = gate();
    await ask("{ page(id: 1) }");
    await settle();
    expect(await inspect("leases { isRefresh waiters }")).toEqual({ leases: [{ isRefresh: true, waiters: 0 }] });
    state.hold.open();
  });

  it.each(["leases", "events", "invalidations"])("refuses a negative number of %s", async (field) => {
    const { ask } = createSite();
    const [error] = (await ask(`{ cacheInspection { ${field}(first: -1) { __typename } } }`)).errors ?? [];
    expect(error?.message).toBe(`cacheInspection.${field}: \`first\`: expected an integer of at least 0, got -1`);
    expect(error?.extensions.code).toBe("CACHED_OPTION_INVALID");
  });
});

describe("cacheInspection.fields", () => {
  it("shows how many loads of each field run and wait, and the limits", async () => {
    const { ask, inspect, state } = createSite({ loads: { maxConcurrentLoads: 2, maxQueuedLoads: 9 } });
    state.hold = gate();
    const answers = [1, 2, 3].map((id) => ask(`{ page(id: ${id}) }`));
    await settle();
    const selection = "coordinate breaker { state } bulkhead { process running queued overdue maxRunning maxQueued }";
    const limits = { process: ID, overdue: 0, maxRunning: 2, maxQueued: 9 };
    expect(await inspect(`fields { ${selection} }`)).toEqual({
      fields: [
        { coordinate: "Query.page", breaker: [], bulkhead: [{ ...limits, running: 2, queued: 1 }] },
        { coordinate: "Query.other", breaker: [], bulkhead: [{ ...limits, running: 0, queued: 0 }] },
      ],
    });
    state.hold.open();
    await Promise.all(answers);
  });

  it("counts loads that have exceeded their time limit and still run as overdue", async () => {
    const { advance, ask, inspect, state } = createSite({ loads: { loadTimeoutMs: 1_000 } });
    state.hold = gate();
    const answer = ask("{ page(id: 1) }");
    await settle();
    await advance(1_000);
    expect((await answer).errors).toHaveLength(1);
    const { fields } = await inspect<{ fields: unknown[] }>("fields { bulkhead { running overdue } }");
    expect(fields[0]).toEqual({ bulkhead: [{ running: 0, overdue: 1 }] });
    state.hold.open();
  });

  it("shows the breaker of each field: since when it is open, when it is probed, and when it has closed", async () => {
    const { advance, ask, inspect, state } = createSite({ loads: { breakerThreshold: 2, errorBackoffMs: 1 } });
    const breakers = async (): Promise<unknown[]> => {
      const { fields } = await inspect<{ fields: { breaker: unknown[] }[] }>("fields { breaker { state since } }");
      return fields.flatMap(({ breaker }) => breaker);
    };
    expect(await breakers()).toEqual([
      { state: "CLOSED", since: null },
      { state: "CLOSED", since: null },
    ]);
    state.failure = new Error("down");
    await advance(1_000);
    for (const id of [1, 2]) await ask(`{ page(id: ${id}) }`);
    expect((await breakers())[0]).toEqual({ state: "OPEN", since: "2026-01-02T03:04:06.000Z" });
    await advance(250);
    expect((await breakers())[0]).toEqual({ state: "HALF_OPEN", since: "2026-01-02T03:04:06.000Z" });
    state.failure = undefined;
    expect((await ask("{ page(id: 3) }")).errors).toBeUndefined();
    expect(await breakers()).toEqual([
      { state: "CLOSED", since: "2026-01-02T03:04:06.250Z" },
      { state: "CLOSED", since: null },
    ]);
  });
});

describe("cacheInspection.store", () => {
  it("shows the entries and bytes of the memory store, and how long its operations took", async () => {
    const { ask, inspect } = createSite();
    await ask("{ page(id: 1) other }");
    await settle();
    const { store } = await inspect<{ store: { nodes: { connections: { operations: number }[] }[] } }>(
      "store { name nodes { node server { entries usedBytes maxBytes evictionPolicy version } serverMissing " +
        "connections { process breaker { process state since } latency { operations p50Ms maxMs } operations failures lastFailure { at } } } }",
    );
    const operations = store.nodes[0]?.connections[0]?.operations;
    expect(operations).toBeGreaterThan(3);
    expect(store).toEqual({
      name: "memory",
      nodes: [
        {
          node: "",
          server: {
            entries: 2,
            usedBytes: expect.any(Number),
            maxBytes: 64 * 1024 * 1024,
            evictionPolicy: "lru",
            version: null,
          },
          serverMissing: null,
          connections: [
            {
              process: ID,
              breaker: { process: ID, state: "CLOSED", since: null },
              latency: { operations, p50Ms: 0, maxMs: 0 },
              operations,
              failures: 0,
              lastFailure: null,
            },
          ],
        },
      ],
    });
  });

  it("shows failures, the breaker and the cause while the store hangs, and answers within the time budget", async () => {
    const { advance, ask, chaos, inspect } = createSite();
    await ask("{ page(id: 1) }");
    await settle();
    chaos.mode = "hangs";
    for (let nth = 0; nth < 5; nth++) {
      const answer = ask("{ page(id: 1) }");
      await advance(100);
      await answer;
    }
    const shown = inspect<{ store: { nodes: [{ connections: [object] }] } }>(
      "store { nodes { server { entries } serverMissing connections { breaker { state since } latency { maxMs } failures lastFailure { at message } } } }",
    );
    await advance(100);
    const [node] = (await shown).store.nodes;
    expect(node).toEqual({
      server: null,
      serverMissing: expect.stringMatching(/^store: `inspect` failed: no reply within 100 ms/),
      connections: [
        {
          breaker: { state: "OPEN", since: "2026-01-02T03:04:05.500Z" },
          latency: { maxMs: 100 },
          failures: 5,
          lastFailure: {
            at: "2026-01-02T03:04:05.500Z",
            message: expect.stringMatching(/^store: `read` failed: no reply within 100 ms/),
          },
        },
      ],
    });
  });

  it("leaves the rest of the answer whole if the store hangs when it is asked for an entry or the history", async () => {
    const { advance, ask, chaos } = createSite();
    chaos.mode = "hangs";
    const parts = 'invalidations { count } entry(coordinate: "Query.other") { state } processes { isThis }';
    const answer = ask(`{ cacheInspection { ${parts} } }`);
    await advance(1_000);
    const { data, errors } = await answer;
    expect(data).toEqual({ cacheInspection: { invalidations: null, entry: null, processes: [{ isThis: true }] } });
    expect(errors?.map(({ path, extensions }) => [path?.at(-1), extensions.code])).toEqual([
      ["entry", "CACHED_STORE_UNAVAILABLE"],
      ["invalidations", "CACHED_STORE_UNAVAILABLE"],
    ]);
  });

  it("says that the store does not report its state", async () => {
    const clock = new FakeClock();
    const store = Object.create(memoryStore({ clock }), { inspect: { value: undefined } });
    const { inspect } = inspectedSite({ store: bound(store), prefix: "live", testing: { clock } });
    expect(await inspect("store { nodes { server { entries } serverMissing } }")).toEqual({
      store: { nodes: [{ server: null, serverMissing: "the memory store does not report its state" }] },
    });
  });
});

/** The methods of a store with private fields work on the store itself only. */
function bound(store: object): never {
  const target = Object.getPrototypeOf(store) as object;
  return new Proxy(store, {
    get: (own, property) => {
      const value: unknown = Reflect.get(own, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  }) as never;
}

describe("cacheInspection.events", () => {
  it("counts equal events as one, shows the newest first, and of an error only its code or name", async () => {
    const { advance, ask, chaos, inspect, state } = createSite({ loads: { errorBackoffMs: 1 } });
    state.failure = Object.assign(new Error("secret text"), { extensions: { code: "UPSTREAM_DOWN" } });
    for (const id of [1, 2]) await ask(`{ page(id: ${id}) }`);
    await advance(2_000);
    state.failure = new TypeError("secret text");
    await ask("{ page(id: 3) }");
    await settle();
    chaos.mode = "throws";
    await advance(1_000);
    await ask("{ other }");
    const { events } = await inspect<{ events: object[] }>(
      "events { process name at firstAt count coordinate digest node detail error }",
    );
    const load = {
      process: ID,
      name: "load.failed",
      coordinate: "Query.page",
      digest: expect.any(String),
      node: null,
      detail: null,
    };
    expect(events).toEqual([
      expect.objectContaining({
        name: "store.failed",
        node: "",
        detail: "read",
        error: "CACHED_STORE_UNAVAILABLE",
        coordinate: null,
      }),
      { ...load, at: "2026-01-02T03:04:07.000Z", firstAt: "2026-01-02T03:04:07.000Z", count: 1, error: "TypeError" },
      {
        ...load,
        at: "2026-01-02T03:04:05.000Z",
        firstAt: "2026-01-02T03:04:05.000Z",
        count: 2,
        error: "UPSTREAM_DOWN",
      },
    ]);
    expect(await inspect("events(first: 1) { name }")).toEqual({ events: [{ name: "store.failed" }] });
  });

  it("contains nothing about hits, loads and stores that succeed", async () => {
    const { ask, inspect } = createSite();
    for (let nth = 0; nth < 3; nth++) {
      await ask("{ page(id: 1) }");
      await settle();
    }
    expect(await inspect("events { name }")).toEqual({ events: [] });
  });
});

describe("cacheInspection.states", () => {
  it("shows readers that wait, loads without a lease, and unconfirmed invalidations", async () => {
    const { advance, ask, cache, chaos, inspect, state } = createSite();
    state.hold = gate();
    const answers = [1, 1, 2].map((id) => ask(`{ page(id: ${id}) }`));
    await settle();
    const queues = "queues { waitingReaders waitingKeys unleasedRunning unleasedQueued enqueuing }";
    const idle = { waitingReaders: 0, waitingKeys: 0, unleasedRunning: 0, unleasedQueued: 0, enqueuing: 0 };
    expect(await inspect(`states { process leases ${queues} nearCache { hits } }`)).toEqual({
      states: [{ process: ID, leases: 2, queues: { ...idle, waitingReaders: 3 }, nearCache: null }],
    });
    chaos.mode = "throws";
    await advance(5_000);
    await expect(cache.invalidateTags(["Page:1", "Page:2"])).rejects.toThrow("appendClock");
    await advance(100);
    // The first of these begins a load without a lease; those that ask later wait for the next one.
    answers.push(ask("{ page(id: 1) }"));
    await settle();
    answers.push(ask("{ page(id: 1) }"));
    await settle();
    expect(
      await inspect(`states { ${queues} unconfirmedInvalidations { keys tags coordinates everything since } }`),
    ).toEqual({
      states: [
        {
          queues: { ...idle, waitingReaders: 3, unleasedRunning: 1, unleasedQueued: 1 },
          unconfirmedInvalidations: {
            keys: 0,
            // Page:1, Page:2 and Page:*.
            tags: 3,
            coordinates: 0,
            everything: false,
            since: "2026-01-02T03:04:10.000Z",
          },
        },
      ],
    });
    chaos.mode = undefined;
    state.hold.open();
    await Promise.all(answers);
    await advance(6_000);
    expect(await inspect(`states { ${queues} unconfirmedInvalidations { tags since } }`)).toEqual({
      states: [{ queues: idle, unconfirmedInvalidations: { tags: 0, since: null } }],
    });
  });

  it("counts no readers any more once an `exists` guard has answered them", async () => {
    const answer = gate();
    const { cache, inspect } = createSite();
    const exists = { has: (ids: readonly number[]) => answer.passed.then(() => ids.map(() => false)) };
    const movies = cache.loader({ name: "Movie", maxAge: 60, exists, batch: async (ids: readonly number[]) => ids });
    const loads = [movies({}).load(1), movies({}).load(2)];
    await settle();
    expect(await inspect("states { queues { waitingReaders } }")).toEqual({
      states: [{ queues: { waitingReaders: 2 } }],
    });
    answer.open();
    expect(await Promise.all(loads)).toEqual([null, null]);
    expect(await inspect("states { queues { waitingReaders } }")).toEqual({
      states: [{ queues: { waitingReaders: 0 } }],
    });
  });

  it("shows refresh jobs that the queue has not taken yet", async () => {
    const taken = gate();
    const { advance, ask, inspect } = createSite({ loads: { refreshQueue: () => taken.passed } });
    await ask("{ page(id: 1) }");
    await advance(61_000);
    await ask("{ page(id: 1) }");
    await settle();
    expect(await inspect("states { queues { enqueuing } }")).toEqual({ states: [{ queues: { enqueuing: 1 } }] });
    taken.open();
    await settle();
    expect(await inspect("states { queues { enqueuing } }")).toEqual({ states: [{ queues: { enqueuing: 0 } }] });
  });
});
