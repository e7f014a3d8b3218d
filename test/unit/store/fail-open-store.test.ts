import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import type { AcquireRequest, Hold, Reading, Store, StoreRead, StoreRequest } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { appendToClock, writeRecord } from "../../../src/core/store/clock-log.js";
import { FailOpenStore } from "../../../src/core/store/fail-open-store.js";
import { Channel } from "../../../src/core/telemetry/channel.js";
import type { CacheEvent } from "../../../src/core/telemetry/events.js";
import { originOf } from "../../support/clock-origin.js";

/**
 * A store with two nodes, `a` and `b`, chosen by the first letter of a name. Node `b` hangs and
 * counts its calls.
 */
function storeWithHangingNode(wrap: (inner: Store) => Store = (inner) => inner) {
  const clock = new FakeClock();
  const memory = memoryStore({ clock });
  const calls = { b: 0 };
  const inner = wrap(
    Object.create(memory, {
      nodeOf: { value: (name: string) => name[0] },
      read: {
        value: (keys: readonly string[]) => {
          if (!keys.some((name) => name.startsWith("b"))) return memory.read(keys);
          calls.b++;
          return new Promise(() => undefined);
        },
      },
    }) as Store,
  );
  const channel = new Channel();
  const events: CacheEvent[] = [];
  channel.listen((event) => events.push(event), []);
  return { clock, memory, calls, events, inner, store: new FailOpenStore(inner, clock, channel, 100) };
}

/** A store that records the size of its calls, and answers each with `reply`, or never. */
function storeWithBatches(isHanging: (batch: number) => boolean = () => false) {
  const clock = new FakeClock();
  const memory = memoryStore({ clock });
  const sizes: number[] = [];
  let running = 0;
  let maxRunning = 0;
  const inner = new Proxy(memory, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function" || property === "open") return value;
      return async (items: readonly unknown[], ...rest: unknown[]): Promise<unknown> => {
        if (property !== "appendClock") sizes.push(items.length);
        maxRunning = Math.max(maxRunning, ++running);
        if (isHanging(sizes.length)) await new Promise(() => undefined);
        const result: unknown = await value.call(target, items, ...rest);
        running--;
        return result;
      };
    },
  }) as Store;
  const channel = new Channel();
  const events: CacheEvent[] = [];
  channel.listen((event) => events.push(event), []);
  return { clock, sizes, maxRunning: () => maxRunning, events, store: new FailOpenStore(inner, clock, channel, 100) };
}

const TIMES = { leaseMs: 3_000, graceMs: 6_000, patienceMs: 500 };
const ORIGIN = { epoch: "an epoch", position: 1 };
const KEYS = Array.from({ length: 10_000 }, (_, index) => `key${index}`);
const storeRequestOf = (key: string, bytes: number): StoreRequest => ({
  key,
  gen: "g".repeat(16),
  grantedAt: 0,
  loadMs: 0,
  isNegative: false,
  freshMs: 1,
  ttlMs: 1,
  body: new Uint8Array(bytes),
});
const leaseRequests = KEYS.map((key) => ({ key, oldestPosition: 0, supersededAt: 0 }));

it("says once what has failed if the store is not connected and does not reply", async () => {
  const connectionTo = () => ({ error: new Error("connect ECONNREFUSED") });
  const { clock, store } = storeWithHangingNode((inner) => Object.assign(inner, { connectionTo }));
  const reading = store.read(["b1"]);
  await clock.advance(110);
  const [failed] = (await reading).readings;
  expect((failed as Extract<Reading, { kind: "failed" }>).error).toMatchObject({
    message:
      "store: `read` failed: no reply within 100 ms; check the store, or raise `storage.storeTimeoutMs` (connection: connect ECONNREFUSED)",
  });
});

