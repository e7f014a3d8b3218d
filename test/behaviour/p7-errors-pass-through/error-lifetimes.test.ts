import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { GraphQLError } from "graphql";
import { type CacheOptions, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { memoryWorld, onEachStore } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID = 1): String @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    stale: String @cached(maxAge: 10, staleWhileRevalidate: 600)
  }
`;

const failure = (status: number): GraphQLError =>
  new GraphQLError(`status ${status}`, { extensions: { code: `E${status}`, http: { status }, at: new Date(7) } });
const statusOf = (error: unknown): unknown =>
  ((error as GraphQLError).extensions?.http as { status?: number } | undefined)?.status;

/** Not found: a minute. Trouble: not at all. Everything else: as without the option. */
const errorMaxAgeMs = (error: unknown): number | undefined => {
  const status = statusOf(error);
  return status === 404 ? 60_000 : status === 500 ? 0 : undefined;
};

function createSource() {
  const source = {
    loads: 0,
    throws: undefined as (() => unknown) | undefined,
    held: undefined as Promise<void> | undefined,
  };
  const load = async (): Promise<string> => {
    const nth = ++source.loads;
    await source.held;
    if (source.throws !== undefined) throw source.throws();
    return `value ${nth}`;
  };
  return { source, resolvers: { Query: { movie: load, stale: load } } };
}

function createSite(options: CacheOptions<never> = {}, store?: (clock: FakeClock) => Store) {
  const clock = new FakeClock();
  const { source, resolvers } = createSource();
  const world = memoryWorld(() => store?.(clock) ?? memoryStore({ clock }));
  const start = () => {
    const process = world.process(typeDefs, resolvers, { testing: { clock }, loads: { errorMaxAgeMs }, ...options });
    const read = async (field = "movie"): Promise<unknown> => {
      const { data, errors } = await process.ask(`{ value: ${field} }`, {});
      await settle();
      return errors?.[0]?.message ?? data?.value;
    };
    return { ...process, read };
  };
  return { clock, source, start, ...start() };
}

/** Reads until a read loads, and returns how long that takes, to 100 ms. */
async function lifetimeOf({ clock, source, read }: Pick<ReturnType<typeof createSite>, "clock" | "source" | "read">) {
  const before = source.loads;
  for (let ms = 0; ; ms += 100) {
    await read();
    if (source.loads > before || ms > 100_000) return ms;
    await clock.advance(100);
  }
}

onEachStore("an error with a lifetime of its own", (world) => {
  it("is the same in every process, as the error of a moment is, until its key or a tag is invalidated", async () => {
    const { source, resolvers } = createSource();
    source.throws = () => failure(404);
    const shared = world();
    const start = () => shared.process(typeDefs, resolvers, { loads: { errorMaxAgeMs } });
    const [first, second] = [start(), start()];
    const errorOf = async ({ ask }: ReturnType<typeof start>) => {
      const { errors } = await ask("{ movie }", {});
      const [error] = errors ?? [];
      return { name: error?.originalError?.name ?? error?.name, json: error?.toJSON(), at: error?.extensions?.at };
    };
    const thrown = await errorOf(first);
    await partsOf(first.cache, "test").drain();
    expect(thrown.json).toMatchObject({ message: "status 404", extensions: { code: "E404", http: { status: 404 } } });
    expect(await errorOf(second)).toEqual(thrown);
    expect(await errorOf(first)).toEqual(thrown);
    expect(source.loads).toBe(1);
    await second.cache.invalidateTags(["Movie:1"]);
    await errorOf(first);
    await partsOf(first.cache, "test").drain();
    expect(source.loads).toBe(2);
    source.throws = undefined;
    await first.cache.invalidate({ coordinate: "Query.movie", args: { id: 1 } });
    expect((await second.ask("{ movie }", {})).data).toEqual({ movie: "value 3" });
  });
});

describe("an error with a lifetime of its own", () => {
  it("is remembered for that long, and others for `errorBackoffMs` or not at all", async () => {
    for (const [status, least, most] of [
      [404, 60_000, 60_000],
      [500, 0, 0],
      [503, 500, 1_000],
    ] as const) {
      const site = createSite();
      site.source.throws = () => failure(status);
      expect(await site.read()).toBe(`status ${status}`);
      const ms = await lifetimeOf(site);
      expect([ms >= least, ms <= most], `${status}: ${ms} ms`).toEqual([true, true]);
      await site.clock.advance(61_000);
      site.source.throws = undefined;
      expect(await site.read()).toBe(`value ${site.source.loads}`);
    }
  });

  it("is remembered as well if the store still has a value that nobody may be served", async () => {
    const clock = new FakeClock();
    const site = createSite({ defaults: { jitter: 0.1 }, testing: { clock, random: () => 0.5 } }, () =>
      memoryStore({ clock }),
    );
    expect(await site.read()).toBe("value 1");
    // It is fresh for 57 s, and in the store for 63.
    await clock.advance(61_000);
    site.source.throws = () => failure(503);
    const other = site.start();
    expect([await site.read(), await site.read(), await other.read()]).toEqual(Array(3).fill("status 503"));
    expect(site.source.loads).toBe(2);
  });

  it.each(["failed while it was served", "failed when it was asked for again"])(
    "is remembered as well if such a value is in its pause after a refresh that %s",
    async (which) => {
      const clock = new FakeClock();
      const testing = { clock, random: () => 0.5 };
      const options = { defaults: { jitter: 0.1, staleIfError: 5 }, loads: { errorMaxAgeMs: 60_000 }, testing };
      const site = createSite(options, () => memoryStore({ clock }));
      const other = site.start();
      expect(await site.read()).toBe("value 1");
      // It is served until 65 s, and in the store for 68.
      await clock.advance(61_000);
      site.source.throws = () => failure(503);
      if (which === "failed while it was served") expect(await site.read()).toBe("value 1");
      await clock.advance(5_000);
      if (which === "failed when it was asked for again") {
        const context = {};
        site.cache.override(context, "REFRESH");
        expect((await site.ask("{ movie }", context)).errors?.[0]?.message).toBe("status 503");
        await settle();
      }
      expect([await site.read(), await site.read(), await other.read()]).toEqual(Array(3).fill("status 503"));
      expect(site.source.loads).toBe(3);
    },
  );

  it("can be the same for all errors: not at all, or so many milliseconds", async () => {
    for (const maxAgeMs of [0, 3_000]) {
      const site = createSite({ loads: { errorMaxAgeMs: maxAgeMs } });
      site.source.throws = () => failure(503);
      await site.read();
      expect(await lifetimeOf(site)).toBe(maxAgeMs);
    }
  });

  it("is shortened by the jitter of the policy, as values are", async () => {
    const clock = new FakeClock();
    const site = createSite({ defaults: { jitter: 0.5 }, testing: { clock, random: () => 0.5 } }, () =>
      memoryStore({ clock }),
    );
    site.source.throws = () => failure(404);
    await site.read();
    expect(await lifetimeOf({ ...site, clock })).toBe(45_000);
  });

  it("goes to all who wait for its load in any process, even if it is remembered for 0 ms", async () => {
    const { source, start, read } = createSite();
    const other = start();
    const held = gate();
    source.held = held.passed;
    source.throws = () => failure(500);
    const reads = [read(), read(), other.read()];
    await settle();
    held.open();
    expect(await Promise.all(reads)).toEqual(["status 500", "status 500", "status 500"]);
    expect(source.loads).toBe(1);
    await read();
    expect(source.loads).toBe(2);
  });

  it("costs a read of the store, and no lease request", async () => {
    let calls: ReadonlyMap<string, number> = new Map();
    const { source, read } = createSite({}, (clock) => {
      const store = chaosStore(memoryStore({ clock }));
      calls = store.chaos.calls;
      return store;
    });
    source.throws = () => failure(404);
    await read();
    const [reads = 0, leases] = [calls.get("read"), calls.get("acquire")];
    expect([await read(), source.loads]).toEqual(["status 404", 1]);
    expect([calls.get("read"), calls.get("acquire")]).toEqual([reads + 1, leases]);
  });

  it("holds the next refresh of a stale value back for that long, if its source is in trouble", async () => {
    for (const [maxAgeMs, loads] of [
      [0, 3],
      [30_000, 2],
    ] as const) {
      const { clock, source, read } = createSite({ loads: { errorMaxAgeMs: () => maxAgeMs } });
      expect(await read("stale")).toBe("value 1");
      source.throws = () => failure(503);
      await clock.advance(11_000);
      expect(await read("stale")).toBe("value 1");
      await clock.advance(5_000);
      expect(await read("stale")).toBe("value 1");
      expect(source.loads).toBe(loads);
    }
  });

  it("can be that of the error of one id in a batch", async () => {
    const { cache, clock } = createSite({
      loads: { errorMaxAgeMs: (error, coordinate) => (coordinate === "Movie" ? errorMaxAgeMs(error) : undefined) },
    });
    const loads: number[] = [];
    const movies = cache.loader({
      name: "Movie",
      maxAge: 60,
      batch: async (ids: readonly number[]) => ids.map((id) => (loads.push(id), failure(id))),
    });
    const read = async () => {
      await Promise.allSettled([movies({}).load(404), movies({}).load(500), movies({}).load(503)]);
      await settle();
    };
    await read();
    await clock.advance(2_000);
    await read();
    expect(loads).toEqual([404, 500, 503, 500, 503]);
  });

  it("is asked for once for each failed load, and not for what concerns one caller or was refused", async () => {
    const asked = vi.fn(() => 60_000);
    const { source, read } = createSite({ loads: { errorMaxAgeMs: asked } });
    source.throws = () => failure(403);
    await read();
    expect(asked).not.toHaveBeenCalled();
    const error = failure(404);
    source.throws = () => error;
    await Promise.all([read(), read()]);
    await read();
    expect(asked.mock.calls).toEqual([[error, "Query.movie"]]);
  });

  it.each([
    ["NaN", () => Number.NaN, "got NaN"],
    ["a negative number", () => -1, "got -1"],
    ["infinity", () => Number.POSITIVE_INFINITY, "got Infinity"],
    ["more than a timer can wait", () => 2 ** 31, "got 2147483648"],
    ["a text", () => "60", 'got "60"'],
    ["a promise", () => Promise.reject(new Error("late")), "got an instance of Promise"],
    ["an exception", () => Reflect.get(null as never, "status"), "it threw an exception, the cause of this error"],
  ])(
    "is that of `errorBackoffMs` if the option returns %s, which is reported and fails nothing",
    async (_, option, got) => {
      const site = createSite({ loads: { errorMaxAgeMs: option as () => number } });
      site.source.throws = () => failure(404);
      expect(await site.read()).toBe("status 404");
      expect(await lifetimeOf(site)).toBeLessThanOrEqual(1_000);
      expect(site.warnings).toEqual([
        `createCache: \`loads.errorMaxAgeMs\`: expected a number from 0 to 2147483647 (milliseconds) or undefined, ${got}; until then errors of \`Query.movie\` are shared for \`loads.errorBackoffMs\``,
      ]);
      const events = site.events.filter(({ name }) => name === "lifetime.refused");
      expect(events).toHaveLength(site.source.loads);
      expect(events[0]).toMatchObject({ coordinate: "Query.movie", error: { code: "CACHED_OPTION_INVALID" } });
    },
  );
});
