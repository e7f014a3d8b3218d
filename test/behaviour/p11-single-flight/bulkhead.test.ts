import { gate, settle } from "@graphql-cached/testing";
import DataLoader from "dataloader";
import type { CachedLoader } from "graphql-cached";
import { afterEach, describe, expect, it } from "vitest";
import { abortSignal, client, HUNG_UP } from "../../support/client.js";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, memoryWorld, messageOf, timedWorld } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page(id: Int!): Int @cached(maxAge: 10, staleIfError: 100)
    other: Int @cached(maxAge: 10)
    outer(id: Int!): Int @cached(maxAge: 10)
  }
`;
const AWAY = "the source is away";
const away = (): never => {
  throw new Error(AWAY);
};
const REFUSED = { code: "CACHED_SOURCE_UNAVAILABLE" };
const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

/** Starts a process whose pages are loaded by `load`, with options for loads. */
function startPages(load: (id: number) => unknown, loads: object, world = timedWorld()) {
  const page = (_: unknown, { id }: { id: number }) => load(id);
  const outer = async (_: unknown, { id }: { id: number }): Promise<number> => {
    if (id > 0) await dataOf(ask(`{ outer(id: ${-id}) }`));
    return id;
  };
  const process = world.process(
    typeDefs,
    { Query: { page, other: () => 7, outer } },
    { loads: { abortSignal, ...loads } },
  );
  const ask = (source: string, context = {}) => process.ask(source, context);
  const askPage = (id: number, context = {}) => ask(`{ page(id: ${id}) }`, context);
  const errorOf = async (id: number) => (await askPage(id)).errors?.[0]?.originalError;
  return { ...process, clock: world.clock, chaos: world.chaos, ask, askPage, errorOf };
}

/** Starts a process whose page loads wait at a gate, and counts how many run at a time. */
function createGuardedProcess(loads: object) {
  const state = {
    running: 0,
    maxRunning: 0,
    started: [] as number[],
    loadGate: gate(),
    failure: undefined as Error | undefined,
  };
  const load = async (id: number): Promise<number> => {
    state.started.push(id);
    state.running++;
    state.maxRunning = Math.max(state.maxRunning, state.running);
    await state.loadGate.passed;
    state.running--;
    if (state.failure !== undefined) throw state.failure;
    return id;
  };
  /** Lets loads that begin from now on pass. */
  const openGate = (): void => {
    state.loadGate = gate();
    state.loadGate.open();
  };
  return { state, openGate, ...startPages(load, loads) };
}

describe("maxConcurrentLoads", () => {
  it.each(["with leases", "while the store is unavailable"])(
    "limits how many loads of a coordinate run at a time and queues the rest, %s",
    async (how) => {
      const { state, chaos, ask, askPage, events } = createGuardedProcess({ maxConcurrentLoads: 2 });
      if (how !== "with leases") chaos.mode = "throws";
      const results: Promise<unknown>[] = [];
      for (const id of range(5)) {
        results.push(dataOf(askPage(id)));
        await settle();
      }
      expect([state.started, state.running]).toEqual([[0, 1], 2]);
      expect(await dataOf(ask("{ other }"))).toEqual({ other: 7 });
      if (how === "with leases") expect(events.filter(({ name }) => name === "load.started")).toHaveLength(3);
      state.loadGate.open();
      expect(await Promise.all(results)).toEqual(range(5).map((page) => ({ page })));
      expect(state.maxRunning).toBe(2);
    },
  );

  it("refuses loads beyond maxQueuedLoads with an error or the stale value, and releases their leases", async () => {
    const { clock, state, askPage, errorOf, events } = createGuardedProcess({
      maxConcurrentLoads: 1,
      maxQueuedLoads: 0,
    });
    state.loadGate.open();
    expect(await dataOf(askPage(1))).toEqual({ page: 1 });
    await clock.advance(11_000);
    state.loadGate = gate();
    const first = dataOf(askPage(2));
    await settle();
    expect(await errorOf(3)).toMatchObject({ ...REFUSED, coordinate: "Query.page" });
    expect(await dataOf(askPage(1))).toEqual({ page: 1 });
    expect(events.filter(({ name }) => name === "load.refused")).toHaveLength(2);
    state.loadGate.open();
    expect(await first).toEqual({ page: 2 });
    await settle();
    for (const page of [3, 1]) expect(await dataOf(askPage(page))).toEqual({ page });
    expect(state.started).toEqual([1, 2, 3, 1]);
  });

  it("does not queue a nested load behind the load that waits for it", async () => {
    const { clock, ask } = createGuardedProcess({ maxConcurrentLoads: 1 });
    const answer = ask("{ a: outer(id: 1) b: outer(id: 2) }");
    await settle();
    // A load that waits for its slot is refused when its time is over.
    await clock.advance(60_000);
    expect((await answer).data).toEqual({ a: 1, b: 2 });
  });
});

describe("the loads of a list", () => {
  type Item = { readonly id: number };
  const sdl = `
    type Query { items(count: Int!): [Item!]! item(id: Int!): Item }
    type Item { id: Int! price: Int @cached(maxAge: 60) }
  `;
  function startList(price: (item: Item) => unknown, loads: object = {}, world = timedWorld()) {
    const items = (_: unknown, { count }: { count: number }) => range(count).map((id) => ({ id }));
    const item = (_: unknown, { id }: Item) => ({ id });
    const process = world.process(
      sdl,
      { Query: { items, item }, Item: { price } },
      { loads: { abortSignal, ...loads } },
    );
    const askAll = (count: number, context = {}) => process.ask(`{ items(count: ${count}) { price } }`, context);
    const askOne = (id: number) => dataOf(process.ask(`{ item(id: ${id}) { price } }`, {}));
    return { ...process, chaos: world.chaos, askAll, askOne };
  }

  it("run at most half of maxConcurrentLoads at a time, in the order of the list, and begin in one tick as many as have a slot, so that a DataLoader inside batches them", async () => {
    const batches: (readonly number[])[] = [];
    const batch = async (ids: readonly number[]) => (batches.push(ids), await settle(), ids);
    const prices = new DataLoader(batch, { cache: false });
    const { askAll } = startList(({ id }) => prices.load(id), { maxConcurrentLoads: 10 });
    expect(await dataOf(askAll(18))).toEqual({ items: range(18).map((price) => ({ price })) });
    expect(batches.map(({ length }) => length)).toEqual([5, 5, 5, 3]);
    expect(batches.flat()).toEqual(range(18));
  });

  it("are refused beyond half of maxQueuedLoads, each for itself", async () => {
    const started: number[] = [];
    const { askAll } = startList(({ id }) => started.push(id), { maxConcurrentLoads: 4, maxQueuedLoads: 6 });
    const { data, errors } = await askAll(7);
    expect(data).toEqual({ items: [1, 2, 3, 4, 5, null, null].map((price) => ({ price })) });
    expect(errors?.map(({ originalError }) => originalError)).toMatchObject([REFUSED, REFUSED]);
    expect(started).toEqual(range(5));
  });

  it("are refused while they wait if those before them have opened the breaker", async () => {
    const started: number[] = [];
    const { askAll } = startList(({ id }) => (started.push(id), away()), {
      maxConcurrentLoads: 1,
      breakerThreshold: 2,
    });
    expect((await askAll(10)).errors).toHaveLength(10);
    expect(started).toEqual([0, 1]);
  });

  it.each([
    ["with a lease", undefined, [0, 3, 1, 2]],
    // The inner one begins after it was asked for.
    ["without one, while the store is away", "throws", [0, 3, 3, 1, 2]],
  ] as const)("begin without a slot when a load that holds one waits for them, %s", async (_, mode, expected) => {
    const started: number[] = [];
    const first = gate();
    const load = async ({ id }: Item): Promise<number> => {
      started.push(id);
      if (id !== 0) return id;
      await first.passed;
      const inner = (await askOne(3)) as { item: { price: number } };
      return inner.item.price + 10;
    };
    const { askAll, askOne, chaos } = startList(load, { maxConcurrentLoads: 1 });
    chaos.mode = mode;
    const answer = dataOf(askAll(4));
    await settle();
    expect(started).toEqual([0]);
    first.open();
    // The clock stands still, so nobody stops waiting.
    expect(await answer).toEqual({ items: [13, 1, 2, 3].map((price) => ({ price })) });
    expect(started).toEqual(expected);
  });

  it("give their leases up at once when their request is aborted while they wait, and take no slot then", async () => {
    const world = timedWorld();
    const first = gate();
    const started: number[] = [];
    const price = async ({ id }: Item): Promise<number> => (started.push(id), await first.passed, id);
    const holder = startList(price, { maxConcurrentLoads: 1 }, world);
    const other = startList(({ id }) => id, {}, world);
    const running = holder.askOne(0);
    await settle();
    const { signal, hangUp } = client();
    const aborted = holder.askAll(5, { signal });
    await settle();
    hangUp();
    expect((await aborted).errors).toHaveLength(5);
    await settle();
    expect(await other.askOne(4)).toEqual({ item: { price: 4 } });
    expect([other.outcomes(), started]).toEqual([{ loaded: 1 }, [0]]);
    first.open();
    await running;
    await settle();
    const next = holder.askOne(5);
    await settle();
    expect([started, await next]).toEqual([[0, 5], { item: { price: 5 } }]);
  });
});

describe("the loads of a loader", () => {
  const FIRST = [1, 2, 3];
  const SECOND = [4, 5];
  it.each([
    ["each call of the batch function, whichever request makes it", [FIRST, SECOND], {}, [FIRST, SECOND]],
    ["each part of maxBatchSize ids", [FIRST], { maxBatchSize: 2 }, [[1, 2], [3]]],
  ])("count as one for %s", async (_, requests, options, expected) => {
    const calls: (readonly number[])[] = [];
    let loadGate = gate();
    const { cache } = memoryWorld().bare({ loads: { maxConcurrentLoads: 1 } });
    const batch = async (ids: readonly number[]) => (calls.push(ids), await loadGate.passed, ids);
    const prices = cache.loader({ name: "Price", maxAge: 60, batch, ...options });
    const results = requests.map((ids) => prices({}).loadMany(ids));
    for (const count of [1, 2]) {
      await settle();
      expect(calls).toEqual(expected.slice(0, count));
      const { open } = loadGate;
      loadGate = gate();
      open();
    }
    expect(await Promise.all(results)).toEqual(requests);
  });

  it("begin without a slot when a load that holds one waits for what its request has asked for already", async () => {
    const { cache, outcomes } = timedWorld().bare({ loads: { maxConcurrentLoads: 4 } });
    const started: number[] = [];
    const parents: Readonly<Record<number, number>> = { 1: 3, 2: 4 };
    const nodes: (context: object) => CachedLoader<number, string> = cache.loader({
      name: "Node",
      maxAge: 60,
      maxBatchSize: 1,
      batch: async ([id = 0]: readonly number[], context: object): Promise<string[]> => {
        started.push(id);
        const parent = parents[id];
        return [parent === undefined ? `${id}` : `${id} of ${await nodes(context).load(parent)}`];
      },
    });
    // The clock stands still, so nobody stops waiting.
    expect(await nodes({}).loadMany([1, 2, 3, 4])).toEqual(["1 of 3", "2 of 4", "3", "4"]);
    expect(started).toEqual([1, 2, 3, 4]);
    // Inside of loads, 3 and 4 are read anew.
    expect(outcomes()).toEqual({ loaded: 4, coalesced: 2 });
  });
});

describe("a load that never ends", () => {
  const gates: ReturnType<typeof gate>[] = [];
  // Lets the loads end before the cache is closed.
  afterEach(() => {
    for (const { open } of gates.splice(0)) open();
  });

  /** Starts one load per tick, so that each needs a slot of its own, and lets their time end. */
  async function hang({ errorOf, clock, state }: ReturnType<typeof createGuardedProcess>, ids: readonly number[]) {
    const errors: unknown[] = [];
    for (const id of ids) {
      void errorOf(id).then((error) => errors.push(error));
      await settle();
    }
    await clock.advance(1_000);
    gates.push(state.loadGate);
    return errors;
  }
  const TIME = { loadTimeoutMs: 1_000, errorBackoffMs: 1 };

  it("gives its slot back when its time is over", async () => {
    const guarded = createGuardedProcess({ maxConcurrentLoads: 2, ...TIME });
    const { state, openGate, askPage } = guarded;
    const errors = await hang(guarded, [1, 2]);
    expect(errors).toMatchObject([{ code: "CACHED_LOAD_TIMEOUT" }, { code: "CACHED_LOAD_TIMEOUT" }]);
    openGate();
    const answer = dataOf(askPage(3));
    await settle();
    expect([state.started, await answer]).toEqual([[1, 2, 3], { page: 3 }]);
  });

  it("makes new loads refused once more loads are overdue than may run at a time, except for probes", async () => {
    const guarded = createGuardedProcess({ maxConcurrentLoads: 2, ...TIME });
    const { clock, state, openGate, askPage, errorOf } = guarded;
    await hang(guarded, [1, 2]);
    await hang(guarded, [3]);
    expect(state.started).toEqual([1, 2, 3]);
    expect(await errorOf(4)).toMatchObject(REFUSED);
    expect(state.started).toEqual([1, 2, 3]);
    await clock.advance(1_000);
    await hang(guarded, [5, 6]);
    expect(state.started).toEqual([1, 2, 3, 5]);
    await clock.advance(1_000);
    openGate();
    for (const page of [7, 8]) expect(await dataOf(askPage(page))).toEqual({ page });
  });

  it("counts as a failure for the breaker", async () => {
    const guarded = createGuardedProcess({ breakerThreshold: 2, ...TIME });
    await hang(guarded, [1, 2]);
    expect(await guarded.errorOf(3)).toMatchObject(REFUSED);
    expect(guarded.state.started).toEqual([1, 2]);
  });
});

describe("breakerThreshold", () => {
  it("refuses loads after consecutive failures, then lets one through to probe the source", async () => {
    const { clock, state, ask, askPage, errorOf } = createGuardedProcess({ breakerThreshold: 3, errorBackoffMs: 1 });
    state.loadGate.open();
    state.failure = new Error(AWAY);
    for (const id of [1, 2, 3]) expect(await messageOf(askPage(id))).toBe(AWAY);
    expect(await errorOf(4)).toMatchObject(REFUSED);
    expect(state.started).toEqual([1, 2, 3]);
    expect(await dataOf(ask("{ other }"))).toEqual({ other: 7 });
    state.failure = undefined;
    await clock.advance(300);
    for (const page of [4, 5]) expect(await dataOf(askPage(page))).toEqual({ page });
  });

  it("does not spend its probe on a load without a lease that nobody waits for any more", async () => {
    const first = gate();
    const load = async (id: number): Promise<number> => {
      if (id === 3) return id;
      if (id === 2) await first.passed;
      return away();
    };
    const { clock, chaos, askPage } = startPages(load, { breakerThreshold: 1 });
    chaos.mode = "throws";
    const running = messageOf(askPage(2));
    await settle();
    expect(await messageOf(askPage(1))).toBe(AWAY);
    const { signal, hangUp } = client();
    const aborted = messageOf(askPage(2, { signal }));
    await settle();
    hangUp();
    await clock.advance(300);
    first.open();
    expect([await running, await aborted]).toEqual([AWAY, HUNG_UP]);
    expect(await dataOf(askPage(3))).toEqual({ page: 3 });
  });

  it.each([
    ["of an open breaker", { breakerThreshold: 1 }, [1]],
    ["while too many loads are overdue", { maxConcurrentLoads: 1, loadTimeoutMs: 1_000 }, [2, 3]],
  ])("spends no probe on a load whose caller leaves while its lease is requested: %s", async (_, loads, failing) => {
    const world = timedWorld();
    const inner = world.store();
    const hung = gate();
    let granted: Promise<void> | undefined;
    const store = overrideStore(inner, { acquire: async (...args) => (await granted, inner.acquire(...args)) });
    const load = (id: number): unknown => (id === 1 ? away() : id <= 3 ? hung.passed : id);
    const onStore: typeof world.process = (sdl, resolvers, options) =>
      world.process(sdl, resolvers, { ...options, store } as never);
    const { clock, askPage } = startPages(load, loads, { ...world, process: onStore });
    for (const id of failing) {
      const asked = askPage(id);
      await clock.advance(1_000);
      expect((await asked).errors).toHaveLength(1);
    }
    await clock.advance(1_000);
    const grant = gate();
    granted = grant.passed;
    const { signal, hangUp } = client();
    const aborted = messageOf(askPage(4, { signal }));
    await settle();
    hangUp();
    expect(await aborted).toBe(HUNG_UP);
    grant.open();
    await settle();
    expect(await dataOf(askPage(5))).toEqual({ page: 5 });
    hung.open();
  });

  it("does not spend its probe on a load that is refused because its context has changed", async () => {
    const { clock, bare } = timedWorld();
    const identify = ({ user }: { user: string }) => user;
    const { cache } = bare({ identify, loads: { breakerThreshold: 1 } } as never);
    const batch = async (ids: readonly number[]) => (ids[0] === 1 ? away() : ids);
    const mine = cache.loader({ name: "Mine", maxAge: 10, scope: "PRIVATE", batch });
    await expect(mine({ user: "ada" }).load(1)).rejects.toThrow(AWAY);
    await clock.advance(300);
    const context = { user: "ada" };
    const changed = mine(context).load(2);
    context.user = "bob";
    await expect(changed).rejects.toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
    expect(await mine({ user: "ada" }).load(3)).toBe(3);
  });

  it("does not spend its probe on a load that leaves the queue as nobody waits for it any more", async () => {
    const held = gate();
    const load = async (id: number) => (id === 1 ? (await held.passed, id) : id === 3 ? away() : id);
    // One slot for each request.
    const { clock, ask, askPage } = startPages(load, { maxConcurrentLoads: 2, breakerThreshold: 1 });
    const { signal, hangUp } = client();
    const aborted = ask("{ one: page(id: 1) two: page(id: 2) }", { signal });
    await settle();
    expect(await messageOf(askPage(3))).toBe(AWAY);
    await clock.advance(300);
    hangUp();
    await settle();
    expect(await dataOf(askPage(4))).toEqual({ page: 4 });
    held.open();
    await aborted;
  });

  it("does not count errors for which isSourceFailure returns false", async () => {
    const isSourceFailure = (error: unknown): boolean => (error as Error).message !== "not found";
    const { state, askPage } = createGuardedProcess({ breakerThreshold: 2, isSourceFailure });
    state.loadGate.open();
    state.failure = new Error("not found");
    for (const id of range(5)) expect(await messageOf(askPage(id))).toBe("not found");
    expect(state.started).toEqual(range(5));
  });

  it("never refuses loads by default", async () => {
    const { state, askPage } = createGuardedProcess({});
    state.loadGate.open();
    state.failure = new Error(AWAY);
    for (const id of range(50)) await askPage(id);
    expect(state.started).toHaveLength(50);
  });
});
