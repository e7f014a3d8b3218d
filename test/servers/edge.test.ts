import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { type Cache, type CacheEvent, memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { appendToClock } from "../../src/core/store/clock-log.js";
import { overrideStore } from "../support/override-store.js";
import { withoutMessages } from "../support/without-messages.js";
import { redisWorld } from "../support/world.js";
import { type Context, openSite, SERVERS, type ServerName, type SiteOptions } from "./edge-site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie
      @cached(maxAge: 60, staleWhileRevalidate: 30, tags: ["Movie:{$args.id}"])
      @cacheControl(maxAge: 60)
    movies(count: Int!): [Movie] @cached(maxAge: 600) @cacheControl(maxAge: 600)
    greeting: String @cached(maxAge: 60, key: ["$context.locale"], tags: ["greetings"]) @cacheControl(maxAge: 60)
    me: String @cached(maxAge: 60, scope: PRIVATE, tags: ["me"]) @cacheControl(maxAge: 60, scope: PRIVATE)
    plain: String @cacheControl(maxAge: 60)
    broken: String @cached(maxAge: 60) @cacheControl(maxAge: 60)
    fresh: String @cached(maxAge: 0)
  }
  type Mutation {
    rate(id: ID!): Movie @invalidates(tags: ["Movie:{$args.id}"])
  }
  type Movie {
    id: ID!
    title: String
    director: Director @cached(maxAge: 40, tags: ["Director:{$source.id}"]) @cacheControl(maxAge: 600)
  }
  type Director { name: String }
