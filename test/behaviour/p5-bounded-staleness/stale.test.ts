import { gate, settle } from "@graphql-cached/testing";
import { GraphQLError } from "graphql";
import type { BatchCall } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { dataOf, messageOf, timedWorld } from "../../support/world.js";

const typeDefs = (maxAge = 10) => /* GraphQL */ `
  type Query {
    background: Int @cached(maxAge: 10, staleWhileRevalidate: 20)
    foreground: Int @cached(maxAge: ${maxAge}, staleWhileRevalidate: 20, refresh: FOREGROUND)
    fallback: Int @cached(maxAge: ${maxAge}, staleIfError: 20)
    forever: Int @cached(maxAge: 10, neverExpires: true)
    early: Int @cached(maxAge: 10, earlyRefresh: 1)
    spread: Int @cached(maxAge: 10, jitter: 0.5)
    nothing: Int @cached(maxAge: 10, negativeMaxAge: 2)
    gone: Int @cached(maxAge: 300, negativeMaxAge: 10, staleWhileRevalidate: 30)
    missing: Int @cached(maxAge: 3600)
    short: Int @cached(maxAge: 5)
    none: [Int!] @cached(maxAge: 10, negativeMaxAge: 2)
    empty: [Int!] @cached(maxAge: 3600)
  }
`;

type BatchLoadFn = (ids: readonly number[], context: object, call: BatchCall) => Promise<number[]>;

/** A process on a fake clock, with a source that counts its loads and can be held or made to fail. */
function start({ random = (): number => 0.5, softTimeoutMs = undefined as number | undefined } = {}) {
  const world = timedWorld();
  const { clock } = world;
  const state = { loads: 0, hold: undefined as Promise<void> | undefined, failure: undefined as Error | undefined };
  const load = async (): Promise<number> => {
    const nth = ++state.loads;
    await state.hold;
    if (state.failure !== undefined) throw state.failure;
    return nth;
  };
  const byValue = (value: unknown, ...names: string[]) =>
    Object.fromEntries(names.map((name) => [name, async () => (await load(), value)]));
  const numbers = ["background", "foreground", "fallback", "forever", "early", "spread"].map((name) => [name, load]);
  const negative = { ...byValue(null, "nothing", "gone", "missing", "short"), ...byValue([], "none", "empty") };
  const resolvers = { Query: { ...Object.fromEntries(numbers), ...negative } };
  const leases = softTimeoutMs === undefined ? {} : { leases: { softTimeoutMs } };
  const startProcess = (maxAge?: number, options = {}) =>
    world.process(typeDefs(maxAge), resolvers, { testing: { random }, ...leases, ...options });
  const process = startProcess();
  const { cache, ask } = process;
  const batch = async (ids: readonly number[]) => (await load(), ids.map(() => null));
  const loader = cache.loader<number, null>({ name: "Missing", maxAge: 3600, batch });
  /** Reads fields, and lets what follows from that happen. */
  const read = async (...fields: string[]): Promise<unknown> => {
    const values = fields[0] === "Missing" ? [await loader({}).load(7)] : await dataOf(ask(`{ ${fields.join(" ")} }`));
    await settle();
    return fields.length === 1 ? Object.values(values as object)[0] : values;
  };
  /** Holds loads from now on. */
  const hold = () => {
    const { passed, open } = gate();
    state.hold = passed;
    return async () => (open(), await settle());
  };
  return { ...process, clock, state, read, hold, startProcess };
}

