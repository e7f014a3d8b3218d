/**
 * What users of `@apollo/server-plugin-response-cache` rely on, as its tests have it, in words of our own. What both caches do
 * alike runs on both of them, so that neither is the measure of itself.
 */
import { ApolloServer, type ApolloServerPlugin } from "@apollo/server";
import responseCachePlugin from "@apollo/server-plugin-response-cache";
import { FakeClock } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { describe, expect, it, onTestFinished } from "vitest";
import { again, type Peer, type Step, steps, takeSteps, withOutcomes } from "./peers.js";
import { type Answer, askApollo, type Context, HINTS, openSite, SERVERS } from "./site.js";

const CACHES = ["Apollo's response cache", "graphql-cached"] as const;

interface Asked {
  readonly user?: string;
  /** A part of the key: null for callers without it. */
  readonly locale?: string | null;
  /** What a request must not do with the cache. */
  readonly without?: "reading" | "writing";
}

const typeDefs = /* GraphQL */ `
  type Query {
    price(of: ID): Int @cacheControl(maxAge: 10)
    stock: Int @cacheControl(maxAge: 4)
    basket: Int @cacheControl(maxAge: 9, scope: PRIVATE)
    visits: Int
    offer(isOwn: Boolean): Int
    broken: Int @cacheControl(maxAge: 10)
    missing: Int! @cacheControl(maxAge: 10)
    found: Found @cacheControl(maxAge: 10)
  }
  union Found = Note
  type Note @cacheControl(scope: PRIVATE) { text: String }
  type Mutation { order: Int @cacheControl(maxAge: 10) }
`;

interface HintedInfo {
  readonly cacheControl: { setCacheHint(hint: object): void };
}

type Plugin = ApolloServerPlugin<Asked>;

interface Shop extends Peer<Asked> {
  ask(query: string, context?: Asked, variables?: Readonly<Record<string, unknown>>): Promise<Answer>;
}

interface ShopOptions {
  readonly plugins?: readonly Plugin[];
  /** Those of createCache. */
  readonly cache?: object;
}

function open(cache: (typeof CACHES)[number], options: ShopOptions = {}): Shop {
  let executions = 0;
  const next = (): number => ++executions;
  const fail = (): never => {
    next();
    throw new Error("away");
  };
  const resolvers = {
    Query: {
      price: next,
      stock: next,
      basket: next,
      visits: next,
      offer(_: unknown, { isOwn = false }: { isOwn?: boolean }, __: unknown, { cacheControl }: HintedInfo) {
        cacheControl.setCacheHint(isOwn ? { maxAge: 10, scope: "PRIVATE" } : { maxAge: 10 });
        return next();
      },
      broken: fail,
      missing: () => (next(), null),
      found: () => ({ __typename: "Note", text: `${next()}` }),
    },
    Mutation: { order: next },
  };
  const opened = cache === "graphql-cached" ? openOurs(resolvers, options) : openTheirs(resolvers, options);
  return {
    ...opened,
    ask: (query, context, variables) => opened.ask(query, { locale: "en", ...context }, variables),
    executions: () => executions,
  };
}

function openOurs(resolvers: object, { plugins = [], cache }: ShopOptions) {
  const overriding: Plugin = {
    requestDidStart: async () => ({
      async didResolveOperation({ contextValue }) {
        if (contextValue.without !== undefined)
          site.cache.override(contextValue as Context, contextValue.without === "reading" ? "REFRESH" : "BYPASS");
      },
    }),
  };
  const site = openSite({
    typeDefs,
    resolvers: resolvers as never,
    server: "Apollo Server",
    responses: { scope: "PUBLIC", key: ["$context.locale"] },
    plugins: [overriding, ...plugins],
    cache: { privacy: { sharedContextKeys: ["without"] }, ...cache },
  });
  return { clock: site.clock, ask: site.ask as Shop["ask"] };
}

