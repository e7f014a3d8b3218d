import { type Gate, gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import type { BatchCall } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { abortSignal, type Client, client, HUNG_UP } from "../../support/client.js";
import { memoryWorld, onEachStore, timedWorld, type World, waitForStores } from "../../support/world.js";

/** A process whose source ends a load when its gate is opened or its signal aborts, as `fetch` does. */
function start(world: World, loads: object) {
  const [signals, gates]: [AbortSignal[], Gate[]] = [[], []];
  const load = (signal: AbortSignal): Promise<number> => {
    const own = gate();
    signals.push(signal);
    gates.push(own);
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      void own.passed.then(() => resolve(gates.length));
    });
  };
  const top = (...[, , , info]: [unknown, unknown, unknown, GraphQLResolveInfo]): Promise<number> =>
    load((info as unknown as { getAbortSignal(): AbortSignal }).getAbortSignal());
  const options = { loads: { abortSignal, ...loads }, storage: { storeTimeoutMs: 5_000 } };
  const typeDefs = "type Query { top(n: Int): Int @cached(maxAge: 60) }";
  const process = world.process(typeDefs, { Query: { top } }, options as object);
  const films = process.cache.loader<number, number>({
    name: "Film",
    maxAge: 60,
    batch: (ids, _context, { signal }) => load(signal).then((value) => ids.map(() => value)),
  });
  /** Return the value, or the message of the error. */
  const ways = {
    "a field": (caller: Client, query = "{ top }"): Promise<unknown> =>
      process.ask(query, caller).then(({ data, errors }) => errors?.[0]?.message ?? data?.top),
    "a loader": (caller: Client): Promise<unknown> =>
      films(caller as never)
        .load(7)
        .catch((error: Error) => error.message),
  };
  /** The source of a loader is called after the tick in which its load has started. */
  const begun = (count = 1): Promise<void> => vi.waitFor(() => expect(signals).toHaveLength(count));
  return { process, signals, gates, begun, ways, ask: ways["a field"] };
}

onEachStore("a load that all its callers have left", (world) => {
  it.each(["a field", "a loader"] as const)("goes on for abandonedLoadMs, and its value is stored: %s", async (way) => {
    const { process, signals, gates, begun, ways } = start(world(), { abandonedLoadMs: 30_000 });
    const callers = [client(), client()];
    const answers = callers.map((caller) => ways[way](caller));
    await begun();
    for (const { hangUp } of callers) hangUp();
    expect([await Promise.all(answers), signals[0]?.aborted]).toEqual([[HUNG_UP, HUNG_UP], false]);
    gates[0]?.open();
    await waitForStores(process);
    expect([await ways[way](client()), gates.length]).toEqual([1, 1]);
  });
});

describe("a load that all its callers have left", () => {
  const onClock = (loads: object) => {
    const world = timedWorld();
    return { clock: world.clock, ...start(world, loads) };
  };

  it("is aborted when abandonedLoadMs are over", async () => {
    const { clock, signals, gates, begun, ask } = onClock({ abandonedLoadMs: 1_000 });
    const caller = client();
    const answer = ask(caller);
    await begun();
    caller.hangUp();
    await clock.advance(999);
    expect(signals[0]?.aborted).toBe(false);
    await clock.advance(1);
    expect([signals[0]?.aborted, await answer]).toEqual([true, HUNG_UP]);
    const next = ask(client());
    await begun(2);
    gates[1]?.open();
    expect(await next).toBe(2);
  });

  it("is not aborted while a later caller waits for it, and has its time again when that one has left", async () => {
    const { clock, signals, gates, begun, ask } = onClock({ abandonedLoadMs: 1_000 });
    const [first, second] = [client(), client()];
    const answers = [ask(first)];
    await begun();
    first.hangUp();
    await clock.advance(500);
    answers.push(ask(second));
    await clock.advance(2_000);
    expect(signals[0]?.aborted).toBe(false);
    second.hangUp();
    await clock.advance(999);
    expect(signals[0]?.aborted).toBe(false);
    answers.push(ask(client()));
    await settle();
    gates[0]?.open();
    await settle();
    expect([await Promise.all(answers), gates.length]).toEqual([[HUNG_UP, HUNG_UP, 1], 1]);
    await clock.advance(60_000);
  });

  it("is dropped at once if it has not begun", async () => {
    const { gates, begun, ask, process } = onClock({ abandonedLoadMs: 60_000, maxConcurrentLoads: 1 });
    const running = ask(client(), "{ top(n: 1) }");
    await begun();
    const caller = client();
    const queued = ask(caller, "{ top(n: 2) }");
    await settle();
    caller.hangUp();
    expect(await queued).toBe(HUNG_UP);
    expect(process.events.filter(({ name }) => name === "load.refused")).toHaveLength(1);
    gates[0]?.open();
    expect([await running, gates.length]).toEqual([1, 1]);
  });

  it("is aborted at once by default", async () => {
    const { signals, begun, ask } = onClock({});
    const caller = client();
    const answer = ask(caller);
    await begun();
    caller.hangUp();
    expect(signals[0]?.aborted).toBe(true);
    await answer;
  });
});

describe("a batch whose first id nobody waits for any more", () => {
  type Ids = readonly number[];
  const askSignal = async (ids: Ids, { signal }: BatchCall) => (signal.throwIfAborted(), ids.map((id) => 2 * id));
  it.each<[string, (ids: Ids, call: BatchCall, double: (id: number) => Promise<number>) => Promise<Ids>]>([
    ["reads with another loader", (ids, _, double) => Promise.all(ids.map(double))],
    ["asks for its signal", askSignal],
  ])("goes on for those who wait for another id when it %s", async (_, goOn) => {
    const { cache } = memoryWorld().bare({ loads: { abortSignal } });
    const held = gate();
    const calls: Ids[] = [];
    const double = async (ids: Ids) => ids.map((id) => 2 * id);
    const doubles = cache.loader<number, number>({ name: "Double", maxAge: 60, batch: double });
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
    expect([await value, calls]).toEqual([4, [[1, 2]]]);
  });
});
