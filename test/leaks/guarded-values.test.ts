import { makeExecutableSchema } from "@graphql-tools/schema";
import { MapperKind, mapSchema } from "@graphql-tools/utils";
import { defaultFieldResolver, type GraphQLSchema, graphql, versionInfo } from "graphql";
import { applyCached, type CacheEvent, cachedTypeDefs, createCache } from "graphql-cached";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { applyMiddleware, rule, shield } from "../support/graphql-shield.js";
import {
  authorized,
  type BuildGuarded,
  type Caller,
  forgetTypeGraphQL,
  nexusAuthorize,
  pothos,
} from "../support/guarded-schemas.js";

/** The versions of graphql that libraries accept. */
const isForNexus = versionInfo.major < 17;
const isForTypeGraphQL = versionInfo.major === 16 && versionInfo.minor >= 12;

const LIBRARIES: Readonly<Record<string, BuildGuarded>> = {
  "authScopes of Pothos on a field": pothos("field"),
  "authScopes of Pothos with withAuth": pothos("withAuth"),
  "authScopes of Pothos on the query type": pothos("query type"),
  "authScopes of Pothos on an interface": pothos("interface"),
  ...(isForNexus && { "authorize of Nexus": nexusAuthorize }),
  ...(isForTypeGraphQL && {
    "@Authorized of TypeGraphQL on a method": authorized("method"),
    "@Authorized of TypeGraphQL on a class": authorized("class"),
  }),
};

afterEach(forgetTypeGraphQL);

const ADMIN: Caller = { userId: "ann", isAdmin: true };
const OTHER_ADMIN: Caller = { userId: "bea", isAdmin: true };
const USER: Caller = { userId: "carl" };
const GUEST: Caller = {};
const REFUSED = "refused";

function createSite() {
  const events: CacheEvent[] = [];
  const warn = vi.fn<(message: string) => void>();
  const cache = createCache<Caller>({
    defaultScope: "PUBLIC",
    identify: ({ userId }) => userId,
    privacy: { warnOnContextReads: false },
    onEvent: (event) => events.push(event),
    logger: { info: () => undefined, warn },
  });
  onTestFinished(() => cache.close());
  let loads = 0;
  return { cache, events, warn, load: () => `secret ${++loads}` };
}

async function ask(schema: GraphQLSchema, caller: Caller): Promise<unknown> {
  const hasVault = schema.getQueryType()?.getFields().vault !== undefined;
  const source = hasVault ? "{ vault { secret } }" : "{ secret }";
  const { data, errors } = await graphql({ schema, source, contextValue: { ...caller } });
  // What was stored is read by the next request.
  await new Promise((resolve) => setImmediate(resolve));
  const holder = (hasVault ? data?.vault : data) as { secret?: unknown } | null | undefined;
  return errors === undefined ? holder?.secret : REFUSED;
}

/** Returns the code and message of the error that `run` throws. */
function errorOf(run: () => unknown): { readonly code?: unknown; readonly message: string } {
  try {
    run();
  } catch (error) {
    return error as Error;
  }
  return { message: "none" };
}

it.each(Object.entries(LIBRARIES))(
  "a value that is guarded by %s is not cached without a scope: the schema is refused",
  async (_, build) => {
    const { cache, load } = createSite();
    const schema = await build({ resolve: load, cached: { maxAge: 60 } });
    const { code, message } = errorOf(() => applyCached(schema, cache));
    expect(code).toBe("CACHED_SCOPE_MISSING");
    expect(message).toContain(
      "got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the field",
    );
    const copy = mapSchema(schema, { [MapperKind.OBJECT_FIELD]: (field) => ({ ...field }) });
    expect(errorOf(() => applyCached(copy, cache)).code).toBe("CACHED_SCOPE_MISSING");
  },
);

