import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, parse, validate } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
  type Cache,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
} from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { onTestFinished } from "vitest";

export interface SubtreeContext {
  readonly user?: string;
  readonly locale?: string;
}

export interface Answer {
  readonly data?: Readonly<Record<string, unknown>> | null;
  readonly errors?: readonly {
    readonly message: string;
    readonly path?: readonly unknown[];
    readonly locations?: readonly object[];
  }[];
}

/** Executes one request, and settles what it has left to do. */
export type Ask = (query: string, context?: object, variables?: Readonly<Record<string, unknown>>) => Promise<Answer>;

export interface SubtreeSite {
  readonly cache: Cache<SubtreeContext>;
  readonly clock: FakeClock;
  readonly schema: GraphQLSchema;
  readonly events: CacheEvent[];
  readonly warnings: string[];
  /** What the store has been given, by the coordinate of the field. */
  readonly ask: Ask;
  /** Executes with another schema, such as one that was made of the first. */
  askOf(schema: GraphQLSchema): Ask;
  /** The reasons of `subtree.skipped`, each with its subject. */
  skipped(): string[];
}

export interface SubtreeSiteOptions {
  readonly typeDefs: string;
  readonly resolvers: object;
  readonly cache?: CacheOptions<SubtreeContext>;
  readonly store?: Store;
  readonly clock?: FakeClock;
  readonly applied?: ApplyCachedOptions;
}

/** Values never expire early, so that ages are exact. */
export const EXACT = { jitter: 0, earlyRefresh: 0 };

/** Opens one process that executes operations with `cache.execute`, whose fields with `subtree: true` have entries of their selections. */
export function openSubtrees({ typeDefs, resolvers, applied, ...options }: SubtreeSiteOptions): SubtreeSite {
  const { clock = new FakeClock() } = options;
  const events: CacheEvent[] = [];
  const warnings: string[] = [];
  const cache = createCache<SubtreeContext>({
    store: options.store ?? memoryStore({ clock }),
    testing: { clock },
    logger: { warn: (line) => void warnings.push(line), info: () => undefined },
    identify: ({ user }) => user,
    onEvent: (event) => events.push(event),
    ...options.cache,
    defaults: { ...EXACT, ...options.cache?.defaults },
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: resolvers as never }),
    cache,
    applied,
  );
  const askOf =
    (executed: GraphQLSchema): Ask =>
    async (query, contextValue = {}, variableValues = {}) => {
      const document = parsed(executed, query);
      const result = await cache.execute({ schema: executed, document, contextValue, variableValues }, false);
      await settle();
      return JSON.parse(JSON.stringify(result)) as Answer;
    };
  return {
    ...{ cache, clock, schema, events, warnings, askOf, ask: askOf(schema) },
    skipped: () =>
      events.flatMap((event) => (event.name === "subtree.skipped" ? [`${event.reason} ${event.subject}`] : [])),
  };
}

/** Servers parse a document once, and keep it. */
const documents = new WeakMap<GraphQLSchema, Map<string, ReturnType<typeof parse>>>();

function parsed(schema: GraphQLSchema, query: string): ReturnType<typeof parse> {
  const known = documents.get(schema) ?? new Map<string, ReturnType<typeof parse>>();
  documents.set(schema, known);
  let document = known.get(query);
  if (document === undefined) {
    document = parse(query);
    const [mistake] = validate(schema, document);
    if (mistake !== undefined) throw mistake;
    known.set(query, document);
  }
  return document;
}
