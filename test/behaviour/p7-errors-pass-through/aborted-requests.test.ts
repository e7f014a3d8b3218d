import { getEventListeners, once } from "node:events";
import { chaosStore, FakeClock, type Gate, gate, settle } from "@graphql-cached/testing";
import type { GraphQLFieldResolver, GraphQLObjectType, GraphQLResolveInfo } from "graphql";
import { type CacheOptions, memoryStore } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { executeWithSignal } from "../../support/execution-signal.js";
import { dataOf, memoryWorld, onEachStore, type Process } from "../../support/world.js";

const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";
const GONE = "the client has hung up";

/** A context like that of GraphQL Yoga: its request has a signal. */
interface Client {
  readonly request: { readonly signal: AbortSignal };
  readonly hangUp: () => void;
}

function client(): Client {
  const controller = new AbortController();
  return { request: controller, hangUp: () => controller.abort(new Error(GONE)) };
}

/** As in graphql 17; graphql 16 has no such method. */
type Info = GraphQLResolveInfo & { readonly getAbortSignal?: () => AbortSignal | undefined };
type SignalOf = (context: Client, info: Info) => AbortSignal | undefined;

/** Rejects with the reason of `signal` when it aborts before the gate is opened, as `fetch` does. */
async function upstream(loadGate: Gate, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  const aborted = signal === undefined ? new Promise<never>(() => undefined) : once(signal, "abort");
  const isAborted = await Promise.race([loadGate.passed.then(() => false), aborted.then(() => true)]);
  if (isAborted) throw signal?.reason;
}

/** A source whose loads end when its gate is opened, or when the signal that they are given aborts. */
function createSource(signalOf: SignalOf) {
  const source = { loads: 0, loadGate: gate(), signals: [] as (AbortSignal | undefined)[], signalOf };
  const top = async (_: unknown, __: unknown, context: Client, info: Info): Promise<number> => {
    const load = ++source.loads;
    const signal = source.signalOf(context, info);
    source.signals.push(signal);
    await upstream(source.loadGate, signal);
    return load;
  };
  return { source, resolvers: { Query: { top } } };
}

const ofRequest: SignalOf = ({ request }) => request.signal;
const ofLoad: SignalOf = (_, info) => info.getAbortSignal?.();

const patient = { storage: { storeTimeoutMs: 10_000 } };

/** A process, with what asks it for `top`. */
function asking(process: Process) {
  return {
    ...process,
    process,
    read: (caller: object = client()) => dataOf(process.ask("{ top }", caller)),
    errorOf: async (caller: object) => (await process.ask("{ top }", caller)).errors?.[0]?.message,
    /** Others that ask at the same time. */
    others: (count: number) => Array.from({ length: count }, () => dataOf(process.ask("{ top }", client()))),
  };
}

/** A process with a source of its own, on the clock of the options. */
function start(signalOf: SignalOf, options: CacheOptions<never> = {}, sdl = typeDefs) {
  const { source, resolvers } = createSource(signalOf);
  const clock = options.testing?.clock;
  const world = memoryWorld(() => memoryStore(clock === undefined ? {} : { clock }));
  return { ...asking(world.process(sdl, resolvers, options)), source, world, resolvers };
}

/** A process on a clock of its own, with a value that is stale. The next loads wait. */
async function startStale(signalOf: SignalOf, policy: string, options: CacheOptions<never> = {}) {
  const clock = new FakeClock();
  const sdl = `type Query { top: Int @cached(maxAge: 1, ${policy}) }`;
  const site = start(signalOf, { testing: { clock }, ...options }, sdl);
  site.source.loadGate.open();
  await site.read();
  await clock.advance(2_000);
  site.source.loadGate = gate();
  return { ...site, clock };
}

onEachStore("a request that is aborted", (world) => {
  it("leaves its load to others that wait, in this and in another process, if it is the request's signal that ends it", async () => {
    const { source, resolvers } = createSource(ofRequest);
    const shared = world();
    const [first, second] = [1, 2].map(() => asking(shared.process(typeDefs, resolvers, patient))) as [
      ReturnType<typeof asking>,
      ReturnType<typeof asking>,
    ];
    const aborter = client();
    const aborted = first.errorOf(aborter);
    const others = first.others(10);
    await vi.waitFor(() => expect(source.loads).toBe(1));
    others.push(...first.others(10), ...second.others(10));
    await settle();
    aborter.hangUp();
    expect(await aborted).toBe(GONE);
    await vi.waitFor(() => expect(source.loads).toBe(2));
    source.loadGate.open();
    expect(await Promise.all(others)).toEqual(Array(30).fill({ top: 2 }));
    expect(source.loads).toBe(2);
  });
});

