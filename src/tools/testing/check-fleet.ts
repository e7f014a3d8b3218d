import { randomUUID } from "node:crypto";
import { type ExecutionResult, execute, type GraphQLSchema } from "graphql";
import { type Cache, createCache } from "../../cache.js";
import { type CachedError, describeSetting } from "../../core/base/errors.js";
import { partsOf } from "../../core/parts.js";
import type { Store } from "../../core/store/store.js";
import type { CacheOptions } from "../../options.js";
import { memoryStore } from "../../stores/memory/memory-store.js";
import { LoadCounter } from "./load-counter.js";
import { invalid, type PreparedQuery } from "./test-query.js";

/** Several caches over one store, each with a schema of its own, as several processes have them. */
export class CheckFleet<Context> {
  readonly record: LoadCounter;
  readonly processes: readonly CheckProcess<Context>[];
  readonly #caller: string;
  readonly #contexts = new WeakSet<object>();

  private constructor(caller: string, processes: readonly CheckProcess<Context>[], record: LoadCounter) {
    this.#caller = caller;
    this.processes = processes;
    this.record = record;
  }

  /** Runs `check` with a new fleet, and closes the caches when it has ended. */
  static async use<Context, Result>(
    caller: string,
    createSchema: SchemaFactory<Context>,
    { cache: given = {}, store }: CheckOptions<Context>,
    count: number,
    check: (fleet: CheckFleet<Context>) => Promise<Result>,
  ): Promise<Result> {
    if (typeof createSchema !== "function")
      throw invalid(
        `${caller}: expected a function that returns the schema for a cache as the first argument, got ${describeSetting(createSchema)}; pass (cache) => applyCached(schema, cache)`,
      );
    const record = new LoadCounter();
    const prefix = `check-${randomUUID()}`;
    const shared = store === undefined ? memoryStore() : undefined;
    const caches: Cache<Context>[] = [];
    try {
      const processes: CheckProcess<Context>[] = [];
      for (let nth = 0; nth < count; nth++) {
        const cache = createCache<Context>({
          ...given,
          // A busy machine must not look like an outage, and no entry is refreshed by chance.
          storage: { storeTimeoutMs: 5_000, ...given.storage },
          testing: { random: () => 0.5, ...given.testing },
          store: shared ?? store?.(),
          prefix,
          onEvent: (event) => {
            record.add(event);
            given.onEvent?.(event);
          },
        });
        caches.push(cache);
        processes.push({ cache, schema: await createSchema(cache) });
        const { rules, loaders } = partsOf(cache, caller);
        if (rules.isEmpty && loaders.size === 0)
          throw invalid(
            `${caller}: expected a schema to which the given cache was applied, got one without it; return applyCached(schema, cache)`,
          );
      }
      return await check(new CheckFleet(caller, processes, record));
    } finally {
      await Promise.all(caches.map((cache) => cache.close()));
    }
  }

  get first(): CheckProcess<Context> {
    return this.processes[0] as CheckProcess<Context>;
  }

  /** Executes a query in one process, with a new context. `isUncached`: without the cache. */
  async run(
    { cache, schema }: CheckProcess<Context>,
    query: PreparedQuery,
    createContext: ContextFactory<Context>,
    isUncached = false,
  ): Promise<ExecutionResult> {
    const contextValue = await createContext(cache);
    if (typeof contextValue !== "object" || contextValue === null)
      throw this.#mistake(`expected a function that returns a context object, got ${describeSetting(contextValue)}`);
    if (this.#contexts.has(contextValue))
      throw this.#mistake(
        "expected a function that returns a new context for each request, got the same object again; create it in the function",
      );
    this.#contexts.add(contextValue);
    if (isUncached) cache.override(contextValue, "BYPASS");
    const { document, variables, operationName } = query;
    return execute({ schema, document, variableValues: variables, operationName, contextValue });
  }

  /** Resolves when everything that was loaded has been stored. */
  async settled(): Promise<void> {
    for (const { cache } of this.processes) await partsOf(cache, this.#caller).drain();
  }

  #mistake(mistake: string): CachedError {
    return invalid(`${this.#caller}: context: ${mistake}`);
  }
}

/** Creates the schema of one process, as your server does: the result of `applyCached(schema, cache)`. */
export type SchemaFactory<Context> = (cache: Cache<Context>) => GraphQLSchema | PromiseLike<GraphQLSchema>;

/** Creates the context of one request: a new object for each. */
export type ContextFactory<Context> = (cache: Cache<Context>) => Context | PromiseLike<Context>;

/** Options of all checks of a schema. */
export interface CheckOptions<Context> {
  /** Options of the caches, as your server passes them to `createCache`. Default: none. */
  readonly cache?: Omit<CacheOptions<Context>, "store" | "prefix"> | undefined;
  /**
   * Returns the store of one process. All of them must lead to the same entries. The names of these begin with a
   * prefix that no other check uses. Default: one memory store for all processes of a check.
   */
  readonly store?: (() => Store) | undefined;
}

/** One process: a cache, and a schema that uses it. */
export interface CheckProcess<Context> {
  readonly cache: Cache<Context>;
  readonly schema: GraphQLSchema;
}