function openTheirs(resolvers: object, { plugins = [] }: ShopOptions) {
  const clock = new FakeClock();
  const apollo = new ApolloServer<Asked>({
    schema: makeExecutableSchema({ typeDefs: [HINTS, typeDefs], resolvers: resolvers as never }),
    cache: entriesOn(clock),
    logger: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
    plugins: [
      responseCachePlugin<Asked>({
        sessionId: async ({ contextValue }) => contextValue.user ?? null,
        extraCacheKeyData: async ({ contextValue }) => contextValue.locale,
        shouldReadFromCache: async ({ contextValue }) => contextValue.without !== "reading",
        shouldWriteToCache: async ({ contextValue }) => contextValue.without !== "writing",
      }),
      ...plugins,
    ],
  });
  onTestFinished(() => apollo.stop().catch(() => undefined));
  const ask: Shop["ask"] = async (query, contextValue = {}, variables = {}) => {
    const { http, ...answer } = await askApollo(apollo as never, query, { ...contextValue } as Context, { variables });
    return { ...answer, cacheControl: http.headers.get("cache-control") };
  };
  return { clock, ask };
}

/** Returns a cache of Apollo Server whose entries expire on the clock of a test. */
function entriesOn(clock: FakeClock) {
  const entries = new Map<string, { readonly value: string; readonly until: number }>();
  return {
    async get(key: string) {
      const { value, until = 0 } = entries.get(key) ?? {};
      return clock.now() < until ? value : undefined;
    },
    async set(key: string, value: string, { ttl }: { readonly ttl?: number | null } = {}) {
      entries.set(key, { value, until: clock.now() + (ttl ?? 3_600) * 1_000 });
    },
    delete: async (key: string) => entries.delete(key),
  };
}

const [ANN, BOB, EVE]: readonly [Asked, Asked, Asked] = [{ user: "ann" }, { user: "bob" }, { user: "eve" }];
const FRENCH: Asked = { locale: "fr" };

const ALIKE: readonly (readonly [string, readonly Step<Asked>[]])[] = [
  [
    "serves a response until its maxAge is over, and then executes the operation again",
    again("{ price }", "executed served 5 served 6 executed"),
  ],
  [
    "serves a response no longer than the shortest maxAge in it",
    again("{ price stock }", "executed 3 served 2 executed"),
  ],
  [
    "serves no response to a query with another alias",
    steps(["{ price }", "executed"], ["{ cost: price }", "executed"], ["{ price }", "served"]),
  ],
  [
    "serves no response to other variables, but to the same ones",
    ["1", "1", "2", "1"].map((of, nth) => [
      "query ($of: ID) { price(of: $of) }",
      nth % 2 === 0 ? "executed" : "served",
      {},
      { of },
    ]),
  ],
  [
    "stores no response in which a field has no hint",
    [...again<Asked>("{ price visits }", "executed executed"), ...again<Asked>("{ price }", "executed served")],
  ],
  [
    "stores one response for each extra part of the key",
    steps(
      ["{ price }", "executed"],
      ["{ price }", "executed", FRENCH],
      ["{ price }", "served", FRENCH],
      ["{ price }", "served"],
    ),
  ],
  [
    "stores a response with a PRIVATE field for each session, and none for callers without one",
    steps(
      ["{ basket }", "executed"],
      ["{ basket }", "executed"],
      ["{ basket }", "executed", ANN],
      ["{ basket }", "served", ANN],
      ["{ basket }", "executed", BOB],
      ["{ basket }", "executed"],
    ),
  ],
  [
    "stores a response for its session only if one of its fields is PRIVATE",
    steps(
      ["{ price basket }", "executed", ANN],
      ["{ price basket }", "executed", BOB],
      ["{ price basket }", "served", ANN],
    ),
  ],
  [
    "shares a PUBLIC response among all sessions, and not with callers without one",
    steps(
      ["{ price }", "executed"],
      ["{ price }", "executed", ANN],
      ["{ price }", "served", BOB],
      ["{ price }", "served", EVE],
      ["{ price }", "served"],
    ),
  ],
  [
    "executes the operation of a request that must not read, and stores its response",
    steps(["{ price }", "executed"], 6, ["{ price }", "executed", { without: "reading" }], 6, ["{ price }", "served"]),
  ],
  [
    "stores no response of a request that must not write",
    steps(
      ...again<Asked>("{ price }", "executed served 15"),
      ["{ price }", "executed", { without: "writing" }],
      ...again<Asked>("{ price }", "executed served"),
    ),
  ],
  ["stores no response with an error", again("{ price broken }", "executed executed")],
  ["stores no response without data", again("{ missing }", "executed executed")],
  ["stores no response of a mutation, whatever its hint says", again("mutation { order }", "executed executed")],
];

