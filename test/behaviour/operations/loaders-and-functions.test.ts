import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { type Cache, type CacheOptions, memoryStore } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { SOURCES, type Viewer } from "../../support/sources.js";
import { memoryWorld, type Process, redisWorld, type World, waitForStores } from "../../support/world.js";

/** What a loader promises, a function does too: one table of cases for both. */
const WORLDS = { memory: async () => memoryWorld(), Redis: redisWorld };
const inOrder = (a: string, b: string): number => a.localeCompare(b);
const KINDS = Object.keys(SOURCES) as (keyof typeof SOURCES)[];

describe.each(Object.entries(WORLDS))("on %s", (_, makeWorld) => {
  describe.each(KINDS)("a %s", (kind) => {
    const start = (world: World, options: CacheOptions<Viewer> = {}) => {
      const process = world.process("type Query { unused: Int }", {}, options as CacheOptions<never>);
      return { ...process, cache: process.cache as unknown as Cache<Viewer> };
    };
    /** Two processes, and a source whose values have a version. Loads are held while `held` is set. */
    const createSource = async (options: CacheOptions<Viewer> = {}, policy: object = {}) => {
      const world = await makeWorld();
      const source = { version: 1, loads: [] as string[], held: undefined as Promise<void> | undefined };
      const load = async (id: string): Promise<string> => {
        source.loads.push(id);
        const { version } = source;
        await source.held;
        return `${id} ${version}`;
      };
      const processes = [start(world, options), start(world, options)] as const;
      const [one, other] = processes.map(({ cache }) => SOURCES[kind](cache, load, policy)) as [
        ReturnType<(typeof SOURCES)["loader"]>,
        ReturnType<(typeof SOURCES)["loader"]>,
      ];
      return { source, processes, one, other };
    };

    it("loads a value once for all reads of a tick, and for those that come later, in both processes (P1)", async () => {
      const { source, processes, one, other } = await createSource();
      const values = await Promise.all([one, one, one, other, other].map(({ read }) => read("a")));
      expect(values).toEqual(Array(5).fill("a 1"));
      await waitForStores(processes[0], 0);
      expect(await Promise.all([one.read("a"), other.read("a"), other.read("b")])).toEqual(["a 1", "a 1", "b 1"]);
      expect(source.loads.toSorted(inOrder)).toEqual(["a", "b"]);
    });

    it("lets another process wait for its load (P1)", async () => {
      const { source, one, other } = await createSource();
      const held = gate();
      source.held = held.passed;
      const first = one.read("a");
      await vi.waitFor(() => expect(source.loads).toEqual(["a"]));
      const second = other.read("a");
      await settle();
      held.open();
      expect(await Promise.all([first, second])).toEqual(["a 1", "a 1"]);
      expect(source.loads).toEqual(["a"]);
    });

    it("gives each caller a value of its own (P9)", async () => {
      const world = await makeWorld();
      const { read } = SOURCES[kind](start(world).cache, async () => ({ list: [1] }));
      const [first, second] = (await Promise.all([read("a"), read("a")])) as [{ list: number[] }, object];
      first.list.push(2);
      expect(second).toEqual({ list: [1] });
      expect(await read("a")).toEqual({ list: [1] });
    });

    const INVALIDATIONS: readonly (readonly [string, (cache: Cache<Viewer>) => Promise<unknown>])[] = [
      ["by tag", (cache) => cache.invalidateTags(["Source:a"])],
      ["by type tag", (cache) => cache.invalidateTags(["Source"])],
      ["with everything", (cache) => cache.clear()],
      ["by a write", (cache) => cache.mutate({ tags: ["Source:a"] }, () => undefined)],
      ["as one entry", (cache) => cache.invalidate(targetOf({ id: "a" }))],
      ["as a whole", (cache) => cache.invalidate(targetOf({}))],
      ["as an entry of a write", (cache) => cache.mutate({ entries: [targetOf({ id: "a" })] }, () => undefined)],
    ];
    const targetOf = ({ id }: { readonly id?: string }) =>
      kind === "loader"
        ? { loader: "Source", ...(id === undefined ? {} : { id }) }
        : { function: "Source", ...(id === undefined ? {} : { args: [id] }) };

    it.each(INVALIDATIONS)(
      "reads nothing that was invalidated %s, in both processes (P3)",
      async (_how, invalidate) => {
        const { source, processes, one, other } = await createSource();
        await one.read("a");
        await waitForStores(processes[0]);
        await other.read("a");
        source.version = 2;
        await invalidate(processes[1].cache);
        expect(await Promise.all([one.read("a"), other.read("a")])).toEqual(["a 2", "a 2"]);
      },
    );

    it.each(INVALIDATIONS)(
      "does not serve what was being loaded when it was invalidated %s (P2)",
      async (_how, invalidate) => {
        const { source, processes, one, other } = await createSource();
        const held = gate();
        source.held = held.passed;
        const outdated = one.read("a");
        await vi.waitFor(() => expect(source.loads).toEqual(["a"]));
        source.version = 2;
        source.held = undefined;
        await invalidate(processes[1].cache);
        expect(await Promise.all([one.read("a"), other.read("a")])).toEqual(["a 2", "a 2"]);
        held.open();
        expect(await outdated).toBe("a 1");
        await settle();
        expect(await Promise.all([one.read("a"), other.read("a")])).toEqual(["a 2", "a 2"]);
      },
    );

    it("rejects all who wait with the same error, and does not cache it as a value (P7)", async () => {
      const error = Object.assign(new Error("not found"), { statusCode: 404 });
      const world = await makeWorld();
      let fails = true;
      const { read, invalidate } = SOURCES[kind](start(world).cache, async () => {
        if (fails) throw error;
        return "found";
      });
      const failures = await Promise.allSettled([read("a"), read("a")]);
      for (const failure of failures) expect((failure as PromiseRejectedResult).reason).toBe(error);
      fails = false;
      await invalidate("a");
      expect(await read("a")).toBe("found");
    });

    it("ends a load by its signal when nobody waits for it any more, and no sooner (P7)", async () => {
      const world = await makeWorld();
      const { passed, open } = gate();
      const signals: AbortSignal[] = [];
      const { cache } = start(world, { storage: { storeTimeoutMs: 10_000 } });
      const { read } = SOURCES[kind](cache, async (id, __, { signal }) => {
        signals.push(signal);
        await Promise.race([passed, new Promise((_resolve, reject) => signal.addEventListener("abort", reject))]);
        return id;
      });
      const [first, second] = [new AbortController(), new AbortController()];
      const reads = [first, second].map((request) => read("a", { request }));
      const outcomes = Promise.allSettled(reads);
      await vi.waitFor(() => expect(signals).toHaveLength(1));
      first.abort(new Error("gone"));
      await settle();
      expect(signals[0]?.aborted).toBe(false);
      second.abort(new Error("gone too"));
      await vi.waitFor(() => expect(signals[0]?.aborted).toBe(true));
      expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
      open();
      expect(await read("a")).toBe("a");
    });

    describe("of scope PRIVATE", () => {
      const identify = ({ userId }: Viewer) => userId;
      const createPrivate = async () => {
        const world = await makeWorld();
        const loads: string[] = [];
        const process = start(world, { identify });
        const source = SOURCES[kind](
          process.cache,
          async (id, context) => (loads.push(`${id} of ${context?.userId}`), `${id} of ${context?.userId}`),
          { scope: "PRIVATE" },
        );
        return { ...process, ...source, loads };
      };

      it("keeps the values of each identity for itself (P8)", async () => {
        const { read, loads, events } = await createPrivate();
        const ask = () => Promise.all(["alice", "bob", "alice"].map((userId) => read("a", { userId })));
        const expected = ["a of alice", "a of bob", "a of alice"];
        expect(await ask()).toEqual(expected);
        await waitForStores({ events }, 2);
        expect(await ask()).toEqual(expected);
        expect(loads.toSorted(inOrder)).toEqual(["a of alice", "a of bob"]);
      });

      it("caches nothing for unknown callers (P8)", async () => {
        const { read, loads, outcomes } = await createPrivate();
        for (let nth = 0; nth < 2; nth++) expect(await read("a", {})).toBe("a of undefined");
        expect(loads).toHaveLength(2);
        expect(outcomes()).toEqual({ "bypassed(NO_IDENTITY)": 2 });
      });

      it("invalidates the entry of one identity (P3)", async () => {
        const { read, invalidate, loads, events } = await createPrivate();
        await Promise.all(["alice", "bob"].map((userId) => read("a", { userId })));
        await waitForStores({ events }, 2);
        await invalidate("a", "alice");
        await Promise.all(["alice", "bob"].map((userId) => read("a", { userId })));
        expect(loads.toSorted(inOrder)).toEqual(["a of alice", "a of alice", "a of bob"]);
        await expect(invalidate("a")).rejects.toMatchObject({ code: "CACHED_KEY_UNUSABLE" });
      });

      it("makes what a PUBLIC load reads of it the caller's own (P8)", async () => {
        const { cache, read, events } = await createPrivate();
        const wall = cache.wrap({
          name: "wall",
          maxAge: 60,
          context: (context: Viewer) => context,
          load: async (context: Viewer) => `wall with ${await read("a", context)}`,
        });
        for (const userId of ["alice", "bob"]) expect(await wall({ userId })).toBe(`wall with a of ${userId}`);
        expect(events.filter(({ name }) => name === "value.refused")).toMatchObject([
          { coordinate: "wall", error: { code: "CACHED_SCOPE_NARROWED" } },
          { coordinate: "wall", error: { code: "CACHED_SCOPE_NARROWED" } },
        ]);
      });
    });

    it("stores for as long as a result says, or not at all", async () => {
      const world = await makeWorld();
      const process = start(world);
      let loads = 0;
      const { read } = SOURCES[kind](process.cache, async (id, _context, { result }) => {
        if (id === "skipped") result.skip();
        else result.set({ maxAge: 30, tags: ["Own:1"] });
        return ++loads;
      });
      expect([await read("skipped"), await read("skipped")]).toEqual([1, 2]);
      expect(await read("a")).toBe(3);
      await waitForStores(process);
      expect(await read("a")).toBe(3);
      await process.cache.invalidateTags(["Own:1"]);
      expect(await read("a")).toBe(4);
    });

    it("asks the source of what a request overrides, and of what is off", async () => {
      const { source, processes, one, other } = await createSource();
      const [{ cache }] = processes;
      await one.read("a");
      await waitForStores(processes[0]);
      source.version = 2;
      if (kind === "function") {
        const [bypassing, refreshing] = [{}, {}];
        cache.override(bypassing, "BYPASS");
        cache.override(refreshing, "REFRESH");
        expect(await one.read("a", bypassing)).toBe("a 2");
        expect(await one.read("a")).toBe("a 1");
        expect(await one.read("a", refreshing)).toBe("a 2");
        expect(await other.read("a")).toBe("a 2");
      }
      source.version = 3;
      cache.setMode("off", "Source");
      expect(await one.read("a")).toBe("a 3");
    });
  });
});

