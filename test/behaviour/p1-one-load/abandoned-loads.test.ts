import { FakeClock, type Gate, gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import type { BatchCall } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { memoryWorld, onEachStore, type World, waitForStores } from "../../support/world.js";

const typeDefs = "type Query { top(n: Int): Int @cached(maxAge: 60) }";

interface Client {
  readonly signal: AbortSignal;
  readonly hangUp: () => void;
}
function client(): Client {
  const controller = new AbortController();
  return { signal: controller.signal, hangUp: () => controller.abort(new Error("the client has hung up")) };
}
const abortSignal = ({ signal }: Client): AbortSignal => signal;

/** A source that ends when its gate is opened or its signal aborts, as `fetch` does. */
function start(world: World, loads: object) {
  const source = { signals: [] as AbortSignal[], gates: [] as Gate[] };
  const load = (signal: AbortSignal): Promise<number> => {
    const own = gate();
    source.signals.push(signal);
    source.gates.push(own);
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      void own.passed.then(() => resolve(source.gates.length));
    });
  };
  const top = (_: unknown, __: unknown, ___: unknown, info: GraphQLResolveInfo): Promise<number> =>
    load((info as unknown as { getAbortSignal(): AbortSignal }).getAbortSignal());
  const process = world.process(typeDefs, { Query: { top } }, {
    loads: { abortSignal, ...loads },
    storage: { storeTimeoutMs: 5_000 },
  } as object);
  const films = process.cache.loader<number, number>({
    name: "Film",
    maxAge: 60,
    batch: (ids, _context, { signal }) => load(signal).then((value) => ids.map(() => value)),
  });
  /** By what a value is asked for. */
  const ways: Record<string, (caller: Client) => Promise<unknown>> = {
    "a field": (caller) => process.ask("{ top }", caller).then(({ data, errors }) => errors?.[0]?.message ?? data?.top),
    "a loader": (caller) =>
      films(caller as never)
        .load(7)
        .catch((error: Error) => error.message),
  };
  return { process, source, ways };
}

/** The source of a loader is called after the tick in which its load has started. */
const begun = ({ signals }: { readonly signals: readonly AbortSignal[] }, count = 1): Promise<void> =>
  vi.waitFor(() => expect(signals).toHaveLength(count));

onEachStore("a load that all its callers have left", (world) => {
  for (const way of ["a field", "a loader"])
    it(`goes on for abandonedLoadMs, and its value is stored: ${way}`, async () => {
      const { process, source, ways } = start(world(), { abandonedLoadMs: 30_000 });
      const ask = ways[way] as (caller: Client) => Promise<unknown>;
      const callers = [client(), client()];
      const answers = callers.map(ask);
      await begun(source);
      for (const { hangUp } of callers) hangUp();
      expect(await Promise.all(answers)).toEqual(["the client has hung up", "the client has hung up"]);
      expect(source.signals[0]?.aborted).toBe(false);
      source.gates[0]?.open();
      await waitForStores(process);
      expect(await ask(client())).toBe(1);
      expect(source.gates).toHaveLength(1);
    });
});

describe("a load that all its callers have left", () => {
  const onClock = (loads: object) => {
    const clock = new FakeClock();
    const world = memoryWorld();
    return {
      clock,
      ...start(
        {
          ...world,
          process: (types, resolvers, options) => world.process(types, resolvers, { ...options, testing: { clock } }),
        },
        loads,
      ),
    };
  };

  it("is aborted when abandonedLoadMs are over", async () => {
    const { clock, source, ways } = onClock({ abandonedLoadMs: 1_000 });
    const caller = client();
    const answer = ways["a field"]?.(caller);
    await begun(source);
    caller.hangUp();
    await clock.advance(999);
    expect(source.signals[0]?.aborted).toBe(false);
    await clock.advance(1);
    expect(source.signals[0]?.aborted).toBe(true);
    expect(await answer).toBe("the client has hung up");
    const next = ways["a field"]?.(client());
    await begun(source, 2);
    source.gates[1]?.open();
    expect(await next).toBe(2);
  });

  it("is not aborted while a later caller waits for it, and has its time again when that one has left", async () => {
    const { clock, source, ways } = onClock({ abandonedLoadMs: 1_000 });
    const [first, second] = [client(), client()];
    const answers = [ways["a field"]?.(first)];
    await begun(source);
    first.hangUp();
    await clock.advance(500);
    answers.push(ways["a field"]?.(second));
    await clock.advance(2_000);
    expect(source.signals[0]?.aborted).toBe(false);
    second.hangUp();
    await clock.advance(999);
    expect(source.signals[0]?.aborted).toBe(false);
    answers.push(ways["a field"]?.(client()));
    await settle();
    source.gates[0]?.open();
    await settle();
    expect(await Promise.all(answers)).toEqual(["the client has hung up", "the client has hung up", 1]);
    expect(source.gates).toHaveLength(1);
    await clock.advance(60_000);
  });

  it("is dropped at once if it has not begun", async () => {
    const { source, process } = onClock({ abandonedLoadMs: 60_000, maxConcurrentLoads: 1 });
    const running = process.ask("{ top(n: 1) }", client());
    await begun(source);
    const caller = client();
    const queued = process.ask("{ top(n: 2) }", caller);
    await settle();
    caller.hangUp();
    expect((await queued).errors?.[0]?.message).toBe("the client has hung up");
    expect(process.events.filter(({ name }) => name === "load.refused")).toHaveLength(1);
    source.gates[0]?.open();
    expect(await running).toEqual({ data: { top: 1 } });
    expect(source.gates).toHaveLength(1);
  });

  it("is aborted at once by default", async () => {
    const { source, ways } = onClock({});
    const caller = client();
    const answer = ways["a field"]?.(caller);
    await begun(source);
    caller.hangUp();
    expect(source.signals[0]?.aborted).toBe(true);
    await answer;
  });
});

describe("a batch whose first id nobody waits for any more", () => {
  type Ids = readonly number[];
  it.each<[string, (ids: Ids, call: BatchCall, double: (id: number) => Promise<number>) => Promise<Ids>]>([
    ["reads with another loader", (ids, _, double) => Promise.all(ids.map(double))],
    [
      "asks for its signal",
      async (ids, call) => {
        call.signal.throwIfAborted();
        return ids.map((id) => 2 * id);
      },
    ],
  ])("goes on for those who wait for another id when it %s", async (_, goOn) => {
    const { cache } = memoryWorld().process("type Query { unused: Int }", {}, { loads: { abortSignal } });
    const held = gate();
    const calls: Ids[] = [];
    const doubles = cache.loader<number, number>({
      name: "Double",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => 2 * id),
    });
    const films = cache.loader<number, number>({
      name: "Film",
      maxAge: 60,
      batch: async (ids, context, call) => {
        calls.push(ids);
        await held.passed;
        return goOn(ids, call, (id) => doubles(context).load(id));
      },
    });
    const leaving = client();
    const left = films(leaving).loadMany([1, 2]);
    const value = films({}).load(2);
    await vi.waitFor(() => expect(calls).toHaveLength(1));
    leaving.hangUp();
    await left;
    held.open();
    expect(await value).toBe(4);
    expect(calls).toEqual([[1, 2]]);
  });
});