`;
const movie = (_: unknown, { id }: { id: string }) => ({ id, title: `Movie ${id}` });
const resolvers = {
  Query: {
    movie,
    movies: (_: unknown, { count }: { count: number }) => Array.from({ length: count }, (_one, id) => ({ id })),
    greeting: (_: unknown, __: unknown, { locale }: { locale?: string }) => `hello in ${locale ?? "none"}`,
    me: () => "me",
    plain: () => "plain",
    broken: () => {
      throw new Error("broken");
    },
    fresh: () => "fresh",
  },
  Mutation: { rate: movie },
  Movie: { director: () => ({ name: "Lang" }) },
};
const purgingInto =
  (purged: string[]) =>
  (event: CacheEvent): void =>
    void (event.name === "invalidation.finished" && purged.push(...event.tags));
/** The resolvers with another one for `plain`, or for several fields. */
const withFields = (fields: object) => ({ ...resolvers, Query: { ...resolvers.Query, ...fields } });
const openTwo = async (server: ServerName, of: object, options: SiteOptions) =>
  [await openSite(server, typeDefs, of, options), await openSite(server, typeDefs, of, options)] as const;
const MOVIE = "{ movie(id: 7) { title } }";
const EDGE = "max-age=0, s-maxage=60, stale-while-revalidate=30, public";
const PRIVATE = "max-age=0, private";

describe.each(SERVERS)("at the edge, behind %s", (server) => {
  const open = (options?: SiteOptions) => openSite(server, typeDefs, resolvers, options);

  it("names the tags of what was served in both headers, loaded or from the cache", async () => {
    const { ask, cache } = await open();
    const first = await ask(MOVIE);
    expect(first).toMatchObject({ body: { data: { movie: { title: "Movie 7" } } }, cacheControl: EDGE });
    expect(first.tags).toEqual(expect.arrayContaining(cache.edgeTags(["Movie:7"]).slice(0, 1)));
    expect(first.surrogateKey?.split(" ")).toEqual(first.tags);
    expect((await ask(MOVIE)).tags).toEqual(first.tags);
    expect((await ask("{ movie(id: 8) { title } }")).tags).not.toEqual(
      expect.arrayContaining(cache.edgeTags(["Movie:7"]).slice(0, 1)),
    );
  });

  describe("a response that depends on the context", () => {
    const openWith = (read: (context: { user?: string; locale?: string }) => unknown, options?: SiteOptions) =>
      openSite(
        server,
        typeDefs,
        withFields({ plain: (_: unknown, __: unknown, context: object) => read(context) }),
        options,
      );
    const query = "{ movie(id: 7) { title } plain }";

    it("is private, whatever the schema says, since a CDN would give it to others", async () => {
      const { ask, lines } = await openWith(({ locale }) => `in ${locale}`);
      for (const _ of [1, 2])
        expect(await ask(query, { "accept-language": "de" })).toMatchObject({ cacheControl: PRIVATE, tags: [] });
      expect(lines.filter((line) => line.includes("context.locale"))).toHaveLength(1);
    });

    it.each([
      ["a header decides it", { edge: { contextHeaders: { "$context.locale": "Accept-Language" } } }],
      ["all callers share it", { cache: { privacy: { sharedContextKeys: ["locale"] } } }],
    ])("is for all if %s", async (_, options) => {
      const { ask } = await openWith(({ locale }) => `in ${locale}`, options);
      expect((await ask(query, { "accept-language": "de" })).cacheControl).toContain("public");
    });

    it("is private if it reads another property of an object than the one that a header decides", async () => {
      const edge = { contextHeaders: { "$context.locale.language": "Accept-Language" } };
      const { ask } = await openWith(({ locale }) => String((locale as { name?: string } | undefined)?.name), { edge });
      expect((await ask(query, { "accept-language": "de" })).cacheControl).not.toContain("public");
    });

    it("is for all who are not signed in if it depends on that alone", async () => {
      const { ask } = await openWith(({ user }) => user ?? "guest");
      expect((await ask(query)).cacheControl).toContain("public");
      expect((await ask(query, { authorization: "ann" })).cacheControl).not.toContain("public");
    });
  });

  it.each([
    ["a tag", { tags: ["Movie:7"] }],
    ["an entry", { coordinate: "Query.movie", args: { id: 7 } }],
    ["a field", { coordinate: "Query.movie" }],
    ["everything", undefined],
  ])("names what an invalidation of %s purges", async (_what, target) => {
    const purged: string[] = [];
    const { ask, cache } = await open({ cache: { onEvent: purgingInto(purged) } });
    const [seven, eight] = [(await ask(MOVIE)).tags, (await ask("{ movie(id: 8) { title } }")).tags];
    if (target === undefined) await cache.clear();
    else if ("tags" in target) await cache.invalidateTags(target.tags as string[]);
    else await cache.invalidate(target as { coordinate: string });
    const isPurged = (tags: readonly string[]): boolean => tags.some((tag) => purged.includes(tag));
    expect([isPurged(seven), isPurged(eight)]).toEqual([
      true,
      target === undefined || !("args" in target || "tags" in target),
    ]);
  });

  it("lets a CDN keep a response for as many whole seconds as the least fresh part of it is fresh", async () => {
    const { ask, clock } = await open();
    await ask(MOVIE);
    await clock.advance(15_000);
    expect((await ask(MOVIE)).cacheControl).toBe("max-age=0, s-maxage=45, stale-while-revalidate=30, public");
    const { cacheControl, tags } = await ask("{ movie(id: 7) { title director { name } } }");
    expect(cacheControl).toBe("max-age=0, s-maxage=40, public");
    expect(tags.length).toBeGreaterThan(5);
    // Rounded down.
    await clock.advance(400);
    expect((await ask(MOVIE)).cacheControl).toBe("max-age=0, s-maxage=44, stale-while-revalidate=30, public");
  });

  it("leaves a stale response to the origin", async () => {
    const { ask, clock } = await open();
    await ask(MOVIE);
    await clock.advance(61_000);
    expect(await ask(MOVIE)).toMatchObject({ cacheControl: "no-store", tags: [] });
  });

  it.each([
    ["a mutation", "mutation { rate(id: 7) { title } }", "POST"],
    ["a response with an error", "{ movie(id: 7) { title } broken }", "GET"],
    ["a field with maxAge: 0", "{ movie(id: 7) { title } fresh }", "GET"],
  ] as const)("gives no tags to %s", async (_what, query, method) => {
    const { ask } = await open();
    const { tags, cacheControl } = await ask(query, {}, method);
    expect(tags).toEqual([]);
    expect(cacheControl ?? "").not.toMatch(/s-maxage|public/);
  });

  it.each([
    ["a PRIVATE field", "{ movie(id: 7) { title } me }", { "x-user": "alice" }],
    ["a caller with an identity", MOVIE, { "x-user": "alice" }],
    ["a caller with the header Authorization", MOVIE, { authorization: "Bearer x" }],
  ] as const)("gives no tags to %s", async (_what, query, headers) => {
    const { ask } = await open();
    // Apollo Server has a policy of its own.
    const cacheControl = server.startsWith("Apollo") ? PRIVATE : "no-store";
    expect(await ask(query, headers)).toMatchObject({ cacheControl, tags: [], surrogateKey: null });
  });

  it("gives no tags to a caller whose identity becomes known during the execution", async () => {
    const plain = (_: unknown, __: unknown, context: { user?: string }) => {
      context.user = "alice";
      return "plain";
    };
    const { ask } = await openSite(server, typeDefs, withFields({ plain }));
    const { body, cacheControl, tags } = await ask("{ movie(id: 7) { title } plain }");
    expect(body.errors).toBeUndefined();
    expect([cacheControl, tags]).toEqual([PRIVATE, []]);
  });

  it.each([
    ["throws", () => Reflect.get(undefined as never, "id") as string],
    ["returns a promise", () => Promise.resolve("alice") as never],
    ["returns no id", () => "user:undefined"],
  ])("gives no tags if `identify` %s, which is reported once", async (_what, identify) => {
    const { ask, lines } = await open({ cache: { identify } });
    for (const _ of [1, 2])
      expect(await ask(MOVIE)).toMatchObject({
        cacheControl: server.startsWith("Apollo") ? PRIVATE : "no-store",
        tags: [],
      });
    expect(lines).toEqual([expect.stringMatching(/^graphql-cached: `edge`: .*`identify`/)]);
  });

  it("is private for a field with a context value in its key", async () => {
    const { ask } = await open();
    expect(await ask("{ greeting }")).toMatchObject({ cacheControl: PRIVATE, tags: [], surrogateKey: null });
  });

  it("varies by the headers that decide the identity and values of the context in keys", async () => {
    const edge = {
      contextHeaders: { "$context.locale": "Accept-Language" },
      identityHeader: "X-User",
      vary: ["Origin"],
    };
    const { ask } = await open({ edge });
    const { vary, cacheControl } = await ask("{ greeting }", { "accept-language": "de" });
    expect([vary, cacheControl]).toEqual(["Accept, X-User, Accept-Language, Origin", "max-age=0, s-maxage=60, public"]);
  });

  it("is private if its tags do not fit into a header, which is reported once", async () => {
    const { ask, lines } = await open({ edge: { maxTagBytes: 60 } });
    const many = "{ a: movie(id: 1) { title } b: movie(id: 2) { title } c: movie(id: 3) { title } }";
    for (const _ of [1, 2]) expect(await ask(many)).toMatchObject({ cacheControl: PRIVATE, tags: [] });
    expect(lines.filter((line) => line.includes("maxTagBytes: 60"))).toHaveLength(1);
  });

  it("is not to be kept by any cache if a part of it was invalidated while it was executed", async () => {
    const { passed, open: go } = gate();
    const slow = withFields({ plain: () => passed.then(() => "plain") });
    const { ask, cache } = await openSite(server, typeDefs, slow);
    const answer = ask("{ movie(id: 7) { title } plain }");
    await settle();
    await cache.invalidateTags(["Movie:7"]);
    go();
    expect(await answer).toMatchObject({ cacheControl: "no-store", tags: [] });
  });

  it("is not made of what others read with their contexts meanwhile", async () => {
    const { passed, open: go } = gate();
    const withLoader = (cache: Cache<Context>) => {
      const mine = cache.loader({
        name: "Mine",
        batch: async (ids: readonly string[]) => ids,
        maxAge: 60,
        scope: "PRIVATE",
      });
      return withFields({
        plain: () => passed.then(() => "plain"),
        broken: (_: unknown, __: unknown, context: Context) => mine(context).load("1"),
      });
    };
    const { ask, lines } = await openSite(
      server,
      typeDefs.replace("broken: String @cached(maxAge: 60)", "broken: String"),
      withLoader,
    );
    const answer = ask("{ movie(id: 7) { title } plain }");
    await settle();
    for (const method of ["GET", "POST"] as const) await ask("{ broken }", { "x-user": "alice" }, method);
    go();
    expect((await answer).cacheControl).toBe("max-age=0, s-maxage=60, public");
    expect(lines).toEqual([]);
  });

  it("is private while a field is bypassed", async () => {
    const { ask, cache } = await open();
    cache.setMode("off", "Query.movie");
    expect(await ask(MOVIE)).toMatchObject({ tags: [] });
    expect((await ask(MOVIE)).cacheControl).not.toMatch(/public/);
  });

  it.each([
    ["cannot be parsed", "{ movie("],
    ["is not valid", "{ film }"],
    ["names none of several operations", "query A { plain } query B { plain }"],
  ])("answers a request that %s with a response that no cache may keep", async (_what, query) => {
    const { ask } = await open();
    for (const _ of [1, 2]) {
      const { body, cacheControl, tags } = await ask(query);
      expect([body.errors?.length, cacheControl, tags]).toEqual([1, "no-store", []]);
    }
  });

  it("gives no tags to a response that says how it was made, which others may not know", async () => {
    const { ask, lines } = await open({ allow: () => true });
    const { body, cacheControl, tags } = await ask(MOVIE, {}, "GET", { cached: true });
    expect(body.extensions).toEqual({ cached: { "Query.movie": { loaded: 1 } } });
    expect(cacheControl).toBe(server.startsWith("Apollo") ? PRIVATE : "no-store");
    expect([tags, lines]).toEqual([[], []]);
  });

  it("gives no tags to a response that sets a cookie", async () => {
    const requests = new WeakSet<object>();
    // How resolvers set a cookie is the server's own.
    const ofApollo = {
      requestDidStart: async ({
        contextValue,
        response,
      }: {
        contextValue: object;
        response: { http: { headers: Map<string, string> } };
      }) => void Object.assign(contextValue, { setCookie: () => response.http.headers.set("set-cookie", "session=1") }),
    };
    const ofYoga = {
      onExecute: ({ args }: { args: { contextValue: { request: object } } }) =>
        void Object.assign(args.contextValue, { setCookie: () => requests.add(args.contextValue.request) }),
      onResponse: ({ request, response }: { request: object; response: Response }) => {
        if (requests.has(request)) response.headers.append("set-cookie", "session=1");
      },
    };
    const plain = (
      _: unknown,
      __: unknown,
      context: { setCookie?(): void; reply?: { header(...given: string[]): void } },
    ) => {
      context.setCookie?.();
      context.reply?.header("set-cookie", "session=1");
      return "plain";
    };
    const plugins = [server.startsWith("Apollo") ? ofApollo : ofYoga];
    const { ask } = await openSite(server, typeDefs, withFields({ plain }), { plugins });
    const { body, cacheControl, tags } = await ask("{ movie(id: 7) { title } plain }");
    expect(body.errors).toBeUndefined();
    expect([cacheControl, tags]).toEqual(["private, no-store", []]);
  });

  it("has no stale window beside what is not cached", async () => {
    const { ask } = await open();
    const { cacheControl } = await ask("{ movie(id: 7) { title } plain }");
    expect(cacheControl).toBe("max-age=0, s-maxage=60, public");
  });

  it("lets clients keep it for clientMaxAge at most", async () => {
    const { ask } = await open({ edge: { clientMaxAge: 10, tagHeaders: ["Surrogate-Key"] } });
    expect(await ask(MOVIE)).toMatchObject({
      cacheControl: "max-age=10, s-maxage=60, stale-while-revalidate=30, public",
      tags: [],
      surrogateKey: expect.any(String) as string,
    });
  });

  it("lets nobody keep responses to POST, and changes nothing without the option", async () => {
    const { ask } = await open();
    const posted = await ask(MOVIE, {}, "POST");
    expect(posted).toMatchObject({ tags: [], vary: null });
    expect(posted.cacheControl).toMatch(/no-store/);
    const without = await open({ edge: false });
    const { cacheControl, tags } = await without.ask(MOVIE);
    expect(cacheControl ?? "").not.toMatch(/s-maxage/);
    expect(tags).toEqual([]);
  });
});

describe("at the edge, stored responses", () => {
  it.each(["Apollo Server", "GraphQL Yoga"] as const)(
    "have the tags of what they are made of, also when %s serves them from the store",
    async (server) => {
      const { ask, cache } = await openSite(server, typeDefs, resolvers, { responses: true });
      const query = "{ movie(id: 7) { title director { name } } }";
      const answers = [await ask(query), await ask(query), await ask(query)];
      for (const { tags, cacheControl } of answers) {
        expect(tags).toEqual(expect.arrayContaining(cache.edgeTags(["Movie:7"]).slice(0, 1)));
        expect(cacheControl).toBe("max-age=0, s-maxage=40, public");
      }
      await cache.invalidateTags(["Movie:7"]);
      expect((await ask(query)).tags).toEqual(answers[0]?.tags);
    },
  );
});

describe("at the edge, stored responses that several wait for", () => {
  const PLACES = ["of one process", "of two processes"] as const;
  const STORING = ["Apollo Server", "GraphQL Yoga"] as const;
  it.each(STORING.flatMap((server) => PLACES.map((where) => [server, where] as const)))(
    "have the tags of what they are made of behind %s, for all requests %s",
    async (server, where) => {
      const { passed, open: go } = gate();
      const clock = new FakeClock();
      const options = { responses: true, clock, store: memoryStore({ clock }), cache: { prefix: "shared" } };
      const slow = withFields({ plain: () => passed.then(() => "plain") });
      const here = await openSite(server, typeDefs, slow, options);
      const there = where === "of one process" ? here : await openSite(server, typeDefs, slow, options);
      const query = "{ movie(id: 7) { title } plain }";
      const asking = [here.ask(query), there.ask(query), here.ask(query)];
      await settle();
      go();
      await settle();
      await clock.advance(1_000);
      const answers = await Promise.all(asking);
      const [tag] = here.cache.edgeTags(["Movie:7"]);
      for (const { cacheControl, tags } of answers)
        expect([/s-maxage/.test(String(cacheControl)), tags.includes(String(tag))]).toEqual([true, true]);
    },
  );
});

describe("at the edge, an older response in the place of one with errors", () => {
  it.each(["Apollo Server", "GraphQL Yoga"] as const)("is not kept behind %s", async (server) => {
    let fails = false;
    const plain = () => {
      if (fails) throw new Error("down");
      return "plain";
    };
    const options = { responses: { staleIfError: 600 } };
    const { ask, clock } = await openSite(server, typeDefs, withFields({ plain }), options);
    const query = "{ movie(id: 7) { title } plain }";
    for (const _ of [1, 2]) await ask(query);
    await clock.advance(95_000);
    fails = true;
    const { body, cacheControl, tags } = await ask(query);
    expect(body).toEqual({ data: { movie: { title: "Movie 7" }, plain: "plain" } });
    expect([cacheControl, tags]).toEqual(["no-store", []]);
  });
});

describe("at the edge, behind Yoga", () => {
  it("a response to which another plugin adds errors is not kept", async () => {
    const failing = {
      onExecute: () => ({
        onExecuteDone: ({ setResult }: { setResult(result: object): void }) =>
          setResult({ data: null, errors: [{ message: "denied" }] }),
      }),
    };
    const { ask } = await openSite("GraphQL Yoga", typeDefs, resolvers, { plugins: [failing] });
    expect(await ask(MOVIE)).toMatchObject({ body: { data: null }, cacheControl: "no-store", tags: [] });
  });
});

describe("at the edge, behind Mercurius", () => {
  it("the response to HEAD has the headers of that to GET", async () => {
    const { ask } = await openSite("Mercurius", typeDefs, resolvers);
    const { cacheControl, tags } = await ask(MOVIE);
    expect(await ask(MOVIE, {}, "HEAD")).toMatchObject({ cacheControl, tags });
  });
});

describe("at the edge, what other processes invalidate", () => {
  it.each([false, true])(
    "is not served from memory that counts for two seconds (stored responses: %j)",
    async (responses) => {
      const clock = new FakeClock();
      const store = memoryStore({ clock });
      const cache = { prefix: "memory", memory: { maxStalenessMs: 2_000 } };
      const options = { store, clock, responses, cache };
      const [here, there] = await openTwo("Apollo Server", resolvers, options);
      for (const _ of [1, 2, 3, 4, 5]) await here.ask(MOVIE);
      await there.cache.invalidateTags(["Movie:7"]);
      const { body, cacheControl } = await here.ask(MOVIE);
      expect([body.data, cacheControl]).toEqual([{ movie: { title: "Movie 7" } }, EDGE]);
      expect(here.served.at(-1)).not.toBe("hit");
    },
  );
});

describe.each(SERVERS)("at the edge, behind %s, what another process invalidates during the execution", (server) => {
  it("is not kept, though memory counts for two seconds", async () => {
    const clock = new FakeClock();
    const store = withoutMessages(memoryStore({ clock }));
    const held = { reached: gate(), passed: Promise.resolve() };
    const movies = async (): Promise<readonly unknown[]> => {
      held.reached.open();
      await held.passed;
      return [];
    };
    const holding = withFields({ movies });
    const options = { store, clock, cache: { prefix: "memory", memory: { maxStalenessMs: 2_000 } } };
    const [here, there] = await openTwo(server, holding, options);
    const query = "{ movie(id: 7) { title } movies(count: 1) { id } }";
    for (const _ of [1, 2, 3]) await here.ask(query);
    await here.cache.invalidate({ coordinate: "Query.movies" });
    const moviesGate = gate();
    held.reached = gate();
    held.passed = moviesGate.passed;
    const asked = here.ask(query);
    await held.reached.passed;
    await there.cache.invalidateTags(["Movie:7"]);
    moviesGate.open();
    expect((await asked).cacheControl).toBe("no-store");
  });

  it("is for no CDN, though the store has gone back to an earlier copy, and its clock with it", async () => {
    const clock = new FakeClock();
    const { store, goBack } = await rewindableStore(clock);
    const [reached, held] = [gate(), gate()];
    const plain = async (): Promise<string> => {
      reached.open();
      await held.passed;
      return "plain";
    };
    const slow = withFields({ plain });
    const options = { store, clock, cache: { prefix: "rewound" } };
    const [here, there] = await openTwo(server, slow, options);
    await clock.advance(10_000);
    await there.cache.invalidateTags(["unrelated"]);
    const asked = here.ask("{ movie(id: 7) { title } plain }");
    await reached.passed;
    goBack(5_000);
    await there.cache.invalidateTags(["Movie:7"]);
    held.open();
    expect((await asked).cacheControl).toBe(PRIVATE);
  });
});

/** A store whose log of invalidations can go back to how it began, with its clock behind. */
async function rewindableStore(clock: FakeClock) {
  const entries = memoryStore({ clock });
  const begun = { head: await entries.appendClock([]), log: (await entries.readClock(0)) as Buffer };
  let [current, behindMs] = [begun, 0];
  const store = overrideStore(entries, {
    read: async (...keys) => ({ ...(await entries.read(...keys)), clock: current.head }),
    async appendClock(records) {
      current = appendToClock(current, records, (clock.now() - behindMs) * 1_000, 1_000_000);
      return current.head;
    },
    readClock: async (from) => current.log.subarray(from),
  });
  const goBack = (ms: number): void => {
    [current, behindMs] = [begun, ms];
  };
  return { store, goBack };
}

describe("at the edge, on Redis", () => {
  it("a response has the same tags in all processes, and one process purges those of the others", async () => {
    const { store, prefix } = await redisWorld();
    const purged: string[] = [];
    const options = { cache: { prefix, storage: { storeTimeoutMs: 1_000 }, onEvent: purgingInto(purged) } };
    const open = () => openSite("Apollo Server", typeDefs, resolvers, { ...options, store: store() });
    const [here, there] = [await open(), await open()];
    const answers = [await here.ask(MOVIE), await there.ask(MOVIE)];
    expect(answers[1]?.tags).toEqual(answers[0]?.tags);
    for (const { cacheControl } of answers) expect(cacheControl).toMatch(/^max-age=0, s-maxage=\d+, .*public$/);
    await there.cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } });
    expect(answers[0]?.tags.some((tag) => purged.includes(tag))).toBe(true);
    expect((await here.ask(MOVIE)).cacheControl).toMatch(/s-maxage/);
  });
});

describe("at the edge, mistakes in the option", () => {
  it.each([
    [7, "`edge`: expected true, false or an object of options, got 7"],
    [
      { tagHeaders: ["X-Tags"] },
      "`edge`.`tagHeaders`: expected some of Cache-Tag, Surrogate-Key, Edge-Cache-Tag, xkey",
    ],
    [{ maxTagBytes: 0 }, "`edge`.`maxTagBytes`: expected an integer of at least 1, got 0"],
    [{ contextHeaders: { locale: "Accept-Language" } }, "expected paths into the context such as $context.locale"],
    [{ vary: ["a b"] }, "`edge`.`vary`: expected names of request headers"],
    [{ maxTag: 5 }, "did you mean `maxTags`?"],
  ])("%j is refused", async (edge, message) => {
    await expect(openSite("Apollo Server", typeDefs, resolvers, { edge: edge as never })).rejects.toThrow(message);
  });
});

const HINTED = "type Query { movie: String @cached(maxAge: 60) @cacheControl(maxAge: 60) }";
const UNHINTED = "type Query { movie: String @cached(maxAge: 60) }";

async function linesOf(server: ServerName, sdl: string, options: SiteOptions): Promise<string[]> {
  const lines: string[] = [];
  const log = (line: string): void => void (line.includes("`edge`") && lines.push(line));
  const cache = { logger: { info: log, warn: log }, ...options.cache };
  const { ask } = await openSite(server, sdl, { Query: { movie: () => "Metropolis" } }, { ...options, cache });
  for (const _ of [1, 2]) await ask("{ movie }");
  return lines;
}

describe.each(SERVERS)("at the edge, %s says once at its start", (server) => {
  it("that nothing purges what is invalidated", async () => {
    const lines = await linesOf(server, HINTED, { cache: { onEvent: undefined } });
    expect(lines).toEqual([expect.stringMatching(/^graphql-cached: \w+: `edge`: .*invalidation\.finished.*`onEvent`/)]);
  });

  it("nothing where a listener may purge, and without the option", async () => {
    expect(await linesOf(server, HINTED, {})).toEqual([]);
    expect(await linesOf(server, UNHINTED, { edge: false, cache: { onEvent: undefined } })).toEqual([]);
  });

  it("that nothing has a lifetime, if it has no @cacheControl that its server wants", async () => {
    expect(await linesOf(server, UNHINTED, {})).toEqual(
      server.startsWith("Apollo") ? [expect.stringMatching(/`edge`: expected @cacheControl\(maxAge:\)/)] : [],
    );
  });
});
