import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  type Cache,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
  type RefreshJob,
} from "graphql-cached";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { dataOf, memoryWorld, waitForStores } from "../../support/world.js";

interface Viewer {
  readonly userId?: string;
  readonly locale?: string;
}

function open(options: CacheOptions<Viewer> = {}) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const cache = createCache<Viewer>({
    defaultScope: "PUBLIC",
    store: memoryStore({ clock }),
    testing: { clock },
    logger: { info: () => undefined, warn: (line) => lines.push(line) },
    defaults: { jitter: 0, earlyRefresh: 0 },
    ...options,
  });
  onTestFinished(() => cache.close());
  return { cache, clock, lines };
}

/** A function that returns how often it has loaded. */
function counting(cache: Cache<Viewer>, options: object = {}) {
  const calls: unknown[][] = [];
  const count = cache.wrap({
    name: "count",
    maxAge: 60,
    load: (...args: unknown[]) => calls.push(args),
    ...options,
  });
  return { count, calls };
}

describe("the key of a function", () => {
  const date = new Date(0);
  const SAME: readonly (readonly [string, unknown[], unknown[]])[] = [
    ["no arguments", [], []],
    ["a trailing undefined", ["EUR"], ["EUR", undefined]],
    ["equal objects and lists", [{ a: 1, b: [2] }], [{ a: 1, b: [2], c: undefined }]],
    [
      "equal dates, maps and bytes",
      [date, new Map([[1, 2]]), Buffer.from("a")],
      [new Date(0), new Map([[1, 2]]), Buffer.from("a")],
    ],
  ];
  it.each(SAME)("is the same for %s", async (_, first, second) => {
    const { count, calls } = counting(open().cache);
    expect(await count(...first)).toBe(1);
    await settle();
    expect(await count(...second)).toBe(1);
    expect(calls).toHaveLength(1);
  });

  const DIFFERENT: readonly (readonly [string, unknown[], unknown[]])[] = [
    ["a number and its text", [7], ["7"]],
    ["one list and its members", [["a", "b"]], ["a", "b"]],
    ["one value and a list of it", ["a"], [["a"]]],
    ["nothing and null", [], [null]],
    ["an undefined before others", [undefined, "a"], ["a"]],
    ["0 and -0", [0], [-0]],
    ["texts that look alike when they are joined", ["a,b"], ["a", "b"]],
    ["an empty list and no argument", [[]], []],
    // As `{ sort: { price: 1, title: 1 } }` shows.
    ["objects with their properties in another order", [{ a: 1, b: 2 }], [{ b: 2, a: 1 }]],
  ];
  it.each(DIFFERENT)("differs for %s", async (_, first, second) => {
    const { count } = counting(open().cache);
    expect(await Promise.all([count(...first), count(...second)])).toHaveLength(2);
    await settle();
    expect(await count(...first)).not.toBe(await count(...second));
  });

  it("is that of the arguments at the time of the call, and so are those of the load", async () => {
    const { count, calls } = counting(open().cache);
    const filter = { currency: "EUR" };
    const first = count(filter);
    filter.currency = "USD";
    const second = count(filter);
    expect([await first, await second]).toEqual([1, 2]);
    expect(calls).toEqual([[{ currency: "EUR" }], [{ currency: "USD" }]]);
  });

  /** An object with a property that counts how often it is read. */
  const counted = () => {
    let reads = 0;
    const nested = Object.defineProperty({}, "id", { enumerable: true, get: () => (reads++, 7) });
    return { argument: { nested }, reads: () => reads };
  };

  it("reads an argument once per call, and with `key` only what that reads", async () => {
    const { cache } = open();
    const { count } = counting(cache);
    await count(counted().argument);
    await settle();
    const { argument, reads } = counted();
    for (let nth = 1; nth <= 3; nth++) {
      expect(await count(argument)).toBe(1);
      expect(reads()).toBe(nth);
    }

    const own = counting(cache, { name: "own", key: (id: number) => id });
    const other = counted();
    expect(await own.count(1, other.argument)).toBe(1);
    await settle();
    expect(await own.count(1, other.argument)).toBe(1);
    expect(other.reads()).toBe(0);
    expect(own.calls[0]?.[1]).toBe(other.argument);
  });

  it("is not stored for what `key` no longer says when the load begins", async () => {
    const { cache, lines } = open();
    const { count, calls } = counting(cache, { key: ({ id }: { id: number }) => id });
    const argument = { id: 7 };
    const first = count(argument);
    argument.id = 8;
    await first;
    await settle();
    expect(await count({ id: 7 })).toBe(2);
    expect(calls).toEqual([[{ id: 8 }], [{ id: 7 }]]);
    expect(lines).toEqual([
      expect.stringContaining("function `count`: the value is not cached: expected an argument that stays as it is"),
    ]);
  });

  it("is made by `key`, which gets all arguments", async () => {
    const { cache } = open();
    const { count, calls } = counting(cache, {
      key: (currency: string, options: { readonly context: Viewer }) => [currency, options.context.locale],
    });
    await count("EUR", { context: { locale: "en" }, trace: 1 });
    await settle();
    await count("EUR", { context: { locale: "en" }, trace: 2 });
    await count("EUR", { context: { locale: "de" }, trace: 3 });
    expect(calls.map(([, options]) => (options as { trace: number }).trace)).toEqual([1, 3]);
  });

  class Money {
    readonly amount = 7;
  }
  it.each([
    ["a function", () => 1],
    ["a symbol", Symbol("s")],
    ["an instance of a class", new Money()],
  ])("cannot be made of %s, which is reported once and loads each time", async (_, argument) => {
    const { cache, lines } = open();
    const { count } = counting(cache);
    expect([await count(argument), await count(argument)]).toEqual([1, 2]);
    expect(lines.filter((line) => line.includes('cache.wrap("count")'))).toEqual([
      expect.stringMatching(/cache\.wrap\("count"\): a value is not cached: .*return plain data from `key`/),
    ]);
  });

  /** The number of levels above an object, each of which refers to the one below twice. */
  const LEVELS = 30;
  it.each<[string, (part: (at: () => unknown) => object) => unknown]>([
    [
      "an object that refers to itself twice",
      (part) => {
        const own: object = part(() => own);
        return own;
      },
    ],
    [
      "an object whose parts are shared",
      (part) => Array.from({ length: LEVELS }).reduce((below: unknown) => part(() => below), { id: 7 }),
    ],
  ])("is not made of %s, which is read for a moment, and passed on as it is", async (_, make) => {
    let reads = 0;
    const argument = make((at) => {
      const read = () => {
        if (reads++ > 100_000) throw new Error("expected an end");
        return at();
      };
      return Object.defineProperties({}, { x: { enumerable: true, get: read }, y: { enumerable: true, get: read } });
    });
    const { cache, lines } = open();
    const { count, calls } = counting(cache);
    const loader = cache.loader<unknown, number>({
      name: "Part",
      maxAge: 60,
      cacheKeyFn: () => 1,
      batch: async (ids) => ids.map((id) => calls.push([id])),
    });
    expect([await count(argument), await count(argument), await loader({}).load(argument)]).toEqual([1, 2, 3]);
    await settle();
    expect(await loader({}).load(argument)).toBe(3);
    for (const [passed] of calls) expect(passed).toBe(argument);
    expect(reads).toBeLessThan(100_000);
    expect(lines).toEqual([
      expect.stringMatching(/cache\.wrap\("count"\): a value is not cached: key input: expected at most/),
    ]);
  });

  it("is not made of a list with more than its members, which is passed on as it is", async () => {
    const { cache, lines } = open();
    const { count, calls } = counting(cache);
    const written = (strings: TemplateStringsArray): TemplateStringsArray => strings;
    for (const argument of [written`a\n`, "7-up".match(/\d/)]) {
      await count(argument);
      await settle();
      await count(argument);
      expect(calls.splice(0)).toEqual([[argument], [argument]]);
      expect(calls.every(([passed]) => passed === argument)).toBe(true);
    }
    expect(lines).toEqual([expect.stringContaining("expected plain data, got an array with the property `raw`")]);
  });

  it("cannot be made when a function of the user throws, which loads and is reported once", async () => {
    const unreadable = {
      get id(): never {
        throw new Error("secret");
      },
    };
    const own = open();
    const { count: read } = counting(own.cache);
    expect([await read(unreadable), await read(unreadable)]).toEqual([1, 2]);
    expect(own.lines).toEqual([expect.stringContaining("reading the argument threw an exception")]);
    for (const option of ["key", "tags", "context"]) {
      const { cache, lines } = open();
      const fail = (): never => {
        throw new Error("secret");
      };
      const { count } = counting(cache, { [option]: fail });
      expect([await count("a"), await count("a")]).toEqual([1, 2]);
      expect(lines).toEqual([expect.stringContaining(`\`${option}\` threw an exception`)]);
      expect(lines.join()).not.toContain("secret");
    }
  });
});

