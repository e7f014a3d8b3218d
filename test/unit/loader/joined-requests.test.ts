import { AsyncLocalStorage } from "node:async_hooks";
import { ApolloServer } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import {
  applyCached,
  type CachedLoader,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished } from "vitest";
import { knowOperations } from "../../responses/site.js";

interface Context {
  readonly userId?: string;
  readonly films?: CachedLoader<string, string>;
  readonly notes?: CachedLoader<string, string>;
  readonly signal?: AbortSignal;
}
/** What loaders are made from before there is a context. */
interface Options {
  readonly token: string;
}

function open(options: CacheOptions<Context> = {}) {
  const clock = new FakeClock();
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store: memoryStore({ clock }),
    testing: { clock },
    identify: ({ userId }) => userId,
    loads: { abortSignal: (context) => (context as Context).signal },
    logger: { info: () => undefined, warn: () => undefined },
    defaults: { jitter: 0, earlyRefresh: 0 },
    ...options,
  });
  onTestFinished(() => cache.close());
  let version = 0;
  const films = cache.loader({
    name: "Film",
    maxAge: 60,
    batch: async (ids: readonly string[], _options: Options) => ids.map((id) => `${id} ${++version}`),
  });
  const notes = cache.loader({
    name: "Note",
    maxAge: 60,
    scope: "PRIVATE",
    batch: async (ids: readonly string[], { token }: Options) => ids.map((id) => `${id} by ${token}`),
  });
  return { cache, clock, films, notes };
}