describe.each(CACHES)("%s", (cache) => {
  it.each(ALIKE)("%s", async (_, steps) => {
    expect(await takeSteps(open(cache), steps)).toEqual(steps);
  });

  it.each([
    ["{ price }", {}, "max-age=10, public"],
    ["{ price }", ANN, "max-age=10, public"],
    ["{ basket }", {}, "max-age=9, private"],
    ["{ basket }", ANN, "max-age=9, private"],
    ["{ price visits }", {}, "no-store"],
  ])(
    "says how long and for whom %s may be kept, executed or served at once, to %j",
    async (query, context, expected) => {
      const { ask } = open(cache);
      const headers = [await ask(query, context as Asked), await ask(query, context as Asked)];
      expect(headers.map(({ cacheControl }) => cacheControl)).toEqual([expected, expected]);
    },
  );

  it("tells other plugins whether a response has come from the cache", async () => {
    const told: unknown[] = [];
    const plugin: Plugin = {
      requestDidStart: async () => ({
        willSendResponse: async ({ metrics }) => void told.push(metrics.responseCacheHit),
      }),
    };
    const { ask } = open(cache, { plugins: [plugin] });
    for (const query of ["{ price }", "{ price }", "{ visits }", "mutation { order }"]) await ask(query);
    expect(told).toEqual([false, true, false, false]);
  });

  it("shows other plugins the policy of a stored response, as that of its execution", async () => {
    const policies: unknown[] = [];
    const plugin: Plugin = {
      requestDidStart: async () => ({
        willSendResponse: async ({ overallCachePolicy }) => void policies.push(overallCachePolicy.policyIfCacheable()),
      }),
    };
    const { ask } = open(cache, { plugins: [plugin] });
    for (const _ of [1, 2]) await ask("{ basket }", ANN);
    expect(policies).toEqual([
      { maxAge: 9, scope: "PRIVATE" },
      { maxAge: 9, scope: "PRIVATE" },
    ]);
  });
});

type Outcomes = Parameters<typeof withOutcomes>[1];

/** Returns the steps of asking one question after the other. */
const asking = (...asked: readonly (string | readonly [string, Asked])[]): readonly Step<Asked>[] =>
  asked.map((one) => (typeof one === "string" ? [one, "executed"] : [one[0], "executed", one[1]]));

