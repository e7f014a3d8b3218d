import type { CacheOptions } from "graphql-cached";
import { createCache, memoryStore, resultControl } from "graphql-cached";
import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { VersionedSource } from "../../support/versioned-source.js";
import { dataOf, memoryWorld, type Process } from "../../support/world.js";

const FIELD = "type Query { value(id: ID): Int @cached(maxAge: 60) }";
const QUERY = "{ value }";
const ALL = { sampleRatio: 1, maxSamplesPerSecond: 100, maxConcurrentSamples: 2 };

const samplesOf = ({ events }: Pick<Process, "events">): string[] =>
  events.flatMap((event) => (event.name === "hit.sampled" ? [event.comparison] : []));
const watchedBy = ({ events }: Pick<Process, "events">): unknown[] =>
  events.flatMap((event) => (event.name === "hit.sampled" && event.watched !== undefined ? [event.watched] : []));

/** A process that compares every hit that it may, on a clock that the test moves. */
function sampling(typeDefs = FIELD, options: CacheOptions<never> = {}) {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const source = new VersionedSource();
  const process = memoryWorld(() => store).process(
    typeDefs,
    { Query: { value: source.load } },
    { sampling: ALL, ...options, testing: { clock } },
  );
  const read = async (query = QUERY): Promise<unknown> => {
    const { value } = (await dataOf(process.ask(query, {}))) as { value: unknown };
    await settle();
    return value;
  };
  /** Moves the clock by the delay of a sample, and lets it end. */
  const untilSampled = (): Promise<void> => clock.advance(100);
  return { clock, store, source, process, read, untilSampled };
}

describe("a hit that is sampled", () => {
  it("is compared with its source after it was served, and counts as outdated if they differ", async () => {
    const { clock, source, process, read, untilSampled } = sampling();
    await read();
    await clock.advance(20_000);
    expect(await read()).toBe(1);
    expect(source.loads).toBe(1);
    await untilSampled();
    expect([source.loads, samplesOf(process)]).toEqual([2, ["same"]]);
    source.version = 2;
    await clock.advance(9_900);
    expect(await read()).toBe(1);
    await untilSampled();
    expect(samplesOf(process)).toEqual(["same", "different"]);
    expect(watchedBy(process)).toEqual([
      { ageMs: 20_000, newMs: 20_100 },
      { ageMs: 30_000, newMs: 10_000 },
    ]);
    expect(process.events.filter(({ name }) => name === "load.started")).toHaveLength(1);
  });

  it("says nothing new about a value that is known to have changed", async () => {
    const { clock, source, process, read, untilSampled } = sampling();
    await read();
    source.version = 2;
    for (let nth = 0; nth < 2; nth++) {
      await clock.advance(1_000);
      await read();
      await untilSampled();
    }
    expect(samplesOf(process)).toEqual(["different", "different"]);
    expect(watchedBy(process)).toEqual([
      { ageMs: 1_000, newMs: 1_100 },
      { ageMs: 2_100, newMs: 0 },
    ]);
  });

  it("is never one without the option", async () => {
    const { clock, source, process, read } = sampling(FIELD, { sampling: {} });
    await read();
    await read();
    await clock.advance(1_000);
    expect([source.loads, samplesOf(process)]).toEqual([1, []]);
  });

  it("does not count if the value was invalidated or replaced meanwhile, or is being written", async () => {
    const { clock, source, process, read } = sampling();
    const target = { coordinate: "Query.value", args: {} };
    let endWrite: () => void = () => undefined;
    const writing = new Promise<void>((resolve) => {
      endWrite = resolve;
    });
    const changes = [
      () => process.cache.invalidate(target),
      () => process.cache.invalidate(target, { soft: true }),
      () => process.cache.invalidate({ coordinate: "Query.value" }),
      () => process.cache.clear(),
      () => void process.cache.mutate({ entries: [target] }, () => writing).catch(() => undefined),
    ];
    for (const change of changes) {
      await process.cache.invalidate(target);
      await read();
      await clock.advance(1_000);
      const held = gate();
      source.hold = held.passed;
      await read();
      await clock.advance(100);
      source.version++;
      await change();
      await settle();
      source.hold = undefined;
      held.open();
      await settle();
    }
    endWrite();
    await settle();
    expect(samplesOf(process)).toEqual(changes.map(() => "none"));
  });

  it("is compared with the value of its refresh if it starts one, without another call", async () => {
    const { clock, source, process, read } = sampling(
      "type Query { value(id: ID): Int @cached(maxAge: 60, staleWhileRevalidate: 60) }",
    );
    await read();
    source.version = 2;
    await clock.advance(80_000);
    expect(await read()).toBe(1);
    await clock.advance(1_000);
    expect([source.loads, samplesOf(process)]).toEqual([2, ["different"]]);
    expect(watchedBy(process)).toEqual([{ ageMs: 80_000, newMs: 80_000 }]);
  });

  it("is never one of a PRIVATE value, whose load may need the session of a request that has ended", async () => {
    const clock = new FakeClock();
    const source = new VersionedSource();
    const { ask, events } = memoryWorld(() => memoryStore({ clock })).process(
      "type Query { value: Int @cached(maxAge: 60, scope: PRIVATE) }",
      { Query: { value: source.load } },
      { sampling: ALL, testing: { clock }, identify: ({ user }: { user: string }) => user },
    );
    for (let nth = 0; nth < 3; nth++) {
      await dataOf(ask(QUERY, { user: "ada" }));
      await clock.advance(1_000);
    }
    expect([source.loads, samplesOf({ events })]).toEqual([1, []]);
  });

  it("does not count if its source reads a PRIVATE value, sets the hint PRIVATE or skips the result", async () => {
    const clock = new FakeClock();
    let act: (info: object) => unknown = () => undefined;
    const hints: unknown[] = [];
    const cacheControl = { cacheHint: {}, setCacheHint: (hint: unknown) => void hints.push(hint) };
    const value = async (_: unknown, _args: unknown, _context: unknown, info: object): Promise<number> => {
      await act(info);
      return 1;
    };
    const process = memoryWorld(() => memoryStore({ clock })).process(
      "type Query { value: Int @cached(maxAge: 600) }",
      { Query: { value } },
      { sampling: ALL, testing: { clock }, identify: () => "ada" },
    );
    const field = process.schema.getQueryType()?.getFields().value;
    const resolve = field?.resolve as (...args: unknown[]) => unknown;
    if (field !== undefined)
      field.resolve = (source, args, context, info) => resolve(source, args, context, { ...info, cacheControl });
    const secrets = process.cache.loader({
      name: "Secret",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids: readonly number[]) => ids,
    });
    await dataOf(process.ask(QUERY, {}));
    await settle();
    const acts: (typeof act)[] = [
      () => secrets({} as never).load(7),
      (info) => (info as { cacheControl: typeof cacheControl }).cacheControl.setCacheHint({ scope: "PRIVATE" }),
      (info) => resultControl(info as never).skip(),
      () => undefined,
    ];
    for (act of acts) {
      await clock.advance(1_000);
      await dataOf(process.ask(QUERY, {}));
      await clock.advance(100);
    }
    expect(samplesOf(process)).toEqual(["none", "none", "none", "same"]);
    // Its hint would reach a response that it does not belong to.
    expect(hints).toEqual([]);
  });

  it("does not count if its source fails, which no caller notices", async () => {
    const clock = new FakeClock();
    let fails = false;
    const value = (): number => {
      if (fails) throw new Error("FORBIDDEN");
      return 1;
    };
    const process = memoryWorld(() => memoryStore({ clock })).process(
      FIELD,
      { Query: { value } },
      { sampling: ALL, testing: { clock }, loads: { breakerThreshold: 1 } },
    );
    await dataOf(process.ask(QUERY));
    fails = true;
    for (let nth = 0; nth < 3; nth++) {
      await settle();
      await clock.advance(1_000);
      expect(await dataOf(process.ask(QUERY))).toEqual({ value: 1 });
      await clock.advance(100);
    }
    expect(samplesOf(process)).toEqual(["none", "none", "none"]);
    const trouble = process.events.filter(({ name }) => name === "load.failed" || name === "sharing.suspended");
    expect(trouble).toEqual([]);
    fails = false;
    expect(await dataOf(process.ask('{ value(id: "other") }'))).toEqual({ value: 1 });
  });
});