describe("objects that count as one request", () => {
  it("have the identity of its context, and none without it", async () => {
    const { cache, notes } = open();
    const ask = async (token: string, userId?: string): Promise<string> => {
      const options = { token };
      const loader = notes(options);
      if (userId !== undefined) cache.request({ userId }, options);
      const value = await loader.load("a");
      await settle();
      return value;
    };
    expect([await ask("1"), await ask("2")]).toEqual(["a by 1", "a by 2"]);
    expect([await ask("3", "alice"), await ask("4", "alice"), await ask("5", "bob")]).toEqual([
      "a by 3",
      "a by 3",
      "a by 5",
    ]);
  });

  it("are those of the caller whose entry a function clears", async () => {
    const { cache } = open();
    let loads = 0;
    const mine = cache.wrap({
      name: "mine",
      maxAge: 60,
      scope: "PRIVATE",
      context: (options: object) => options,
      load: (_options: object) => ++loads,
    });
    const options = {};
    cache.request({ userId: "alice" }, options);
    expect(await mine(options)).toBe(1);
    await settle();
    await mine.clear(options);
    expect(await mine(options)).toBe(2);
  });

  it.each(["before", "after"] as const)("are overridden with it, %s they are joined", async (when) => {
    const { cache, films } = open();
    expect(await films({ token: "" }).load("a")).toBe("a 1");
    await settle();
    const [options, context] = [{ token: "" }, {}];
    const loader = films(options);
    if (when === "before") cache.override(context, "REFRESH");
    expect(cache.request(context, options)).toBe(context);
    if (when === "after") cache.override(context, "REFRESH");
    expect(await loader.load("a")).toBe("a 2");
  });

  it("are aborted with it", async () => {
    const { cache } = open();
    const { signal, abort } = (() => {
      const controller = new AbortController();
      return { signal: controller.signal, abort: () => controller.abort(new Error("gone")) };
    })();
    const stuck = cache.wrap({
      name: "stuck",
      maxAge: 60,
      context: (options: object) => options,
      load(_options: object): Promise<never> {
        const own = this.signal;
        return new Promise((_resolve, reject) => own.addEventListener("abort", () => reject(own.reason)));
      },
    });
    const options = {};
    cache.request({ signal }, options);
    const read = stuck(options);
    await settle();
    abort();
    await expect(read).rejects.toThrow("gone");
  });

  it("can join one after the other, and in several calls", async () => {
    const { cache, notes } = open();
    const [first, second, third, context] = [{ token: "1" }, { token: "2" }, { token: "3" }, { userId: "alice" }];
    cache.request(first as never, second);
    cache.request(context, first);
    cache.request(context, third, third);
    for (const one of [first, second, third]) {
      expect(await notes(one).load("a")).toBe("a by 1");
      await settle();
    }
  });

  it("are refused if they count as another request, since its caller is another one", async () => {
    const { cache, notes } = open();
    const shared = { token: "shared" };
    cache.request({ userId: "alice" }, shared);
    expect(() => cache.request({ userId: "bob" }, shared)).toThrow(
      "got one that counts as the request of another context",
    );
    expect(await notes(shared).load("a")).toBe("a by shared");
    for (const args of [[7], [{}, null], [{}, "token"]])
      expect(() => cache.request(...(args as [never]))).toThrow(/^cache\.request: expected/);
  });

  /** Returns what asks an Apollo Server whose loaders are made from options. */
  const serve = async (responses: boolean) => {
    knowOperations();
    const { cache, clock, films, notes } = open();
    const hints =
      "enum CacheControlScope { PUBLIC PRIVATE } directive @cacheControl(maxAge: Int, scope: CacheControlScope) on FIELD_DEFINITION";
    let executions = 0;
    const schema = applyCached(
      makeExecutableSchema({
        typeDefs: [
          cachedTypeDefs,
          hints,
          "type Query { film: String @cacheControl(maxAge: 600) note: String @cacheControl(maxAge: 600) }",
        ],
        resolvers: {
          Query: {
            film: (_: unknown, __: unknown, context: Context) => {
              executions++;
              return context.films?.load("a");
            },
            note: (_: unknown, __: unknown, context: Context) => context.notes?.load("a"),
          },
        },
      }),
      cache,
    );
    const server = new ApolloServer<Context>({
      schema,
      plugins: [cachedPlugin(cache, { allow: () => true, ...(responses ? { responses: { scope: "PRIVATE" } } : {}) })],
    });
    await server.start();
    onTestFinished(() => server.stop());
    const contextOf = (userId: string): Context => {
      const options = { token: userId };
      return cache.request({ userId, films: films(options), notes: notes(options) }, options);
    };
    const ask = async (query: string, userId: string, extensions = {}, contextValue = contextOf(userId)) => {
      const { body, http } = await server.executeOperation({ query, extensions }, { contextValue });
      await settle();
      const { data, extensions: added } = (body as { singleResult: { data: object; extensions: object } }).singleResult;
      return { data, added, header: http.headers.get("cache-control") };
    };
    return { cache, clock, ask, contextOf, executions: () => executions };
  };

  it("are a part of its trace and of its hints on Apollo Server", async () => {
    const { ask } = await serve(false);
    expect(await ask("{ film note }", "alice", { cached: true })).toMatchObject({
      data: { film: "a 1", note: "a by alice" },
      added: { cached: { Film: { loaded: 1 }, Note: { loaded: 1 } } },
      header: "max-age=60, private",
    });
  });

  it("narrow the hints by what the context function has read with them", async () => {
    const { ask, clock, contextOf } = await serve(false);
    await ask("{ film }", "bob");
    await clock.advance(20_000);
    for (const [query, data, header] of [
      ["{ film }", { film: "a 1" }, "max-age=40, public"],
      ["{ note }", { note: "a by alice" }, "max-age=60, private"],
    ] as const) {
      const context = contextOf("alice");
      await Promise.all([context.films?.load("a"), context.notes?.load("a")]);
      expect(await ask(query, "alice", {}, context)).toMatchObject({ data, header });
    }
  });

  it("are a part of its hints also if another cache joins objects of its own with the same context", async () => {
    const { ask, contextOf } = await serve(false);
    const context = open().cache.request(contextOf("alice"), {});
    expect(await ask("{ note }", "alice", {}, context)).toMatchObject({ header: "max-age=60, private" });
  });

  it("are announced for no part of a second longer than what the context function has read is fresh", async () => {
    const { ask, clock, contextOf } = await serve(false);
    await ask("{ film }", "bob");
    await clock.advance(20_500);
    const context = contextOf("alice");
    await context.films?.load("a");
    expect(await ask("{ film }", "alice", {}, context)).toMatchObject({ header: "max-age=39, public" });
  });

  it("narrow the hints by what the context function has begun to read with them", async () => {
    const { ask, clock, contextOf } = await serve(false);
    await ask("{ film }", "bob");
    await clock.advance(20_000);
    const context = contextOf("alice");
    void context.films?.load("a");
    expect(await ask("{ film }", "alice", {}, context)).toMatchObject({
      data: { film: "a 1" },
      header: "max-age=40, public",
    });
  });

  it("belong to no operation in particular if several of one HTTP request have copies of the context", async () => {
    const { ask, cache, contextOf, executions } = await serve(true);
    const context = contextOf("alice");
    const QUERIES = ["{ film }", "{ film note }", "{ note }"];
    const results = await Promise.all(QUERIES.map((query) => ask(query, "alice", {}, context)));
    const [film, note] = ["a 1", "a by alice"];
    expect(results.map(({ data }) => data)).toEqual([{ film }, { film, note }, { note }]);
    expect(executions()).toBe(2);
    await cache.invalidate({ loader: "Film", id: "a" });
    const again = await Promise.all(QUERIES.map((query) => ask(query, "alice")));
    expect(again.map(({ data }) => data)).toEqual([{ film: "a 2" }, { film: "a 2", note }, { note }]);
    expect((await ask("{ note }", "bob")).data).toEqual({ note: "a by bob" });
  });

  it("are a part of its response on Apollo Server", async () => {
    const { ask, cache, clock, executions } = await serve(true);
    for (const userId of ["alice", "bob", "alice", "bob"])
      expect(await ask("{ film note }", userId)).toMatchObject({
        data: { film: "a 1", note: `a by ${userId}` },
        header: expect.stringContaining("private"),
      });
    expect(executions()).toBe(2);
    await cache.invalidate({ loader: "Film", id: "a" });
    expect((await ask("{ film note }", "alice")).data).toEqual({ film: "a 2", note: "a by alice" });
    await clock.advance(61_000);
    expect((await ask("{ film note }", "alice")).data).toEqual({ film: "a 3", note: "a by alice" });
  });
});

