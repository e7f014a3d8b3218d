import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import DataLoader from "dataloader";
import { type CachedLoader, memoryStore } from "graphql-cached";
import { afterEach, describe, expect, it } from "vitest";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page(id: Int!): Int @cached(maxAge: 10, staleIfError: 100)
    other: Int @cached(maxAge: 10)
    outer(id: Int!): Int @cached(maxAge: 10)
  }
`;

/** Creates a process whose page loads wait at a gate, and counts how many run at a time. */
function createGuardedProcess(options: object) {
  const clock = new FakeClock();
  const state = {
    running: 0,
    maxRunning: 0,
    started: [] as number[],
    loadGate: gate(),
    failure: undefined as Error | undefined,
  };
  const store = chaosStore(memoryStore({ clock }));
  const page = async (_: unknown, { id }: { id: number }): Promise<number> => {
    state.started.push(id);
    state.running++;
    state.maxRunning = Math.max(state.maxRunning, state.running);
    await state.loadGate.passed;
    state.running--;
    if (state.failure !== undefined) throw state.failure;
    return id;
  };
  const process = memoryWorld(() => store).process(
    typeDefs,
    {
      Query: {
        page,
        other: () => 7,
        outer: async (_: unknown, { id }: { id: number }) =>
          id < 0 ? id : dataOf(process.ask(`{ outer(id: ${-id}) }`)).then(() => id),
      },
    },
    { testing: { clock }, ...options },
  );
  return { clock, state, chaos: store.chaos, ...process };
}

describe("maxConcurrentLoads", () => {
  it("limits how many loads of a coordinate run at a time and queues the rest", async () => {
    const { state, ask, events } = createGuardedProcess({ loads: { maxConcurrentLoads: 2 } });
    const results: Promise<unknown>[] = [];
    for (let id = 0; id < 5; id++) {
      results.push(dataOf(ask(`{ page(id: ${id}) }`)));
      await settle();
    }
    expect(state.started).toEqual([0, 1]);
    expect(await dataOf(ask("{ other }"))).toEqual({ other: 7 });
    expect(events.filter(({ name }) => name === "load.started")).toHaveLength(3);
    state.loadGate.open();
    expect(await Promise.all(results)).toEqual([0, 1, 2, 3, 4].map((page) => ({ page })));
    expect(state.maxRunning).toBe(2);
  });

  it("refuses loads beyond maxQueuedLoads with an error or the stale value, and releases their leases", async () => {
    const { clock, state, ask, events } = createGuardedProcess({ loads: { maxConcurrentLoads: 1, maxQueuedLoads: 0 } });
    state.loadGate.open();
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    await clock.advance(11_000);
    state.loadGate = gate();
    const first = dataOf(ask("{ page(id: 2) }"));
    await settle();
    const refusal = (await ask("{ page(id: 3) }")).errors?.[0]?.originalError;
    expect(refusal).toMatchObject({ code: "CACHED_SOURCE_UNAVAILABLE", coordinate: "Query.page" });
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    expect(events.filter(({ name }) => name === "load.refused")).toHaveLength(2);
    state.loadGate.open();
    expect(await first).toEqual({ page: 2 });
    await settle();
    expect(await dataOf(ask("{ page(id: 3) }"))).toEqual({ page: 3 });
    expect(await dataOf(ask("{ page(id: 1) }"))).toEqual({ page: 1 });
    expect(state.started).toEqual([1, 2, 3, 1]);
  });

  it("does not queue a nested load behind the load that waits for it", async () => {
    const { clock, ask } = createGuardedProcess({ loads: { maxConcurrentLoads: 1 } });
    const answer = ask("{ a: outer(id: 1) b: outer(id: 2) }");
    await settle();
    // A load that waits for its slot is refused when its time is over.
    await clock.advance(60_000);
    expect((await answer).data).toEqual({ a: 1, b: 2 });
  });

  it("limits loads while the store is unavailable too", async () => {
    const { state, chaos, ask } = createGuardedProcess({ loads: { maxConcurrentLoads: 2 } });
    chaos.mode = "throws";
    const results: Promise<unknown>[] = [];
    for (let id = 0; id < 5; id++) {
      results.push(dataOf(ask(`{ page(id: ${id}) }`)));
      await settle();
    }
    expect(state.running).toBe(2);
    state.loadGate.open();
    await Promise.all(results);
    expect(state.maxRunning).toBe(2);
  });
});

describe("the loads of a list", () => {
  const listTypeDefs = /* GraphQL */ `
    type Query {
      items(count: Int!): [Item!]!
      item(id: Int!): Item
    }
    type Item {
      id: Int!
      price: Int @cached(maxAge: 60)
    }
  `;
  const itemsOf = (count: number): readonly { id: number }[] => range(count).map((id) => ({ id }));
  const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

  function createListProcess(price: (item: { id: number }) => unknown, options: object = {}, world = memoryWorld()) {
    const resolvers = {
      Query: {
        items: (_: unknown, { count }: { count: number }) => itemsOf(count),
        item: (_: unknown, { id }: { id: number }) => ({ id }),
      },
      Item: { price },
    };
    return world.process(listTypeDefs, resolvers, options);
  }

  it("run at most half of maxConcurrentLoads at a time, in the order of the list", async () => {
    const started: number[] = [];
    let running = 0;
    let maxRunning = 0;
    const { ask } = createListProcess(
      async ({ id }) => {
        started.push(id);
        maxRunning = Math.max(maxRunning, ++running);
        await settle();
        running--;
        return id;
      },
      { loads: { maxConcurrentLoads: 10 } },
    );
    expect(await dataOf(ask("{ items(count: 200) { price } }"))).toEqual({
      items: range(200).map((price) => ({ price })),
    });
    expect(maxRunning).toBe(5);
    expect(started).toEqual(range(200));
  });

  it("begin in one tick as many as have a slot, so that a DataLoader inside batches them", async () => {
    const sizes: number[] = [];
    const prices = new DataLoader(
      async (ids: readonly number[]) => {
        sizes.push(ids.length);
        await settle();
        return ids;
      },
      { cache: false },
    );
    const { ask } = createListProcess(({ id }) => prices.load(id), { loads: { maxConcurrentLoads: 10 } });
    await dataOf(ask("{ items(count: 18) { price } }"));
    expect(sizes).toEqual([5, 5, 5, 3]);
  });

  it("are refused beyond half of maxQueuedLoads, each for itself", async () => {
    const started: number[] = [];
    const { ask } = createListProcess(({ id }) => started.push(id), {
      loads: { maxConcurrentLoads: 4, maxQueuedLoads: 6 },
    });
    const { data, errors } = await ask("{ items(count: 7) { price } }");
    expect(data).toEqual({ items: [1, 2, 3, 4, 5, null, null].map((price) => ({ price })) });
    expect(errors?.map(({ originalError }) => (originalError as { code?: unknown }).code)).toEqual(
      Array(2).fill("CACHED_SOURCE_UNAVAILABLE"),
    );
    expect(started).toEqual(range(5));
  });

  it("are refused while they wait if those before them have opened the breaker", async () => {
    const started: number[] = [];
    const { ask } = createListProcess(
      ({ id }) => {
        started.push(id);
        throw new Error("the source is away");
      },
      { loads: { maxConcurrentLoads: 1, breakerThreshold: 2 } },
    );
    const { errors } = await ask("{ items(count: 10) { price } }");
    expect(errors).toHaveLength(10);
    expect(started).toEqual([0, 1]);
  });

  it.each([
    ["with a lease", undefined, [0, 3, 1, 2]],
    // The inner one begins after it was asked for.
    ["without one, while the store is away", "throws", [0, 3, 3, 1, 2]],
  ] as const)("begin without a slot when a load that holds one waits for them, %s", async (_, mode, expected) => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const started: number[] = [];
    const first = gate();
    const process = createListProcess(
      async ({ id }) => {
        started.push(id);
        if (id !== 0) return id;
        await first.passed;
        const inner = (await dataOf(process.ask("{ item(id: 3) { price } }"))) as { item: { price: number } };
        return inner.item.price + 10;
      },
      { loads: { maxConcurrentLoads: 1 }, store, testing: { clock } },
    );
    store.chaos.mode = mode;
    const answer = dataOf(process.ask("{ items(count: 4) { price } }"));
    await settle();
    expect(started).toEqual([0]);
    first.open();
    // The clock stands still, so nobody stops waiting.
    expect(await answer).toEqual({ items: [13, 1, 2, 3].map((price) => ({ price })) });
    expect(started).toEqual(expected);
  });

  it("give their leases up at once when their request is aborted while they wait", async () => {
    const world = memoryWorld();
    const first = gate();
    const started: number[] = [];
    const price = async ({ id }: { id: number }): Promise<number> => {
      started.push(id);
      await first.passed;
      return id;
    };
    const holder = createListProcess(
      price,
      { loads: { maxConcurrentLoads: 1, abortSignal: ({ signal }: { signal?: AbortSignal }) => signal } },
      world,
    );
    const other = createListProcess(({ id }) => id, {}, world);
    const running = dataOf(holder.ask("{ item(id: 0) { price } }", {}));
    await settle();
    const client = new AbortController();
    const aborted = holder.ask("{ items(count: 5) { price } }", { signal: client.signal });
    await settle();
    client.abort(new Error("the client has hung up"));
    expect((await aborted).errors).toHaveLength(5);
    await settle();
    expect(await dataOf(other.ask("{ item(id: 4) { price } }"))).toEqual({ item: { price: 4 } });
    expect(other.outcomes()).toEqual({ loaded: 1 });
    expect(started).toEqual([0]);
    first.open();
    await running;
    expect(started).toEqual([0]);
  });

  it("take no slot if their request was aborted while they waited", async () => {
    const first = gate();
    const started: number[] = [];
    const { ask } = createListProcess(
      async ({ id }) => {
        started.push(id);
        await first.passed;
        return id;
      },
      { loads: { maxConcurrentLoads: 1, abortSignal: ({ signal }: { signal?: AbortSignal }) => signal } },
    );
    const running = dataOf(ask("{ item(id: 0) { price } }", {}));
    await settle();
    const client = new AbortController();
    const aborted = ask("{ items(count: 3) { price } }", { signal: client.signal });
    await settle();
    client.abort(new Error("the client has hung up"));
    await aborted;
    first.open();
    await running;
    await settle();
    const next = dataOf(ask("{ item(id: 4) { price } }", {}));
    await settle();
    expect(started).toEqual([0, 4]);
    expect(await next).toEqual({ item: { price: 4 } });
  });
});

describe("the loads of a loader", () => {
  function createCalls(options: object) {
    const calls: (readonly number[])[] = [];
    let loadGate = gate();
    const { cache } = memoryWorld().process("type Query { a: Int }", {}, { loads: { maxConcurrentLoads: 1 } });
    const prices = cache.loader({
      name: "Price",
      maxAge: 60,
      batch: async (ids: readonly number[]) => {
        calls.push(ids);
        await loadGate.passed;
        return ids;
      },
      ...options,
    });
    const next = async (): Promise<void> => {
      const { open } = loadGate;
      loadGate = gate();
      open();
      await settle();
    };
    return { prices, calls, next };
  }

  it("count as one for each call of the batch function, whichever request makes it", async () => {
    const { prices, calls, next } = createCalls({});
    const results = [prices({}).loadMany([1, 2, 3]), prices({}).loadMany([4, 5])];
    await settle();
    expect(calls).toEqual([[1, 2, 3]]);
    await next();
    expect(calls).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
    await next();
    expect(await Promise.all(results)).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
  });

  it("count as one for each part of maxBatchSize ids", async () => {
    const { prices, calls, next } = createCalls({ maxBatchSize: 2 });
    const result = prices({}).loadMany([1, 2, 3]);
    await settle();
    expect(calls).toEqual([[1, 2]]);
    await next();
    expect(calls).toEqual([[1, 2], [3]]);
    await next();
    expect(await result).toEqual([1, 2, 3]);
  });

  it("begin without a slot when a load that holds one waits for what its request has asked for already", async () => {
    const clock = new FakeClock();
    const { cache, outcomes } = memoryWorld().process(
      "type Query { a: Int }",
      {},
      {
        loads: { maxConcurrentLoads: 4 },
        testing: { clock },
      },
    );
    const started: number[] = [];
    const parents = new Map([
      [1, 3],
      [2, 4],
    ]);
    const nodes: (context: object) => CachedLoader<number, string> = cache.loader({
      name: "Node",
      maxAge: 60,
      maxBatchSize: 1,
      batch: async ([id]: readonly number[], context: object): Promise<string[]> => {
        started.push(id as number);
        const parent = parents.get(id as number);
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
  async function hang({ ask, clock, state }: ReturnType<typeof createGuardedProcess>, ids: readonly number[]) {
    const errors: unknown[] = [];
    for (const id of ids) {
      void ask(`{ page(id: ${id}) }`).then((result) => errors.push(result.errors?.[0]?.originalError));
      await settle();
    }
    await clock.advance(1_000);
    gates.push(state.loadGate);
    return errors;
  }

  it("gives its slot back when its time is over", async () => {
    const guarded = createGuardedProcess({ loads: { maxConcurrentLoads: 2, loadTimeoutMs: 1_000, errorBackoffMs: 1 } });
    const { state, ask } = guarded;
    const errors = await hang(guarded, [1, 2]);
    expect(errors).toMatchObject([{ code: "CACHED_LOAD_TIMEOUT" }, { code: "CACHED_LOAD_TIMEOUT" }]);
    state.loadGate = gate();
    state.loadGate.open();
    const answer = ask("{ page(id: 3) }");
    await settle();
    expect(state.started).toEqual([1, 2, 3]);
    expect(await dataOf(answer)).toEqual({ page: 3 });
  });

  it("makes new loads refused once more loads are overdue than may run at a time, except for probes", async () => {
    const guarded = createGuardedProcess({ loads: { maxConcurrentLoads: 2, loadTimeoutMs: 1_000, errorBackoffMs: 1 } });
    const { clock, state, ask } = guarded;
    await hang(guarded, [1, 2]);
    await hang(guarded, [3]);
    expect(state.started).toEqual([1, 2, 3]);
    expect((await ask("{ page(id: 4) }")).errors?.[0]?.originalError).toMatchObject({
      code: "CACHED_SOURCE_UNAVAILABLE",
    });
    expect(state.started).toEqual([1, 2, 3]);
    await clock.advance(1_000);
    await hang(guarded, [5, 6]);
    expect(state.started).toEqual([1, 2, 3, 5]);
    await clock.advance(1_000);
    state.loadGate = gate();
    state.loadGate.open();
    expect(await dataOf(ask("{ page(id: 7) }"))).toEqual({ page: 7 });
    expect(await dataOf(ask("{ page(id: 8) }"))).toEqual({ page: 8 });
  });

  it("counts as a failure for the breaker", async () => {
    const guarded = createGuardedProcess({ loads: { breakerThreshold: 2, loadTimeoutMs: 1_000, errorBackoffMs: 1 } });
    const { state, ask } = guarded;
    await hang(guarded, [1, 2]);
    expect((await ask("{ page(id: 3) }")).errors?.[0]?.originalError).toMatchObject({
      code: "CACHED_SOURCE_UNAVAILABLE",
    });
    expect(state.started).toEqual([1, 2]);
  });
});

describe("breakerThreshold", () => {
  it("refuses loads after consecutive failures, then lets one through to probe the source", async () => {
    const { clock, state, ask } = createGuardedProcess({ loads: { breakerThreshold: 3, errorBackoffMs: 1 } });
    state.loadGate.open();
    state.failure = new Error("the source is away");
    for (let id = 1; id <= 3; id++)
      expect((await ask(`{ page(id: ${id}) }`)).errors?.[0]?.message).toBe("the source is away");
    expect((await ask("{ page(id: 4) }")).errors?.[0]?.originalError).toMatchObject({
      code: "CACHED_SOURCE_UNAVAILABLE",
    });
    expect(state.started).toEqual([1, 2, 3]);
    expect(await dataOf(ask("{ other }"))).toEqual({ other: 7 });
    state.failure = undefined;
    await clock.advance(300);
    expect(await dataOf(ask("{ page(id: 4) }"))).toEqual({ page: 4 });
    expect(await dataOf(ask("{ page(id: 5) }"))).toEqual({ page: 5 });
  });

  it("does not spend its probe on a load without a lease that nobody waits for any more", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const first = gate();
    const away = new Error("the source is away");
    const page = async (_: unknown, { id }: { id: number }): Promise<number> => {
      if (id === 3) return id;
      if (id === 2) await first.passed;
      throw away;
    };
    const { ask } = memoryWorld(() => store).process(
      typeDefs,
      { Query: { page } },
      {
        loads: { breakerThreshold: 1, abortSignal: ({ signal }: { signal?: AbortSignal }) => signal },
        testing: { clock },
      },
    );
    store.chaos.mode = "throws";
    const running = ask("{ page(id: 2) }", {});
    await settle();
    expect((await ask("{ page(id: 1) }", {})).errors?.[0]?.message).toBe(away.message);
    const client = new AbortController();
    const aborted = ask("{ page(id: 2) }", { signal: client.signal });
    await settle();
    client.abort(new Error("the client has hung up"));
    await clock.advance(300);
    first.open();
    expect((await running).errors?.[0]?.message).toBe(away.message);
    expect((await aborted).errors?.[0]?.message).toBe("the client has hung up");
    expect(await dataOf(ask("{ page(id: 3) }", {}))).toEqual({ page: 3 });
  });

  it.each([
    ["of an open breaker", { breakerThreshold: 1 }, [1]],
    ["while too many loads are overdue", { maxConcurrentLoads: 1, loadTimeoutMs: 1_000 }, [2, 3]],
  ])("spends no probe on a load whose caller leaves while its lease is requested: %s", async (_, loads, failing) => {
    const clock = new FakeClock();
    const inner = memoryStore({ clock });
    const hung = gate();
    let granted: Promise<void> | undefined;
    const store = overrideStore(inner, {
      acquire: async (...args) => {
        await granted;
        return inner.acquire(...args);
      },
    });
    const page = (_parent: unknown, { id }: { id: number }): unknown => {
      if (id === 1) throw new Error("the source is away");
      return id <= 3 ? hung.passed : id;
    };
    const abortSignal = ({ signal }: { signal?: AbortSignal }) => signal;
    const options = { loads: { ...loads, abortSignal }, testing: { clock } };
    const { ask } = memoryWorld(() => store).process(typeDefs, { Query: { page } }, options);
    for (const id of failing) {
      const asked = ask(`{ page(id: ${id}) }`, {});
      await clock.advance(1_000);
      expect((await asked).errors).toHaveLength(1);
    }
    await clock.advance(1_000);
    const grant = gate();
    granted = grant.passed;
    const client = new AbortController();
    const aborted = ask("{ page(id: 4) }", { signal: client.signal });
    await settle();
    client.abort(new Error("the client has hung up"));
    expect((await aborted).errors?.[0]?.message).toBe("the client has hung up");
    grant.open();
    await settle();
    expect(await dataOf(ask("{ page(id: 5) }", {}))).toEqual({ page: 5 });
    hung.open();
  });

  it("does not spend its probe on a load that is refused because its context has changed", async () => {
    const clock = new FakeClock();
    const { cache } = memoryWorld(() => memoryStore({ clock })).process("type Query { a: Int }", {}, {
      identify: ({ user }: { user: string }) => user,
      loads: { breakerThreshold: 1 },
      testing: { clock },
    } as never);
    const mine = cache.loader({
      name: "Mine",
      maxAge: 10,
      scope: "PRIVATE",
      batch: async (ids: readonly number[]) => {
        if (ids[0] === 1) throw new Error("the source is away");
        return ids;
      },
    });
    await expect(mine({ user: "ada" }).load(1)).rejects.toThrow("the source is away");
    await clock.advance(300);
    const context = { user: "ada" };
    const changed = mine(context).load(2);
    context.user = "bob";
    await expect(changed).rejects.toMatchObject({ code: "CACHED_IDENTITY_CHANGED" });
    expect(await mine({ user: "ada" }).load(3)).toBe(3);
  });

  it("does not spend its probe on a load that leaves the queue as nobody waits for it any more", async () => {
    const clock = new FakeClock();
    const held = gate();
    const page = async (_: unknown, { id }: { id: number }): Promise<number> => {
      if (id === 1) await held.passed;
      if (id === 3) throw new Error("the source is away");
      return id;
    };
    const { ask } = memoryWorld(() => memoryStore({ clock })).process(
      typeDefs,
      { Query: { page } },
      {
        // One slot for each request.
        loads: {
          maxConcurrentLoads: 2,
          breakerThreshold: 1,
          abortSignal: ({ signal }: { signal?: AbortSignal }) => signal,
        },
        testing: { clock },
      },
    );
    const client = new AbortController();
    const aborted = ask("{ one: page(id: 1) two: page(id: 2) }", { signal: client.signal });
    await settle();
    expect((await ask("{ page(id: 3) }", {})).errors?.[0]?.message).toBe("the source is away");
    await clock.advance(300);
    client.abort(new Error("the client has hung up"));
    await settle();
    expect(await dataOf(ask("{ page(id: 4) }", {}))).toEqual({ page: 4 });
    held.open();
    await aborted;
  });

  it("does not count errors for which isSourceFailure returns false", async () => {
    const isSourceFailure = (error: unknown): boolean => (error as Error).message !== "not found";
    const { state, ask } = createGuardedProcess({ loads: { breakerThreshold: 2, isSourceFailure } });
    state.loadGate.open();
    state.failure = new Error("not found");
    for (let id = 1; id <= 5; id++) expect((await ask(`{ page(id: ${id}) }`)).errors?.[0]?.message).toBe("not found");
    expect(state.started).toEqual([1, 2, 3, 4, 5]);
  });

  it("never refuses loads by default", async () => {
    const { state, ask } = createGuardedProcess({});
    state.loadGate.open();
    state.failure = new Error("the source is away");
    for (let id = 1; id <= 50; id++) await ask(`{ page(id: ${id}) }`);
    expect(state.started).toHaveLength(50);
  });
});
