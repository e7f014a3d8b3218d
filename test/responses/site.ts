import { ApolloServer } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse, validate } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
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

export interface Context {
  readonly user?: string;
  readonly locale?: string;
  /** For `cache.override`. */
  readonly override?: "BYPASS" | "REFRESH";
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
  readonly resolvers: Readonly<Record<string, unknown>>;
  readonly server: ServerName;
  readonly responses?: boolean | ResponsesOptions;
  readonly cache?: CacheOptions<Context>;
  readonly store?: Store;
  readonly clock?: FakeClock;
  readonly plugins?: readonly unknown[];
  readonly applied?: ApplyCachedOptions;
  /** Whether each operation counts as asked for before, so that its first response is stored. Default: true. */
  readonly knowsOperations?: boolean;
}

/** For the rest of a test, each operation counts as asked for before, so that its first response is stored. */
export function knowOperations(): void {
  const known = vi.spyOn(Admission.prototype, "isKnown").mockReturnValue(true);
  onTestFinished(() => known.mockRestore());
}

/** One process: a server with a cache that keeps responses. */
export function openSite(options: SiteOptions) {
  const { typeDefs, resolvers, server, responses = true, clock = new FakeClock(), plugins = [] } = options;
  if (options.knowsOperations !== false) knowOperations();
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store: options.store ?? memoryStore({ clock }),
    testing: { clock },
    logger: { warn: () => undefined, info: () => undefined },
    identify: ({ user }) => user,
    ...options.cache,
    defaults: { jitter: 0, earlyRefresh: 0, ...options.cache?.defaults },
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, typeDefs], resolvers: resolvers as never }),
    cache,
    options.applied,
  );
  return { cache, clock, schema, ask: askOf(server) };

  /** Returns a context of its own for a request. What it has is the same with and without an override. */
  function contextOf({ override, ...context }: Context): Context {
    if (override !== undefined) cache.override(context, override);
    return context;
  }

  function askOf(name: ServerName): Ask {
    if (name === "Apollo Server") {
      const apollo = new ApolloServer<Context>({
        schema,
        plugins: [cachedPlugin(cache, { responses, allow: () => true }), ...(plugins as never[])],
      });
      onTestFinished(() => apollo.stop().catch(() => undefined));
      return async (query, { override = true, ...contextValue } = {}, variables = {}) => {
        const request = { query, variables, extensions: { cached: override } };
        const response = await apollo.executeOperation(request, { contextValue });
        await settle();
        const result = response.body.kind === "single" ? response.body.singleResult : {};
        return { ...(result as Answer), cacheControl: response.http.headers.get("cache-control") };
      };
    }
    if (name === "GraphQL Yoga") {
      let next: Context = {};
      const yoga = createYoga({
        schema,
        logging: false,
        maskedErrors: false,
        context: () => {
          const { override: _, ...context } = next;
          return context;
        },
        plugins: [
          {
            onExecute: ({ args }: { args: { contextValue: Context } }) => {
              if (next.override !== undefined) cache.override(args.contextValue, next.override);
            },
          },
          useCached(cache, { responses, allow: () => true }) as never,
          ...(plugins as never[]),
        ],
      });
      onTestFinished(() => void yoga.dispose());
      return async (query, context = {}, variables = {}) => {
        next = context;
        const response = await yoga.fetch("http://localhost/graphql", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ query, variables, extensions: { cached: true } }),
        });
        await settle();
        return (await response.json()) as Answer;
      };
    }
    const stored = responses === true ? undefined : (responses as ResponsesOptions);
    return async (query, context = {}, variables = {}) => {
      const document = parse(query);
      const [mistake] = validate(schema, document);
      if (mistake !== undefined) throw mistake;
      const result = await cache.execute(
        { schema, document, contextValue: contextOf(context), variableValues: variables },
        ...(stored === undefined ? [] : [stored]),
      );
      await settle();
      return JSON.parse(JSON.stringify(result)) as Answer;
    };
  }
}