describe("`read` of a loader and of a function", () => {
  const KINDS = {
    loader: () => {
      const { cache, clock } = open();
      const values = cache.loader({
        name: "Value",
        maxAge: 60,
        staleWhileRevalidate: 60,
        batch: async (ids: readonly unknown[]) =>
          ids.map((id) => (id === "broken" ? new Error("broken") : `v ${String(id)}`)),
      });
      return { cache, clock, read: (id: unknown) => values({}).read(id) };
    },
    function: () => {
      const { cache, clock } = open();
      const values = cache.wrap({
        name: "Value",
        maxAge: 60,
        staleWhileRevalidate: 60,
        load: (id: unknown) => {
          if (id === "broken") throw new Error("broken");
          return `v ${String(id)}`;
        },
      });
      return { cache, clock, read: values.read };
    },
  };

  it.each(Object.entries(KINDS))(
    "of a %s says whether the value was loaded or stored, and how old it is",
    async (_, make) => {
      const { cache, clock, read } = make();
      expect(await Promise.all([read("a"), read("a")])).toEqual([
        { value: "v a", outcome: "loaded", ageMs: 0 },
        { value: "v a", outcome: "coalesced", ageMs: 0 },
      ]);
      await settle();
      await clock.advance(5_000);
      expect(await read("a")).toEqual({ value: "v a", outcome: "hit", ageMs: 5_000 });
      expect(await read("a")).toEqual({ value: "v a", outcome: "hit", ageMs: 5_000 });
      await clock.advance(60_000);
      expect(await read("a")).toEqual({ value: "v a", outcome: "stale", ageMs: 65_000 });
      expect(await read(() => 1)).toMatchObject({ outcome: "bypassed", reason: "KEY_UNUSABLE" });
      await expect(read("broken")).rejects.toThrow("broken");
      cache.setMode("off", "Value");
      expect(await read("a")).toEqual({ value: "v a", outcome: "bypassed", reason: "MODE_OFF" });
    },
  );

  it("says how old the value is that is served first in the place of an error, or after softTimeoutMs", async () => {
    const clock = new FakeClock();
    const cache = createCache({
      defaultScope: "PUBLIC",
      defaults: { jitter: 0, earlyRefresh: 0 },
      leases: { softTimeoutMs: 500 },
      store: memoryStore({ clock }),
      testing: { clock },
    });
    const source = { isBroken: false, isSlow: false };
    const values = cache.wrap({
      name: "Value",
      maxAge: 60,
      staleIfError: 600,
      load: async () => {
        if (source.isSlow) await new Promise<void>((resolve) => clock.after(400, resolve));
        if (source.isBroken) throw new Error("broken");
        return "v";
      },
    });
    await values();
    await settle();
    await clock.advance(70_000);
    Object.assign(source, { isBroken: true, isSlow: true });
    const late = values.read();
    await settle();
    await clock.advance(400);
    expect(await late).toEqual({ value: "v", outcome: "staleIfError", ageMs: 70_400 });
    await settle();
    expect(await values.read()).toEqual({ value: "v", outcome: "staleIfError", ageMs: 70_400 });
    await clock.advance(2_000);
    source.isSlow = false;
    expect(await values.read()).toEqual({ value: "v", outcome: "staleIfError", ageMs: 72_400 });
    await cache.close();
  });

  it("says that a request remembers a value, or has primed it, and reads it for those who only load", async () => {
    const { films } = open();
    const loader = films({ token: "" });
    await loader.load("a");
    expect(await loader.read("a")).toEqual({ value: "a 1", outcome: "remembered", ageMs: undefined });
    loader.prime("b", "primed");
    expect(await loader.read("b")).toEqual({ value: "primed", outcome: "remembered", ageMs: undefined });
    const [read, loaded] = await Promise.all([loader.read("c"), loader.load("c")]);
    expect([read.outcome, read.value, loaded]).toEqual(["loaded", "c 2", "c 2"]);
  });

  it("says that nothing is cached with `maxAge: 0`", async () => {
    const { cache } = open();
    const load = () => 1;
    const plain = cache.wrap({ name: "plain", maxAge: 0, load });
    const ids = cache.loader({ name: "Id", maxAge: 0, batch: async (given: readonly number[]) => given });
    expect(await plain.read()).toEqual({ value: 1, outcome: "bypassed", ageMs: undefined });
    expect(await ids({}).read(7)).toEqual({ value: 7, outcome: "bypassed", ageMs: undefined });
  });

  it("tells whoever observes the request as well", async () => {
    const events: string[] = [];
    const { cache } = open({ onEvent: (event) => void (event.name === "entry.served" && events.push(event.outcome)) });
    const requests = new AsyncLocalStorage<object>();
    const rates = cache.wrap({ name: "rates", maxAge: 60, context: () => requests.getStore(), load: () => 1 });
    expect((await requests.run({}, () => rates.read())).outcome).toBe("loaded");
    expect(events).toEqual(["loaded"]);
  });
});
