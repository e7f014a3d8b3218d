import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { withHeldWakes } from "../../support/held-wakes.js";
import { memoryWorld, type Process, waitForStores } from "../../support/world.js";

/** A process that loads, and one that waits for it. The clock of the latter stands still, so that it does not poll. */
function holderAndReader(options: object = {}) {
  const world = memoryWorld();
  const { store, held, state } = withHeldWakes(world.store());
  const clock = new FakeClock();
  const gates = [gate(), gate()];
  let loads = 0;
  const askerOf = ({ cache }: Process) => {
    const batch = async (ids: readonly number[]) => {
      const version = ++loads;
      await gates[version - 1]?.passed;
      return ids.map(() => version);
    };
    const films = cache.loader<number, unknown, object>({ name: "Film", maxAge: 60, batch });
    return async (): Promise<{ value: Promise<unknown> }> => {
      const value = films({}).load(1);
      await settle();
      return { value };
    };
  };
  const holder = world.bare();
  const reader = world.bare({ ...options, store, testing: { clock, random: () => 0.5 } } as never);
  const deliverMessages = (): void => {
    for (const wake of held.splice(0)) state.wake(...wake);
  };
  /** How many lease requests of the reader were refused. */
  const refused = () => state.busy;
  return { holder, reader, clock, gates, hold: askerOf(holder), wait: askerOf(reader), refused, deliverMessages };
}

describe("requests of several ticks that wait for a load of another process", () => {
  it("share one lease request and one wait", async () => {
    const { hold, wait, refused, gates, deliverMessages } = holderAndReader();
    const { value: held } = await hold();
    const waiting = [await wait(), await wait(), await wait()];
    expect(refused()).toBe(1);
    gates[0]?.open();
    expect(await held).toBe(1);
    await settle();
    deliverMessages();
    expect([await Promise.all(waiting.map(({ value }) => value)), refused()]).toEqual([[1, 1, 1], 1]);
  });

  it("do not share the wait for a load from before an invalidation, whose message may be late", async () => {
    const { holder, hold, wait, refused, gates, deliverMessages } = holderAndReader();
    const { value: held } = await hold();
    const { value: before } = await wait();
    gates[0]?.open();
    expect(await held).toBe(1);
    await waitForStores(holder);
    await holder.cache.invalidate({ loader: "Film", id: 1 });
    const { value: heldAfter } = await hold();
    const { value: after } = await wait();
    expect(refused()).toBe(2);
    deliverMessages();
    await settle();
    gates[1]?.open();
    expect(await heldAfter).toBe(2);
    await settle();
    deliverMessages();
    // The one that asked before does not get the outdated value either, since its process knows of the invalidation.
    expect(await Promise.all([before, after])).toEqual([2, 2]);
  });

  it("do not share a wait that ends long before their own time is over", async () => {
    const { reader, hold, wait, refused, clock, gates } = holderAndReader({ leases: { leaseWaitMs: 1_000 } });
    const { value: held } = await hold();
    const { value: first } = await wait();
    await clock.advance(250);
    const { value: soonAfter } = await wait();
    expect(refused()).toBe(1);
    await clock.advance(50);
    const { value: later } = await wait();
    expect(refused()).toBe(2);
    gates[1]?.open();
    await clock.advance(699);
    expect(reader.outcomes()).toEqual({});
    await clock.advance(1);
    expect(await Promise.all([first, soonAfter])).toEqual([2, 2]);
    expect(reader.outcomes()).toEqual({ "bypassed(WAIT_TIMEOUT)": 2 });
    gates[0]?.open();
    expect(await held).toBe(1);
    await clock.advance(299);
    expect(await later).toBe(1);
  });
});

it("requests that cannot have the value of the load that they have waited for load it in their own asynchronous contexts", async () => {
  const requests = new AsyncLocalStorage<string>();
  const { cache } = memoryWorld().bare();
  const contexts: unknown[] = [];
  const films = cache.loader({
    name: "Film",
    // A function cannot be copied, so each request has one of its own.
    batch: async (ids: readonly number[]) => {
      contexts.push(requests.getStore());
      return ids.map((id) => () => id);
    },
    maxAge: 60,
  });
  const names = ["first", "second", "third"];
  const read = await Promise.all(names.map((name) => requests.run(name, () => films({}).load(1))));
  expect(contexts).toEqual(names);
  expect(new Set(read).size).toBe(3);
});
