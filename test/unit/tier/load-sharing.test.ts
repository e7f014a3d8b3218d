import { FakeClock, type Gate, gate, settle } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { LoadSharing } from "../../../src/core/tier/lease/load-sharing.js";
import type { Loaded } from "../../../src/core/tier/request/loaded.js";
import type { ReadRequest } from "../../../src/core/tier/request/request.js";
import { AbortListeners, Caller, type Waiters } from "../../../src/core/tier/request/waiters.js";

const KEY = "test:1:Query.top:v:d";

const ended = (error: unknown, isCallersOwn = false): Loaded => ({
  ...{ kind: "failed", refusal: undefined, loadMs: 0, begunAt: 0, isSourceFailure: true },
  error,
  isCallersOwn,
});
/** The result of a load that was begun for its reader, and of one that was begun for another. */
const own = (result: unknown) => ({ isOwn: true, result });
const shared = (result: unknown) => ({ isOwn: false, result });

/** Reads of one key, each of which ends with the number of its load. */
function open() {
  const clock = new FakeClock();
  const sharing = new LoadSharing(clock, clock, { leaseMs: 1_000, nestedWaitMs: 200 });
  const begun: { readonly waiters: Waiters; readonly end: (loaded?: Loaded) => void; readonly name: string }[] = [];
  const read = (name: string, { isNested = false, caller = undefined as Caller | undefined, key = KEY } = {}) => {
    const request = { key: { name: key }, caller } as ReadRequest;
    const begin = (waiters: Waiters): Promise<Loaded> =>
      new Promise((resolve) => {
        const nth = begun.length + 1;
        begun.push({ waiters, name, end: (loaded = ended(nth)) => resolve(loaded) });
      });
    return sharing.share(request, isNested, begin).then(({ request: of, loaded }) => {
      const { error } = loaded as { readonly error: unknown };
      return of === request ? own(error) : shared(error);
    });
  };
  /** A load with a lease. */
  const lease = (key = KEY): Gate => {
    const end = gate();
    void end.passed.then(sharing.add(key));
    return end;
  };
  return { clock, sharing, begun, read, lease };
}

/** A caller whose request can be aborted. */
function caller() {
  const controller = new AbortController();
  const signals = { request: [controller.signal], execution: undefined };
  return { caller: new Caller(signals, undefined, new AbortListeners()), abort: () => controller.abort() };
}

it("runs one load for all readers of a tick, and the next for all who ask while it runs", async () => {
  const { begun, read } = open();
  const first = [read("a"), read("b")];
  await settle();
  const later = [read("c"), read("d")];
  await settle();
  expect(begun.map(({ name }) => name)).toEqual(["a"]);
  expect(begun[0]?.waiters.count).toBe(2);
  begun[0]?.end();
  expect(await Promise.all(first)).toEqual([own(1), shared(1)]);
  await settle();
  expect(begun.map(({ name }) => name)).toEqual(["a", "c"]);
  begun[1]?.end();
  expect(await Promise.all(later)).toEqual([own(2), shared(2)]);
});

it("counts two loads of a key as many as may run, with a lease or without", async () => {
  const { sharing, lease, begun, read } = open();
  expect(sharing.isReached(KEY)).toBe(false);
  const first = lease();
  expect(sharing.isReached(KEY)).toBe(false);
  void read("a");
  await settle();
  expect([begun.length, sharing.isReached(KEY), sharing.isReached("another")]).toEqual([1, true, false]);
  first.open();
  await settle();
  expect(sharing.isReached(KEY)).toBe(false);
});

it("begins a load without a lease beside one with a lease, but not beside two", async () => {
  const { lease, begun, read } = open();
  const [first, second] = [lease(), lease()];
  void read("a");
  await settle();
  expect(begun).toHaveLength(0);
  second.open();
  await settle();
  expect(begun).toHaveLength(1);
  first.open();
});