describe("a request that is aborted without a lease", () => {
  /** Begins a request that leads a load without a lease, and others that wait for it; then aborts the first. */
  async function abortLeader({ source, errorOf, others }: ReturnType<typeof start>) {
    const aborter = client();
    const before = source.loads;
    const aborted = errorOf(aborter);
    const waiting = others(10);
    while (source.loads === before) await settle();
    aborter.hangUp();
    expect(await aborted).toBe(GONE);
    while (source.loads === before + 1) await settle();
    source.loadGate.open();
    expect(await Promise.all(waiting)).toEqual(Array(10).fill({ top: before + 2 }));
    expect(source.loads).toBe(before + 2);
  }

  it("begins no miss if it has left before the store replies, so that others of its tick do not read again", async () => {
    const store = chaosStore(memoryStore());
    const { source, errorOf, others } = start(ofRequest, { store } as never);
    const aborter = client();
    const aborted = errorOf(aborter);
    const waiting = others(3);
    aborter.hangUp();
    expect(await aborted).toBe(GONE);
    source.loadGate.open();
    expect(await Promise.all(waiting)).toEqual(Array(3).fill({ top: 1 }));
    expect(store.chaos.calls.get("read")).toBe(1);
  });

  it("leaves its load to others while the store is unavailable", async () => {
    const store = chaosStore(memoryStore());
    store.chaos.mode = "throws";
    await abortLeader(start(ofRequest, { store } as never));
  });

  it("leaves its load to others during a write in progress", async () => {
    const site = start(ofRequest);
    await site.cache.mutate({ entries: [{ coordinate: "Query.top" }] }, () => abortLeader(site));
  });

  it("leaves its load to others if the value is too large to be stored", async () => {
    const site = start(ofRequest, { storage: { maxValueBytes: 0 } });
    site.source.loadGate.open();
    await site.read();
    await settle();
    site.source.loadGate = gate();
    await abortLeader(site);
    expect(site.outcomes()).toMatchObject({ "bypassed(UNCACHEABLE)": 11 });
  });

  it("does not reach the source if it is aborted before its load begins", async () => {
    const { source, cache, read, errorOf } = start(ofRequest, { loads: { maxConcurrentLoads: 1 } });
    await cache.mutate({ entries: [{ coordinate: "Query.top" }] }, async () => {
      const running = read();
      await settle();
      const clients = [client(), client()];
      const aborted = clients.map(errorOf);
      await settle();
      for (const caller of clients) caller.hangUp();
      expect(await Promise.all(aborted)).toEqual([GONE, GONE]);
      source.loadGate.open();
      await running;
      await settle();
    });
    expect(source.loads).toBe(1);
  });
});