describe("the calls of sources for samples", () => {
  it("are at most one a second of a field, and no more at a time than the option says", async () => {
    const clock = new FakeClock();
    const held = gate();
    let isHeld = false;
    let calls = 0;
    const value = async (): Promise<number> => {
      calls++;
      if (isHeld) await held.passed;
      return 1;
    };
    const process = memoryWorld(() => memoryStore({ clock })).process(
      "type Query { a: Int @cached(maxAge: 600) b: Int @cached(maxAge: 600) c: Int @cached(maxAge: 600) }",
      { Query: { a: value, b: value, c: value } },
      { sampling: ALL, testing: { clock } },
    );
    await dataOf(process.ask("{ a b c }"));
    await settle();
    isHeld = true;
    for (let nth = 0; nth < 50; nth++) {
      await dataOf(process.ask("{ a b c }"));
      await clock.advance(100);
    }
    expect(calls).toBe(3 + 2);
    isHeld = false;
    held.open();
    await settle();
    for (let nth = 0; nth < 50; nth++) {
      await dataOf(process.ask("{ a }"));
      await clock.advance(100);
    }
    expect(calls).toBe(3 + 2 + 5);
  });

  it("take no place of a load: none is made while half of them are taken", async () => {
    const clock = new FakeClock();
    const held = gate();
    let calls = 0;
    const value = async (_: unknown, { id }: { id?: string }): Promise<number> => {
      calls++;
      if (id === "slow") await held.passed;
      return 1;
    };
    const process = memoryWorld(() => memoryStore({ clock })).process(
      FIELD,
      { Query: { value } },
      { sampling: ALL, testing: { clock }, loads: { maxConcurrentLoads: 2 } },
    );
    await dataOf(process.ask(QUERY));
    await settle();
    const slow = dataOf(process.ask('{ value(id: "slow") }'));
    await settle();
    await dataOf(process.ask(QUERY));
    await clock.advance(100);
    expect([calls, samplesOf(process)]).toEqual([2, []]);
    held.open();
    await slow;
    await clock.advance(1_000);
    await dataOf(process.ask(QUERY));
    await clock.advance(100);
    expect([calls, samplesOf(process)]).toEqual([3, ["same"]]);
  });

  it("are made for loaders as well, and compared as the loader says", async () => {
    const clock = new FakeClock();
    const batches: (readonly number[])[] = [];
    let version = 1;
    const comparisons: string[] = [];
    const sampled = createCache<object>({
      sampling: ALL,
      testing: { clock },
      onEvent: (event) => {
        if (event.name === "hit.sampled") comparisons.push(event.comparison);
      },
    });
    onTestFinished(() => sampled.close());
    const movies = sampled.loader({
      name: "Movie",
      maxAge: 60,
      batch: async (ids: readonly number[]) => {
        batches.push([...ids]);
        return ids.map((id) => ({ id, seen: version++ }));
      },
      compare: (stored, loaded) => stored.id === loaded.id,
    });
    await movies({}).load(7);
    await settle();
    await movies({}).load(7);
    await clock.advance(100);
    expect([batches, comparisons]).toEqual([[[7], [7]], ["same"]]);
  });
});
