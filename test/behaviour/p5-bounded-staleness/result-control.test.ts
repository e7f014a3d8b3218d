import { gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import type { BatchCall, CachedError, ResultControl } from "graphql-cached";
import { memoryStore, resultControl } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { ReadRequest } from "../../../src/core/tier/request/request.js";
import { overrideStore } from "../../support/override-store.js";
import { until } from "../../support/redis-lab.js";
import {
  dataOf,
  memoryWorld,
  messageOf,
  onEachStore,
  type Process,
  timedWorld,
  type World,
  waitForStores,
} from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page(id: Int! = 1): Page @cached(maxAge: 60, staleIfError: 600)
    windowed: Page @cached(maxAge: 60, staleWhileRevalidate: 600)
    waited: Page @cached(maxAge: 60, staleWhileRevalidate: 600, refresh: FOREGROUND)
    forever: Page @cached(maxAge: 60, neverExpires: true)
    early: Page @cached(maxAge: 60, earlyRefresh: 1)
    spread: Page @cached(maxAge: 60, jitter: 0.5)
    missing: Page @cached(maxAge: 60, negativeMaxAge: 10)
    listed: [Page!] @cached(maxAge: 60, staleIfError: 600, tags: ["Page:{$result[].nth}", "Pages"])
    limited: Page @cached(maxAge: 60, maxAgeLimit: 600)
    plain: Page
  }
  type Page { nth: Int }