it("lets a request that outlives its cache read on, but neither take a lease nor store a value", async () => {
  const { sizes, store } = storeWithBatches();
  const origin = await originOf(store);
  const values = [storeRequestOf("key0", 10)];
  expect(await store.storeValues(values)).toEqual(["refused"]);
  const close = store.open({ wakeChannel: "wakes", reports: "reports", clock: "clock" }, { wake: () => undefined });
  close();
  sizes.length = 0;
  expect(await store.acquire(leaseRequests.slice(0, 1), TIMES, origin)).toMatchObject([
    { kind: "unavailable", error: { message: expect.stringContaining("the cache is closed") } },
  ]);
  expect(await store.storeValues(values)).toEqual(["unavailable"]);
  expect(sizes).toEqual([]);
  expect(await store.read(["key0"])).toMatchObject({ readings: [{ kind: "read" }] });
  expect(sizes).toEqual([1]);
});

describe("the keys of one tick", () => {
  it("are read and leased in batches of bounded size, one after the other", async () => {
    const { sizes, maxRunning, store } = storeWithBatches();
    const { readings } = await store.read(KEYS);
    expect(readings.filter(({ kind }) => kind === "read")).toHaveLength(KEYS.length);
    expect(Math.max(...sizes)).toBe(2_000);
    sizes.length = 0;
    const grants = await store.acquire(leaseRequests, TIMES, await originOf(store));
    expect(grants.filter(({ kind }) => kind === "granted")).toHaveLength(KEYS.length);
    expect(Math.max(...sizes)).toBe(500);
    expect(maxRunning()).toBe(1);
  });

  it("are not sent to a node any more once one of their batches has failed, which one event reports", async () => {
    const { clock, sizes, events, store } = storeWithBatches((batch) => batch === 3);
    const acquiring = store.acquire(leaseRequests, TIMES, await originOf(store));
    await clock.advance(1_000);
    const grants = await acquiring;
    expect(grants.slice(0, 1_000).filter(({ kind }) => kind === "granted")).toHaveLength(1_000);
    expect(grants.filter(({ kind }) => kind === "unavailable")).toHaveLength(9_000);
    expect(sizes).toEqual([500, 500, 500]);
    expect(events.map((event) => event.name === "store.failed" && event.nameCount)).toEqual([9_000]);
  });

  it("wait one time budget per 100 keys for their leases, at most five", async () => {
    for (const [count, budgets] of [
      [100, 1],
      [101, 2],
      [10_000, 5],
    ] as const) {
      const { clock, events, store } = storeWithBatches(() => true);
      const acquiring = store.acquire(leaseRequests.slice(0, count), TIMES, ORIGIN);
      await clock.advance(100 * budgets - 1);
      expect(events).toEqual([]);
      await clock.advance(1);
      expect((await acquiring).map(({ kind }) => kind)).toEqual(Array(count).fill("unavailable"));
    }
  });

  it("give back leases that are granted after the time budget", async () => {
    const clock = new FakeClock();
    const memory = memoryStore({ clock });
    const reply = gate();
    const inner = Object.create(memory, {
      acquire: {
        value: async (...args: Parameters<Store["acquire"]>) => {
          const grants = await memory.acquire(...args);
          await reply.passed;
          return grants;
        },
      },
      release: { value: memory.release.bind(memory) },
    }) as Store;
    const store = new FailOpenStore(inner, clock, new Channel(), 100);
    const requests = [{ key: "a", oldestPosition: 0, supersededAt: 0 }];
    const origin = await originOf(memory);
    const acquiring = store.acquire(requests, TIMES, origin);
    await clock.advance(200);
    expect(await acquiring).toMatchObject([{ kind: "unavailable" }]);
    expect(await memory.acquire(requests, TIMES, origin)).toMatchObject([{ kind: "busy" }]);
    reply.open();
    await settle();
    expect(await memory.acquire(requests, TIMES, origin)).toMatchObject([{ kind: "granted" }]);
  });

  it("are stored in batches of at most 1 MiB, unless a single value is larger", async () => {
    const { sizes, store } = storeWithBatches();
    const bodyBytes = [400_000, 400_000, 400_000, 2_000_000, 10, 10];
    const requests = bodyBytes.map((bytes, index) => storeRequestOf(`key${index}`, bytes));
    expect(await store.storeValues(requests)).toEqual(Array(6).fill("refused"));
    expect(sizes).toEqual([2, 1, 1, 2]);
  });

  it("are all removed where the store can, although one of their batches is refused", async () => {
    const clock = new FakeClock();
    const inner = chaosStore(memoryStore({ clock }));
    const seen: string[] = [];
    inner.remove = (keys) => {
      if (keys.includes("key0")) return Promise.reject(new Error("READONLY"));
      seen.push(...keys);
      return Promise.resolve();
    };
    const store = new FailOpenStore(inner, clock, new Channel(), 100);
    await expect(store.remove(KEYS)).rejects.toThrow("READONLY");
    expect(seen).toEqual(KEYS.slice(500));
  });
});