describe("a request that is aborted", () => {
  it("does not end its load while others wait for it, if the load has its own signal", async () => {
    const { source, read, errorOf } = start(ofLoad, patient);
    const aborter = client();
    const aborted = errorOf(aborter);
    const sharer = read();
    await vi.waitFor(() => expect(source.loads).toBe(1));
    const joiner = read();
    await settle();
    aborter.hangUp();
    expect(await aborted).toBe(GONE);
    await settle();
    source.loadGate.open();
    expect(await Promise.all([sharer, joiner])).toEqual([{ top: 1 }, { top: 1 }]);
    expect(source.loads).toBe(1);
  });

  it("ends its load when no request waits for it any more, and the next request loads at once", async () => {
    const { source, read, errorOf, outcomes } = start(ofLoad, patient);
    const [leader, sharer, joiner] = [client(), client(), client()];
    const aborted = [errorOf(leader), errorOf(sharer)];
    await vi.waitFor(() => expect(source.loads).toBe(1));
    aborted.push(errorOf(joiner));
    await vi.waitFor(() => expect(outcomes()).toEqual({}));
    await settle();
    leader.hangUp();
    joiner.hangUp();
    await settle();
    expect(source.signals[0]?.aborted).toBe(false);
    sharer.hangUp();
    expect(source.signals[0]?.aborted).toBe(true);
    expect(await Promise.all(aborted)).toEqual([GONE, GONE, GONE]);
    const next = read();
    await vi.waitFor(() => expect(source.loads).toBe(2));
    source.loadGate.open();
    expect(await next).toEqual({ top: 2 });
    expect(outcomes()).toMatchObject({ "bypassed(ABORTED)": 3 });
  });

  it("shares a timeout of the source with 200 waiters in two processes for the error back-off", async () => {
    const timeout = new AbortController();
    const { source, resolvers } = createSource(() => timeout.signal);
    const shared = memoryWorld();
    const options = { ...patient, loads: { errorBackoffMs: 60_000 } };
    const processes = [0, 1].map(() => asking(shared.process(typeDefs, resolvers, options)));
    const waiters = processes.flatMap(({ errorOf }) => Array.from({ length: 100 }, () => errorOf(client())));
    await vi.waitFor(() => expect(source.loads).toBe(1));
    await settle();
    timeout.abort(new DOMException("upstream timed out", "TimeoutError"));
    expect(await Promise.all(waiters)).toEqual(Array(200).fill("upstream timed out"));
    for (const { errorOf } of processes) expect(await errorOf(client())).toBe("upstream timed out");
    expect(source.loads).toBe(1);
  });

  it("does not reach the source when it gets its turn in the bulkhead", async () => {
    const twoFields = "type Query { top(n: Int): Int @cached(maxAge: 60) }";
    const { source, ask, events } = start(ofRequest, { loads: { maxConcurrentLoads: 1 } }, twoFields);
    const running = dataOf(ask("{ top(n: 1) }", client()));
    await settle();
    const aborter = client();
    const aborted = ask("{ top(n: 2) }", aborter);
    await settle();
    aborter.hangUp();
    expect((await aborted).errors?.[0]?.message).toBe(GONE);
    source.loadGate.open();
    await running;
    await settle();
    expect(source.loads).toBe(1);
    expect(events.map(({ name }) => name)).toContain("load.refused");
  });

  it("requests no lease when the load that it waited for in another process has failed", async () => {
    const { source, errorOf, world, resolvers } = start(ofRequest);
    const second = asking(world.process(typeDefs, resolvers));
    const [holder, waiter] = [client(), client()];
    const held = errorOf(holder);
    await settle();
    const waited = second.errorOf(waiter);
    await settle();
    waiter.hangUp();
    expect(await waited).toBe(GONE);
    holder.hangUp();
    expect(await held).toBe(GONE);
    await settle();
    expect(source.loads).toBe(1);
  });

  it("gets no error from the cache and loads nothing if it was aborted before it asked", async () => {
    const { source, errorOf, outcomes } = start(ofLoad);
    const aborter = client();
    aborter.hangUp();
    expect(await errorOf(aborter)).toBe(GONE);
    await settle();
    expect(source.loads).toBe(0);
    expect(outcomes()).toEqual({ "bypassed(ABORTED)": 1 });
  });

  it("does not count as a failure of the source for the breaker", async () => {
    const { source, read, errorOf } = start(ofRequest, { loads: { breakerThreshold: 1 } });
    const aborter = client();
    const aborted = errorOf(aborter);
    await settle();
    aborter.hangUp();
    await aborted;
    await settle();
    source.loadGate.open();
    expect(await read()).toEqual({ top: 2 });
  });

  it("does not end the refresh that it has started, whose failure then leaves no back-off", async () => {
    const { source, clock, read } = await startStale(ofLoad, "staleWhileRevalidate: 60");
    const asker = client();
    expect(await read(asker)).toEqual({ top: 1 });
    await settle();
    asker.hangUp();
    await settle();
    expect(source.signals[1]?.aborted).toBe(false);
    source.loadGate.open();
    await settle();
    expect(await read()).toEqual({ top: 2 });

    await clock.advance(2_000);
    source.signalOf = ofRequest;
    source.loadGate = gate();
    const other = client();
    expect(await read(other)).toEqual({ top: 2 });
    await settle();
    other.hangUp();
    await settle();
    expect(await read()).toEqual({ top: 2 });
    await settle();
    expect(source.loads).toBe(4);
    source.loadGate.open();
  });

  it("does not hide the failure of a refresh that it has started, if its signal aborts when it has ended", async () => {
    const down = new AbortController();
    const { source, read } = await startStale(() => down.signal, "staleWhileRevalidate: 60");
    const asker = client();
    expect(await read(asker)).toEqual({ top: 1 });
    await settle();
    asker.hangUp();
    down.abort(new Error("the source is down"));
    await settle();
    expect(await read()).toEqual({ top: 1 });
    await settle();
    expect(source.loads).toBe(2);
  });

  it("does not end the load that it left for a stale value at its soft timeout", async () => {
    const leases = { softTimeoutMs: 100 };
    const { source, clock, read } = await startStale(ofLoad, "staleIfError: 60", { leases });
    const asker = client();
    const answer = read(asker);
    await clock.advance(150);
    expect(await answer).toEqual({ top: 1 });
    asker.hangUp();
    expect(source.signals[1]?.aborted).toBe(false);
    source.loadGate.open();
    await settle();
    expect(await read()).toEqual({ top: 2 });
  });

  it("does not prolong the wait of the others that share its miss", async () => {
    const clock = new FakeClock();
    const options = { testing: { clock, random: () => 0 }, leases: { leaseWaitMs: 1_000 } };
    const { source, read, world, resolvers } = start(ofLoad, options);
    const second = asking(world.process(typeDefs, resolvers, options));
    const held = read();
    await settle();
    const aborter = client();
    const aborted = second.errorOf(aborter);
    const other = second.read();
    await clock.advance(500);
    aborter.hangUp();
    await aborted;
    await clock.advance(499);
    expect(source.loads).toBe(1);
    await clock.advance(1);
    expect(source.loads).toBe(2);
    source.loadGate.open();
    expect(await Promise.all([held, other])).toEqual([{ top: 1 }, { top: 2 }]);
    expect(second.outcomes()).toEqual({ "bypassed(ABORTED)": 1, "bypassed(WAIT_TIMEOUT)": 1 });
  });

  /** A process whose field reads a loader, which passes on the signal of the request, or its own. */
  function startNested(signalOf: (context: Client, signal: AbortSignal) => AbortSignal) {
    const loadGate = gate();
    const signals: AbortSignal[] = [];
    const site = asking(
      memoryWorld().process(typeDefs, {
        Query: { top: (_: unknown, __: unknown, context: Client) => numbers(context).load(7) },
      }),
    );
    const numbers = site.cache.loader<number, number, Client>({
      name: "N",
      maxAge: 60,
      batch: async (ids, context, { signal }) => {
        signals.push(signalOf(context, signal));
        await upstream(loadGate, signals.at(-1));
        return ids;
      },
    });
    return { ...site, signals, loadGate };
  }

  it("leaves a load in which another load uses the request's signal to the others that wait", async () => {
    const { signals, loadGate, read, errorOf, others } = startNested(({ request }) => request.signal);
    const aborter = client();
    const aborted = errorOf(aborter);
    const waiting = others(5);
    while (signals.length === 0) await settle();
    waiting.push(read());
    await settle();
    aborter.hangUp();
    expect(await aborted).toBe(GONE);
    while (signals.length === 1) await settle();
    loadGate.open();
    expect(await Promise.all(waiting)).toEqual(Array(6).fill({ top: 7 }));
    expect(signals).toHaveLength(2);
  });

  it("does not end a load inside of its load while another request waits for the outer one", async () => {
    const { signals, loadGate, read, errorOf } = startNested((_, signal) => signal);
    const aborter = client();
    const aborted = errorOf(aborter);
    const other = read();
    while (signals.length === 0) await settle();
    aborter.hangUp();
    await aborted;
    await settle();
    expect(signals[0]?.aborted).toBe(false);
    loadGate.open();
    expect(await other).toEqual({ top: 7 });
    expect(signals).toHaveLength(1);
  });

  it("is recognised by the option abortSignal", async () => {
    const abortSignal = (context: { readonly controller: AbortController }): AbortSignal => context.controller.signal;
    const { source, errorOf } = start(ofLoad, { loads: { abortSignal } });
    const controller = new AbortController();
    const aborted = errorOf({ controller });
    await settle();
    controller.abort(new Error("gone"));
    expect(await aborted).toBe("gone");
    expect(source.signals[0]?.aborted).toBe(true);
  });

  it("leaves nothing unhandled when further signals of it abort", async () => {
    const abortSignal = (context: { readonly later: AbortSignal }): AbortSignal => context.later;
    const { source, errorOf } = start(ofLoad, { loads: { abortSignal } });
    const [first, later] = [client(), new AbortController()];
    // graphql 17 has a third, which aborts when the execution has ended.
    const aborted = errorOf({ ...first, later: later.signal });
    await settle();
    first.hangUp();
    later.abort(new Error("too late"));
    expect(await aborted).toBe(GONE);
    expect(source.signals[0]?.aborted).toBe(true);
  });

  it("is ignored, and the mistake reported, if the option abortSignal returns something else or throws", async () => {
    const warn = vi.fn();
    let abortSignal = (): never => new AbortController() as never;
    const options = { loads: { abortSignal: () => abortSignal() }, logger: { info: () => undefined, warn } };
    const { source, cache, events, read } = start(() => undefined, options);
    source.loadGate.open();
    expect(await read({})).toEqual({ top: 1 });
    await cache.invalidate({ coordinate: "Query.top" });
    abortSignal = () => {
      throw new Error("no signal");
    };
    expect(await read({})).toEqual({ top: 2 });
    const errors = events.flatMap((event) => (event.name === "signal.refused" ? [event.error.message] : []));
    expect(errors).toEqual([
      expect.stringContaining(
        "`loads.abortSignal`: expected an AbortSignal or undefined, got an instance of AbortController; return the signal of an AbortController",
      ),
      expect.stringContaining("it threw an exception"),
    ]);
    expect(warn).toHaveBeenCalledTimes(1);
  });
});

