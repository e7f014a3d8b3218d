import { AsyncLocalStorage } from "node:async_hooks";
import { ApolloServer } from "@apollo/server";
import { FakeClock } from "@graphql-cached/testing";
import { type CacheOptions, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { describe, expect, it, vi } from "vitest";
import { dataOf, memoryWorld, type Process, waitForStores } from "../../support/world.js";

interface Context {
  readonly userId?: string;
  readonly locale?: string;
  readonly db?: object;
}
type Read = (context: Context & Record<string, unknown>) => unknown;

/** Creates a process whose only cached field resolves to `read(context)`. */
function createSite(read: Read, options: CacheOptions<never> = {}, directiveArgs = "maxAge: 60"): Process {
  const resolvers = { Query: { top: (_: unknown, __: unknown, context: never) => read(context) } };
  return memoryWorld().process(`type Query { top: String @cached(${directiveArgs}) }`, resolvers, options);
}

const reportedReads = ({ events }: Process): string[] =>
  events.flatMap((event) => (event.name === "context.read" ? [`${event.coordinate} ${event.property}`] : []));

describe("context reads outside the key", () => {
  it("reports each context property that a public load reads once, with one log line and without its value", async () => {
    const warn = vi.fn<(message: string) => void>();
    const site = createSite(({ userId, locale }) => `${userId} ${locale}`, {
      logger: { info: () => undefined, warn },
      defaults: { maxAge: 60, negativeMaxAge: 0 },
    });
    for (const userId of ["alice", "bob", "carol"]) {
      await site.ask("{ top }", { userId, locale: "de" });
      await site.cache.invalidate({ coordinate: "Query.top" });
    }
    expect(reportedReads(site)).toEqual(["Query.top userId", "Query.top locale"]);
    await site.cache.close();
    expect(warn.mock.calls.map(([line]) => line)).toEqual([
      "graphql-cached: `context.userId` is read by the loads of `Query.top`, which are PUBLIC, and is not part of their keys, so one caller may get a value made for another; " +
        "apply permissions to the schema that applyCached returns, set scope: PRIVATE, or add `$context.userId` to the `key` of the field; " +
        'only if it is the same for every caller, list it in createCache({ privacy: { sharedContextKeys: ["userId"] } })',
      expect.stringContaining("`context.locale`"),
    ]);
    expect(JSON.stringify([site.events, warn.mock.calls])).not.toMatch(/alice|bob|carol/);
  });

  it("does not report what identify reads for a PUBLIC loader that a public load uses", async () => {
    const site = memoryWorld().process(
      "type Query { top: String @cached(maxAge: 60) }",
      { Query: { top: (_: unknown, __: unknown, context: Context) => titles(context).load(1) } },
      { identify: ({ userId }: Context) => userId },
    );
    const titles = site.cache.loader<number, string, Context>({
      name: "Title",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => `title ${id}`),
    });
    expect(await dataOf(site.ask("{ top }", { userId: "alice" }))).toEqual({ top: "title 1" });
    expect(reportedReads(site)).toEqual([]);
  });

  describe("in the log", () => {
    const FIELDS = ["a", "b", "c", "d", "e", "f"];
    const typeDefs = `type Query { ${FIELDS.map((name) => `${name}: Int @cached(maxAge: 60)`).join(" ")} movie: Movie @cached(maxAge: 60) } type Movie { id: ID! stars: Int @cached(maxAge: 60) }`;
    const read = async (_: unknown, __: unknown, { db }: Context): Promise<number> => {
      await Promise.resolve();
      return db === undefined ? 0 : 1;
    };
    const resolvers = {
      Query: {
        ...Object.fromEntries(FIELDS.map((name) => [name, read])),
        movie: async (...args: Parameters<typeof read>) => ({ id: await read(...args) }),
      },
      Movie: { stars: read },
    };
    const query = `{ ${FIELDS.slice(1).join(" ")} movie { id stars } }`;
    const start = (options: CacheOptions<never> = {}) => {
      const site = memoryWorld().process(typeDefs, resolvers, options);
      return { lines: site.warnings, site };
    };
    const all = "`Query.b`, `Query.c`, `Query.d`, `Query.e`, `Query.f`, `Query.movie`, `Movie.stars`";
    const first = (line: string | undefined): void =>
      expect(line).toContain(`\`context.db\` is read by the loads of ${all}, which are PUBLIC`);

    it("has one line for each property, with all fields that the first request of Apollo Server has found", async () => {
      const { lines, site } = start();
      const server = new ApolloServer<Context>({ schema: site.schema, plugins: [cachedPlugin(site.cache as never)] });
      for (let request = 0; request < 2; request++)
        await server.executeOperation({ query }, { contextValue: { db: {} } });
      expect(lines).toHaveLength(1);
      first(lines[0]);
      await server.executeOperation({ query: "{ a }" }, { contextValue: { db: {} } });
      expect(lines.slice(1)).toEqual(["`context.db` is read as well by the loads of `Query.a`"]);
      await server.stop();
    });

    it("has the same line for GraphQL Yoga", async () => {
      const { lines, site } = start();
      const yoga = createYoga<Context>({
        schema: site.schema,
        context: () => ({ db: {} }),
        plugins: [useCached(site.cache as never)],
        logging: false,
      });
      const body = JSON.stringify({ query });
      const headers = { "content-type": "application/json" };
      await (await yoga.fetch("http://localhost/graphql", { method: "POST", headers, body })).text();
      expect(lines).toHaveLength(1);
      first(lines[0]);
    });

    it("has it within a quarter of a second although a request goes on", async () => {
      const clock = new FakeClock();
      const { lines, site } = start({ testing: { clock } });
      cachedPlugin(site.cache as never);
      await site.ask(query, { db: {} });
      await clock.advance(249);
      expect(lines).toEqual([]);
      await clock.advance(1);
      expect(lines).toHaveLength(1);
      first(lines[0]);
    });

    it("has a line for all fields of a tick on any other server, and a short one for those that follow", async () => {
      const { lines, site } = start();
      await site.ask(query, { db: {} });
      await site.cache.close();
      expect(lines).toEqual([
        expect.stringContaining(all.replace(", `Movie.stars`", "")),
        "`context.db` is read as well by the loads of `Movie.stars`",
      ]);
    });

    it("names the remedies of fields and of loaders", async () => {
      const { lines, site } = start();
      const loader = site.cache.loader({
        name: "Movie",
        maxAge: 60,
        batch: async (ids: readonly number[], context: Context) => ids.map(() => context.locale),
      });
      await loader({ locale: "de" } as never).load(1);
      await site.cache.close();
      expect(lines[0]).toContain(
        "set scope: PRIVATE, or make it part of the id of the loader, or of the arguments of the function; only if it is the same for every caller",
      );
    });
  });

  it("attributes a read after an await to its own load, not to concurrent loads", async () => {
    const { ask, events } = memoryWorld().process(
      "type Query { late: String @cached(maxAge: 60) none: String @cached(maxAge: 60) plain: String }",
      {
        Query: {
          late: async (_: unknown, __: unknown, context: Context) => (await Promise.resolve(), context.userId),
          none: async () => (await Promise.resolve(), "none"),
          plain: async (_: unknown, __: unknown, context: Context) => (await Promise.resolve(), context.locale),
        },
      },
    );
    await ask("{ late none plain }", { userId: "alice", locale: "de" });
    expect(reportedReads({ events } as Process)).toEqual(["Query.late userId"]);
  });

  it("does not report properties of the key, properties in sharedContextKeys, or reads of private loads", async () => {
    const read: Read = ({ locale, db }) => `${locale} ${String(db)}`;
    const context = { userId: "alice", locale: "de", db: {} };
    const keyed = createSite(read, { privacy: { sharedContextKeys: ["db"] } }, 'maxAge: 60, key: ["$context.locale"]');
    await keyed.ask("{ top }", context);
    const own = createSite(read, { identify: ({ userId }: Context) => userId } as object, "maxAge: 60, scope: PRIVATE");
    await own.ask("{ top }", { ...context });
    expect([...reportedReads(keyed), ...reportedReads(own)]).toEqual([]);
  });

  it("does not track the context when warnOnContextReads is false", async () => {
    const off = createSite(({ userId }) => userId, { privacy: { warnOnContextReads: false } });
    const context = { userId: "alice" };
    await off.ask("{ top }", context);
    expect(reportedReads(off)).toEqual([]);
    expect(Object.getOwnPropertyDescriptor(context, "userId")).toHaveProperty("value", "alice");
  });

  it("reports reads in a loader's batch function that runs inside a field's load", async () => {
    const site = memoryWorld().process("type Query { top: String @cached(maxAge: 60) }", {
      Query: { top: (_: unknown, __: unknown, context: Context) => names(context).load(7) },
    });
    const names = site.cache.loader<number, string, Context>({
      name: "Name",
      maxAge: 60,
      batch: async (ids, { userId }) => ids.map((id) => `${userId}'s ${id}`),
    });
    await site.ask("{ top }", { userId: "alice" });
    expect(reportedReads(site)).toEqual(["Name userId"]);
  });

  it("reports the identity read when a public field uses a private loader", async () => {
    const site = memoryWorld().process(
      "type Query { top: String @cached(maxAge: 60) }",
      { Query: { top: (_: unknown, __: unknown, context: Context) => notes(context).load(7) } },
      { identify: (context: Context) => context.userId } as object,
    );
    const notes = site.cache.loader<number, string, Context>({
      name: "Note",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids) => ids.map(String),
    });
    await site.ask("{ top }", { userId: "alice" });
    expect(reportedReads(site)).toEqual(["Query.top userId"]);
  });
});

