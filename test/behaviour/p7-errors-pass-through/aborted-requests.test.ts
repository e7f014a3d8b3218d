import { getEventListeners, once } from "node:events";
import { chaosStore, FakeClock, type Gate, gate, settle } from "@graphql-cached/testing";
import type { GraphQLFieldResolver, GraphQLObjectType, GraphQLResolveInfo } from "graphql";
import { memoryStore } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { executeWithSignal } from "../../support/execution-signal.js";
import { dataOf, memoryWorld, onEachStore, type Process, waitForStores } from "../../support/world.js";

const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";

/** A context like that of GraphQL Yoga: its request has a signal. */
interface Client {
  readonly request: { readonly signal: AbortSignal };
  readonly hangUp: () => void;
}

function client(): Client {
  const controller = new AbortController();
  return { request: controller, hangUp: () => controller.abort(new Error("the client has hung up")) };
}

/** As in graphql 17; graphql 16 has no such method. */
type Info = GraphQLResolveInfo & { readonly getAbortSignal?: () => AbortSignal | undefined };

/** Rejects with the reason of `signal` when it aborts before the gate is opened, as `fetch` does. */
async function upstream(loadGate: Gate, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  const aborted = signal === undefined ? new Promise<never>(() => undefined) : once(signal, "abort");
  const isAborted = await Promise.race([loadGate.passed.then(() => false), aborted.then(() => true)]);
  if (isAborted) throw signal?.reason;
}

/** A source whose loads end when its gate is opened, or when the signal that they are given aborts. */
function createSource(signalOf: (context: Client, info: Info) => AbortSignal | undefined) {
  const source = { loads: 0, loadGate: gate(), signals: [] as (AbortSignal | undefined)[] };
  const top = async (_: unknown, __: unknown, context: Client, info: Info): Promise<number> => {
    const load = ++source.loads;
    const signal = signalOf(context, info);
    source.signals.push(signal);
    await upstream(source.loadGate, signal);
    return load;
  };
  return { source, resolvers: { Query: { top } } };
}

const ofRequest = ({ request }: Client): AbortSignal => request.signal;
const ofLoad = (_: Client, info: Info): AbortSignal | undefined => info.getAbortSignal?.();

const patient = { storage: { storeTimeoutMs: 10_000 } };

const errorOf = async ({ ask }: Process, caller: Client): Promise<unknown> =>
  (await ask("{ top }", caller)).errors?.[0]?.message;

onEachStore("a request that is aborted", (world) => {
  it("leaves its load to others that wait, in this and in another process, if it is the request's signal that ends it", async () => {
    const { source, resolvers } = createSource(ofRequest);
    const shared = world();
    const [first, second] = [
      shared.process(typeDefs, resolvers, patient),
      shared.process(typeDefs, resolvers, patient),
    ];
    const aborter = client();
    const aborted = errorOf(first, aborter);
    const others = Array.from({ length: 10 }, () => dataOf(first.ask("{ top }", client())));
    await vi.waitFor(() => expect(source.loads).toBe(1));
    others.push(...Array.from({ length: 10 }, () => dataOf(first.ask("{ top }", client()))));
    others.push(...Array.from({ length: 10 }, () => dataOf(second.ask("{ top }", client()))));
    await settle();
    aborter.hangUp();
    expect(await aborted).toBe("the client has hung up");
    await vi.waitFor(() => expect(source.loads).toBe(2));
    source.loadGate.open();
    expect(await Promise.all(others)).toEqual(Array(30).fill({ top: 2 }));
    expect(source.loads).toBe(2);
  });
});