describe("stale values", () => {
  it("are served while one refresh runs", async () => {
    const { clock, state, read, hold, outcomes } = start();
    await read("background");
    await clock.advance(11_000);
    const open = hold();
    expect(await Promise.all([read("background"), read("background")])).toEqual([1, 1]);
    expect(state.loads).toBe(2);
    await open();
    expect(await read("background")).toBe(2);
    expect(outcomes()).toEqual({ loaded: 1, stale: 2, hit: 1 });
  });

  it("are not served after their staleWhileRevalidate window", async () => {
    const { clock, read } = start();
    await read("background");
    await clock.advance(30_000);
    expect(await read("background")).toBe(2);
  });

  it("make only the lease holder wait for the new value with refresh: FOREGROUND", async () => {
    const { clock, read, hold } = start();
    await read("foreground");
    await clock.advance(11_000);
    const open = hold();
    const winner = read("foreground");
    await settle();
    expect(await read("foreground")).toBe(1);
    await open();
    expect(await winner).toBe(2);
  });

  it("are not served for longer after negativeMaxAge than their window, while the source fails", async () => {
    const { clock, state, ask, read } = start();
    expect(await read("gone")).toBeNull();
    state.failure = new Error("the source is away");
    // Each attempt leaves the entry in the store for three more leases.
    for (const ms of [12_000, 10_000, 10_000, 6_000]) {
      await clock.advance(ms);
      expect(await read("gone")).toBeNull();
    }
    await clock.advance(4_000);
    expect(await messageOf(ask("{ gone }"))).toBe("the source is away");
  });

  it("are served when the load fails, and back off before the next load", async () => {
    const { clock, state, read, outcomes } = start();
    await read("fallback");
    await clock.advance(11_000);
    state.failure = new Error("the source is away");
    expect([await read("fallback"), await read("fallback"), state.loads]).toEqual([1, 1, 2]);
    expect(outcomes()).toEqual({ loaded: 1, staleIfError: 2 });
  });

  it("are not served if the field was invalidated while its load failed", async () => {
    const { cache, clock, state, ask, read, hold } = start();
    await read("fallback");
    await clock.advance(11_000);
    const open = hold();
    state.failure = new Error("the source is away");
    const asked = ask("{ fallback }");
    await settle();
    await cache.invalidate({ coordinate: "Query.fallback" });
    await open();
    expect(await messageOf(asked)).toBe("the source is away");
  });

  it.each([
    ["waits for a source that hangs", "fallback", undefined],
    ["has waited for the soft time limit", "foreground", 2_000],
  ])("are not served after their window to a request that %s", async (_, field, softTimeoutMs) => {
    const { clock, state, ask, read, hold } = start(softTimeoutMs === undefined ? {} : { softTimeoutMs });
    await read(field);
    await clock.advance(29_000);
    const open = hold();
    if (softTimeoutMs === undefined) state.failure = new Error("the source is away");
    const asked = ask(`{ ${field} }`);
    await clock.advance(2_500);
    await open();
    const { data, errors } = await asked;
    expect([data?.[field], errors?.[0]?.message]).toEqual(
      softTimeoutMs === undefined ? [null, "the source is away"] : [3, undefined],
    );
  });

  it("are served at any age with neverExpires while they are rebuilt", async () => {
    const { clock, read } = start();
    await read("forever");
    await clock.advance(1_000_000);
    expect([await read("forever"), await read("forever")]).toEqual([1, 2]);
  });

  it("are served when a load takes longer than softTimeoutMs", async () => {
    const { clock, read, hold, outcomes } = start({ softTimeoutMs: 200 });
    await read("foreground", "fallback");
    await clock.advance(11_000);
    const open = hold();
    const answer = read("foreground", "fallback");
    await clock.advance(190);
    expect(outcomes()).toEqual({ loaded: 2 });
    await clock.advance(20);
    expect(await answer).toEqual({ foreground: 1, fallback: 2 });
    expect(outcomes()).toEqual({ loaded: 2, stale: 2 });
    await open();
    expect(await read("foreground", "fallback")).toEqual({ foreground: 3, fallback: 4 });
  });

  it("stay when a load fails inside of another one, which has waited for a refresh that stored nothing", async () => {
    const { clock, bare } = timedWorld();
    const start = (load: BatchLoadFn) => {
      const { cache } = bare({ memory: false });
      const inner = cache.loader({ name: "Inner", maxAge: 10, staleWhileRevalidate: 60, batch: load });
      const outer = cache.wrap({ name: "Outer", maxAge: 60, load: () => inner({}).load(7) });
      return { read: () => inner({}).load(7), outer };
    };
    const { passed, open } = gate();
    let loads = 0;
    const { read } = start(async (_, __, { results }) => {
      if (++loads > 1) await passed;
      if (loads > 1) results[0]?.skip();
      return [loads];
    });
    let failures = 0;
    const { outer } = start(async () => {
      failures++;
      throw new Error("the source is away");
    });
    await read();
    await settle();
    await clock.advance(11_000);
    expect(await read()).toBe(1);
    const nested = outer();
    await settle();
    expect([loads, failures]).toEqual([2, 0]);
    open();
    await settle();
    await clock.advance(1_000);
    expect([await nested, failures]).toEqual([1, 1]);
    expect(await read()).toBe(1);
  });

  it("stay when a load fails that is to store what was loaded for a caller with permission", async () => {
    const { clock, bare } = timedWorld();
    const { cache } = bare({ memory: false });
    const forbidden = new GraphQLError("not for you", { extensions: { code: "FORBIDDEN" } });
    const errors = [undefined, forbidden, forbidden, undefined, new Error("the source is away")];
    let loads = 0;
    const batch = async () => {
      const error = errors[loads++];
      if (error !== undefined) throw error;
      return [loads];
    };
    const inner = cache.loader({ name: "Inner", maxAge: 10, staleWhileRevalidate: 60, batch });
    const outer = cache.wrap({ name: "Outer", maxAge: 60, load: () => inner({}).load(7) });
    const read = async () => {
      const value = await inner({}).load(7);
      await settle();
      return value;
    };
    await read();
    await clock.advance(11_000);
    expect([await read(), await read(), loads]).toEqual([1, 1, 3]);
    expect(await outer()).toBe(4);
    while (loads < 5) await settle();
    await settle();
    expect([await read(), loads]).toEqual([1, 5]);
  });

  it("are waited for beyond softTimeoutMs if there are none", async () => {
    const { clock, read, hold } = start({ softTimeoutMs: 200 });
    const open = hold();
    const answer = read("foreground");
    await clock.advance(5_000);
    await open();
    expect(await answer).toBe(1);
  });
});