describe("context tracking", () => {
  class Session {
    readonly #user = "alice";
    readonly name = "session";
    visits = 0;
    get user(): string {
      return this.#user;
    }
    greet(): string {
      return `hello ${this.#user}`;
    }
    static has(candidate: object): boolean {
      return #user in candidate;
    }
  }

  it("keeps a class instance with private fields as the same context object", async () => {
    const context = new Session();
    const storage = new AsyncLocalStorage<Session>();
    const byContext = new WeakMap<object, string>([[context, "loaders"]]);
    const seen: unknown[] = [];
    const site = createSite((received) => {
      const session = received as unknown as Session;
      session.visits++;
      seen.push(received === (context as unknown), byContext.get(received), storage.getStore() === session);
      seen.push(Session.has(session), session instanceof Session, session.visits);
      return `${session.greet()} ${session.user}`;
    });
    const answer = await storage.run(context, () => dataOf(site.ask("{ top }", context)));
    expect(answer).toEqual({ top: "hello alice alice" });
    expect(seen).toEqual([true, "loaders", true, true, true, 1]);
    expect(reportedReads(site)).toEqual(["Query.top visits", "Query.top greet", "Query.top user"]);
    expect({ ...context }).toEqual({ name: "session", visits: 1 });
  });

  it("keeps the context writable, copyable and inheritable", async () => {
    const context: Record<string, unknown> = { a: 1, b: 2 };
    const site = createSite(() => "x");
    await site.ask("{ top }", context);
    const child = Object.create(context) as Record<string, unknown>;
    child.a = 7;
    context.b = 3;
    context.c = 4;
    expect([context.a, child.a, child.b, Object.keys(context), { ...context }]).toEqual([
      1,
      7,
      3,
      ["a", "b", "c"],
      { a: 1, b: 3, c: 4 },
    ]);
    const session = new Session();
    await site.cache.invalidate({ coordinate: "Query.top" });
    await site.ask("{ top }", session);
    session.greet = () => "replaced";
    expect(session.greet()).toBe("replaced");
    expect(() => Object.assign(session, { user: "eve" })).toThrow(TypeError);
  });

  it("ignores a context that is frozen, a proxy or not an object", async () => {
    const sealedProxy = new Proxy({ userId: "alice" }, { defineProperty: () => false });
    const throwingProxy = new Proxy({}, { ownKeys: () => Object.keys(null as never) });
    for (const context of [Object.freeze({ userId: "alice" }), sealedProxy, throwingProxy, undefined, "text"]) {
      const site = createSite(() => "x");
      expect(await dataOf(site.ask("{ top }", context))).toEqual({ top: "x" });
    }
  });

  it("reports the reads of one context to two caches", async () => {
    const store = memoryStore();
    const [first, second] = [createSite(({ userId }) => userId, { store }), createSite(({ userId }) => userId)];
    const context = { userId: "alice" };
    await Promise.all([first.ask("{ top }", context), second.ask("{ top }", context)]);
    expect([reportedReads(first), reportedReads(second)]).toEqual([["Query.top userId"], ["Query.top userId"]]);
  });
});