it("counts no load that has run for leaseMs", async () => {
  const { clock, sharing, lease, begun, read } = open();
  lease();
  await clock.advance(200);
  lease();
  await clock.advance(799);
  expect(sharing.isReached(KEY)).toBe(true);
  await clock.advance(1);
  expect(sharing.isReached(KEY)).toBe(false);
  await clock.advance(200);
  void read("a");
  await settle();
  void read("b");
  await clock.advance(900);
  expect(begun).toHaveLength(1);
  await clock.advance(100);
  expect(begun).toHaveLength(2);
});

it("still counts a load that runs when those who waited for a change have looked again", async () => {
  const { clock, sharing, lease } = open();
  lease();
  void sharing.untilChanged(KEY);
  await clock.advance(100);
  lease();
  expect(sharing.isReached(KEY)).toBe(true);
});

it("shares a load that has not begun yet although the only one that ran has ended", async () => {
  const { begun, read, lease } = open();
  const end = lease();
  const first = read("a");
  end.open();
  for (let job = 0; job < 5; job++) await Promise.resolve();
  const second = read("b");
  await settle();
  expect(begun.map(({ name }) => name)).toEqual(["a"]);
  begun[0]?.end();
  expect(await Promise.all([first, second])).toEqual([own(1), shared(1)]);
});

it("tells those who wait for a change when a load ends, and looks again after a while", async () => {
  const { clock, sharing, lease } = open();
  const changes: string[] = [];
  const end = lease();
  void sharing.untilChanged(KEY).then(() => changes.push("ended"));
  void sharing.untilChanged(KEY).then(() => changes.push("ended as well"));
  await settle();
  expect(changes).toEqual([]);
  end.open();
  await settle();
  expect(changes.splice(0)).toEqual(["ended", "ended as well"]);
  void sharing.untilChanged(KEY).then(() => changes.push("over"));
  await clock.advance(99);
  expect(changes).toEqual([]);
  await clock.advance(1);
  expect(changes).toEqual(["over"]);
});

it("gives a nested reader a load of its own if the next one has not begun after nestedWaitMs", async () => {
  const { clock, begun, read } = open();
  void read("a");
  await settle();
  const nested = read("nested", { isNested: true });
  await clock.advance(199);
  expect(begun).toHaveLength(1);
  await clock.advance(1);
  expect(begun.map(({ name }) => name)).toEqual(["a", "nested"]);
  begun[1]?.end();
  expect(await nested).toEqual(own(2));
  begun[0]?.end();
  await settle();
  // Nobody has stayed in the load that it left.
  expect(begun).toHaveLength(2);
});

it("lets a nested reader wait for a load that has begun in time", async () => {
  const { clock, begun, read } = open();
  const nested = read("nested", { isNested: true });
  await settle();
  await clock.advance(10_000);
  begun[0]?.end();
  expect(await nested).toEqual(own(1));
});

it("gives nobody an error of another caller, and after two of them each reader a load of its own", async () => {
  const { begun, read } = open();
  const all = [read("a"), read("b"), read("c"), read("d")];
  for (let nth = 0; nth < 2; nth++) {
    await settle();
    expect(begun).toHaveLength(nth + 1);
    begun[nth]?.end(ended(`of ${begun[nth]?.name}`, true));
  }
  await settle();
  expect(begun.map(({ name }) => name)).toEqual(["a", "b", "c", "d"]);
  for (const { name, end } of begun.slice(2)) end(ended(`of ${name}`, true));
  expect((await Promise.all(all)).map(({ result }) => result)).toEqual(["of a", "of b", "of c", "of d"]);
});

it("does not begin a load whose readers have all left, and begins one for a reader that came since", async () => {
  const { begun, read } = open();
  void read("a");
  await settle();
  const leaving = caller();
  const left = read("left", { caller: leaving.caller });
  await settle();
  leaving.abort();
  const late = read("late");
  begun[0]?.end();
  await settle();
  expect(await left).toMatchObject({ isOwn: true });
  expect(begun.map(({ name }) => name)).toEqual(["a", "late"]);
  begun[1]?.end();
  expect(await late).toEqual(own(2));
});