describe.each(KINDS)("a %s", (kind) => {
  let version = 0;
  const createOn = (
    mode: "throws" | "hangs" | undefined,
    policy: object = {},
    load: (id: string) => Promise<string> = async (id) => `${id} ${++version}`,
  ) => {
    version = 0;
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    store.chaos.mode = mode;
    const process: Process = memoryWorld(() => store).process("type Query { unused: Int }", {}, { testing: { clock } });
    const source = SOURCES[kind](process.cache as unknown as Cache<Viewer>, load, policy);
    return { ...process, ...source, clock, chaos: store.chaos };
  };

  it("loads when the store fails, and within its time budget when it hangs (P6)", async () => {
    const failing = createOn("throws");
    expect(await failing.read("a")).toBe("a 1");
    const hanging = createOn("hangs");
    const value = hanging.read("a");
    await hanging.clock.advance(200);
    expect(await value).toBe("a 1");
  });

  it("serves an expired value while it is refreshed, and never beyond that (P5)", async () => {
    const { read, clock } = createOn(undefined, { staleWhileRevalidate: 60 });
    expect(await read("a")).toBe("a 1");
    await clock.advance(61_000);
    expect(await read("a")).toBe("a 1");
    await settle();
    expect(await read("a")).toBe("a 2");
    await clock.advance(121_000);
    expect(await read("a")).toBe("a 3");
  });

  it("serves an expired value when the source fails (P5)", async () => {
    let fails = false;
    const { read, clock } = createOn(undefined, { staleIfError: 60 }, async (id) => {
      if (fails) throw new Error("away");
      return id;
    });
    await read("a");
    fails = true;
    await clock.advance(61_000);
    expect(await read("a")).toBe("a");
  });
});
