import { AsyncLocalStorage } from "node:async_hooks";
import { type CacheOptions, memoryStore } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { dataOf, memoryWorld, type Process } from "../support/world.js";

interface Context {
  readonly userId?: string;
  readonly locale?: string;
  readonly db?: object;
}
type Read = (context: Context & Record<string, unknown>) => unknown;

/** A site whose one field is what `read` makes of the context. */
function site(read: Read, options: CacheOptions<never> = {}, said = "maxAge: 60"): Process {
  const resolvers = { Query: { top: (_: unknown, __: unknown, context: never) => read(context) } };
  return memoryWorld().process(`type Query { top: String @cached(${said}) }`, resolvers, options);
}

const told = ({ events }: Process): string[] =>
  events.flatMap((event) => (event.name === "context.read" ? [`${event.coordinate} ${event.property}`] : []));

describe("the load of a public value that reads the context outside of its key", () => {
  it("is told of once for each property, and in one line of the log, without the value", async () => {
    const warn = vi.fn<(message: string) => void>();
    const one = site(({ userId, locale }) => `${userId} ${locale}`, {
      logger: { info: () => undefined, warn },
      defaults: { maxAge: 60, negativeMaxAge: 0 },
    });
    for (const userId of ["alice", "bob", "carol"]) {
      await one.ask("{ top }", { userId, locale: "de" });
      await one.cache.invalidate({ coordinate: "Query.top" });
    }
    expect(told(one)).toEqual(["Query.top userId", "Query.top locale"]);
    expect(warn.mock.calls.map(([line]) => line)).toEqual([
      "graphql-cached: `Query.top` is PUBLIC but its load reads `context.userId`, which is not part of its key, so one caller may get a value made for another; " +
        "set scope: PRIVATE, or add `$context.userId` to `key`; if a permission check reads it, apply permissions to the schema that applyCached returns; " +
        "if it is the same for every caller, list it in createCache({ sharedContextKeys })",
      expect.stringContaining("`context.locale`"),
    ]);
    expect(JSON.stringify([one.events, warn.mock.calls])).not.toMatch(/alice|bob|carol/);
  });

  it("is told of where the read comes after an await, and not where another load of the moment reads", async () => {
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
    expect(told({ events } as Process)).toEqual(["Query.late userId"]);
  });

  it("is not told of where the key has the property, where it is harmless, or where the value is private", async () => {
    const read: Read = ({ locale, db }) => `${locale} ${String(db)}`;
    const context = { userId: "alice", locale: "de", db: {} };
    const keyed = site(read, { sharedContextKeys: ["db"] }, 'maxAge: 60, key: ["$context.locale"]');
    await keyed.ask("{ top }", context);
    const own = site(read, { identify: ({ userId }: Context) => userId } as object, "maxAge: 60, scope: PRIVATE");
    await own.ask("{ top }", { ...context });
    expect([...told(keyed), ...told(own)]).toEqual([]);
  });

  it("is not told of on a hit, nor where nothing is watched", async () => {
    const off = site(({ userId }) => userId, { warnOnContextReads: false });
    const context = { userId: "alice" };
    await off.ask("{ top }", context);
    expect(told(off)).toEqual([]);
    expect(Object.getOwnPropertyDescriptor(context, "userId")).toHaveProperty("value", "alice");
  });

  it("is told of for a loader's batch function, also inside of a field's load", async () => {
    const one = memoryWorld().process("type Query { top: String @cached(maxAge: 60) }", {
      Query: { top: (_: unknown, __: unknown, context: Context) => names(context).load(7) },
    });
    const names = one.cache.loader<number, string, Context>({
      name: "Name",
      maxAge: 60,
      batch: async (ids, { userId }) => ids.map((id) => `${userId}'s ${id}`),
    });
    await one.ask("{ top }", { userId: "alice" });
    expect(told(one)).toEqual(["Name userId"]);
  });

  it("is told of for a private loader that a public field's value is made with", async () => {
    const one = memoryWorld().process(
      "type Query { top: String @cached(maxAge: 60) }",
      { Query: { top: (_: unknown, __: unknown, context: Context) => notes(context).load(7) } },
      { identify: (context: Context) => context.userId } as object,
    );
    const notes = one.cache.loader<number, string, Context>({
      name: "Note",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids) => ids.map(String),
    });
    await one.ask("{ top }", { userId: "alice" });
    expect(told(one)).toEqual(["Query.top userId"]);
  });
});

describe("a context that is watched", () => {
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

  it("may be an instance of a class with private fields, and stays the same object", async () => {
    const context = new Session();
    const storage = new AsyncLocalStorage<Session>();
    const byContext = new WeakMap<object, string>([[context, "loaders"]]);
    const seen: unknown[] = [];
    const one = site((given) => {
      const session = given as unknown as Session;
      session.visits++;
      seen.push(given === (context as unknown), byContext.get(given), storage.getStore() === session);
      seen.push(Session.has(session), session instanceof Session, session.visits);
      return `${session.greet()} ${session.user}`;
    });
    const answer = await storage.run(context, () => dataOf(one.ask("{ top }", context)));
    expect(answer).toEqual({ top: "hello alice alice" });
    expect(seen).toEqual([true, "loaders", true, true, true, 1]);
    expect(told(one)).toEqual(["Query.top visits", "Query.top greet", "Query.top user"]);
    expect({ ...context }).toEqual({ name: "session", visits: 1 });
  });

  it("can be written to, copied and inherited from as before", async () => {
    const context: Record<string, unknown> = { a: 1, b: 2 };
    const one = site(() => "x");
    await one.ask("{ top }", context);
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
    await one.cache.invalidate({ coordinate: "Query.top" });
    await one.ask("{ top }", session);
    session.greet = () => "replaced";
    expect(session.greet()).toBe("replaced");
    expect(() => Object.assign(session, { user: "eve" })).toThrow(TypeError);
  });

  it("may be frozen, a proxy or nothing at all: then it is left alone", async () => {
    const closed = new Proxy({ userId: "alice" }, { defineProperty: () => false });
    const shut = new Proxy({}, { ownKeys: () => Object.keys(null as never) });
    for (const context of [Object.freeze({ userId: "alice" }), closed, shut, undefined, "text"]) {
      const one = site(() => "x");
      expect(await dataOf(one.ask("{ top }", context))).toEqual({ top: "x" });
    }
  });

  it("may be watched by two caches", async () => {
    const store = memoryStore();
    const [one, two] = [site(({ userId }) => userId, { store }), site(({ userId }) => userId)];
    const context = { userId: "alice" };
    await Promise.all([one.ask("{ top }", context), two.ask("{ top }", context)]);
    expect([told(one), told(two)]).toEqual([["Query.top userId"], ["Query.top userId"]]);
  });
});
