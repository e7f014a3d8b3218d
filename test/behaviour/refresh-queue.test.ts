import type { CachedError, RefreshJob } from "graphql-cached";
import { gate, settle } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { until } from "../support/redis-lab.js";
import { dataOf, onEachStore, type World } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top(n: Int = 3): [Int!] @cached(maxAge: 1, staleWhileRevalidate: 600, jitter: 0, tags: ["Top", "Movie:{$result[]}"])
    mine: Int @cached(maxAge: 1, staleWhileRevalidate: 600, scope: PRIVATE)
    localized: Int @cached(maxAge: 1, staleWhileRevalidate: 600, key: ["$context.locale"])
    movie: Movie
  }
  type Movie {
    stars: Int @cached(maxAge: 1, staleWhileRevalidate: 600, key: ["$source.id"])
  }
`;

/** A web process that hands its refreshes over, and a worker that takes them. Each counts the loads it runs itself. */
function pair(world: World, enqueue?: (job: RefreshJob) => unknown) {
  const jobs: RefreshJob[] = [];
  const site = (options: object) => {
    const loads: string[] = [];
    const state = { nth: 0, door: undefined as Promise<void> | undefined };
    const load = (name: string) => async (): Promise<number> => {
      loads.push(name);
      await state.door;
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
      maxAge: 1,
      staleWhileRevalidate: 600,
      batch: async (ids, context) => ids.map((id) => (loads.push("Movie"), `${id} ${context.worker === true}`)),
    });
    return { loads, state, movies, ...process };
  };
  const refreshQueue = enqueue ?? ((job: RefreshJob) => void jobs.push(JSON.parse(JSON.stringify(job)) as RefreshJob));
  return { jobs, web: site({ refreshQueue }), worker: site({}) };
}

/** Asks until the answer is stale, which sets a refresh off. */
async function askStale(web: ReturnType<typeof pair>["web"], query: string, context: object = {}): Promise<void> {
  const before = web.outcomes().stale ?? 0;
  await web.ask(query, context);
  await until("it is stale and has been served", async () => {
    await web.ask(query, context);
    return (web.outcomes().stale ?? 0) > before;
  });
}

onEachStore("a refresh that is handed over", (world) => {
  it("runs in the worker, with its lease, and its value is what all processes read", async () => {
    const { jobs, web, worker } = pair(world());
    await askStale(web, "{ top }");
    await until("it is handed over", () => jobs.length === 1);
    const loads = web.loads.length;
    worker.state.nth = 100;
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    expect(worker.loads).toEqual(["top"]);
    expect(await dataOf(web.ask("{ top }"))).toEqual({ top: [3, 101] });
    expect(web.loads).toHaveLength(loads);
    expect(jobs).toHaveLength(1);
  });

  it("brings its loader's id or its field's parent object along, types kept, and gets the worker's context", async () => {
    const { jobs, web, worker } = pair(world());
    await askStale(web, "{ movie { stars } }");
    await until("it is handed over", () => jobs.length === 1);
    worker.state.nth = 100;
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    expect(await dataOf(web.ask("{ movie { stars } }"))).toEqual({ movie: { stars: 108 } });

    await web.movies({}).load(3);
    await until("the loader's refresh is handed over", async () => (await web.movies({}).load(3), jobs.length === 2));
    expect(await worker.cache.refresh(jobs[1] as RefreshJob, { worker: true })).toBe(true);
    expect(await web.movies({}).load(3)).toBe("3 true");
  });

  it("is not stored if it was invalidated on the way, by key or by a tag of its result", async () => {
    const { jobs, web, worker } = pair(world());
    await askStale(web, "{ top }");
    await until("it is handed over", () => jobs.length === 1);
    await web.cache.invalidate({ coordinate: "Query.top" });
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(false);
    expect(worker.loads).toEqual([]);

    await askStale(web, "{ top(n: 4) }");
    await until("another is handed over", () => jobs.length === 2);
    const door = gate();
    worker.state.door = door.passed;
    const refreshed = worker.cache.refresh(jobs[1] as RefreshJob);
    await until("the worker loads", () => worker.loads.length === 1);
    await web.cache.invalidateTags(["Movie:4"]);
    door.open();
    expect(await refreshed).toBe(false);
  });

  it("carries nothing readable where values are encrypted, and needs the key to run", async () => {
    const jobs: RefreshJob[] = [];
    const shared = world();
    const key = Buffer.alloc(32, 7);
    const options = {
      encryption: { keys: [{ id: "one", key }] },
      refreshQueue: (job: RefreshJob) => void jobs.push(job),
    };
    const site = (more: object) => {
      const { cache } = shared.process("type Query { a: Int }", {}, more);
      return {
        cache,
        notes: cache.loader<string, string, object>({
          name: "Note",
          maxAge: 1,
          staleWhileRevalidate: 600,
          batch: async (ids) => ids.map((id) => `about ${id}`),
        }),
      };
    };
    const [web, worker, stranger] = [site(options), site(options), site({})];
    await until("it is handed over", async () => (await web.notes({}).load("secret-id"), jobs.length > 0));
    const job = jobs[0] as RefreshJob;
    expect(Buffer.from(job.input, "base64").toString("latin1")).not.toContain("secret-id");
    await expect(stranger.cache.refresh(job)).rejects.toMatchObject({ code: "CACHED_OPTION_INVALID" });
    expect(await worker.cache.refresh(job)).toBe(true);
  });

  it("is done once, also if the queue delivers it twice", async () => {
    const { jobs, web, worker } = pair(world());
    await askStale(web, "{ top }");
    await until("it is handed over", () => jobs.length === 1);
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    expect(await worker.cache.refresh(jobs[0] as RefreshJob)).toBe(false);
    expect(worker.loads).toEqual(["top"]);
  });

  it("runs where it was asked for if the queue refuses it", async () => {
    const { web } = pair(world(), () => Promise.reject(new Error("the queue is full")));
    await askStale(web, "{ top }");
    await until("it has run", () => web.loads.length === 2);
    expect(web.events.find(({ name }) => name === "refresh.rejected")).toMatchObject({ coordinate: "Query.top" });
  });

  it("is never one of a private value, or of one whose key needs the context", async () => {
    const { jobs, web } = pair(world());
    await askStale(web, "{ mine localized }", { user: "alice", locale: "de" });
    await until("both have run here", () => web.loads.length === 4);
    await settle();
    expect(jobs).toEqual([]);
  });

  it("is refused by a worker that does not know it, or makes another key of it", async () => {
    const { jobs, web, worker } = pair(world());
    await askStale(web, "{ top }");
    await until("it is handed over", () => jobs.length === 1);
    const job = jobs[0] as RefreshJob;
    const refusal = (wrong: unknown): Promise<unknown> =>
      worker.cache.refresh(wrong as RefreshJob).catch((error: unknown) => (error as CachedError).code);
    expect(await refusal({ ...job, coordinate: "Query.none" })).toBe("CACHED_COORDINATE_UNKNOWN");
    expect(await refusal({ ...job, key: "gc:1:Query.top:other" })).toBe("CACHED_KEY_UNUSABLE");
    expect(await refusal({ ...job, gen: undefined })).toBe("CACHED_OPTION_INVALID");
    await expect(worker.cache.refresh("no job" as never)).rejects.toThrow(
      "cache.refresh: `job`: expected a job that `refreshQueue` received, got a string; pass the job unchanged",
    );
  });
});