describe.each(Object.entries(LIBRARIES))("a value that is guarded by %s", (_, build) => {
  it("is cached with the scope PRIVATE for each caller who may see it, and for no other", async () => {
    const { cache, load } = createSite();
    const schema = applyCached(await build({ resolve: load, cached: { maxAge: 60, scope: "PRIVATE" } }), cache);
    const callers = [ADMIN, GUEST, ADMIN, USER, OTHER_ADMIN, GUEST, OTHER_ADMIN, USER];
    const answers = [];
    for (const caller of callers) answers.push(await ask(schema, caller));
    expect(answers).toEqual(["secret 1", REFUSED, "secret 1", REFUSED, "secret 2", REFUSED, "secret 2", REFUSED]);
  });

  it("is shared only by callers who may see it, if the resolver reads it with a loader", async () => {
    const { cache, load } = createSite();
    const secrets = cache.loader<string, string, Caller>({
      name: "Secret",
      maxAge: 60,
      batch: async (ids) => ids.map(load),
    });
    const resolve = (_: unknown, __: object, context: Caller) => secrets(context).load("the one");
    const schema = await build({ resolve, cached: undefined });
    const answers = [];
    for (const caller of [GUEST, ADMIN, GUEST, OTHER_ADMIN, USER]) answers.push(await ask(schema, caller));
    expect(answers).toEqual([REFUSED, "secret 1", REFUSED, "secret 1", REFUSED]);
  });
});

describe("a value that is guarded by graphql-shield", () => {
  const isAdmin = rule({ cache: "contextual" })((_parent, _args, context: Caller) => context.isAdmin === true);
  const permissions = () => shield({ Query: { secret: isAdmin } });
  const typeDefs = [cachedTypeDefs, "type Query { secret: String @cached(maxAge: 60) open: String }"];
  const open = () => "open";
  const copied = (schema: GraphQLSchema) => mapSchema(schema, { [MapperKind.OBJECT_FIELD]: (field) => ({ ...field }) });
  /** Leaves nothing of the text of the resolvers, as a bundler does. */
  const bundled = (schema: GraphQLSchema) =>
    mapSchema(schema, {
      [MapperKind.OBJECT_FIELD]: (field) => {
        const { resolve = defaultFieldResolver } = field;
        return { ...field, resolve: (parent, args, context, info) => resolve(parent, args, context, info) };
      },
    });
  const schemaOf = (secret: (...args: never[]) => unknown) =>
    makeExecutableSchema({ typeDefs, resolvers: { Query: { secret: secret as () => unknown, open } } });

  it("is shared only by callers who may see it, if the permissions are applied after the cache", async () => {
    const { cache, load, events } = createSite();
    for (const schema of [
      applyMiddleware(applyCached(schemaOf(load), cache), permissions()),
      bundled(copied(applyMiddleware(applyCached(schemaOf(load), cache), permissions()))),
    ]) {
      const answers = [];
      for (const caller of [GUEST, ADMIN, GUEST, OTHER_ADMIN]) answers.push(await ask(schema, caller));
      expect(answers).toEqual([REFUSED, "secret 1", REFUSED, "secret 1"]);
    }
    expect(events.filter(({ name }) => name === "value.refused")).toEqual([]);
  });

  it("is cached for each caller who may see it, if they are applied before and the scope is PRIVATE", async () => {
    const { cache, load } = createSite();
    const own = [cachedTypeDefs, "type Query { secret: String @cached(maxAge: 60, scope: PRIVATE) }"];
    const guarded = makeExecutableSchema({ typeDefs: own, resolvers: { Query: { secret: load } } });
    const schema = applyCached(applyMiddleware(guarded, permissions()), cache);
    const answers = [];
    for (const caller of [ADMIN, GUEST, USER, ADMIN, OTHER_ADMIN, USER]) answers.push(await ask(schema, caller));
    expect(answers).toEqual(["secret 1", REFUSED, REFUSED, "secret 1", "secret 2", REFUSED]);
  });

  it("is cached with a context that cannot be changed", async () => {
    const { cache, load } = createSite();
    const schema = applyCached(schemaOf(load), cache);
    for (const contextValue of [Object.freeze({ _shield: { cache: {} } }), Object.freeze({}), undefined, "text"]) {
      expect((await graphql({ schema, source: "{ secret }", contextValue })).data).toEqual({ secret: "secret 1" });
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
});
