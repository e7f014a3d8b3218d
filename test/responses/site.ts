import { ApolloServer, type ApolloServerOptions } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, parse, validate } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
  type Cache,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
  type ResponsesOptions,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import type { Store } from "graphql-cached/store";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { onTestFinished, vi } from "vitest";
import { Admission } from "../../src/core/responses/admission.js";

/** What a resolver can read of a request. Tests add what they need. */
export interface Context {
  readonly user?: string;
  readonly locale?: string;
  /** For `cache.override`. */
  readonly override?: "BYPASS" | "REFRESH";
  readonly [name: string]: unknown;
}

export interface Answer {
  readonly data?: Readonly<Record<string, unknown>> | null;
  readonly errors?: readonly { readonly message: string; readonly path?: readonly unknown[] }[];
  readonly extensions?: Readonly<Record<string, unknown>>;
  /** The header Cache-Control, on Apollo Server. */
  readonly cacheControl?: string | undefined;
}

export type Ask = (query: string, context?: Context, variables?: Readonly<Record<string, unknown>>) => Promise<Answer>;

/** The servers that keep responses. */
export const SERVERS = ["Apollo Server", "GraphQL Yoga", "cache.execute"] as const;
export type ServerName = (typeof SERVERS)[number];

export const HINTS = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
`;

export interface SiteOptions {
  readonly typeDefs: string;
  readonly resolvers?: object | ((cache: Cache<Context>) => object);
  /** Default: `cache.execute`. */
  readonly server?: ServerName;
  readonly responses?: boolean | ResponsesOptions;
  readonly cache?: CacheOptions<Context>;
  readonly store?: Store;
  readonly clock?: FakeClock;
  /** Plugins after that of the cache. */
  readonly plugins?: readonly unknown[];
  readonly applied?: ApplyCachedOptions;
  /** Whether each operation counts as asked for before, so that its first response is stored. Default: true. */
  readonly knowsOperations?: boolean;
  /** Whether the cache is closed when the test is over. Default: true. */
  readonly closes?: boolean;
}

/** For the rest of a test, each operation counts as asked for before, so that its first response is stored. */
export function knowOperations(): void {
  const known = vi.spyOn(Admission.prototype, "isKnown").mockReturnValue(true);
  onTestFinished(() => known.mockRestore());
}

/** What a server is made of. */
export interface Site {
  readonly cache: Cache<Context>;
  readonly schema: GraphQLSchema;
}

interface ServerPlugins {
  readonly responses?: boolean | ResponsesOptions;
  /** Plugins before that of the cache, and after it. */
  readonly before?: readonly unknown[];
  readonly after?: readonly unknown[];
  /** In place of the plugin of the cache. */
  readonly own?: readonly unknown[];
}

/** Opens Apollo Server for the schema of a site. */
export function apolloOf(
  { cache, schema }: Site,
  {
    responses = true,
    before = [],
    after = [],
    own = [cachedPlugin(cache, { responses, allow: () => true })],
    ...options
  }: ServerPlugins & Partial<ApolloServerOptions<Context>> = {},
): ApolloServer<Context> {
  const plugins = [...before, ...own, ...after] as never[];
  const server = new ApolloServer<Context>({ schema, ...options, plugins } as ApolloServerOptions<Context>);
  onTestFinished(() => server.stop().catch(() => undefined));
  return server;
}

/** Executes an operation on Apollo Server. Returns the result, with the head of the response. */
export async function askApollo(server: ApolloServer<Context>, query: string, contextValue: Context = {}, more = {}) {
  const { body, http } = await server.executeOperation({ query, ...more }, { contextValue });
  await settle();
  return { ...((body.kind === "single" ? body.singleResult : {}) as Answer), http };
}

/** Opens GraphQL Yoga for the schema of a site. */
export function yogaOf(
  { cache, schema }: Site,
  {
    responses = true,
    before = [],
    after = [],
    own = [useCached(cache, { responses, allow: () => true })],
    ...options
  }: ServerPlugins & { readonly context?: (initial: { request: Request }) => object; [option: string]: unknown } = {},
) {
  const plugins = [...before, ...own, ...after] as never[];
  const yoga = createYoga({ schema, logging: false, ...options, plugins } as never);
  onTestFinished(() => void yoga.dispose());
  return yoga;
}

/** Sends a body to GraphQL Yoga. Returns the text of the response. */
export async function postYoga(
  yoga: Pick<ReturnType<typeof yogaOf>, "fetch">,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  const response = await yoga.fetch("http://localhost/graphql", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  await settle();
  return text;
}

/** One process: a server with a cache that keeps responses. */
export function openSite(options: SiteOptions) {
  const { typeDefs, resolvers = {}, responses = true, clock = new FakeClock(), plugins = [] } = options;
  if (options.knowsOperations !== false) knowOperations();
  const [lines, infos]: [string[], string[]] = [[], []];
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store: options.store ?? memoryStore({ clock }),
    testing: { clock },
    logger: { warn: (line) => lines.push(line), info: (line) => infos.push(line) },
    identify: ({ user }) => user,
    ...options.cache,
    defaults: { jitter: 0, earlyRefresh: 0, ...options.cache?.defaults },
  });
  if (options.closes !== false) onTestFinished(() => cache.close());
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, HINTS, typeDefs],
      resolvers: (typeof resolvers === "function" ? resolvers(cache) : resolvers) as never,
    }),
    cache,
    options.applied,
  );
  /** Calls `cache.execute` with the context as it is, and returns the data. */
  const execute = async (query: string, contextValue: object = {}, stored?: ResponsesOptions) => {
    const args = { schema, document: parse(query), contextValue: contextValue as Context };
    const { data } = await cache.execute(args, ...(stored === undefined ? [] : [stored]));
    await settle();
    return data;
  };
  return { cache, clock, schema, lines, infos, execute, ask: askOf(options.server ?? "cache.execute") };

  function askOf(name: ServerName): Ask {
    if (name === "Apollo Server") {
      const apollo = apolloOf({ cache, schema }, { responses, after: plugins });
      return async (query, { override = true, ...context } = {}, variables = {}) => {
        const more = { variables, extensions: { cached: override } };
        const { http, ...answer } = await askApollo(apollo, query, context, more);
        return { ...answer, cacheControl: http.headers.get("cache-control") };
      };
    }
    if (name === "GraphQL Yoga") {
      let next: Context = {};
      const overriding = {
        onExecute: ({ args }: { args: { contextValue: Context } }) => {
          if (next.override !== undefined) cache.override(args.contextValue, next.override);
        },
      };
      const context = () => {
        const { override: _, ...own } = next;
        return own;
      };
      const yoga = yogaOf(
        { cache, schema },
        { responses, maskedErrors: false, context, before: [overriding], after: plugins },
      );
      return async (query, context = {}, variables = {}) => {
        next = context;
        return JSON.parse(await postYoga(yoga, { query, variables, extensions: { cached: true } })) as Answer;
      };
    }
    const stored = responses === true ? [] : [responses as ResponsesOptions];
    return async (query, { override, ...contextValue } = {}, variableValues = {}) => {
      if (override !== undefined) cache.override(contextValue, override);
      const document = parse(query);
      const [mistake] = validate(schema, document);
      if (mistake !== undefined) throw mistake;
      const result = await cache.execute({ schema, document, contextValue, variableValues }, ...stored);
      await settle();
      return JSON.parse(JSON.stringify(result)) as Answer;
    };
  }
}