/** A clock whose timers fire `lateMs` late, as in a process whose event loop is blocked. */
class LateClock extends FakeClock {
  lateMs = 0;
  override after(delayMs: number, fn: () => void): () => void {
    return super.after(delayMs + this.lateMs, fn);
  }
}

describe("the values of one tick", () => {
  /** A store whose values have `bytes` each, and that records how many keys each read has. */
  function storeOfValues(bytes: number) {
    const sizes: number[] = [];
    const state = { isHanging: false };
    const clock = new FakeClock();
    const entry = { state: "value", body: new Uint8Array(bytes) };
    const inner = Object.create(memoryStore({ clock }), {
      read: {
        value: async (keys: readonly string[]) => {
          sizes.push(keys.length);
          if (state.isHanging) await new Promise(() => undefined);
          return {
            readings: keys.map(() => ({ kind: "read", entry, now: 0 })),
            clock: undefined,
          };
        },
      },
    }) as Store;
    return { clock, sizes, state, store: new FailOpenStore(inner, clock, new Channel(), 100) };
  }

  it("are read in batches that are expected to have 1 MiB at most, as large as the last ones were", async () => {
    const { sizes, store } = storeOfValues(100 * 1_024);
    await store.read(KEYS.slice(0, 100));
    await store.read(KEYS.slice(0, 25));
    expect(sizes).toEqual([100, 10, 10, 5]);
    const huge = storeOfValues(5 * 1_024 * 1_024);
    await huge.store.read(KEYS.slice(0, 2));
    await huge.store.read(KEYS.slice(0, 2));
    expect(huge.sizes).toEqual([2, 1, 1]);
  });

  it("are read in batches of half the size after one that has taken too long", async () => {
    const { clock, sizes, state, store } = storeOfValues(10);
    state.isHanging = true;
    for (let nth = 0; nth < 2; nth++) {
      const reading = store.read(KEYS.slice(0, 100));
      await clock.advance(500);
      expect((await reading).readings[0]).toMatchObject({ kind: "failed" });
    }
    state.isHanging = false;
    await store.read(KEYS.slice(0, 100));
    // Small values again.
    expect(sizes).toEqual([100, 50, 25, 75]);
  });

  it("are expected to be as large as before after a read without keys, whether or not the store has replied to that", async () => {
    const { clock, sizes, state, store } = storeOfValues(100 * 1_024);
    await store.read(KEYS.slice(0, 100));
    await store.read([]);
    state.isHanging = true;
    const reading = store.read([]);
    await clock.advance(100);
    await reading;
    state.isHanging = false;
    sizes.length = 0;
    await store.read(KEYS.slice(0, 25));
    expect(sizes).toEqual([10, 10, 5]);
  });
});

