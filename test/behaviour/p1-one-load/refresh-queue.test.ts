import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { type CachedError, memoryStore, type RefreshJob } from "graphql-cached";
import { expect, it } from "vitest";
import { until } from "../../support/redis-lab.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top(n: Int = 3): [Int!] @cached(maxAge: 60, staleWhileRevalidate: 600, tags: ["Top", "Movie:{$result[]}"])
    mine: Int @cached(maxAge: 60, staleWhileRevalidate: 600, scope: PRIVATE)
    localized: Int @cached(maxAge: 60, staleWhileRevalidate: 600, key: ["$context.locale"])
    movie: Movie
  }
  type Movie {
    stars: Int @cached(maxAge: 60, staleWhileRevalidate: 600, key: ["$source.id"])
  }
`;

/** Creates a web process that queues its refreshes and a worker that runs them. Each records its own loads. */
function createPair(world: World, enqueue?: (job: RefreshJob) => unknown) {
  const jobs: RefreshJob[] = [];
  const createSite = (options: object) => {
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
        movie: () => ({ id: 7, title: "Alien", made: new Date(0) }),
      },
      Movie: {
        stars: async ({ id, made }: { id: number; made: Date }) => id + made.getTime() + (await load("stars")()),
      },
    };
    const process = world.process(typeDefs, resolvers, {
      identify: (context: { user?: string }) => context.user,
      ...options,
    });
    const movies = process.cache.loader<number, string, { worker?: boolean }>({
      name: "Movie",
      maxAge: 60,
      staleWhileRevalidate: 600,
      batch: async (ids, context) => ids.map((id) => (loads.push("Movie"), `${id} ${context.worker === true}`)),
    });
    return { loads, state, movies, ...process };
  };
  const refreshQueue = enqueue ?? ((job: RefreshJob) => void jobs.push(JSON.parse(JSON.stringify(job)) as RefreshJob));
  return { jobs, web: createSite({ loads: { refreshQueue } }), worker: createSite({}) };
}

/** Asks twice. The values are stale the second time, which triggers a refresh. */
async function askStale(web: ReturnType<typeof createPair>["web"], query: string, context: object = {}): Promise<void> {
  const before = web.outcomes().stale ?? 0;
  await web.ask(query, context);
  await makeStale(web, web.loads.length);
  await web.ask(query, context);
  expect(web.outcomes().stale).toBeGreaterThan(before);
}

/** Makes everything stale once `count` values have been stored. */
async function makeStale({ cache, events }: Pick<Process, "cache" | "events">, count: number): Promise<void> {
  await waitForStores({ events }, count);
  await cache.clear({ soft: true });
}

onEachStore("the refresh queue", (world) => {
  it("runs a queued refresh in the worker under its lease, for all processes to read", async () => {
    const { jobs, web, worker } = createPair(world());
    await askStale(web, "{ top }");
    await until("the refresh is queued", () => jobs.length === 1);
    const loads = web.loads.length;
    worker.state.nth = 100;
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    expect(worker.loads).toEqual(["top"]);
    expect(await dataOf(web.ask("{ top }"))).toEqual({ top: [3, 101] });
    expect(web.loads).toHaveLength(loads);
    expect(jobs).toHaveLength(1);
  });

  it("passes the loader id or parent object to the worker with its types, and uses the worker's context", async () => {
    const { jobs, web, worker } = createPair(world());
    await askStale(web, "{ movie { stars } }");
    await until("the refresh is queued", () => jobs.length === 1);
    worker.state.nth = 100;
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    expect(await dataOf(web.ask("{ movie { stars } }"))).toEqual({ movie: { stars: 108 } });

    await web.movies({}).load(3);
    await makeStale(web, web.loads.length);
    await web.movies({}).load(3);
    await until("the refresh of the loader is queued", () => jobs.length === 2);
    expect(await worker.cache.refresh(jobs[1] as RefreshJob, { worker: true })).toBe(true);
    expect(await web.movies({}).load(3)).toBe("3 true");
  });

  it("does not serve a queued refresh that was invalidated meanwhile, by key or by a result tag", async () => {
    const { jobs, web, worker } = createPair(world());
    await askStale(web, "{ top }");
    await until("the refresh is queued", () => jobs.length === 1);
    await web.cache.invalidate({ coordinate: "Query.top" });
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(false);
    expect(worker.loads).toEqual([]);

    await askStale(web, "{ top(n: 4) }");
    await until("another refresh is queued", () => jobs.length === 2);
    const loadGate = gate();
    worker.state.hold = loadGate.passed;
    const refreshed = worker.cache.refresh(jobs[1] as RefreshJob);
    await until("the worker loads", () => worker.loads.length === 1);
    await web.cache.invalidateTags(["Movie:4"]);
    loadGate.open();
    await refreshed;
    const loads = web.loads.length;
    await web.ask("{ top(n: 4) }");
    expect(web.loads).toHaveLength(loads + 1);
  });

  it("encrypts queued jobs when values are encrypted", async () => {
    const jobs: RefreshJob[] = [];
    const shared = world();
    const key = Buffer.alloc(32, 7);
    const options = {
      encryption: { keys: [{ id: "one", key }] },
      loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) },
    };
    const createSite = (more: object) => {
      const { cache, events } = shared.process("type Query { a: Int }", {}, more);
      return {
        cache,
        events,
        notes: cache.loader<string, string, object>({
          name: "Note",
          maxAge: 60,
          staleWhileRevalidate: 600,
          batch: async (ids) => ids.map((id) => `about ${id}`),
        }),
      };
    };
    const [web, worker, stranger] = [createSite(options), createSite(options), createSite({})];
    await web.notes({}).load("secret-id");
    await makeStale(web, 1);
    await web.notes({}).load("secret-id");
    await until("the refresh is queued", () => jobs.length === 1);
    const job = jobs[0] as RefreshJob;
    expect(Buffer.from(job.input, "base64").toString("latin1")).not.toContain("secret-id");
    await expect(stranger.cache.refresh(job)).rejects.toMatchObject({ code: "CACHED_OPTION_INVALID" });
    expect(await worker.cache.refresh(job)).toBe(true);
  });

  it("runs a queued refresh once when the queue delivers it twice", async () => {
    const { jobs, web, worker } = createPair(world());
    await askStale(web, "{ top }");
    await until("the refresh is queued", () => jobs.length === 1);
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(false);
    expect(worker.loads).toEqual(["top"]);
  });

  it("refreshes in the requesting process when the queue rejects the job", async () => {
    const { web } = createPair(world(), () => Promise.reject(new Error("the queue is full")));
    await askStale(web, "{ top }");
    await until("the refresh has run", () => web.loads.length === 2);
    expect(web.events.find(({ name }) => name === "refresh.rejected")).toMatchObject({ coordinate: "Query.top" });
  });

  it("never queues the refresh of a private value or of a key that uses the context", async () => {
    const { jobs, web } = createPair(world());
    await askStale(web, "{ mine localized }", { user: "alice", locale: "de" });
    await until("both refreshes have run in the web process", () => web.loads.length === 4);
    await settle();
    expect(jobs).toEqual([]);
  });

  it("rejects a job of a release in which the field has another variant, and reports it", async () => {
    const { jobs, web, worker } = createPair(world());
    await askStale(web, "{ top }");
    await until("the refresh is queued", () => jobs.length === 1);
    const job = jobs[0] as RefreshJob;
    const key = job.key.replace(/[^:]+:([^:]+)$/, "anotherShape:$1");
    await expect(worker.cache.refresh({ ...job, key })).rejects.toThrow(
      "cache.refresh: expected a job of this release, got one of a release in which `Query.top` has another shape, `version`, key, tags or codec; run each release's jobs in workers of the same release",
    );
    expect(worker.loads).toEqual([]);
  });

  it("rejects a job whose coordinate is unknown to the worker or whose key differs", async () => {
    const { jobs, web, worker } = createPair(world());
    await askStale(web, "{ top }");
    await until("the refresh is queued", () => jobs.length === 1);
    const job = jobs[0] as RefreshJob;
    const refusal = (wrong: unknown): Promise<unknown> =>
      worker.cache.refresh(wrong as RefreshJob).catch((error: unknown) => (error as CachedError).code);
    expect(await refusal({ ...job, coordinate: "Query.none" })).toBe("CACHED_COORDINATE_UNKNOWN");
    expect(await refusal({ ...job, key: "gc:1:Query.top:other" })).toBe("CACHED_KEY_UNUSABLE");
    expect(await refusal({ ...job, gen: undefined })).toBe("CACHED_OPTION_INVALID");
    await expect(worker.cache.refresh("no job" as never)).rejects.toThrow(
      "cache.refresh: `job`: expected a job that `loads.refreshQueue` received, got a string; pass the job unchanged",
    );
  });
});

it("a queued refresh does not run once another process has taken over its lease", async () => {
  const clock = new FakeClock();
  const world = memoryWorld(() => memoryStore({ clock }));
  const jobs: RefreshJob[] = [];
  let loads = 0;
  const create = (options: object = {}) =>
    world.process(
      "type Query { top: Int @cached(maxAge: 1, staleWhileRevalidate: 600) }",
      { Query: { top: () => ++loads } },
      { testing: { clock }, ...options },
    );
  const [web, worker] = [create({ loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } }), create()];
  for (let nth = 0; nth < 3; nth++) {
    await web.ask("{ top }");
    await settle();
    // Longer than the value is fresh, and than a lease.
    await clock.advance(4_000);
  }
  const [first, second] = jobs as [RefreshJob, RefreshJob];
  expect(jobs).toHaveLength(2);
  expect(second.gen).toBe(first.gen);
  const third = web.ask("{ top }");
  await settle();
  expect(await worker.cache.refresh(first)).toBe(false);
  expect(await worker.cache.refresh(second)).toBe(false);
  expect(loads).toBe(1);
  expect(await worker.cache.refresh(jobs[2] as RefreshJob)).toBe(true);
  expect(await dataOf(third)).toEqual({ top: 1 });
  expect(loads).toBe(2);
});

it("a queued refresh leaves the context of the worker as it is, and asks for no signal of a request that it does not have", async () => {
  const clock = new FakeClock();
  const world = memoryWorld(() => memoryStore({ clock }));
  const jobs: RefreshJob[] = [];
  let isDown = false;
  const create = (options: object = {}) =>
    world.process(
      "type Query { top: Int @cached(maxAge: 60, staleWhileRevalidate: 600) }",
      {
        Query: {
          top: (_: unknown, __: unknown, { db }: { db: number }) => {
            if (isDown) throw new Error("down");
            return db;
          },
        },
      },
      { testing: { clock }, ...options },
    );
  const web = create({ loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } });
  const lines: string[] = [];
  const logger = { info: (line: string) => void lines.push(line), warn: (line: string) => void lines.push(line) };
  const worker = create({ logger, loads: { abortSignal: (context: { req: Request }) => context.req.signal } });
  await web.ask("{ top }", { db: 1 });
  await web.cache.clear({ soft: true });
  await web.ask("{ top }", { db: 1 });
  await settle();
  lines.length = 0;
  const context = { db: 2 };
  isDown = true;
  await worker.cache.refresh(jobs[0] as RefreshJob, context).catch(() => undefined);
  expect(Object.getOwnPropertyDescriptor(context, "db")).toMatchObject({ value: 2, writable: true });
  expect(lines.filter((line) => /signal|context/i.test(line))).toEqual([]);
});

it("a refresh that has waited in the queue is as old in the memory of the worker as its lease", async () => {
  const clock = new FakeClock();
  const world = memoryWorld(() => memoryStore({ clock }));
  const jobs: RefreshJob[] = [];
  const create = (options: object) => {
    const { cache } = world.process(
      "type Query { a: Int }",
      { Query: { a: () => 1 } },
      { testing: { clock }, ...options },
    );
    const batch = async (ids: readonly number[]) => ids;
    return {
      cache,
      movies: cache.loader<number, number>({ name: "Movie", maxAge: 60, staleWhileRevalidate: 600, batch }),
    };
  };
  const web = create({ loads: { refreshQueue: (job: RefreshJob) => void jobs.push(job) } });
  const worker = create({});
  await web.movies({}).load(3);
  await clock.advance(61_000);
  await web.movies({}).load(3);
  await clock.advance(30_000);
  expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
  await clock.advance(29_000);
  expect(await worker.movies({}).read(3)).toMatchObject({ outcome: "hit", ageMs: 59_000 });
  await clock.advance(1_000);
  expect(await worker.movies({}).read(3)).toMatchObject({ outcome: "stale", ageMs: 60_000 });
});