describe("a request that is aborted without a lease", () => {
  /** Begins a request that leads a load without a lease, and others that wait for it; then aborts the first. */
  async function abortLeader(process: Process, source: { loads: number; loadGate: Gate }) {
    const aborter = client();
    const before = source.loads;
    const aborted = errorOf(process, aborter);
    const others = Array.from({ length: 10 }, () => dataOf(process.ask("{ top }", client())));
    while (source.loads === before) await settle();
    aborter.hangUp();
    expect(await aborted).toBe("the client has hung up");
    while (source.loads === before + 1) await settle();
    source.loadGate.open();
    expect(await Promise.all(others)).toEqual(Array(10).fill({ top: before + 2 }));
    expect(source.loads).toBe(before + 2);
  }

  it("begins no miss if it has left before the store replies, so that others of its tick do not read again", async () => {
    const { source, resolvers } = createSource(ofRequest);
    const store = chaosStore(memoryStore());
    const process = memoryWorld().process(typeDefs, resolvers, { store });
    const aborter = client();
    const aborted = errorOf(process, aborter);
    const others = Array.from({ length: 3 }, () => dataOf(process.ask("{ top }", client())));
    aborter.hangUp();
    expect(await aborted).toBe("the client has hung up");
    source.loadGate.open();
    expect(await Promise.all(others)).toEqual(Array(3).fill({ top: 1 }));
    expect(store.chaos.calls.get("read")).toBe(1);
  });

  it("leaves its load to others while the store is unavailable", async () => {
    const { source, resolvers } = createSource(ofRequest);
    const store = chaosStore(memoryStore());
    store.chaos.mode = "throws";
    await abortLeader(memoryWorld().process(typeDefs, resolvers, { store }), source);
  });

  it("leaves its load to others during a write in progress", async () => {
    const { source, resolvers } = createSource(ofRequest);
    const process = memoryWorld().process(typeDefs, resolvers);
    await process.cache.mutate({ entries: [{ coordinate: "Query.top" }] }, () => abortLeader(process, source));
  });

  it("leaves its load to others if the value is too large to be stored", async () => {
    const { source, resolvers } = createSource(ofRequest);
    source.loadGate.open();
    const process = memoryWorld().process(typeDefs, resolvers, { storage: { maxValueBytes: 0 } });
    await dataOf(process.ask("{ top }", client()));
    await settle();
    source.loadGate = gate();
    await abortLeader(process, source);
    expect(process.outcomes()).toMatchObject({ "bypassed(UNCACHEABLE)": 11 });
  });

  it("does not reach the source if it is aborted before its load begins", async () => {
    const { source, resolvers } = createSource(ofRequest);
    const process = memoryWorld().process(typeDefs, resolvers, { loads: { maxConcurrentLoads: 1 } });
    await process.cache.mutate({ entries: [{ coordinate: "Query.top" }] }, async () => {
      const running = dataOf(process.ask("{ top }", client()));
      await settle();
      const clients = [client(), client()];
      const aborted = clients.map((caller) => errorOf(process, caller));
      await settle();
      for (const caller of clients) caller.hangUp();
      expect(await Promise.all(aborted)).toEqual(Array(2).fill("the client has hung up"));
      source.loadGate.open();
      await running;
      await settle();
    });
    expect(source.loads).toBe(1);
  });
});