describe("the time budget of an operation", () => {
  it("does not pass while bytes arrive, up to ten budgets", async () => {
    const clock = new FakeClock();
    let received = 0;
    let reply: (read: unknown) => void = () => undefined;
    const inner = Object.create(memoryStore({ clock }), {
      connectionTo: { value: () => ({ received }) },
      read: { value: () => new Promise((resolve) => (reply = resolve)) },
    }) as Store;
    const store = new FailOpenStore(inner, clock, new Channel(), 100);
    const pass = async (ms: number, arriving: boolean): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 5) {
        if (arriving) received++;
        await clock.advance(5);
      }
    };
    const slow = store.read(["key"]);
    await pass(800, true);
    await pass(60, false);
    reply({ readings: [{ kind: "read", entry: undefined, now: 0 }], clock: undefined });
    expect((await slow).readings).toMatchObject([{ kind: "read" }]);
    const stuck = store.read(["key"]);
    await pass(300, true);
    await pass(200, false);
    expect((await stuck).readings).toMatchObject([{ kind: "failed" }]);
    const endless = store.read(["key"]);
    await pass(1_200, true);
    expect((await endless).readings).toMatchObject([{ kind: "failed" }]);
  });

  it("does not run out while this process is too busy to read replies", async () => {
    const clock = new LateClock();
    let reply: () => void = () => undefined;
    const inner = Object.create(memoryStore({ clock }), {
      read: {
        value: (keys: readonly string[]) =>
          new Promise((resolve) => {
            reply = () =>
              resolve({
                readings: keys.map(() => ({ kind: "read", entry: undefined, now: 0 })),
                clock: undefined,
              });
          }),
      },
    }) as Store;
    const store = new FailOpenStore(inner, clock, new Channel(), 100);
    clock.lateMs = 40;
    const reading = store.read(["key"]);
    await clock.advance(1_000);
    reply();
    expect((await reading).readings).toEqual([{ kind: "read", entry: undefined, now: 0 }]);
  });

  it("runs out in the end in a process that is always busy", async () => {
    const clock = new LateClock();
    const inner = chaosStore(memoryStore({ clock }));
    inner.chaos.mode = "hangs";
    const store = new FailOpenStore(inner, clock, new Channel(), 100);
    clock.lateMs = 40;
    const reading = store.read(["key"]);
    await clock.advance(1_200);
    await settle();
    expect((await reading).readings).toMatchObject([{ kind: "failed" }]);
  });
});

describe("a store with a hanging node", () => {
  it("fails only the keys of the hanging node", async () => {
    const { clock, memory, store } = storeWithHangingNode();
    const head = await memory.appendClock([]);
    const reading = store.read(["a1", "b1", "a2"]);
    await clock.advance(110);
    const { readings, clock: shown } = await reading;
    expect(readings.map(({ kind }) => kind)).toEqual(["read", "failed", "read"]);
    expect(shown).toBe(head);
  });

  it("stops calling the hanging node once its breaker is open, and still reads keys of the other node", async () => {
    const { clock, calls, events, store } = storeWithHangingNode();
    for (let nth = 0; nth < 5; nth++) {
      const reading = store.read(["b1"]);
      await clock.advance(110);
      await reading;
    }
    expect(calls.b).toBe(5);
    const { readings } = await store.read(["a1", "b1"]);
    expect(readings.map(({ kind }) => kind)).toEqual(["read", "failed"]);
    expect(calls.b).toBe(5);
    expect(new Set(events.map((event) => ("node" in event ? event.node : "")))).toEqual(new Set(["b"]));
  });
});

describe("a read without keys", () => {
  it("shows the head of the clock, from whichever node the store asks", async () => {
    const { memory, store } = storeWithHangingNode();
    const head = await memory.appendClock([]);
    expect(await store.read([])).toEqual({ readings: [], clock: head });
  });

  it("shows nothing if the store fails, within one time budget", async () => {
    const clock = new FakeClock();
    const inner = chaosStore(memoryStore({ clock }));
    const store = new FailOpenStore(inner, clock, new Channel(), 100);
    inner.chaos.mode = "hangs";
    const read = store.read([]);
    await clock.advance(100);
    expect(await read).toEqual({ readings: [], clock: undefined });
  });
});

describe("a store of several nodes, one of which takes no invalidation", () => {
  it("lets its log be read, however many invalidations have failed, and tries each of them", async () => {
    const clock = new FakeClock();
    const memory = memoryStore({ clock });
    let calls = 0;
    const failing = async (): Promise<Buffer> => {
      calls++;
      throw new Error("CLUSTERDOWN");
    };
    await memory.appendClock([]);
    const inner = Object.assign(memory, { nodeOf: (name: string) => name[0], appendClock: failing }) as Store;
    const store = new FailOpenStore(inner, clock, new Channel(), 100);
    const records = [writeRecord({ kind: "hard", subjects: [1] })];
    for (let nth = 0; nth < 20; nth++) await expect(store.appendClock(records)).rejects.toThrow("CLUSTERDOWN");
    expect(calls).toBe(20);
    expect(await store.readClock(0)).toBeDefined();
  });
});