describe("info.getAbortSignal of graphql 17", () => {
  /** Makes a schema behave as under graphql 17, where each execution has a signal. */
  function withExecutionSignals({ schema }: Pick<Process, "schema">): void {
    const field = (schema.getType("Query") as GraphQLObjectType).getFields().top;
    const resolve = field?.resolve as GraphQLFieldResolver<unknown, { readonly execution: AbortSignal }>;
    const wrapped: typeof resolve = (source, args, context, info) =>
      resolve(source, args, context, { ...info, getAbortSignal: () => context.execution } as GraphQLResolveInfo);
    if (field !== undefined) field.resolve = wrapped;
  }

  it("ends the wait of its own execution, and is the load's signal inside of the load", async () => {
    const site = start(ofLoad);
    const { source, read, errorOf } = site;
    withExecutionSignals(site);
    const [aborter, other] = [new AbortController(), new AbortController()];
    const aborted = errorOf({ execution: aborter.signal });
    const waiting = read({ execution: other.signal });
    await settle();
    aborter.abort(new Error("gone"));
    expect(await aborted).toBe("gone");
    expect(source.signals[0]).not.toBe(aborter.signal);
    expect(source.signals[0]?.aborted).toBe(false);
    source.loadGate.open();
    expect(await waiting).toEqual({ top: 1 });
  });

  it("does not make a failure the caller's own when it aborts because the execution has ended", async () => {
    const down = new AbortController();
    const leases = { softTimeoutMs: 100 };
    const site = await startStale(() => down.signal, "staleIfError: 60", { leases });
    const { source, clock, read } = site;
    withExecutionSignals(site);
    const execution = new AbortController();
    const answer = read({ execution: execution.signal });
    await clock.advance(150);
    expect(await answer).toEqual({ top: 1 });
    execution.abort();
    down.abort(new Error("the source is down"));
    await settle();
    expect(await read({})).toEqual({ top: 1 });
    expect(source.loads).toBe(2);
  });
});