describe("a request that is aborted", () => {
  it("does not end its load while others wait for it, if the load has its own signal", async () => {
    const { source, resolvers } = createSource(ofLoad);
    const process = memoryWorld().process(typeDefs, resolvers, patient);
    const aborter = client();
    const aborted = errorOf(process, aborter);
    const sharer = dataOf(process.ask("{ top }", client()));
    await vi.waitFor(() => expect(source.loads).toBe(1));
    const joiner = dataOf(process.ask("{ top }", client()));
    await settle();
    aborter.hangUp();
    expect(await aborted).toBe("the client has hung up");
    await settle();
    source.loadGate.open();
    expect(await Promise.all([sharer, joiner])).toEqual([{ top: 1 }, { top: 1 }]);
    expect(source.loads).toBe(1);
  });

  it("ends its load when no request waits for it any more, and the next request loads at once", async () => {
    const { source, resolvers } = createSource(ofLoad);
    const process = memoryWorld().process(typeDefs, resolvers, patient);
    const clients = [client(), client(), client()];
    const [leader, sharer, joiner] = clients as [Client, Client, Client];
    const aborted = [errorOf(process, leader), errorOf(process, sharer)];
    await vi.waitFor(() => expect(source.loads).toBe(1));
    aborted.push(errorOf(process, joiner));
    await vi.waitFor(() => expect(process.outcomes()).toEqual({}));
    await settle();
    leader.hangUp();
    joiner.hangUp();
    await settle();
    expect(source.signals[0]?.aborted).toBe(false);
    sharer.hangUp();
    expect(source.signals[0]?.aborted).toBe(true);
    expect(await Promise.all(aborted)).toEqual(Array(3).fill("the client has hung up"));
    const next = dataOf(process.ask("{ top }", client()));
    await vi.waitFor(() => expect(source.loads).toBe(2));
    source.loadGate.open();
    expect(await next).toEqual({ top: 2 });
    expect(process.outcomes()).toMatchObject({ "bypassed(ABORTED)": 3 });
  });

  it("shares a timeout of the source with 200 waiters in two processes for the error back-off", async () => {
    let loads = 0;
    const timeout = new AbortController();
    const top = async (): Promise<void> => {
      loads++;
      await upstream(gate(), timeout.signal);
    };
    const shared = memoryWorld();
    const options = { ...patient, loads: { errorBackoffMs: 60_000 } };
    const processes = [0, 1].map(() => shared.process(typeDefs, { Query: { top } }, options));
    const waiters = processes.flatMap((process) => Array.from({ length: 100 }, () => errorOf(process, client())));
    await vi.waitFor(() => expect(loads).toBe(1));
    await settle();
    timeout.abort(new DOMException("upstream timed out", "TimeoutError"));
    expect(await Promise.all(waiters)).toEqual(Array(200).fill("upstream timed out"));
    for (const process of processes) expect(await errorOf(process, client())).toBe("upstream timed out");
    expect(loads).toBe(1);
  });

  it("does not reach the source when it gets its turn in the bulkhead", async () => {
    const twoFields = "type Query { top(n: Int): Int @cached(maxAge: 60) }";
    const { source, resolvers } = createSource(ofRequest);
    const process = memoryWorld().process(twoFields, resolvers, { loads: { maxConcurrentLoads: 1 } });
    const running = dataOf(process.ask("{ top(n: 1) }", client()));
    await settle();
    const aborter = client();
    const aborted = process.ask("{ top(n: 2) }", aborter);
    await settle();
    aborter.hangUp();
    expect((await aborted).errors?.[0]?.message).toBe("the client has hung up");
    source.loadGate.open();
    await running;
    await settle();
    expect(source.loads).toBe(1);
    expect(process.events.map(({ name }) => name)).toContain("load.refused");
  });

  it("requests no lease when the load that it waited for in another process has failed", async () => {
    const { source, resolvers } = createSource(ofRequest);
    const world = memoryWorld();
    const [first, second] = [world.process(typeDefs, resolvers), world.process(typeDefs, resolvers)];
    const [holder, waiter] = [client(), client()];
    const held = errorOf(first, holder);
    await settle();
    const waited = errorOf(second, waiter);
    await settle();
    waiter.hangUp();
    expect(await waited).toBe("the client has hung up");
    holder.hangUp();
    expect(await held).toBe("the client has hung up");
    await settle();
    expect(source.loads).toBe(1);
  });

  it("gets no error from the cache and loads nothing if it was aborted before it asked", async () => {
    const { source, resolvers } = createSource(ofLoad);
    const process = memoryWorld().process(typeDefs, resolvers);
    const aborter = client();
    aborter.hangUp();
    expect(await errorOf(process, aborter)).toBe("the client has hung up");
    await settle();
    expect(source.loads).toBe(0);
    expect(process.outcomes()).toEqual({ "bypassed(ABORTED)": 1 });
  });

  it("does not count as a failure of the source for the breaker", async () => {
    const { source, resolvers } = createSource(ofRequest);
    const process = memoryWorld().process(typeDefs, resolvers, { loads: { breakerThreshold: 1 } });
    const aborter = client();
    const aborted = errorOf(process, aborter);
    await settle();
    aborter.hangUp();
    await aborted;
    await settle();
    source.loadGate.open();
    expect(await dataOf(process.ask("{ top }", client()))).toEqual({ top: 2 });
  });

  it("does not end the refresh that it has started, whose failure then leaves no back-off", async () => {
    const clock = new FakeClock();
    const stale = "type Query { top: Int @cached(maxAge: 1, staleWhileRevalidate: 60) }";
    let signalOf: typeof ofLoad = ofLoad;
    const { source, resolvers } = createSource((context, info) => signalOf(context, info));
    source.loadGate.open();
    const process = memoryWorld(() => memoryStore({ clock })).process(stale, resolvers, { testing: { clock } });
    await dataOf(process.ask("{ top }", client()));
    await clock.advance(2_000);
    source.loadGate = gate();
    const asker = client();
    expect(await dataOf(process.ask("{ top }", asker))).toEqual({ top: 1 });
    await settle();
    asker.hangUp();
    await settle();
    expect(source.signals[1]?.aborted).toBe(false);
    source.loadGate.open();
    await settle();
    expect(await dataOf(process.ask("{ top }", client()))).toEqual({ top: 2 });

    await clock.advance(2_000);
    signalOf = ofRequest;
    source.loadGate = gate();
    const other = client();
    expect(await dataOf(process.ask("{ top }", other))).toEqual({ top: 2 });
    await settle();
    other.hangUp();
    await settle();
    expect(await dataOf(process.ask("{ top }", client()))).toEqual({ top: 2 });
    await settle();
    expect(source.loads).toBe(4);
    source.loadGate.open();
  });

  it("does not hide the failure of a refresh that it has started, if its signal aborts when it has ended", async () => {
    const clock = new FakeClock();
    const stale = "type Query { top: Int @cached(maxAge: 1, staleWhileRevalidate: 60) }";
    const loadGate = gate();
    let loads = 0;
    const top = async (): Promise<number> => {
      if (++loads === 1) return 1;
      await loadGate.passed;
      throw new Error("the source is down");
    };
    const process = memoryWorld(() => memoryStore({ clock })).process(
      stale,
      { Query: { top } },
      { testing: { clock } },
    );
    await dataOf(process.ask("{ top }", client()));
    await clock.advance(2_000);
    const asker = client();
    expect(await dataOf(process.ask("{ top }", asker))).toEqual({ top: 1 });
    await settle();
    asker.hangUp();
    loadGate.open();
    await settle();
    expect(await dataOf(process.ask("{ top }", client()))).toEqual({ top: 1 });
    await settle();
    expect(loads).toBe(2);
  });

  it("does not end the load that it left for a stale value at its soft timeout", async () => {
    const clock = new FakeClock();
    const soft = "type Query { top: Int @cached(maxAge: 1, staleIfError: 60) }";
    const { source, resolvers } = createSource(ofLoad);
    source.loadGate.open();
    const options = { testing: { clock }, leases: { softTimeoutMs: 100 } };
    const process = memoryWorld(() => memoryStore({ clock })).process(soft, resolvers, options);
    await dataOf(process.ask("{ top }", client()));
    await clock.advance(2_000);
    source.loadGate = gate();
    const asker = client();
    const answer = dataOf(process.ask("{ top }", asker));
    await clock.advance(150);
    expect(await answer).toEqual({ top: 1 });
    asker.hangUp();
    expect(source.signals[1]?.aborted).toBe(false);
    source.loadGate.open();
    await settle();
    expect(await dataOf(process.ask("{ top }", client()))).toEqual({ top: 2 });
  });

  it("does not prolong the wait of the others that share its miss", async () => {
    const clock = new FakeClock();
    const { source, resolvers } = createSource(ofLoad);
    const world = memoryWorld(() => memoryStore({ clock }));
    const options = { testing: { clock, random: () => 0 }, leases: { leaseWaitMs: 1_000 } };
    const [holder, process] = [
      world.process(typeDefs, resolvers, options),
      world.process(typeDefs, resolvers, options),
    ];
    const held = dataOf(holder.ask("{ top }", client()));
    await settle();
    const aborter = client();
    const aborted = errorOf(process, aborter);
    const other = dataOf(process.ask("{ top }", client()));
    await clock.advance(500);
    aborter.hangUp();
    await aborted;
    await clock.advance(499);
    expect(source.loads).toBe(1);
    await clock.advance(1);
    expect(source.loads).toBe(2);
    source.loadGate.open();
    expect(await Promise.all([held, other])).toEqual([{ top: 1 }, { top: 2 }]);
    expect(process.outcomes()).toEqual({ "bypassed(ABORTED)": 1, "bypassed(WAIT_TIMEOUT)": 1 });
  });

  it("leaves a load in which another load uses the request's signal to the others that wait", async () => {
    let loads = 0;
    const loadGate = gate();
    const process = memoryWorld().process(typeDefs, {
      Query: { top: (_: unknown, __: unknown, context: Client) => numbers(context).load(7) },
    });
    const numbers = process.cache.loader<number, number, Client>({
      name: "N",
      maxAge: 60,
      batch: async (ids, { request }) => {
        loads++;
        await upstream(loadGate, request.signal);
        return ids;
      },
    });
    const aborter = client();
    const aborted = errorOf(process, aborter);
    const others = Array.from({ length: 5 }, () => dataOf(process.ask("{ top }", client())));
    while (loads === 0) await settle();
    others.push(dataOf(process.ask("{ top }", client())));
    await settle();
    aborter.hangUp();
    expect(await aborted).toBe("the client has hung up");
    while (loads === 1) await settle();
    loadGate.open();
    expect(await Promise.all(others)).toEqual(Array(6).fill({ top: 7 }));
    expect(loads).toBe(2);
  });

  it("does not end a load inside of its load while another request waits for the outer one", async () => {
    const loadGate = gate();
    const signals: AbortSignal[] = [];
    const process = memoryWorld().process(typeDefs, {
      Query: { top: (_: unknown, __: unknown, context: Client) => numbers(context).load(7) },
    });
    const numbers = process.cache.loader<number, number, Client>({
      name: "N",
      maxAge: 60,
      batch: async (ids, _, { signal }) => {
        signals.push(signal);
        await upstream(loadGate, signal);
        return ids;
      },
    });
    const aborter = client();
    const aborted = errorOf(process, aborter);
    const other = dataOf(process.ask("{ top }", client()));
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
    const { source, resolvers } = createSource(ofLoad);
    const abortSignal = (context: { readonly controller: AbortController }): AbortSignal => context.controller.signal;
    const process = memoryWorld().process(typeDefs, resolvers, { loads: { abortSignal } });
    const controller = new AbortController();
    const aborted = process.ask("{ top }", { controller });
    await settle();
    controller.abort(new Error("gone"));
    expect((await aborted).errors?.[0]?.message).toBe("gone");
    expect(source.signals[0]?.aborted).toBe(true);
  });

  it("leaves nothing unhandled when further signals of it abort", async () => {
    const { source, resolvers } = createSource(ofLoad);
    const abortSignal = (context: { readonly later: AbortSignal }): AbortSignal => context.later;
    const process = memoryWorld().process(typeDefs, resolvers, { loads: { abortSignal } });
    const [first, later] = [new AbortController(), new AbortController()];
    // graphql 17 has a third, which aborts when the execution has ended.
    const aborted = process.ask("{ top }", { request: first, later: later.signal });
    await settle();
    first.abort(new Error("the client has hung up"));
    later.abort(new Error("too late"));
    expect((await aborted).errors?.[0]?.message).toBe("the client has hung up");
    expect(source.signals[0]?.aborted).toBe(true);
  });

  it("is ignored, and the mistake reported, if the option abortSignal returns something else or throws", async () => {
    const warn = vi.fn();
    let abortSignal = (): never => new AbortController() as never;
    const options = { loads: { abortSignal: () => abortSignal() }, logger: { info: () => undefined, warn } };
    const process = memoryWorld().process(typeDefs, { Query: { top: () => 7 } }, options);
    expect(await dataOf(process.ask("{ top }", {}))).toEqual({ top: 7 });
    await process.cache.invalidate({ coordinate: "Query.top" });
    abortSignal = () => {
      throw new Error("no signal");
    };
    expect(await dataOf(process.ask("{ top }", {}))).toEqual({ top: 7 });
    const errors = process.events.flatMap((event) => (event.name === "signal.refused" ? [event.error.message] : []));
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
  function withExecutionSignals({ schema }: Process): void {
    const field = (schema.getType("Query") as GraphQLObjectType).getFields().top;
    const resolve = field?.resolve as GraphQLFieldResolver<unknown, { readonly execution: AbortSignal }>;
    const wrapped: typeof resolve = (source, args, context, info) =>
      resolve(source, args, context, { ...info, getAbortSignal: () => context.execution } as GraphQLResolveInfo);
    if (field !== undefined) field.resolve = wrapped;
  }

  it("ends the wait of its own execution, and is the load's signal inside of the load", async () => {
    const { source, resolvers } = createSource(ofLoad);
    const process = memoryWorld().process(typeDefs, resolvers);
    withExecutionSignals(process);
    const [aborter, other] = [new AbortController(), new AbortController()];
    const aborted = process.ask("{ top }", { execution: aborter.signal });
    const waiting = dataOf(process.ask("{ top }", { execution: other.signal }));
    await settle();
    aborter.abort(new Error("gone"));
    expect((await aborted).errors?.[0]?.message).toBe("gone");
    expect(source.signals[0]).not.toBe(aborter.signal);
    expect(source.signals[0]?.aborted).toBe(false);
    source.loadGate.open();
    expect(await waiting).toEqual({ top: 1 });
  });

  it("does not make a failure the caller's own when it aborts because the execution has ended", async () => {
    const clock = new FakeClock();
    const soft = "type Query { top: Int @cached(maxAge: 1, staleIfError: 60) }";
    let source = (): unknown => 1;
    let loads = 0;
    const resolvers = { Query: { top: () => (++loads, source()) } };
    const options = { testing: { clock }, leases: { softTimeoutMs: 100 } };
    const process = memoryWorld(() => memoryStore({ clock })).process(soft, resolvers, options);
    withExecutionSignals(process);
    const execution = new AbortController();
    await dataOf(process.ask("{ top }", { execution: execution.signal }));
    await waitForStores(process);
    await clock.advance(2_000);
    const loadGate = gate();
    source = async () => {
      await loadGate.passed;
      throw new Error("the source is down");
    };
    const answer = dataOf(process.ask("{ top }", { execution: execution.signal }));
    await clock.advance(150);
    expect(await answer).toEqual({ top: 1 });
    execution.abort();
    loadGate.open();
    await settle();
    expect(await dataOf(process.ask("{ top }", {}))).toEqual({ top: 1 });
    expect(loads).toBe(2);
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
    expect(await aborted).toEqual(Array(2).fill(expect.objectContaining({ message: "the client has hung up" })));
    expect(calls).toEqual([{ ids: [1, 2], signal: expect.objectContaining({ aborted: false }) }]);
    other.hangUp();
    await expect(waiting).rejects.toThrow("the client has hung up");
    expect(calls[0]?.signal.aborted).toBe(true);
    loadGate.open();
    expect(await numbers(client()).loadMany([1, 2])).toEqual([1, 2]);
  });

  it("is the signal of the request for a load without the cache", async () => {
    const signals: AbortSignal[] = [];
    const { cache } = memoryWorld().process(typeDefs, {});
    const options = {
      batch: async (ids: readonly number[], _: Client, { signal }: { readonly signal: AbortSignal }) => {
        signals.push(signal);
        return ids;
      },
    };
    const [bypassing, aborter] = [client(), client()];
    cache.override(bypassing, "BYPASS");
    await cache
      .loader<number, number, Client>({ name: "N", maxAge: 60, ...options })(bypassing)
      .load(1);
    await cache
      .loader<number, number, Client>({ name: "M", maxAge: 0, ...options })(aborter)
      .load(1);
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
    await expect(waiting).rejects.toThrow("the client has hung up");
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
    const numbers = process.cache.loader<number, number, Client>({
      name: "N",
      maxAge: 60,
      batch: async (ids) => ids,
    });
    expect(await dataOf(process.ask("{ top }", client()))).toEqual({ top: 7 });
    expect(process.events.filter(({ name }) => name === "context.read")).toEqual([]);
  });
});