describe("a store of a user that does not keep to the interface", () => {
  const withMethods = (methods: Readonly<Record<string, unknown>>) => {
    const clock = new FakeClock();
    const channel = new Channel();
    const events: CacheEvent[] = [];
    channel.listen((event) => events.push(event), []);
    const inner = Object.assign(memoryStore({ clock }), methods) as Store;
    return { events, store: new FailOpenStore(inner, clock, channel, 100) };
  };
  const withMethod = (name: string, value: unknown) => withMethods({ [name]: value });
  const WRONG: readonly (readonly [string, unknown])[] = [
    ["no promise", () => undefined],
    ["a promise of nothing", async () => undefined],
    ["a promise of too few results", async () => []],
    [
      "an error that it throws",
      () => {
        throw new TypeError("a mistake");
      },
    ],
  ];

  it.each<readonly [string, unknown]>([
    ...WRONG,
    ["a read of too few keys", async () => ({ readings: [], clock: Buffer.alloc(1) })],
  ])("fails its reads, as every other failure, if they return %s", async (_, read) => {
    const { events, store } = withMethod("read", read);
    const { readings, clock } = await store.read(["k"]);
    expect([readings.map(({ kind }) => kind), clock]).toEqual([["failed"], undefined]);
    expect(store.nodes).toMatchObject([{ lastFailure: { message: expect.any(String) } }]);
    expect(events.map(({ name }) => name)).toEqual(["store.failed"]);
  });

  it.each(WRONG)("fails what it does with several keys if that returns %s", async (_, method) => {
    const [request] = leaseRequests.slice(0, 1) as [AcquireRequest];
    expect(await withMethod("acquire", method).store.acquire([request], TIMES, ORIGIN)).toMatchObject([
      { kind: "unavailable" },
    ]);
    expect(
      await withMethod("storeValues", method).store.storeValues([
        { key: "k", body: Buffer.alloc(0) } as unknown as StoreRequest,
      ]),
    ).toEqual(["unavailable"]);
    expect(await withMethod("renew", method).store.renew([{ key: "k" } as Hold], TIMES)).toEqual([true]);
    const records = [writeRecord({ kind: "hard", subjects: [1] })];
    for (const appended of [[], records])
      await expect(withMethod("appendClock", method).store.appendClock(appended)).rejects.toThrow(
        "store: `appendClock` failed: ",
      );
  });

  it("confirms no invalidation by the head of another one, and returns nothing but bytes as its log", async () => {
    const other = appendToClock(undefined, [], 1_000, 10_000).head;
    const { store } = withMethods({ appendClock: async () => other, readClock: async () => [] });
    expect(await store.appendClock([])).toBe(other);
    const message = "expected the head of the clock after the last record, got another value";
    await expect(store.appendClock([writeRecord({ kind: "hard", subjects: [1] })])).rejects.toThrow(message);
    await expect(store.readClock(0)).rejects.toThrow("expected bytes of the log, or undefined, got another value");
  });

  it("fails its reads, and reports why, if connectionTo throws as well", async () => {
    const message = "store: `read` failed: a mistake";
    const fail = (): never => {
      throw new TypeError("a mistake");
    };
    const { events, store } = withMethods({ read: fail, connectionTo: fail });
    const { readings } = await store.read(["k"]);
    expect(readings.map(({ kind }) => kind)).toEqual(["failed"]);
    expect(store.nodes).toMatchObject([{ lastFailure: { message } }]);
    expect(events.map((event) => event.name === "store.failed" && (event.error as Error).message)).toEqual([message]);
  });

  it("reads and removes keys as on one node, and has a health, if nodeOf throws", async () => {
    const { store } = withMethod("nodeOf", () => {
      throw new TypeError("a mistake");
    });
    expect((await store.read(["k"])).readings.map(({ kind }) => kind)).toEqual(["read"]);
    await store.remove(["k"]);
    expect(store.nodes).toMatchObject([{ node: "", lastFailure: undefined }]);
    expect(await store.probe()).toMatchObject([{ node: "", error: undefined }]);
    expect(store.refusals).toEqual([]);
  });

  it("says what it has returned", async () => {
    const failure = async (read: unknown): Promise<string> => {
      const { events, store } = withMethod("read", read);
      await store.read(["k"]);
      return events.map((event) => (event.name === "store.failed" ? (event.error as Error).message : "")).join();
    };
    expect(await failure(() => undefined)).toBe(
      "store: `read` failed: expected a promise, got undefined; check the store with `storeConformance`",
    );
    expect(await failure(async () => ({ readings: [], clock: undefined }))).toBe(
      "store: `read` failed: expected one result for each key, in their order; check the store with `storeConformance`",
    );
  });
});