describe("a function", () => {
  it.each<readonly [string, (count: ReturnType<typeof counting>["count"], cache: Cache<Viewer>) => Promise<void>]>([
    ["clear", (count) => count.clear("EUR")],
    ["invalidate", (_, cache) => cache.invalidate({ function: "count", args: ["EUR"] })],
  ])(
    "is invalidated by %s without the argument that `context` reads, as a job has no request",
    async (_, invalidate) => {
      const { cache } = open();
      const { count } = counting(cache, {
        scope: "PUBLIC",
        key: (currency: unknown) => currency,
        context: (_currency: unknown, { request }: { request: object }) => request,
      });
      const values = [await count("EUR", { request: {} }), await count("EUR", { request: {} })];
      await invalidate(count, cache);
      values.push(await count("EUR", { request: {} }));
      expect(values).toEqual([1, 1, 2]);
    },
  );

  it("invalidates the entry of arguments with `clear`, in any spelling", async () => {
    const { cache } = open();
    const { count } = counting(cache);
    const read = () => Promise.all([count("EUR"), count("USD", { a: 1, b: 2 })]);
    expect(await read()).toEqual([1, 2]);
    await settle();
    await count.clear("EUR", undefined);
    expect(await read()).toEqual([3, 2]);
    await settle();
    await count.clear("USD", { a: 1, b: 2, c: undefined });
    expect(await read()).toEqual([3, 4]);
  });

  type Counting = ReturnType<typeof counting>["count"];
  type Invalidating = (count: Counting, cache: Cache<Viewer>, args: unknown[]) => Promise<void>;
  const INVALIDATING: readonly (readonly [string, Invalidating])[] = [
    ["clear", (count, _, args) => count.clear(...args)],
    ["invalidate", (_, cache, args) => cache.invalidate({ function: "count", args })],
  ];

  it.each(INVALIDATING)("reports to %s arguments of other types than those of what was read", async (_, invalidate) => {
    const { cache, lines } = open();
    const { count } = counting(cache);
    await count("EUR", 2026);
    await invalidate(count, cache, ["EUR", 2025]);
    expect(lines).toEqual([]);
    for (let nth = 0; nth < 2; nth++) await invalidate(count, cache, ["EUR", "2026"]);
    expect(lines).toEqual([
      expect.stringContaining(
        "invalidation of function `count`: `args`: expected [string, number], as in what was read here, got [string, string]",
      ),
    ]);
  });

  it.each(INVALIDATING)("says to %s why arguments name no entry, and of which function", async (_, invalidate) => {
    const { cache } = open();
    const cause = new Error("secret");
    const fail = (): never => {
      throw cause;
    };
    const expected = "function `count`: `args`: expected an argument from which a key can be made, got one for which";
    await expect(invalidate(counting(cache, { key: fail }).count, cache, ["EUR"])).rejects.toMatchObject({
      code: "CACHED_KEY_UNUSABLE",
      coordinate: "count",
      message: `${expected} \`key\` threw an exception, the cause of this error`,
      cause,
    });
    await expect(invalidate(counting(cache).count, cache, [() => 1])).rejects.toMatchObject({
      code: "CACHED_KEY_UNUSABLE",
      coordinate: "count",
      message: expect.stringContaining(`${expected} there is none: `),
    });
  });

  it("remembers nothing between calls that the cache does not validate", async () => {
    const { cache, clock } = open();
    const { count } = counting(cache);
    expect(await count("a")).toBe(1);
    await settle();
    await clock.advance(61_000);
    expect(await count("a")).toBe(2);
  });

  it("returns what `load` returns, cached or not: errors as values, values that cannot be stored, and what is thrown", async () => {
    const { cache } = open();
    const error = new Error("a value");
    const socket = new (class Socket {})();
    const pass = cache.wrap({ name: "pass", maxAge: 60, load: (nth: number) => [error, socket][nth] });
    expect(await pass(0)).toBe(error);
    expect(await pass(1)).toBe(socket);
    const throws = cache.wrap({
      name: "throws",
      maxAge: 60,
      load(): number {
        throw error;
      },
    });
    await expect(throws()).rejects.toBe(error);
  });

  it("asks for the signals of no request if it has none", async () => {
    const { cache, lines } = open({
      loads: { abortSignal: (context) => (context as { signal?: AbortSignal }).signal },
    });
    const { count } = counting(cache);
    expect([await count(1), await count(Symbol("s"))]).toEqual([1, 2]);
    expect(lines.filter((line) => line.includes("abortSignal"))).toEqual([]);
  });

  it("with `maxAge: 0` may read of the context what it likes, since each caller has a value of its own", async () => {
    const { cache, lines } = open();
    const plain = cache.wrap({
      name: "plain",
      maxAge: 0,
      context: (viewer: Viewer) => viewer,
      load: ({ locale }: Viewer) => locale,
    });
    expect(await plain({ locale: "en" })).toBe("en");
    await cache.close();
    expect(lines).toEqual([]);
  });

  it("is a plain function with `maxAge: 0`, and gets a signal and a control all the same", async () => {
    const { cache } = open();
    const seen: unknown[] = [];
    const plain = cache.wrap({
      name: "plain",
      maxAge: 0,
      load(id: number) {
        this.result.skip();
        seen.push(this.signal.aborted, id);
        return id;
      },
    });
    expect([await plain(1), await plain(1)]).toEqual([1, 1]);
    expect(seen).toEqual([false, 1, false, 1]);
  });

  it("has values of its own for each identity that `identify` makes of its arguments", async () => {
    const { cache } = open();
    const { count } = counting(cache, { scope: "PRIVATE", identify: (userId: string) => userId, key: () => "all" });
    expect(await Promise.all([count("alice"), count("bob")])).toEqual([1, 2]);
    await settle();
    expect(await Promise.all([count("alice"), count("bob"), count("")])).toEqual([1, 2, 3]);
    await count.clear("alice");
    expect(await Promise.all([count("alice"), count("bob")])).toEqual([4, 2]);
    await cache.invalidate({ function: "count", args: ["bob"], private: "bob" });
    expect(await Promise.all([count("alice"), count("bob")])).toEqual([4, 5]);
    await expect(count.clear("")).rejects.toMatchObject({
      code: "CACHED_KEY_UNUSABLE",
      coordinate: "count",
      message:
        "function `count`: `clear`: expected the arguments of a caller that has an identity, since the function is PRIVATE, got those of one that has none; pass what `identify` or `context` reads, or call cache.invalidate({ function, args, private })",
    });
  });

  it("finds the context of a call in its arguments, where it is no part of the key, or in an AsyncLocalStorage", async () => {
    const { cache } = open({ identify: ({ userId }) => userId });
    const { count, calls } = counting(cache, { context: (viewer: Viewer) => viewer });
    const viewer = { userId: "alice" };
    expect([await count(viewer, "a"), await count({ userId: "bob" }, "a")]).toEqual([1, 1]);
    expect(calls[0]?.[0]).toBe(viewer);
    await cache.invalidate({ function: "count", args: [undefined, "a"] });
    expect(await count(viewer, "a")).toBe(2);

    const requests = new AsyncLocalStorage<Viewer>();
    let loads = 0;
    const mine = cache.wrap({
      name: "mine",
      maxAge: 60,
      scope: "PRIVATE",
      context: () => requests.getStore(),
      load: () => `${requests.getStore()?.userId} ${++loads}`,
    });
    const ask = (userId: string) => requests.run({ userId }, () => mine());
    expect([await ask("alice"), await ask("bob"), await ask("alice"), await mine(), await mine()]).toEqual([
      "alice 1",
      "bob 2",
      "alice 1",
      "undefined 3",
      "undefined 4",
    ]);
  });

  it("makes what is loaded from PRIVATE values of a caller that caller's own, also in the arguments of `key`", async () => {
    const { cache } = open({ identify: ({ userId }) => userId });
    const me = cache.wrap({
      name: "me",
      maxAge: 60,
      scope: "PRIVATE",
      context: (viewer: Viewer) => viewer,
      load: async ({ userId }: Viewer) => ({ id: 1, name: userId }),
    });
    const { count } = counting(cache, { key: ({ id }: { readonly id: number }) => id });
    expect(await count(await me({ userId: "alice" }))).toBe(1);
    await settle();
    expect(await count(await me({ userId: "bob" }))).toBe(2);
  });

  it("is refreshed by a worker that gets its job", async () => {
    const jobs: RefreshJob[] = [];
    const { cache, clock } = open({ loads: { refreshQueue: (job) => void jobs.push(job) } });
    const { count, calls } = counting(cache, {
      staleWhileRevalidate: 60,
      context: (_: string, viewer?: Viewer) => viewer,
    });
    await count("EUR", { userId: "alice" }, undefined, { from: new Date(0) });
    await settle();
    await clock.advance(61_000);
    await count("EUR", { userId: "bob" }, undefined, { from: new Date(0) });
    await settle();
    const worker = { userId: "worker" };
    expect(await cache.refresh(JSON.parse(JSON.stringify(jobs[0])) as RefreshJob, worker)).toBe(true);
    expect(calls.at(-1)).toEqual(["EUR", worker, undefined, { from: new Date(0) }]);
    expect(await count("EUR", {}, undefined, { from: new Date(0) })).toBe(2);
  });

  it("loads at most so many calls at a time, with no share for calls of one request", async () => {
    const { cache } = open({ loads: { maxConcurrentLoads: 4 } });
    let [running, most] = [0, 0];
    const slow = cache.wrap({
      name: "slow",
      maxAge: 60,
      load: async (id: number) => {
        most = Math.max(most, ++running);
        await settle();
        running--;
        return id;
      },
    });
    await Promise.all(Array.from({ length: 20 }, (_, id) => slow(id)));
    expect(most).toBe(4);
  });

  it("is inspected by its name, and an entry by the list of its arguments", async () => {
    const world = memoryWorld();
    const { cache, events } = world.process("type Query { unused: Int }", {});
    const rates = cache.wrap({
      name: "rates",
      maxAge: 60,
      tags: (currency: string) => [`Rate:${currency}`],
      load: (_currency: string) => 1,
    });
    await rates("EUR");
    await waitForStores({ events });
    await rates("EUR");
    const source = /* GraphQL */ `{ cacheInspection {
      policies { coordinate kind policy { maxAge } }
      entry(coordinate: "rates", id: ["EUR"]) { state use tags { text } }
    } }`;
    const inspected = applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, inspectionTypeDefs, "type Query { unused: Int }"],
        resolvers: inspectionResolvers(cache, { allow: () => true }),
      }),
      cache,
    );
    const { cacheInspection } = (await dataOf(graphql({ schema: inspected, source, contextValue: {} }))) as never;
    expect(cacheInspection).toMatchObject({
      policies: [{ coordinate: "rates", kind: "LOADER", policy: { maxAge: 60 } }],
      entry: { state: "VALUE", use: "FRESH", tags: [{ text: "Rate:EUR" }] },
    });
  });
});