describe("freshness", () => {
  it.each<[what: string, field: string, freshMs: number]>([
    ["null after negativeMaxAge", "nothing", 2_000],
    ["empty lists after negativeMaxAge", "none", 2_000],
    ["null after 10 s by default", "missing", 10_000],
    ["empty lists after 10 s by default", "empty", 10_000],
    ["null after its maxAge, if that is less than 10 s", "short", 5_000],
    ["null of a loader after 10 s by default", "Missing", 10_000],
    ["a value after a part of its maxAge that is random, within the jitter ratio", "spread", 7_500],
  ])("expires %s", async (_, field, freshMs) => {
    const { clock, state, read } = start();
    await read(field);
    await clock.advance(freshMs - 1);
    await read(field);
    expect(state.loads).toBe(1);
    await clock.advance(1);
    await read(field);
    expect(state.loads).toBe(2);
  });

  it("counts from the start of the load", async () => {
    const { clock, state, read, hold } = start();
    const open = hold();
    const first = read("fallback");
    await settle();
    await clock.advance(9_000);
    await open();
    await first;
    await clock.advance(1_500);
    await read("fallback");
    expect(state.loads).toBe(2);
  });

  it("ends early with a probability that grows with the load time", async () => {
    const { clock, state, read, hold } = start({ random: () => 0.9 });
    const open = hold();
    const first = read("early");
    await settle();
    await clock.advance(1_000);
    await open();
    await first;
    await clock.advance(6_000);
    await read("early");
    expect(state.loads).toBe(1);
    await clock.advance(1_000);
    expect([await read("early"), await read("early")]).toEqual([1, 2]);
  });

  it.each([
    ["reloads", "fallback"],
    ["waits with refresh: FOREGROUND for the refresh of", "foreground"],
  ])(
    "of a release with a shorter maxAge: it %s a value that is too old for it, although it is fresh for the other release",
    async (_, field) => {
      const { clock, startProcess } = start();
      const [longer, shorter] = [60, 10].map((maxAge) => startProcess(maxAge, { memory: false }));
      const read = async (process = longer) =>
        Object.values((await dataOf(process?.ask(`{ ${field} }`) as never)) as object)[0];
      expect(await read()).toBe(1);
      await clock.advance(9_999);
      expect(await read(shorter)).toBe(1);
      await clock.advance(1);
      expect([await read(shorter), await read()]).toEqual([2, 2]);
    },
  );
});

describe("a value of a release with a longer maxAge", () => {
  it.each([undefined, 600])(
    "is fresh for as long as this release says, from the store and from memory, with maxAgeLimit %s",
    async (maxAgeLimit) => {
      const { clock, bare } = timedWorld();
      let loads = 0;
      const release = (maxAge: number) => {
        const { cache } = bare();
        const limit = maxAgeLimit === undefined ? {} : { maxAgeLimit };
        const batch = async (ids: readonly number[]) => ids.map(() => ++loads);
        const films = cache.loader<number, number>({ name: "Film", maxAge, ...limit, batch });
        /** Returns the value, and for how long its reader was told that it is fresh. */
        return async (): Promise<unknown> => {
          const context = {};
          let freshForMs: number | undefined;
          partsOf(cache, "test").requestStates.observe(context, {
            onRead(_, report) {
              if (report.outcome !== "bypassed") ({ freshForMs } = report);
            },
          });
          const value = await films(context).load(7);
          await settle();
          return [value, freshForMs];
        };
      };
      const [longer, shorter] = [release(60), release(10)];
      expect(await longer()).toEqual([1, 60_000]);
      await clock.advance(4_000);
      expect(await shorter()).toEqual([1, 6_000]);
      await clock.advance(1_000);
      expect(await shorter()).toEqual([1, 5_000]);
      await clock.advance(5_000);
      expect([await shorter(), loads]).toEqual([[2, 10_000], 2]);
    },
  );
});

it("spreads the TTLs of values that are stored together, and shortens none of them", async () => {
  const { bare, store } = timedWorld();
  const storeValues = vi.spyOn(store(), "storeValues");
  const draws = [0, 0.25, 0.5];
  const { cache } = bare({ testing: { random: () => draws.shift() ?? 0 } });
  const batch = async (ids: readonly number[]) => ids;
  const numbers = cache.loader({ name: "Number", maxAge: 100, staleIfError: 10, jitter: 0.1, batch });
  await numbers({}).loadMany([1, 2, 3]);
  await cache.settled();
  const [requests = []] = storeValues.mock.lastCall ?? [];
  const lifetimes = requests.map(({ freshMs, ttlMs }) => ({ freshMs, ttlMs }));
  expect(lifetimes).toEqual([
    { freshMs: 100_000, ttlMs: 110_000 },
    { freshMs: 97_500, ttlMs: 112_500 },
    { freshMs: 95_000, ttlMs: 115_000 },
  ]);
});
