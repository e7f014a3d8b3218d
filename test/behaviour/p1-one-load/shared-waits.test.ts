import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { countParses } from "../../support/count-parses.js";
import { withHeldWakes } from "../../support/held-wakes.js";
import { memoryWorld, waitForStores } from "../../support/world.js";

interface Film {
  title: string;
  cast: { name: string }[];
}

const heat = (): Film => ({ title: "Heat", cast: [{ name: "Pacino" }, { name: "De Niro" }] });

const worlds = {
  /** One process that reads and loads. */
  sameProcess() {
    const world = memoryWorld();
    const reader = world.process("type Query { unused: Int }", {});
    return { reader, holder: reader };
  },
  /** One process that reads while another one loads. */
  twoProcesses() {
    const world = memoryWorld();
    const [holder, reader] = [0, 1].map(() => world.process("type Query { unused: Int }", {})) as [
      ReturnType<typeof world.process>,
      ReturnType<typeof world.process>,
    ];
    return { reader, holder };
  },
};

function change(value: unknown): unknown {
  (value as { cast?: Film["cast"] }).cast?.push({ name: "Kilmer" });
  return value;
}

/**
 * Has `count` requests wait for one load of `value`, half of them from another tick on. Returns what each
 * got, and how often JSON was parsed for them.
 */
async function waitTogether(where: keyof typeof worlds, value: () => unknown, count = 8) {
  const { reader, holder } = worlds[where]();
  const { passed, open } = gate();
  let loads = 0;
  const options = {
    name: "Film",
    batch: async (ids: readonly number[]) => {
      loads += ids.length;
      await passed;
      return ids.map(value);
    },
    maxAge: 60,
  };
  const heldBy = holder.cache.loader<number, unknown, object>(options);
  const films = holder === reader ? heldBy : reader.cache.loader<number, unknown, object>(options);
  const holding = heldBy({}).load(1);
  await settle();
  // Each of them changes what it gets.
  const ask = (): Promise<unknown>[] => Array.from({ length: count / 2 }, () => films({}).load(1).then(change));
  const first = ask();
  await settle();
  const waiting = [...first, ...ask()];
  await settle();
  const { result: read, parses: parsed } = await countParses(() => {
    open();
    return Promise.all(waiting);
  });
  await holding;
  return { read, parsed, loads };
}

describe.each([
  // For the request that has loaded it, and for all others.
  ["sameProcess", 2],
  // For the request that has loaded it, and in the other process for the first one and for all others.
  ["twoProcesses", 3],
] as const)("requests that wait for one load (%s)", (where, parses) => {
  it("get equal objects of their own from a value that is not parsed for each of them", async () => {
    const { read, parsed, loads } = await waitTogether(where, heat);
    expect(loads).toBe(1);
    expect(read).toStrictEqual(Array.from({ length: 8 }, () => change(heat())));
    expect(new Set(read).size).toBe(8);
    expect(new Set((read as Film[]).map(({ cast }) => cast)).size).toBe(8);
    expect(new Set((read as Film[]).map(({ cast }) => cast[1])).size).toBe(8);
    expect(parsed).toBe(parses);
  });

  it("get a value each that is decoded again if it has more than JSON", async () => {
    const dated = { at: new Date(0), tags: new Set(["a"]) };
    const { read } = await waitTogether(where, () => ({ at: new Date(0), tags: new Set(["a"]) }));
    expect(read).toStrictEqual(Array(8).fill(dated));
    expect(new Set((read as (typeof dated)[]).map(({ tags }) => tags)).size).toBe(8);
  });
});

/** A process that loads, and one that waits for it. The clock of the latter stands still, so that it does not poll. */
function holderAndReader(options: object = {}) {
  const world = memoryWorld();
  const { store, held, state } = withHeldWakes(world.store());
  const clock = new FakeClock();
  const gates = [gate(), gate()];
  let loads = 0;
  const filmsOf = (process: ReturnType<typeof world.process>) =>
    process.cache.loader<number, unknown, object>({
      name: "Film",
      batch: async (ids) => {
        const version = ++loads;
        await gates[version - 1]?.passed;
        return ids.map(() => version);
      },
      maxAge: 60,
    });
  const holder = world.process("type Query { unused: Int }", {});
  const testing = { clock, random: () => 0.5 };
  const reader = world.process("type Query { unused: Int }", {}, { ...options, store, testing } as never);
  const ask = async (films: ReturnType<typeof filmsOf>): Promise<{ value: Promise<unknown> }> => {
    const value = films({}).load(1);
    await settle();
    return { value };
  };
  const [hold, wait] = [filmsOf(holder), filmsOf(reader)];
  return {
    holder,
    reader,
    clock,
    gates,
    hold: () => ask(hold),
    wait: () => ask(wait),
    /** How many lease requests of the reader were refused. */
    refused: () => state.busy,
    deliverMessages: () => {
      for (const wake of held.splice(0)) state.wake(...wake);
    },
  };
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
    expect(await Promise.all(waiting.map(({ value }) => value))).toEqual([1, 1, 1]);
    expect(refused()).toBe(1);
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
  const { cache } = memoryWorld().process("type Query { unused: Int }", {});
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