`;
const FIELDS = ["page", "windowed", "waited", "forever", "early", "spread", "missing", "listed", "limited", "plain"];
type Load = (control: ResultControl, nth: number) => unknown;

/** A load that says something of its result, which is its number. */
const saying =
  (say: Load): Load =>
  (control, nth) => (say(control, nth), { nth });
const AWAY = "the source is away";
const away = (): never => {
  throw new Error(AWAY);
};

/** Creates a process whose resolvers all run `state.load`, which the test sets. */
function createProcess(world: World = memoryWorld(), options: object = {}) {
  const state = { loads: 0, load: ((_, nth) => ({ nth })) as Load };
  const resolve = (_: unknown, __: unknown, ___: unknown, info: GraphQLResolveInfo): unknown =>
    state.load(resultControl(info), ++state.loads);
  const resolvers = { Query: Object.fromEntries(FIELDS.map((name) => [name, resolve])) };
  return { state, ...world.process(typeDefs, resolvers, options) };
}

function createTimed(random: () => number = () => 0.5) {
  const world = timedWorld();
  return { clock: world.clock, ...createProcess(world, { testing: { random } }) };
}

/** The value of one field. */
async function read({ ask }: Pick<Process, "ask">, field: string): Promise<unknown> {
  const data = (await dataOf(ask(`{ ${field} { nth } }`))) as Record<string, unknown>;
  await settle();
  return Object.values(data)[0];
}

onEachStore("the control of a result", (world) => {
  it("sets lifetimes that are no whole number of milliseconds, beside others of the same tick", async () => {
    const process = createProcess(world());
    const settings = { maxAge: 30.0004, staleWhileRevalidate: 1.1 };
    process.state.load = saying((control, nth) => nth === 1 && control.set(settings));
    const both = "{ page { nth } plain: windowed { nth } }";
    await dataOf(process.ask(both));
    await waitForStores(process, 2);
    await dataOf(process.ask(both));
    expect(process.outcomes()).toEqual({ loaded: 2, hit: 2 });
  });

  it("skips a result: nothing is stored, and those who wait for the load get it", async () => {
    const process = createProcess(world());
    const { passed, open } = gate();
    process.state.load = async (control, nth) => {
      control.skip();
      await passed;
      return { nth };
    };
    const waiting = [1, 2, 3].map(() => read(process, "page"));
    await until("the load has begun", () => process.state.loads === 1);
    open();
    expect(await Promise.all(waiting)).toEqual([{ nth: 1 }, { nth: 1 }, { nth: 1 }]);
    expect(await read(process, "page")).toEqual({ nth: 2 });
    expect(process.outcomes().hit).toBeUndefined();
  });

  it("works for each id of a loader on its own", async () => {
    const { cache, events } = createProcess(world());
    const batches: (readonly number[])[] = [];
    const batch = async (ids: readonly number[], _: object, { results }: BatchCall): Promise<string[]> => {
      batches.push(ids);
      results[ids.indexOf(1)]?.skip();
      return ids.map((id) => `${id} of batch ${batches.length}`);
    };
    const pages = cache.loader({ name: "Page", maxAge: 60, staleIfError: 60, tags: (id) => [`Id:${id}`], batch });
    expect(await pages({}).loadMany([1, 2])).toEqual(["1 of batch 1", "2 of batch 1"]);
    await waitForStores({ events }, 1);
    await settle();
    expect(await pages({}).loadMany([1, 2])).toEqual(["1 of batch 2", "2 of batch 1"]);
    expect(batches).toEqual([[1, 2], [1]]);
  });
});

describe("the lifetime of a result", () => {
  const shorter: Load = (control) => control.set({ maxAge: 5, staleWhileRevalidate: 10 });
  const thenAway: Load = (control, nth) => (nth > 1 ? away() : control.set({ staleWhileRevalidate: 10 }));
  const longer: Load = (control, nth) =>
    nth === 2 ? away() : control.set({ maxAge: nth === 1 ? 5_000 : 5, staleWhileRevalidate: 5_000 });
  const limited: Load = (control, nth) => {
    if (nth === 1) control.set({ maxAge: 300, staleWhileRevalidate: 100, tags: ["Author:7"] });
    if (nth === 3) control.set({ maxAge: 5_000 });
  };
  const ENDS = "0: 1 loaded, 69000: 1 stale, 2000: the source is away";
  const ENDS_WAITING = "0: 1 loaded, 69000: 1 staleIfError, 2000: the source is away";
  /** `reads`: after how many milliseconds which result is read, and its outcome. */
  it.each<[what: string, field: string, say: Load, reads: string]>([
    [
      "is as short as its load says, for hits, stale values and the time that others may cache it",
      "windowed",
      shorter,
      "0: 1 loaded, 4900: 1 hit, 5000: 1 stale, 0: 2 hit, 15000: 3 loaded",
    ],
    [
      "ends a stale window that the policy would keep open, if it is refreshed in the background",
      "windowed",
      thenAway,
      ENDS,
    ],
    ["ends a stale window that the policy would keep open with refresh: FOREGROUND", "waited", thenAway, ENDS_WAITING],
    ["ends a stale window that the policy would keep open with neverExpires", "forever", thenAway, ENDS],
    [
      "is never longer than the policy says, and staleIfError goes on to be counted from its end",
      "page",
      longer,
      "0: 1 loaded, 60000: 1 staleIfError, 600000: 3 loaded, 5000: 4 loaded",
    ],
    [
      "can be longer than the maxAge of the policy, up to maxAgeLimit, for this result only",
      "limited",
      limited,
      "0: 1 loaded, 299000: 1 hit, 100000: 1 stale, 60000: 3 loaded, 599000: 3 hit, 1000: 4 loaded",
    ],
    [
      "is shortened by jitter",
      "spread",
      (control) => control.set({ maxAge: 8 }),
      "0: 1 loaded, 5900: 1 hit, 200: 2 loaded",
    ],
  ])("%s", async (_, field, say, reads) => {
    const { clock, state, ...process } = createTimed();
    state.load = saying(say);
    const seen: string[] = [];
    for (const [ms] of reads.split(", ").map((read) => read.split(":"))) {
      await clock.advance(Number(ms));
      const { data, errors } = await process.ask(`{ ${field} { nth } }`);
      await settle();
      const served = process.events.findLast((event) => event.name === "entry.served");
      const value = (data?.[field] as { readonly nth: number } | null)?.nth;
      seen.push(`${ms}: ${errors?.[0]?.message ?? `${value} ${served?.outcome}`}`);
    }
    expect(seen.join(", ")).toBe(reads);
  });

  it("applies to a softly invalidated value too", async () => {
    const { clock, state, ...process } = createTimed();
    state.load = saying((control) => control.set({ maxAge: 5, staleWhileRevalidate: 5 }));
    await read(process, "windowed");
    await process.cache.invalidate({ coordinate: "Query.windowed" }, { soft: true });
    await clock.advance(10_000);
    expect(await read(process, "windowed")).toEqual({ nth: 2 });
  });

  it("decides about early refreshes", async () => {
    const { clock, state, ...process } = createTimed(() => 0.999);
    state.load = async (control, nth) => {
      control.set({ maxAge: 8 });
      if (nth === 1) await clock.advance(1_000);
      return { nth };
    };
    await read(process, "early");
    await clock.advance(2_000);
    expect([await read(process, "early"), state.loads]).toEqual([{ nth: 1 }, 2]);
  });

  it("is at most negativeMaxAge for null", async () => {
    const { clock, state, ...process } = createTimed();
    state.load = (control, nth) => (control.set({ maxAge: nth === 1 ? 30 : 5 }), null);
    for (const ms of [0, 10_000, 5_000]) {
      await clock.advance(ms);
      await read(process, "missing");
    }
    expect(state.loads).toBe(3);
  });

  it.each<[string, (control: ResultControl) => void, unknown, unknown]>([
    ["removes the value that it replaces if it is 0", (control) => control.set({ maxAge: 0 }), null, AWAY],
    ["leaves the value that it replaces if it is skipped", (control) => control.skip(), { nth: 1 }, undefined],
  ])("%s", async (_, change, page, message) => {
    const { clock, state, ...process } = createTimed();
    await read(process, "page");
    await clock.advance(60_000);
    state.load = saying((control, nth) => (nth === 3 ? away() : change(control)));
    expect(await read(process, "page")).toEqual({ nth: 2 });
    const { data, errors } = await process.ask("{ page { nth } }");
    expect([data?.page, errors?.[0]?.message]).toEqual([page, message]);
  });
});

describe("a skipped result", () => {
  it.each<[string, (control: ResultControl) => unknown, unknown]>([
    ["is skipped", (control) => control.skip(), { nth: 2 }],
    ["fails", away, null],
  ])("leaves the value to others if a load for a request with REFRESH %s", async (_, end, own) => {
    const { state, cache, ...process } = createTimed();
    await read(process, "windowed");
    state.load = saying((control, nth) => nth === 2 && end(control));
    const context = {};
    cache.override(context, "REFRESH");
    const { data } = await process.ask("{ windowed { nth } }", context);
    expect(data?.windowed).toEqual(own);
    await settle();
    expect(await read(process, "windowed")).toEqual({ nth: 1 });
  });

  it("does not make those who wait in other processes load one after the other", async () => {
    const shared = memoryWorld();
    const [first, ...others] = [createProcess(shared), createProcess(shared), createProcess(shared)] as const;
    const processes = [first, ...others];
    const gates = processes.map(gate);
    let running = 0;
    for (const [index, { state }] of processes.entries())
      state.load = async (control, nth) => {
        running++;
        control.skip();
        await gates[index]?.passed;
        return { nth };
      };
    const waiting = [read(first, "page")];
    await until("the first process loads", () => running === 1);
    waiting.push(...others.map((process) => read(process, "page")));
    await settle();
    expect(running).toBe(1);
    gates[0]?.open();
    await until("all others load at once", () => running === 3);
    for (const { open } of gates) open();
    expect(await Promise.all(waiting)).toEqual([{ nth: 1 }, { nth: 1 }, { nth: 1 }]);
    for (const { outcomes } of others) expect(outcomes()).toEqual({ "bypassed(UNCACHEABLE)": 1 });
  });

  it("with tags of the result reaches those who joined its load, unless one of them was invalidated", async () => {
    for (const isInvalidated of [false, true]) {
      const process = createProcess();
      await read(process, "plain");
      const { passed, open } = gate();
      process.state.load = async (control) => {
        control.skip();
        await passed;
        return [{ nth: 7 }];
      };
      const before = process.state.loads;
      const first = read(process, "listed");
      await settle();
      if (isInvalidated) await process.cache.invalidateTags(["Page:7"]);
      const second = read(process, "listed");
      await settle();
      open();
      await Promise.all([first, second]);
      expect(process.state.loads - before).toBe(isInvalidated ? 2 : 1);
    }
  });

  it("does not reach a reader that begins when its load has ended, even if its lease has not been released yet", async () => {
    for (const change of [(c: ResultControl) => c.skip(), (c: ResultControl) => c.set({ maxAge: 0 })]) {
      const { passed, open } = gate();
      const inner = memoryStore();
      const store = overrideStore(inner, {
        release: (...args) => passed.then(() => inner.release(...args)),
        storeValues: (requests) => passed.then(() => inner.storeValues(requests)),
      });
      const process = createProcess(memoryWorld(() => store));
      process.state.load = saying(change);
      expect(await read(process, "page")).toEqual({ nth: 1 });
      const later = read(process, "page");
      await settle();
      open();
      expect(await later).toEqual({ nth: 2 });
    }
  });
});

it("a value with tags of its result is looked up without a load only while none of them has been invalidated", async () => {
  const { cache } = memoryWorld().bare();
  const batches: (readonly number[])[] = [];
  const batch = async (ids: readonly number[], _: object, { results }: BatchCall) => {
    batches.push(ids);
    for (const [index, id] of ids.entries()) results[index]?.set({ tags: [`Page:${id}`] });
    return ids;
  };
  const pages = cache.loader({ name: "Page", maxAge: 60, batch });
  for (const id of [1, 2]) {
    await pages({}).load(id);
    await settle();
  }
  const { tier, requestFactories } = partsOf(cache, "test");
  const peek = (): Promise<unknown> => tier.peek(requestFactories.get("Page")?.(2, {} as never) as ReadRequest);
  expect(await peek()).toBe(2);
  await cache.invalidateTags(["Page:2"]);
  expect(await peek()).toBeUndefined();
  expect(batches).toEqual([[1], [2]]);
});

describe("the control of a result reports mistakes", () => {
  const messageOf = async (load: Load): Promise<string> => {
    const process = createProcess();
    process.state.load = load;
    const { errors } = await process.ask("{ page { nth } }");
    expect((errors?.[0]?.originalError as CachedError | undefined)?.code).toBe("CACHED_RESULT_INVALID");
    return errors?.[0]?.message ?? "";
  };

  it("with what was expected, what was given, where, and how to correct it", async () => {
    const messageOfSet = (settings: unknown): Promise<string> =>
      messageOf(saying((control) => control.set(settings as never)));
    const NEGATIVE =
      "`Query.page`: set() of its result: `maxAge`: expected a number of at least 0 (seconds), got -1; omit it to keep what the policy says, or call skip() to store nothing";
    const messages: readonly (readonly [settings: unknown, message: string])[] = [
      [{ maxAge: -1 }, NEGATIVE],
      [{ staleWhileRevalidate: Number.NaN }, "`staleWhileRevalidate`: expected"],
      [{ maxAge: Number.POSITIVE_INFINITY }, "got Infinity"],
      [{ maxAge: "5" }, 'got "5"'],
      [{ maxage: 5 }, "`maxage`: unknown property; expected one of `maxAge`"],
      [{ tags: "User:alice" }, "expected an array of non-empty strings, got a string"],
      [{ tags: [""] }, "got one with another element"],
      [5, "expected an object such as { maxAge: 30 }, got 5"],
    ];
    for (const [settings, message] of messages) expect(await messageOfSet(settings)).toContain(message);
  });

  it("if it is used after the load has ended", async () => {
    const process = createProcess();
    let used: ResultControl | undefined;
    process.state.load = saying((control) => (used = control));
    await read(process, "page");
    const message = "`Query.page`: expected skip() before the load has ended, got a call after it";
    expect(() => used?.skip()).toThrow(message);
    expect(() => used?.set({ maxAge: 1 })).toThrow("expected set() before the load has ended");
  });

  it("if what it is given is not the info of a resolver", () => {
    expect(() => resultControl(undefined as never)).toThrow(
      "resultControl: expected the `info` of a resolver, got undefined; pass the fourth argument of the resolver",
    );
    expect(() => resultControl({})).toThrow("expected the `info` of a resolver, got an object");
  });
});

describe("the control of a result that is not cached", () => {
  it("has no effect in a field without a policy and in a load that bypasses the cache", async () => {
    const process = createProcess();
    process.state.load = saying((control) => (control.skip(), control.set({ maxAge: 5, tags: ["Author:7"] })));
    expect(await read(process, "plain")).toEqual({ nth: 1 });
    const context = {};
    process.cache.override(context, "BYPASS");
    expect(await dataOf(process.ask("{ page { nth } }", context))).toEqual({ page: { nth: 2 } });
  });

  it("still refuses invalid settings", async () => {
    const process = createProcess();
    process.state.load = (control) => control.set({ maxAge: -1 });
    expect(await messageOf(process.ask("{ plain { nth } }"))).toContain("`Query.plain`: set() of its result");
  });

  it("is there for each id of a loader with maxAge 0, and of a request that bypasses the cache", async () => {
    const { cache } = memoryWorld().bare();
    const seen: number[] = [];
    const batch = async (ids: readonly number[], _context: object, { results }: BatchCall): Promise<number[]> => {
      seen.push(results.length);
      for (const result of results) result.set({ maxAge: 1 });
      return [...ids];
    };
    const [off, on] = [0, 60].map((maxAge) => cache.loader({ name: `Page${maxAge}`, maxAge, batch }));
    await off?.({}).loadMany([1, 2]);
    const context = {};
    cache.override(context, "BYPASS");
    await on?.(context).loadMany([1, 2, 3]);
    expect(seen).toEqual([2, 3]);
  });
});