/** What both do at the same steps: Apollo's response cache, then graphql-cached. */
const DIFFERENT: readonly (readonly [string, readonly Step<Asked>[], Outcomes, Outcomes])[] = [
  [
    "serves a response to another spelling of its query, which has a response of its own there",
    asking("{ price }", "{   price   }", "# of the shop\n{ price }"),
    ["executed", "executed", "executed"],
    ["executed", "served", "served"],
  ],
  [
    "serves a response to an id that is spelled as a number, which has a response of its own there",
    (["1", 1] as const).map((of) => ["query ($of: ID) { price(of: $of) }", "executed", {}, { of }]),
    ["executed", "executed"],
    ["executed", "served"],
  ],
  [
    "stores no response for a caller without a value for an extra part of the key, which is a value of its own there",
    asking(["{ price }", { locale: null }], ["{ price }", { locale: null }]),
    ["executed", "served"],
    ["executed", "executed"],
  ],
  [
    "takes a response for PRIVATE if a type behind a union is",
    asking("{ found { ... on Note { text } } }", "{ found { ... on Note { text } } }"),
    ["executed", "served"],
    ["executed", "executed"],
  ],
  [
    "stores a response whose hint is set by its resolver alone from the second execution on",
    asking("{ offer }", "{ offer }", "{ offer }"),
    ["executed", "served", "served"],
    ["executed", "executed", "served"],
  ],
  [
    "learns at the first execution that a response is PRIVATE by a hint of its resolver, and keeps it for its session from then on",
    asking(...[ANN, ANN, ANN, BOB, BOB].map((context) => ["{ offer(isOwn: true) }", context] as const)),
    ["executed", "served", "served", "executed", "served"],
    ["executed", "executed", "executed", "executed", "served"],
  ],
];

describe("unlike Apollo's response cache, graphql-cached", () => {
  it.each(DIFFERENT)("%s", async (_, asked, theirs, ours) => {
    for (const [cache, outcomes] of [
      [CACHES[0], theirs],
      [CACHES[1], ours],
    ] as const)
      expect(await takeSteps(open(cache), asked), cache).toEqual(withOutcomes(asked, outcomes));
  });

  it("sends what is left of a maxAge with a hit, in place of all of it and a header Age", async () => {
    const headers: unknown[] = [];
    for (const cache of CACHES) {
      const { ask, clock } = open(cache);
      await ask("{ price }");
      await clock.advance(4_000);
      headers.push((await ask("{ price }")).cacheControl);
    }
    expect(headers).toEqual(["max-age=10, public", "max-age=6, public"]);
  });

  it("executes the requests that ask for an operation at once only once", async () => {
    const counts: number[] = [];
    for (const cache of CACHES) {
      const { ask, executions } = open(cache);
      await Promise.all([1, 2, 3].map(() => ask("{ price }")));
      counts.push(executions());
    }
    expect(counts).toEqual([3, 1]);
  });
});

it("says once that responses with a PRIVATE field are not stored without `identify`, as Apollo's response cache says without sessionId", async () => {
  const lines: string[] = [];
  const logger = { info: () => undefined, warn: (line: string) => void lines.push(line) };
  const { ask, executions } = open("graphql-cached", { cache: { identify: undefined, logger } });
  for (const _ of [1, 2, 3]) await ask("{ basket }");
  expect(executions()).toBe(3);
  expect(lines).toEqual([expect.stringMatching(/responses of one caller are not stored.*`identify`/)]);
});

const failing = (): never => {
  throw new Error("no session");
};

describe.each(SERVERS)("on %s", (server) => {
  it.each<[string, (context: Context) => unknown]>([
    ["returns a promise, as sessionId did", async ({ user }) => user],
    ["throws", failing],
    ["returns a number that may be rounded", () => 2 ** 60],
    ["returns the text of a missing value", () => `user:${undefined}`],
  ])(
    "stores nothing for guests that could be of a caller with a session if `identify` %s, and says so once",
    async (_, identify) => {
      const { ask, lines } = openSite({
        typeDefs: "type Query { me: String @cacheControl(maxAge: 60) }",
        resolvers: { Query: { me: (_: unknown, __: unknown, { user }: Context) => user ?? "guest" } },
        server,
        responses: { scope: "PRIVATE", guests: "PUBLIC" },
        cache: { identify } as never,
      });
      for (const user of ["ann", "bob"]) expect((await ask("{ me }", { user })).data).toEqual({ me: user });
      expect((await ask("{ me }")).data).toEqual({ me: "guest" });
      expect(lines).toEqual([expect.stringMatching(/responses of one caller are not stored.*`identify`/)]);
    },
  );
});