describe("a function in a resolver", () => {
  it("is read again inside of a load, so that nothing older than the load becomes part of its value", async () => {
    const world = memoryWorld();
    const versions = { rate: 1 };
    const typeDefs = 'type Query { price: Int @cached(maxAge: 60, tags: ["Price"]) }';
    const make = () => {
      const process = world.process(typeDefs, { Query: { price: () => rate("EUR") } });
      const rate = process.cache.wrap({ name: "rate", maxAge: 60, load: (_currency: string) => versions.rate });
      return { ...process, rate };
    };
    const [first, second] = [make(), make()];
    expect(await dataOf(first.ask("{ price }"))).toEqual({ price: 1 });
    await waitForStores(first, 2);
    expect(await second.rate("EUR")).toBe(1);
    versions.rate = 2;
    await first.cache.mutate({ tags: ["Price"], entries: [{ function: "rate", args: ["EUR"] }] }, () => undefined);
    expect(await dataOf(second.ask("{ price }"))).toEqual({ price: 2 });
  });

  it("does not wait for its own load", async () => {
    const { cache } = open();
    const factorial = cache.wrap({
      name: "factorial",
      maxAge: 60,
      load: async (n: number): Promise<number> => (n <= 1 ? 1 : n * (await factorial(n - 1))),
    });
    expect(await factorial(5)).toBe(120);
    let depth = 0;
    const loop = cache.wrap({
      name: "loop",
      maxAge: 60,
      load: async (): Promise<number> => (++depth < 3 ? loop() : depth),
    });
    expect(await loop()).toBe(3);
  });
});

