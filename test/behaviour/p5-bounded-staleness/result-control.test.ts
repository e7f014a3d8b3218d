import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import {
  type BatchCall,
  type CachedError,
  createCache,
  memoryStore,
  type ResultControl,
  resultControl,
} from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { ReadRequest } from "../../../src/core/tier/request/request.js";
import { until } from "../../support/redis-lab.js";
import { dataOf, memoryWorld, onEachStore, type World, waitForStores } from "../../support/world.js";

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
  type Page {
    nth: Int
  }
`;
const FIELDS = ["page", "windowed", "waited", "forever", "early", "spread", "missing", "listed", "limited", "plain"];
type Load = (control: ResultControl, nth: number) => unknown;

/** Creates a process whose resolvers all run `state.load`, which the test sets. */
function createProcess(world: World = memoryWorld(), options: object = {}) {
  const state = { loads: 0, load: ((_, nth) => ({ nth })) as Load };
  const resolve = (_: unknown, __: unknown, ___: unknown, info: GraphQLResolveInfo): unknown =>
    state.load(resultControl(info), ++state.loads);
  const resolvers = { Query: Object.fromEntries(FIELDS.map((name) => [name, resolve])) };
  return { state, ...world.process(typeDefs, resolvers, options) };
}

function createTimed(random: () => number = () => 0.5) {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  return {
    clock,
    store,
    ...createProcess(
      memoryWorld(() => store),
      { testing: { clock, random } },
    ),
  };
}

/** The value of one field. */
async function read({ ask }: Pick<ReturnType<typeof createProcess>, "ask">, field: string): Promise<unknown> {
  const data = (await dataOf(ask(`{ ${field} { nth } }`))) as Record<string, unknown>;
  await settle();
  return Object.values(data)[0];
}

onEachStore("the control of a result", (world) => {
  it("sets lifetimes that are no whole number of milliseconds, beside others of the same tick", async () => {
    const process = createProcess(world());
    process.state.load = (control, nth) => {
      if (nth === 1) control.set({ maxAge: 30.0004, staleWhileRevalidate: 1.1 });
      return { nth };
    };
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

  it("gives a result tags, also those that the policy does not know of", async () => {
    const shared = world();
    const [one, other] = [createProcess(shared), createProcess(shared)];
    const load: Load = (control, nth) => {
      control.set({ tags: ["Author:7"] });
      return { nth };
    };
    one.state.load = other.state.load = load;
    // The first result with tags shows the process that it has to look at the invalidation log first.
    await read(one, "page(id: 1)");
    await read(one, "page(id: 2)");
    await waitForStores(one, 2);
    expect(await read(other, "page(id: 2)")).toEqual({ nth: 2 });
    expect(await read(other, "page(id: 2)")).toEqual({ nth: 2 });
    await other.cache.invalidateTags(["Author:7"]);
    expect(await read(one, "page(id: 2)")).toEqual({ nth: 3 });
    expect(other.state.loads).toBe(0);
  });

  it("never stores a result whose own tag was invalidated during the load, and does not share it with later readers", async () => {
    const process = createProcess(world());
    let hold: Promise<void> | undefined;
    process.state.load = async (control, nth) => {
      control.set({ tags: ["Author:7"] });
      await hold;
      return { nth };
    };
    await read(process, "page(id: 1)");
    const { passed, open } = gate();
    hold = passed;
    const first = read(process, "page(id: 2)");
    await until("the load has begun", () => process.state.loads === 2);
    await process.cache.invalidateTags(["Author:7"]);
    const second = read(process, "page(id: 2)");
    await settle();
    open();
    expect(await first).toEqual({ nth: 2 });
    expect(await second).toEqual({ nth: 3 });
  });

  it("works for each id of a loader on its own", async () => {
    const { cache, events } = createProcess(world());
    const batches: (readonly number[])[] = [];
    const pages = cache.loader({
      name: "Page",
      maxAge: 60,
      staleIfError: 60,
      tags: (id: number) => [`Id:${id}`],
      async batch(ids: readonly number[], _context: object, { results }): Promise<string[]> {
        batches.push(ids);
        return ids.map((id, index) => {
          if (id === 1) results[index]?.skip();
          return `${id} of batch ${batches.length}`;
        });
      },
    });
    expect(await pages({}).loadMany([1, 2])).toEqual(["1 of batch 1", "2 of batch 1"]);
    await waitForStores({ events }, 1);
    await settle();
    expect(await pages({}).loadMany([1, 2])).toEqual(["1 of batch 2", "2 of batch 1"]);
    expect(batches).toEqual([[1, 2], [1]]);
  });
});

describe("the lifetime of a result", () => {
  it("is as short as its load says, for hits, stale values and the time that others may cache it", async () => {
    const { clock, state, ...process } = createTimed();
    state.load = (control, nth) => {
      control.set({ maxAge: 5, staleWhileRevalidate: 10 });
      return { nth };
    };
    await read(process, "windowed");
    await clock.advance(4_900);
    expect(await read(process, "windowed")).toEqual({ nth: 1 });
    expect(process.outcomes()).toEqual({ loaded: 1, hit: 1 });
    await clock.advance(5_000);
    expect(await read(process, "windowed")).toEqual({ nth: 1 });
    expect(process.outcomes()).toEqual({ loaded: 1, hit: 1, stale: 1 });
    expect(await read(process, "windowed")).toEqual({ nth: 2 });
    await clock.advance(15_000);
    expect(await read(process, "windowed")).toEqual({ nth: 3 });
  });

  it("ends a stale window that the policy would keep open, whichever way the value is refreshed", async () => {
    for (const field of ["windowed", "waited", "forever"]) {
      const { clock, state, ...process } = createTimed();
      state.load = (control, nth) => {
        if (nth > 1) throw new Error("the source is away");
        control.set({ staleWhileRevalidate: 10 });
        return { nth };
      };
      await read(process, field);
      await clock.advance(69_000);
      expect(await read(process, field), field).toEqual({ nth: 1 });
      await clock.advance(2_000);
      expect((await process.ask(`{ ${field} { nth } }`)).errors?.[0]?.message, field).toBe("the source is away");
    }
  });

  it("applies to a softly invalidated value too", async () => {
    const { clock, state, ...process } = createTimed();
    state.load = (control, nth) => {
      control.set({ maxAge: 5, staleWhileRevalidate: 5 });
      return { nth };
    };
    await read(process, "windowed");
    await process.cache.invalidate({ coordinate: "Query.windowed" }, { soft: true });
    await clock.advance(10_000);
    expect(await read(process, "windowed")).toEqual({ nth: 2 });
  });

  it("is never longer than the policy says, and staleIfError goes on to be counted from its end", async () => {
    const { clock, state, ...process } = createTimed();
    state.load = (control, nth) => {
      if (nth === 2) throw new Error("the source is away");
      control.set({ maxAge: nth === 1 ? 5_000 : 5, staleWhileRevalidate: 5_000 });
      return { nth };
    };
    await read(process, "page");
    await clock.advance(60_000);
    expect(await read(process, "page")).toEqual({ nth: 1 });
    expect(process.outcomes()).toEqual({ loaded: 1, staleIfError: 1 });
    await clock.advance(600_000);
    expect(await read(process, "page")).toEqual({ nth: 3 });
    await clock.advance(5_000);
    expect(await read(process, "page")).toEqual({ nth: 4 });
  });

  it("can be longer than the maxAge of the policy, up to maxAgeLimit", async () => {
    const { clock, state, ...process } = createTimed();
    state.load = (control, nth) => {
      if (nth === 1) control.set({ maxAge: 300, staleWhileRevalidate: 100, tags: ["Author:7"] });
      if (nth === 3) control.set({ maxAge: 5_000 });
      return { nth };
    };
    await read(process, "limited");
    await process.cache.invalidate({ coordinate: "Query.limited" });
    state.loads = 0;
    await read(process, "limited");
    await clock.advance(299_000);
    expect(await read(process, "limited")).toEqual({ nth: 1 });
    await clock.advance(100_000);
    expect(await read(process, "limited")).toEqual({ nth: 1 });
    expect(process.outcomes()).toEqual({ loaded: 2, hit: 1, stale: 1 });
    // What the refresh has stored has the maxAge of the policy.
    await clock.advance(60_000);
    expect(await read(process, "limited")).toEqual({ nth: 3 });
    await clock.advance(599_000);
    expect(await read(process, "limited")).toEqual({ nth: 3 });
    await clock.advance(1_000);
    expect(await read(process, "limited")).toEqual({ nth: 4 });
  });

  it("is shortened by jitter, and decides about early refreshes", async () => {
    const spread = createTimed(() => 0.5);
    spread.state.load = (control, nth) => {
      control.set({ maxAge: 8 });
      return { nth };
    };
    await read(spread, "spread");
    await spread.clock.advance(5_900);
    expect(await read(spread, "spread")).toEqual({ nth: 1 });
    await spread.clock.advance(200);
    expect(await read(spread, "spread")).toEqual({ nth: 2 });

    const early = createTimed(() => 0.999);
    early.state.load = async (control, nth) => {
      control.set({ maxAge: 8 });
      if (nth === 1) await early.clock.advance(1_000);
      return { nth };
    };
    await read(early, "early");
    await early.clock.advance(2_000);
    expect(await read(early, "early")).toEqual({ nth: 1 });
    expect(early.state.loads).toBe(2);
  });

  it("is at most negativeMaxAge for null", async () => {
    const { clock, state, ...process } = createTimed();
    state.load = (control, nth) => {
      control.set({ maxAge: nth === 1 ? 30 : 5 });
      return null;
    };
    await read(process, "missing");
    await clock.advance(10_000);
    await read(process, "missing");
    await clock.advance(5_000);
    await read(process, "missing");
    expect(state.loads).toBe(3);
  });

  it("removes the value that it replaces if it is 0, whereas a skipped result leaves it", async () => {
    for (const [change, fallback] of [
      [(control: ResultControl) => control.set({ maxAge: 0 }), undefined],
      [(control: ResultControl) => control.skip(), { nth: 1 }],
    ] as const) {
      const { clock, state, ...process } = createTimed();
      await read(process, "page");
      await clock.advance(60_000);
      state.load = (control, nth) => {
        if (nth === 3) throw new Error("the source is away");
        if (nth === 2) change(control);
        return { nth };
      };
      expect(await read(process, "page")).toEqual({ nth: 2 });
      const { data, errors } = await process.ask("{ page { nth } }");
      expect([data?.page ?? undefined, errors?.[0]?.message]).toEqual([
        fallback,
        fallback === undefined ? "the source is away" : undefined,
      ]);
    }
  });
});

it("tags that a load has added cost no further read, also in a process that reads the value for the first time", async () => {
  const { store, state, ...process } = createTimed();
  state.load = (control, nth) => {
    control.set({ tags: ["Author:7"] });
    return { nth };
  };
  await read(process, "page(id: 1)");
  await read(process, "page(id: 2)");
  const readsOf = async (): Promise<number | undefined> => {
    store.chaos.calls.clear();
    expect(await read(process, "page(id: 2)")).toEqual({ nth: 2 });
    return store.chaos.calls.get("read");
  };
  expect([await readsOf(), await readsOf()]).toEqual([1, 1]);
});

describe("a skipped result", () => {
  it("does not make those who wait in other processes load one after the other", async () => {
    const store = memoryStore();
    const shared = memoryWorld(() => store);
    const processes = [createProcess(shared), createProcess(shared), createProcess(shared)];
    const gates = processes.map(() => gate());
    let running = 0;
    for (const [index, { state }] of processes.entries())
      state.load = async (control, nth) => {
        running++;
        control.skip();
        await gates[index]?.passed;
        return { nth };
      };
    const [first, ...others] = processes as [ReturnType<typeof createProcess>, ...ReturnType<typeof createProcess>[]];
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
    for (const change of [
      (control: ResultControl) => control.skip(),
      (control: ResultControl) => control.set({ maxAge: 0 }),
    ]) {
      const { passed, open } = gate();
      const inner = memoryStore();
      const store = new Proxy(inner, {
        get: (target, property) => {
          const value: unknown = Reflect.get(target, property, target);
          if (property !== "release" && property !== "storeValues")
            return typeof value === "function" ? value.bind(target) : value;
          return (...args: unknown[]): unknown =>
            passed.then(() => (value as (...all: unknown[]) => unknown).apply(target, args));
        },
      });
      const process = createProcess(memoryWorld(() => store));
      process.state.load = (control, nth) => {
        change(control);
        return { nth };
      };
      expect(await read(process, "page")).toEqual({ nth: 1 });
      const later = read(process, "page");
      await settle();
      open();
      expect(await later).toEqual({ nth: 2 });
    }
  });
});

it("a value with tags of its result is looked up without a load only while none of them has been invalidated", async () => {
  const cache = createCache({ defaultScope: "PUBLIC" });
  const batches: (readonly number[])[] = [];
  const pages = cache.loader({
    name: "Page",
    maxAge: 60,
    batch: async (ids: readonly number[], _context: object, { results }) => {
      batches.push(ids);
      for (const [index, id] of ids.entries()) results[index]?.set({ tags: [`Page:${id}`] });
      return ids;
    },
  });
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
  await cache.close();
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
      messageOf((control, nth) => {
        control.set(settings as never);
        return { nth };
      });
    expect(await messageOfSet({ maxAge: -1 })).toBe(
      "`Query.page`: set() of its result: `maxAge`: expected a number of at least 0 (seconds), got -1; omit it to keep what the policy says, or call skip() to store nothing",
    );
    expect(await messageOfSet({ staleWhileRevalidate: Number.NaN })).toContain("`staleWhileRevalidate`: expected");
    expect(await messageOfSet({ maxAge: Number.POSITIVE_INFINITY })).toContain("got Infinity");
    expect(await messageOfSet({ maxAge: "5" })).toContain('got "5"');
    expect(await messageOfSet({ maxage: 5 })).toContain("`maxage`: unknown property; expected one of `maxAge`");
    expect(await messageOfSet({ tags: "User:alice" })).toContain(
      "expected an array of non-empty strings, got a string",
    );
    expect(await messageOfSet({ tags: [""] })).toContain("got one with another element");
    expect(await messageOfSet(5)).toContain("expected an object such as { maxAge: 30 }, got 5");
  });

  it("if it is used after the load has ended", async () => {
    const process = createProcess();
    let used: ResultControl | undefined;
    process.state.load = (control, nth) => {
      used = control;
      return { nth };
    };
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
    process.state.load = (control, nth) => {
      control.skip();
      control.set({ maxAge: 5, tags: ["Author:7"] });
      return { nth };
    };
    expect(await read(process, "plain")).toEqual({ nth: 1 });
    const context = {};
    process.cache.override(context, "BYPASS");
    expect(await dataOf(process.ask("{ page { nth } }", context))).toEqual({ page: { nth: 2 } });
  });

  it("still refuses invalid settings", async () => {
    const process = createProcess();
    process.state.load = (control) => control.set({ maxAge: -1 });
    expect((await process.ask("{ plain { nth } }")).errors?.[0]?.message).toContain(
      "`Query.plain`: set() of its result",
    );
  });

  it("is there for each id of a loader with maxAge 0, and of a request that bypasses the cache", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
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
    await cache.close();
  });
});