describe("the context of a request", () => {
  it.each([true, false])(
    "has the same properties in a copy as before the request, with context reads watched: %s",
    async (warnOnContextReads) => {
      const site = createSite(() => "top", { privacy: { warnOnContextReads } });
      const names = site.cache.loader({ name: "Name", batch: async (ids: readonly number[]) => ids, maxAge: 60 });
      const context = { userId: "alice" };
      useCached(site.cache, { allow: () => true }).onExecute({
        args: { contextValue: Object.assign(context, { params: { extensions: { cached: true } } }) },
      });
      await site.ask("{ top }", context);
      await names(context).load(1);
      const inherits = Object.create(context) as typeof context;
      await names(inherits).load(1);
      expect(names(inherits)).not.toBe(names(context));
      expect(Reflect.ownKeys({ ...context })).toEqual(["userId", "params"]);
      expect(Reflect.ownKeys({ ...inherits })).toEqual([]);
      expect(names(context)).toBe(names(context));
    },
  );
});

/** A context such as those of test doubles and containers, which refuses what it does not know. */
const strict = <Context extends object>(context: Context): Context =>
  new Proxy(context, {
    get(target, name) {
      if (typeof name === "string" && !(name in target)) throw new Error(`unknown property ${name}`);
      return Reflect.get(target, name) as unknown;
    },
    set() {
      throw new Error("read-only");
    },
  });

describe("a context that throws for properties that it does not have", () => {
  for (const [what, context] of [
    ["", {}],
    [", and for changes", { _shield: { cache: {} } }],
  ] as const)
    it(`does not fail the load of a PUBLIC field${what}`, async () => {
      let loads = 0;
      const privacy = { warnOnContextReads: false };
      const { ask, events } = memoryWorld().process(
        "type Query { film: Int @cached(maxAge: 60) }",
        { Query: { film: () => ++loads } },
        { privacy },
      );
      expect(await dataOf(ask("{ film }", strict(context)))).toEqual({ film: 1 });
      await waitForStores({ events }, 1);
      expect(await dataOf(ask("{ film }", strict(context)))).toEqual({ film: 1 });
    });
});
