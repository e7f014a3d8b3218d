import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";

/** As in Cloudflare Workers: no timers, randomness and I/O while modules are evaluated. */
const state = vi.hoisted(() => ({ isGlobalScope: false }));
vi.mock("node:crypto", async (load) => {
  const crypto = await load<typeof import("node:crypto")>();
  const refusing = <F extends (...args: never[]) => unknown>(call: F): F =>
    ((...args) => {
      if (state.isGlobalScope) throw new Error("Disallowed operation called within global scope.");
      return call(...args);
    }) as F;
  return { ...crypto, randomBytes: refusing(crypto.randomBytes), randomUUID: refusing(crypto.randomUUID) };
});
const refuse = (): never => {
  throw new Error("Disallowed operation called within global scope.");
};

const typeDefs = /* GraphQL */ `
  type Query {
    film(id: ID!): Int @cached(maxAge: 60, tags: ["Film:{$args.id}"])
    mine: Int @cached(maxAge: 60, scope: PRIVATE)
    rated: Int @cached(maxAge: 60)
  }
  type Mutation {
    rate(id: ID!): Int @invalidates(tags: ["Film:{$args.id}"])
  }
`;

/** What a worker does while its module is evaluated. The library is, too: test files share modules, which have the real crypto. */
async function evaluateModule() {
  vi.resetModules();
  state.isGlobalScope = true;
  try {
    const { applyCached, cachedTypeDefs, createCache, memoryStore } = await import("graphql-cached");
    let loads = 0;
    const inner = new FakeClock();
    /** No time passes; the library uses no timer before there are requests. */
    const clock = {
      now: () => inner.now(),
      after: (ms: number, fn: () => void) => (state.isGlobalScope ? refuse() : inner.after(ms, fn)),
      afterTick: (fn: () => void) => (state.isGlobalScope ? refuse() : inner.afterTick(fn)),
    };
    const cache = createCache<{ userId: string }>({
      defaultScope: "PUBLIC",
      store: memoryStore({ clock }),
      identify: ({ userId }) => userId,
      privacy: { sharedContextKeys: ["userId"] },
      testing: { clock, random: () => (state.isGlobalScope ? refuse() : 0.5) },
    });
    const ratings = cache.loader({ name: "Rating", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    const load = (): number => ++loads;
    const resolvers = {
      Query: {
        film: load,
        mine: load,
        rated: (_: unknown, __: unknown, context: { userId: string }) => ratings(context).load(4),
      },
      Mutation: { rate: () => 1 },
    };
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
    return { cache, ask: async (source: string) => graphql({ schema, source, contextValue: { userId: "1" } }) };
  } finally {
    state.isGlobalScope = false;
  }
}

describe("in a Cloudflare Worker", () => {
  afterAll(() => void vi.resetModules());
  const DISABLES: Readonly<Record<string, () => void>> = {
    "is missing": () => {
      const { disable } = AsyncLocalStorage.prototype;
      Reflect.deleteProperty(AsyncLocalStorage.prototype, "disable");
      restore = () => Object.assign(AsyncLocalStorage.prototype, { disable });
    },
    throws: () =>
      void vi.spyOn(AsyncLocalStorage.prototype, "disable").mockImplementation(() => {
        throw new Error("asyncLocalStorage.disable() is not implemented");
      }),
  };
  let restore = (): unknown => undefined;
  afterEach(() => {
    restore();
    vi.restoreAllMocks();
  });

  for (const [what, install] of Object.entries(DISABLES))
    it(`a cache that a module has created answers every request, where AsyncLocalStorage.disable ${what}`, async () => {
      install();
      const { cache, ask } = await evaluateModule();
      const answers: unknown[] = [];
      for (let round = 0; round < 2; round++) {
        answers.push(await ask("{ film(id: 7) mine rated }"));
        await settle();
      }
      expect(JSON.parse(JSON.stringify(answers))).toEqual(Array(2).fill({ data: { film: 1, mine: 2, rated: 4 } }));
      expect(JSON.parse(JSON.stringify(await ask("mutation { rate(id: 7) }")))).toEqual({ data: { rate: 1 } });
      expect((await ask("{ film(id: 7) }")).data?.film).toBe(3);
      expect((await cache.health()).status).toBe("ok");
      await cache.settled();
      await cache.close();
    });
});