describe("the health of a store", () => {
  it("is known for each node: its last failure and breaker", async () => {
    const { clock, store } = storeWithHangingNode();
    await store.read(["a1"]);
    for (let nth = 0; nth < 5; nth++) {
      const read = store.read(["a1", "b1"]);
      await clock.advance(100);
      await read;
    }
    const [a, b] = store.nodes;
    expect(a).toMatchObject({
      node: "a",
      breaker: { status: { state: "closed" } },
      lastFailure: undefined,
    });
    expect(b).toMatchObject({
      node: "b",
      breaker: { status: { state: "open", sinceAt: clock.now() } },
    });
    expect(b?.lastFailure).toMatchObject({ at: clock.now(), message: expect.stringContaining("within 100 ms") });
  });

  it("is reported as failed for what it could not read besides the rest, without effect on its breaker", async () => {
    const clock = new FakeClock();
    const memory = memoryStore({ clock });
    const unread = new Set(["a2", "a3"]);
    const inner = Object.create(memory, {
      nodeOf: { value: (name: string) => name[0] },
      read: {
        value: async (keys: readonly string[]): Promise<StoreRead> => {
          const read = await memory.read(keys);
          const readingOf = (key: string, nth: number): Reading =>
            unread.has(key) ? { kind: "failed", error: new Error("TRYAGAIN") } : (read.readings[nth] as Reading);
          return { ...read, readings: keys.map(readingOf) };
        },
      },
    }) as Store;
    const channel = new Channel();
    const events: CacheEvent[] = [];
    channel.listen((event) => events.push(event), []);
    const store = new FailOpenStore(inner, clock, channel, 100);
    const kinds = async (): Promise<string[]> =>
      (await store.read(["a1", "a2", "a3", "b1"])).readings.map(({ kind }) => kind);
    for (let nth = 0; nth < 20; nth++) expect(await kinds()).toEqual(["read", "failed", "failed", "read"]);
    expect(events).toHaveLength(20);
    expect(events[0]).toMatchObject({
      name: "store.failed",
      node: "a",
      operation: "read",
      nameCount: 2,
      error: { code: "CACHED_STORE_UNAVAILABLE", message: expect.stringContaining("TRYAGAIN") },
    });
    expect(store.nodes[0]).toMatchObject({
      node: "a",
      breaker: { status: { state: "closed" } },
      lastFailure: { at: clock.now() },
    });
    unread.clear();
    expect(await kinds()).toEqual(Array(4).fill("read"));
    expect(events).toHaveLength(20);
    await clock.advance(30_000);
    await kinds();
    expect(events.slice(20)).toEqual([{ name: "store.recovered", node: "a" }]);
  });

  it("is probed on every node, also if the store does not say which nodes it has", async () => {
    const { clock, store } = storeWithHangingNode(
      (inner) =>
        Object.create(inner, {
          nodeOf: { value: nodeOfProbed },
          read: { value: (names: readonly string[]) => (nodeOfProbed(names[0]) === "b" ? NEVER : inner.read(names)) },
        }) as Store,
    );
    const probes = store.probe();
    await clock.advance(100);
    expect(await probes).toMatchObject([
      { node: "a", replyMs: 0 },
      { node: "b", replyMs: undefined, error: { code: "CACHED_STORE_UNAVAILABLE" } },
    ]);
    expect(store.nodes.map(({ node, lastFailure }) => [node, lastFailure !== undefined])).toEqual([
      ["a", false],
      ["b", true],
    ]);
  });
});

const NEVER = new Promise<StoreRead>(() => undefined);
/** Which node has a name that only a hash tag tells apart from others. */
const nodeOfProbed = (name = ""): string => (name.charCodeAt(name.length - 2) % 2 === 0 ? "a" : "b");