describe("the signal of a batch function", () => {
  function createLoader() {
    const calls: { readonly ids: readonly number[]; readonly signal: AbortSignal }[] = [];
    const loadGate = gate();
    const { cache } = memoryWorld().process(typeDefs, {});
    const numbers = cache.loader<number, number, Client>({
      name: "N",
      maxAge: 60,
      batch: async (ids, _, { signal }) => {
        calls.push({ ids, signal });
        await upstream(loadGate, signal);
        return ids;
      },
    });
    return { calls, loadGate, numbers };
  }

  it("aborts when no request waits for any of the ids", async () => {
    const { calls, loadGate, numbers } = createLoader();
    const [aborter, other] = [client(), client()];
    const aborted = numbers(aborter).loadMany([1, 2]);
    await settle();
    const waiting = numbers(other).load(2);
    await settle();
    aborter.hangUp();
    expect(await aborted).toEqual(Array(2).fill(expect.objectContaining({ message: GONE })));
    expect(calls).toEqual([{ ids: [1, 2], signal: expect.objectContaining({ aborted: false }) }]);
    other.hangUp();
    await expect(waiting).rejects.toThrow(GONE);
    expect(calls[0]?.signal.aborted).toBe(true);
    loadGate.open();
    expect(await numbers(client()).loadMany([1, 2])).toEqual([1, 2]);
  });

  it("is the signal of the request for a load without the cache", async () => {
    const signals: AbortSignal[] = [];
    const { cache } = memoryWorld().process(typeDefs, {});
    const batch = async (ids: readonly number[], _: Client, { signal }: { readonly signal: AbortSignal }) => (
      signals.push(signal), ids
    );
    const [bypassing, aborter] = [client(), client()];
    cache.override(bypassing, "BYPASS");
    await cache.loader<number, number, Client>({ name: "N", maxAge: 60, batch })(bypassing).load(1);
    await cache.loader<number, number, Client>({ name: "M", maxAge: 0, batch })(aborter).load(1);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
    bypassing.hangUp();
    aborter.hangUp();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });

  /** A loader without keys for odd ids, which the load of `top` asks for as others of the request begin. */
  function createMixedLoader(source: (signal: AbortSignal) => Promise<void>) {
    const calls: { readonly ids: readonly number[]; readonly signal: AbortSignal }[] = [];
    const outer = gate();
    const { cache, schema, ask } = memoryWorld().process(
      "type Query { outer: Int @cached(maxAge: 60) top(id: Int!): Int @cached(maxAge: 60) }",
      {
        Query: {
          outer: (_: unknown, __: unknown, context: Client) => {
            outer.open();
            return numbers(context).load(2);
          },
          top: (_: unknown, { id }: { id: number }, context: Client) => numbers(context).load(id),
        },
      },
    );
    const numbers = cache.loader<number, number, Client>({
      name: "N",
      maxAge: 60,
      cacheKeyFn: (id) => {
        if (id % 2 === 1) throw new Error("no key");
        return `${id}`;
      },
      batch: async (ids, _, { signal }) => {
        calls.push({ ids, signal });
        await source(signal);
        return ids;
      },
    });
    const top = (id: number, context: Client) => ask(`{ top(id: ${id}) }`, context);
    return { calls, numbers, schema, top, outerHasBegun: outer.passed };
  }

  it.each([
    ["with the cache", [2]],
    ["without the cache", [1]],
    ["of both kinds", [2, 1]],
  ])("leaves no listeners at the signal of a request that loads ids %s", async (_, [first, second]) => {
    const { calls, numbers, top } = createMixedLoader(async () => undefined);
    const asker = client();
    for (let n = 0; n < 40; n += 2)
      await Promise.all([
        numbers(asker).load((first as number) + n),
        second === undefined ? undefined : top(second + n, asker),
      ]);
    expect(calls.map(({ ids }) => ids.length)).toEqual(Array(20).fill(second === undefined ? 1 : 2));
    // One for all waits of the request.
    expect(getEventListeners(asker.request.signal, "abort").length).toBeLessThanOrEqual(1);
  });

  it("aborts when no request waits for any of the ids, of which some are loaded without the cache", async () => {
    const { calls, numbers, top } = createMixedLoader((signal) => upstream(gate(), signal));
    const [aborter, other] = [client(), client()];
    const aborted = Promise.allSettled([numbers(aborter).load(2), top(1, aborter)]);
    await settle();
    const waiting = numbers(other).load(2);
    await settle();
    expect(calls.map(({ ids }) => ids)).toEqual([[2, 1]]);
    aborter.hangUp();
    await aborted;
    expect(calls[0]?.signal.aborted).toBe(false);
    other.hangUp();
    await expect(waiting).rejects.toThrow(GONE);
    expect(calls[0]?.signal.aborted).toBe(true);
  });

  it("does not abort while its request waits for an id that is loaded without the cache", async () => {
    const ready = gate();
    const { calls, schema, top, outerHasBegun } = createMixedLoader((signal) => upstream(ready, signal));
    const asker = client();
    const execution = new AbortController();
    const aborted = executeWithSignal(schema, "{ outer }", asker, execution.signal);
    await outerHasBegun;
    const waiting = dataOf(top(1, asker));
    await settle();
    expect(calls.map(({ ids }) => [...ids].sort())).toEqual([[1, 2]]);
    execution.abort(new Error("the execution has ended"));
    await aborted;
    expect(calls[0]?.signal.aborted).toBe(false);
    ready.open();
    expect(await waiting).toEqual({ top: 1 });
  });
});

describe("a read of the context for its signal", () => {
  it("is not reported as a read by the load that encloses it", async () => {
    const process = memoryWorld().process(
      typeDefs,
      { Query: { top: (_: unknown, __: unknown, context: Client) => numbers(context).load(7) } },
      { privacy: { warnOnContextReads: true } },
    );
    const numbers = process.cache.loader<number, number, Client>({ name: "N", maxAge: 60, batch: async (ids) => ids });
    expect(await dataOf(process.ask("{ top }", client()))).toEqual({ top: 7 });
    expect(process.events.filter(({ name }) => name === "context.read")).toEqual([]);
  });
});