describe("cache.wrap", () => {
  it("keeps functions and loaders apart by names of letters, digits and any of _ : -", async () => {
    const { cache } = open();
    const names = ["gene", "gene:by", "gene-by-id", "gene:by:id", "3:gene", "7", "-"];
    let loads = 0;
    const counts = names.map((name) => cache.wrap({ name, maxAge: 60, load: (_id: string) => ++loads }));
    const ids = cache.loader({
      name: "gene:id",
      maxAge: 60,
      batch: async (given: readonly string[]) => given.map(() => ++loads),
    });
    const read = () => Promise.all([...counts.map((count) => count("by")), ids({}).load("by")]);
    expect(await read()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    await settle();
    await cache.invalidate({ function: "gene" });
    await cache.invalidate({ function: "gene:by", args: ["by"] });
    await cache.invalidate({ loader: "gene:id", id: "by" });
    expect(await read()).toEqual([9, 10, 3, 4, 5, 6, 7, 11]);
  });

  it.each([
    [{ load: undefined }, "`load`: expected a function, got undefined"],
    [{ name: "my rates" }, "`name`: expected letters, digits and any of _ : - (a dot is for fields), got"],
    [{ name: "Query.rates" }, "`name`: expected letters, digits and any of _ : - (a dot is for fields), got"],
    [{ name: "responses" }, "`name`: expected another name, since that of whole responses is `responses`, got"],
    [{ key: ["$args.id"] }, "`key`: expected a function"],
    [{ tags: "T" }, "`tags`: expected an array of non-empty strings, or a function that returns one"],
    [{ tags: [""] }, "`tags`: expected an array of non-empty strings, or a function that returns one"],
    [{ ttl: 60 }, "did you mean `maxAge`, in seconds?"],
    [{ batch: () => [] }, "did you mean `load`?"],
    [{ cacheKeyFn: () => 1 }, "did you mean `key`?"],
    [{ cacheMap: null }, "`cacheMap`: unknown setting"],
    [{ scope: "PRIVATE" }, "`scope`: PRIVATE requires an identity; pass `identify: (...args) => userId`"],
    [{ type: "Rate", scope: 7 }, "`scope`: expected"],
  ])("refuses %j", (options, message) => {
    const { cache } = open();
    const wrap = () => cache.wrap({ name: "rates", maxAge: 60, load: () => 1, ...options } as never);
    expect(wrap).toThrow(message);
    expect(wrap).toThrow(/^cache\.wrap/);
  });

  it.each(["loader", "wrap"] as const)("refuses a %s of the same name in production", (method) => {
    vi.stubEnv("NODE_ENV", "production");
    onTestFinished(() => void vi.unstubAllEnvs());
    const { cache } = open();
    const load = (currency: string): string => currency;
    cache.wrap({ name: "rates", maxAge: 60, load });
    cache.wrap({ name: "rates", maxAge: 60, load });
    const again = (): unknown =>
      method === "wrap"
        ? cache.wrap({ name: "rates", maxAge: 60, load: () => 1 })
        : cache.loader({ name: "rates", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    expect(again).toThrow("`name`: expected a name that no other loader of the cache has");
  });

  it.each([
    [{ function: "rates", args: "EUR" }, "`args`: expected an array of the arguments, got a string"],
    [{ function: "rates", args: { currency: "EUR" } }, "`args`: expected an array of the arguments"],
    [{ function: "rates", id: 7 }, "`id`: unknown property; known are function, args, private"],
    [{ function: 7 }, "`function`: expected the name of a function"],
    [{ function: "rates", loader: "rates" }, "expected either `function` or `loader`, got both"],
    [
      { function: "other" },
      "expected the name of a loader made by cache.loader, or of a function made by cache.wrap; known loaders and functions: rates",
    ],
    [{ loader: "rates", id: "EUR" }, "expected an array of the arguments of a call"],
    [
      { function: "rates", args: [() => 1] },
      "function `rates`: `args`: expected an argument from which a key can be made",
    ],
    [{ function: "rates", args: ["EUR"], private: "alice" }, "function `rates`: `private`: expected nothing"],
  ])("makes a target %j that is refused", async (target, message) => {
    const { cache } = open();
    cache.wrap({ name: "rates", maxAge: 60, load: (currency: string) => currency });
    await expect(cache.invalidate(target as never)).rejects.toThrow(message);
  });
});
