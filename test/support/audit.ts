import type { GraphQLObjectType, GraphQLSchema } from "graphql";
import type { CacheEvent } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { expect } from "vitest";
import type { BypassReason } from "../../src/core/telemetry/events.js";
import { overrideStore } from "./override-store.js";

type Resolver = (source: unknown, args: unknown, context: unknown, info: Info) => unknown;
/** The variable values are a new object for each execution. */
interface Info {
  readonly variableValues: object;
}

/**
 * Checks what a cache reports against what was observed outside of it: requests and loads are
 * counted at the resolvers, leases in the store.
 */
export class Audit {
  #leases = 0;
  /** Finished requests of each cached field, by execution. */
  readonly #requests = new Map<string, Map<object, number>>();
  /** Calls of the resolvers below the cache. */
  readonly #calls = new Map<string, number>();

  /** Counts the leases that the store grants. */
  watchStore(store: Store | undefined): Store | undefined {
    if (store === undefined) return undefined;
    return overrideStore(store, {
      acquire: async (...args) => {
        const grants = await store.acquire(...args);
        this.#leases += grants.filter(({ kind }) => kind === "granted").length;
        return grants;
      },
    });
  }

  /** Counts the calls of the resolvers that are given to a schema. */
  watchSources(resolvers: object): object {
    const watched: Record<string, unknown> = { ...resolvers };
    for (const [type, fields] of Object.entries(resolvers)) {
      if (typeof fields !== "object" || fields === null || Object.getPrototypeOf(fields) !== Object.prototype) continue;
      const own: Record<string, unknown> = { ...fields };
      for (const [field, resolve] of Object.entries(fields as Record<string, unknown>)) {
        if (typeof resolve !== "function" || field.startsWith("__")) continue;
        const coordinate = `${type}.${field}`;
        this.#calls.set(coordinate, 0);
        own[field] = (...args: unknown[]): unknown => {
          this.#calls.set(coordinate, (this.#calls.get(coordinate) ?? 0) + 1);
          return (resolve as (...all: unknown[]) => unknown)(...args);
        };
      }
      watched[type] = own;
    }
    return watched;
  }

  /** Counts the requests of cached fields, above the cache, when they have finished. */
  watchRequests(schema: GraphQLSchema, coordinates: readonly string[]): void {
    for (const coordinate of coordinates) {
      const [type = "", name = ""] = coordinate.split(".");
      const field = (schema.getType(type) as GraphQLObjectType).getFields()[name];
      const resolve = field?.resolve as Resolver | undefined;
      if (field === undefined || resolve === undefined) continue;
      const byExecution = new Map<object, number>();
      this.#requests.set(coordinate, byExecution);
      const count = ({ variableValues }: Info): void =>
        void byExecution.set(variableValues, (byExecution.get(variableValues) ?? 0) + 1);
      const watched: Resolver = (source, args, context, info) => {
        const result = resolve(source, args, context, info);
        if (!(result instanceof Promise)) count(info);
        else void result.catch(() => undefined).finally(() => count(info));
        return result;
      };
      // Keeps the mark by which applyCached recognises its resolvers.
      Object.defineProperties(watched, Object.getOwnPropertyDescriptors(resolve));
      field.resolve = watched as never;
    }
  }

  /** Fails unless the events account for every request, call and lease. */
  check(events: readonly CacheEvent[]): void {
    const countOf = (coordinate: string, isCounted: (event: CacheEvent) => boolean): number =>
      events.filter((event) => "coordinate" in event && event.coordinate === coordinate && isCounted(event)).length;
    for (const [coordinate, byExecution] of this.#requests) {
      const reads = countOf(coordinate, ({ name }) => name === "entry.served" || name === "resolver.bypassed");
      const requests = [...byExecution.values()].reduce((sum, count) => sum + count, 0);
      // Requests of one execution for the same key are one read.
      expect(reads, `reads of ${coordinate}`).toBeGreaterThanOrEqual(byExecution.size);
      expect(reads, `reads of ${coordinate}`).toBeLessThanOrEqual(requests);
      const calls = this.#calls.get(coordinate);
      if (calls === undefined) continue;
      const loads = countOf(coordinate, ({ name }) => name === "load.started");
      const isRestricted = (event: CacheEvent): boolean =>
        event.name === "resolver.bypassed" && event.reason.startsWith("MODE_");
      const untracked = countOf(
        coordinate,
        (event) => event.name === "resolver.bypassed" && CALLS_SOURCE[event.reason] && !isRestricted(event),
      );
      // A private load whose identity has changed before it begins does not reach its source.
      const withoutCall = countOf(
        coordinate,
        (event) =>
          event.name === "load.failed" &&
          (event.error as { code?: unknown } | undefined)?.code === "CACHED_IDENTITY_CHANGED",
      );
      // Some of them are reported as loads: under a lease, or of a read during which the mode has changed.
      const restricted = countOf(coordinate, isRestricted);
      expect(calls, `loads of ${coordinate}`).toBeLessThanOrEqual(loads + untracked + restricted);
      expect(calls, `loads of ${coordinate}`).toBeGreaterThanOrEqual(loads + untracked - withoutCall);
    }
    const loaded = events.filter((event) => event.name === "entry.served" && event.outcome === "loaded").length;
    expect(loaded, "reads that loaded under a lease").toBeLessThanOrEqual(this.#leases);
  }
}

/**
 * Whether a read that has bypassed the cache for this reason calls its source without a load, so that no `load.started` says so. Those of a mode
 * can have both, if the mode has changed during the read.
 */
const CALLS_SOURCE: Readonly<Record<BypassReason, boolean>> = {
  KEY_UNUSABLE: true,
  NO_IDENTITY: true,
  UNCACHEABLE: false,
  WRITE_IN_PROGRESS: false,
  STORE_UNAVAILABLE: false,
  WAIT_TIMEOUT: false,
  NESTED: false,
  DOES_NOT_EXIST: false,
  REQUESTED: true,
  MODE_OFF: true,
  KEY_COLLISION: false,
  ABORTED: false,
  CLOSED: false,
};
