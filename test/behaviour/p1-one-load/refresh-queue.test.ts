import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { type GraphQLSchema, graphql } from "graphql";
import { applyCached, type CachedError, memoryStore, type RefreshJob } from "graphql-cached";
import { expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";
import { until } from "../../support/redis-lab.js";
import { dataOf, onEachStore, pair, timedWorld, type World, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top(n: Int = 3): [Int!] @cached(maxAge: 60, staleWhileRevalidate: 600, tags: ["Top", "Movie:{$result[]}"])
    mine: Int @cached(maxAge: 60, staleWhileRevalidate: 600, scope: PRIVATE)
    localized: Int @cached(maxAge: 60, staleWhileRevalidate: 600, key: ["$context.locale"])
    movie: Movie
  }
  type Movie { stars: Int @cached(maxAge: 60, staleWhileRevalidate: 600, key: ["$source.id"]) }
`;

type Enqueue = (job: RefreshJob) => unknown;

/** Creates a web process that queues its refreshes and a worker that runs them. Each records its own loads. */
function createPair(world: World, enqueue?: Enqueue, options: object = {}) {
  const jobs: RefreshJob[] = [];
  const createSite = (own: object) => {
    const loads: string[] = [];
    const state = { nth: 0, hold: undefined as Promise<void> | undefined };
    const load = (name: string) => async (): Promise<number> => {
      loads.push(name);
      await state.hold;
      return ++state.nth;
    };
    const resolvers = {
      Query: {
        top: async (_: unknown, { n }: { n: number }) => [n, await load("top")()],
        mine: load("mine"),
        localized: load("localized"),
        movie: () => ({ id: 7, made: new Date(0) }),
      },
      Movie: {
        stars: async ({ id, made }: { id: number; made: Date }) => id + made.getTime() + (await load("stars")()),
      },
    };
    const identify = (context: { user?: string }) => context.user;
    const process = world.process(typeDefs, resolvers, { identify, ...options, ...own });
    const movies = process.cache.loader<number | string, string, { worker?: boolean }>({
      name: "Movie",
      maxAge: 60,
      staleWhileRevalidate: 600,
      batch: async (ids, context) => ids.map((id) => (loads.push("Movie"), `${id} ${context.worker === true}`)),
    });
    return { ...process, loads, state, movies };
  };
  const refreshQueue = enqueue ?? ((job: RefreshJob) => void jobs.push(JSON.parse(JSON.stringify(job)) as RefreshJob));
  const [web, worker] = [createSite({ loads: { refreshQueue } }), createSite({})];
  /** Reads twice. The value is stale the second time, which triggers a refresh. */
  const readStale = async (read: () => Promise<unknown>): Promise<void> => {
    const before = web.outcomes().stale ?? 0;
    await read();
    await waitForStores(web, web.loads.length);
    await web.cache.clear({ soft: true });
    await read();
    expect(web.outcomes().stale).toBeGreaterThan(before);
  };
  const askStale = (query: string, context: object = {}) => readStale(() => web.ask(query, context));
  /** Has the refresh of a stale value queued, by default that of `top`, and returns its job. */
  const queue = async (read: () => Promise<unknown> = () => web.ask("{ top }", {})): Promise<RefreshJob> => {
    const { length } = jobs;
    await readStale(read);
    await until("the refresh is queued", () => jobs.length === length + 1);
    return jobs[length] as RefreshJob;
  };
  return { jobs, web, worker, askStale, queue };
}

onEachStore("the refresh queue", (world) => {
  it("runs a queued refresh in the worker under its lease, once if it is delivered twice, for all processes to read", async () => {
    const { jobs, web, worker, queue } = createPair(world());
    const job = await queue();
    const loads = web.loads.length;
    worker.state.nth = 100;
    expect([await worker.cache.refresh(job), await worker.cache.refresh(job)]).toEqual([true, false]);
    expect(worker.loads).toEqual(["top"]);
    expect(await dataOf(web.ask("{ top }"))).toEqual({ top: [3, 101] });
    expect([web.loads.length, jobs.length]).toEqual([loads, 1]);
  });

  it("passes the loader id or parent object to the worker with its types, and uses the worker's context", async () => {
    const { web, worker, queue } = createPair(world());
    const ofField = await queue(() => web.ask("{ movie { stars } }", {}));
    worker.state.nth = 100;
    expect(await worker.cache.refresh(ofField)).toBe(true);
    expect(await dataOf(web.ask("{ movie { stars } }"))).toEqual({ movie: { stars: 108 } });
    const ofLoader = await queue(() => web.movies({}).load(3));
    expect(await worker.cache.refresh(ofLoader, { worker: true })).toBe(true);
    expect(await web.movies({}).load(3)).toBe("3 true");
  });

  it("does not serve a queued refresh that was invalidated meanwhile, by key or by a result tag", async () => {
    const { web, worker, queue } = createPair(world());
    const first = await queue();
    await web.cache.invalidate({ coordinate: "Query.top" });
    expect([await worker.cache.refresh(first), worker.loads]).toEqual([false, []]);
    const second = await queue(() => web.ask("{ top(n: 4) }", {}));
    const loadGate = gate();
    worker.state.hold = loadGate.passed;
    const refreshed = worker.cache.refresh(second);
    await until("the worker loads", () => worker.loads.length === 1);
    await web.cache.invalidateTags(["Movie:4"]);
    loadGate.open();
    await refreshed;
    const loads = web.loads.length;
    await web.ask("{ top(n: 4) }");
    expect(web.loads).toHaveLength(loads + 1);
  });

  it("encrypts queued jobs when values are encrypted", async () => {
    const shared = world();
    const encryption = { keys: [{ id: "one", key: Buffer.alloc(32, 7) }] };
    const { web, worker, queue } = createPair(shared, undefined, { encryption });
    const { worker: stranger } = createPair(shared);
    const job = await queue(() => web.movies({}).load("secret-id"));
    expect(Buffer.from(job.input, "base64").toString("latin1")).not.toContain("secret-id");
    await expect(stranger.cache.refresh(job, {})).rejects.toMatchObject({ code: "CACHED_OPTION_INVALID" });
    expect(await worker.cache.refresh(job, {})).toBe(true);
  });

  it("refreshes in the requesting process when the queue rejects the job", async () => {
    const { web, askStale } = createPair(world(), () => Promise.reject(new Error("the queue is full")));
    await askStale("{ top }");
    await until("the refresh has run", () => web.loads.length === 2);
    expect(web.events.find(({ name }) => name === "refresh.rejected")).toMatchObject({ coordinate: "Query.top" });
  });

  it("never queues the refresh of a private value or of a key that uses the context", async () => {
    const { jobs, web, askStale } = createPair(world());
    await askStale("{ mine localized }", { user: "alice", locale: "de" });
    await until("both refreshes have run in the web process", () => web.loads.length === 4);
    await settle();
    expect(jobs).toEqual([]);
  });

  it("rejects a job of a release in which the field has another variant, of an unknown field, of another key, or none", async () => {
    const { worker, queue } = createPair(world());
    const job = await queue();
    const key = job.key.replace(/[^:]+:([^:]+)$/, "anotherShape:$1");
    await expect(worker.cache.refresh({ ...job, key })).rejects.toThrow(
      "cache.refresh: expected a job of this release, got one of a release in which `Query.top` has another shape, `version`, key, tags or codec; run each release's jobs in workers of the same release",
    );
    const refusal = (wrong: unknown): Promise<unknown> =>
      worker.cache.refresh(wrong as RefreshJob).catch((error: unknown) => (error as CachedError).code);
    expect(await refusal({ ...job, coordinate: "Query.none" })).toBe("CACHED_COORDINATE_UNKNOWN");
    expect(await refusal({ ...job, key: "gc:1:Query.top:other" })).toBe("CACHED_KEY_UNUSABLE");
    expect(await refusal({ ...job, gen: undefined })).toBe("CACHED_OPTION_INVALID");
    await expect(worker.cache.refresh("no job" as never)).rejects.toThrow(
      "cache.refresh: `job`: expected a job that `loads.refreshQueue` received, got a string; pass the job unchanged",
    );
    expect(worker.loads).toEqual([]);
  });
});

it("the refresh of each schema of a cache runs, though a field has another shape in the one that was applied last", async () => {
  const clock = new FakeClock();
  const jobs: RefreshJob[] = [];
  let loads = 0;
  const resolvers = { Query: { movie: () => ({ id: ++loads, budget: 1 }) } };
  const { cache } = listen({
    store: memoryStore({ clock }),
    testing: { clock },
    defaults: { jitter: 0, earlyRefresh: 0 },
    loads: { refreshQueue: (job) => void jobs.push(job) },
  });
  const [full, reduced] = ["budget: Int", ""].map((more) => {
    const sdl = `type Query { movie: Movie @cached(maxAge: 60, staleWhileRevalidate: 600) } type Movie { id: Int ${more} }`;
    return applyCached(schemaOf(sdl, resolvers), cache);
  }) as [GraphQLSchema, GraphQLSchema];
  for (const schema of [full, reduced]) {
    const ask = () => dataOf(graphql({ schema, source: "{ movie { id } }", contextValue: {} }));
    const first = await ask();
    await settle();
    await clock.advance(61_000);
    expect(await ask()).toEqual(first);
    await settle();
    expect(await cache.refresh(jobs.pop() as RefreshJob)).toBe(true);
    expect(await ask()).toEqual({ movie: { id: loads } });
  }
  expect([loads, jobs]).toEqual([4, []]);
});

it("a queued refresh does not run once another process has taken over its lease", async () => {
  const world = timedWorld();
  const jobs: RefreshJob[] = [];
  let loads = 0;
  const sdl = "type Query { top: Int @cached(maxAge: 1, staleWhileRevalidate: 600) }";
  const create = (options = {}) => world.process(sdl, { Query: { top: () => ++loads } }, options);
  const [web, worker] = [create({ loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } }), create()];
  for (let nth = 0; nth < 3; nth++) {
    await web.ask("{ top }");
    await settle();
    // Longer than the value is fresh, and than a lease.
    await world.clock.advance(4_000);
  }
  const [first, second] = jobs as [RefreshJob, RefreshJob];
  expect([jobs.length, second.gen]).toEqual([2, first.gen]);
  const third = web.ask("{ top }");
  await settle();
  expect([await worker.cache.refresh(first), await worker.cache.refresh(second), loads]).toEqual([false, false, 1]);
  expect(await worker.cache.refresh(jobs[2] as RefreshJob)).toBe(true);
  expect([await dataOf(third), loads]).toEqual([{ top: 1 }, 2]);
});

it("a queued refresh leaves the context of the worker as it is, and asks for no signal of a request that it does not have", async () => {
  const world = timedWorld();
  const jobs: RefreshJob[] = [];
  let isDown = false;
  const top = (_: unknown, __: unknown, { db }: { db: number }): number => {
    if (isDown) throw new Error("down");
    return db;
  };
  const sdl = "type Query { top: Int @cached(maxAge: 60, staleWhileRevalidate: 600) }";
  const create = (loads: object) => world.process(sdl, { Query: { top } }, { loads });
  const web = create({ refreshQueue: (job: RefreshJob) => void jobs.push(job) });
  const worker = create({ abortSignal: (context: { req: Request }) => context.req.signal });
  await web.ask("{ top }", { db: 1 });
  await web.cache.clear({ soft: true });
  await web.ask("{ top }", { db: 1 });
  await settle();
  const context = { db: 2 };
  isDown = true;
  await worker.cache.refresh(jobs[0] as RefreshJob, context).catch(() => undefined);
  expect(Object.getOwnPropertyDescriptor(context, "db")).toMatchObject({ value: 2, writable: true });
  expect([...worker.infos, ...worker.warnings].filter((line) => /signal|context/i.test(line))).toEqual([]);
});

it("a refresh that has waited in the queue is as old in the memory of the worker as its lease", async () => {
  const world = timedWorld();
  const jobs: RefreshJob[] = [];
  const create = () => {
    const { cache } = world.bare({ loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } });
    const batch = async (ids: readonly number[]) => ids;
    const movies = cache.loader<number, number>({ name: "Movie", maxAge: 60, staleWhileRevalidate: 600, batch });
    return { cache, movies };
  };
  const [web, worker] = pair(create);
  await web.movies({}).load(3);
  await world.clock.advance(61_000);
  await web.movies({}).load(3);
  await world.clock.advance(30_000);
  expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
  await world.clock.advance(29_000);
  expect(await worker.movies({}).read(3)).toMatchObject({ outcome: "hit", ageMs: 59_000 });
  await world.clock.advance(1_000);
  expect(await worker.movies({}).read(3)).toMatchObject({ outcome: "stale", ageMs: 60_000 });
});
