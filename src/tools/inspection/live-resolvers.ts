import { describeSetting, messageOf, optionInvalid } from "../../core/base/errors.js";
import type { FailOpenStore } from "../../core/store/fail-open-store.js";
import type { StoreReport } from "../../core/store/store-state.js";
import type {
  CacheBreaker,
  CacheBulkhead,
  CacheInspectionEventsArgs,
  CacheInspectionLeasesArgs,
  CacheLease,
  CacheProcessState,
  CacheRecentEvent,
  CacheStoreConnection,
  CacheStoreNode,
} from "../../generated/schema.js";
import type { ProcessState } from "./process-state.js";

/** Returns the leases of all processes, oldest first. Rejects with `CACHED_OPTION_INVALID` for an invalid `first`. */
export async function leasesOf(
  view: States,
  { first }: Partial<CacheInspectionLeasesArgs>,
): Promise<readonly CacheLease[]> {
  const max = checkedFirst(first, "leases");
  return (await view.states(max))
    .flatMap(({ process, leases }) => leases.oldest.map((lease) => ({ process, ...lease })))
    .sort((a, b) => b.forMs - a.forMs)
    .slice(0, max);
}

/** A node, whose server is asked for its state once, and only if the query asks for it. */
export type LiveStoreNode = Pick<CacheStoreNode, "node" | "connections"> & {
  server(): Promise<StoreReport | null>;
  serverMissing(): Promise<string | null>;
};

export interface LiveStore {
  readonly name: string;
  readonly nodes: readonly LiveStoreNode[];
}

export interface States {
  /** Returns the states of all processes, with `maxListed` leases and events of each at most, as far as it has them. */
  states(maxListed?: number): Promise<readonly ProcessState[]>;
}

/** Returns the recent events of all processes, newest first. Rejects with `CACHED_OPTION_INVALID` for an invalid `first`. */
export async function eventsOf(
  view: States,
  { first }: Partial<CacheInspectionEventsArgs>,
): Promise<readonly CacheRecentEvent[]> {
  const max = checkedFirst(first, "events");
  return (await view.states(max))
    .flatMap(({ process, events }) => events.map((event) => ({ process, ...event })))
    .sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0))
    .slice(0, max);
}

export const processStatesOf = (states: readonly ProcessState[]): CacheProcessState[] =>
  states.map(({ process, at, leases, queues, nearCache, unconfirmed }) => ({
    process,
    at,
    leases: leases.total,
    queues,
    nearCache,
    unconfirmedInvalidations: unconfirmed,
  }));

/** Returns the breakers of a field or loader. In a state that does not list it, it is idle. */
export const breakersOf = (states: readonly ProcessState[], coordinate: string): CacheBreaker[] =>
  states.flatMap(({ process, limits, sources }) => {
    const { breaker } = sources.find((source) => source.coordinate === coordinate) ?? {
      breaker: limits.hasBreaker ? CLOSED : undefined,
    };
    return breaker ? [{ process, ...breaker }] : [];
  });

/** Returns the bulkheads of a field or loader. In a state that does not list it, it is idle. */
export const bulkheadsOf = (states: readonly ProcessState[], coordinate: string): CacheBulkhead[] =>
  states.map(({ process, limits: { maxRunning, maxQueued }, sources }) => {
    const { running, queued, overdue } = sources.find((source) => source.coordinate === coordinate) ?? IDLE;
    return { process, maxRunning, maxQueued, running, queued, overdue };
  });

const IDLE = { running: 0, queued: 0, overdue: 0 };
const CLOSED = { state: "CLOSED", since: null } as const;

/** Returns the store with its nodes. Those that other processes have reached are added to those that this one knows. */
export function storeOf(store: FailOpenStore, states: readonly ProcessState[]): LiveStore {
  const nodes = new Set([...store.nodes(), ...states.flatMap((state) => state.nodes.map(({ node }) => node))]);
  return { name: store.name, nodes: [...nodes].map((node) => nodeOf(store, node, states)) };
}

function nodeOf(store: FailOpenStore, node: string, states: readonly ProcessState[]): LiveStoreNode {
  let asked: Promise<StoreReport> | undefined;
  const ask = (): Promise<StoreReport> => {
    asked ??= store.inspect(node);
    return asked;
  };
  return {
    node,
    connections: states.flatMap((state) => connectionsOf(state, node)),
    server: () => ask().catch(() => null),
    serverMissing: () => ask().then(() => null, messageOf),
  };
}

function connectionsOf({ process, nodes, lastConnectionError }: ProcessState, id: string): CacheStoreConnection[] {
  return nodes
    .filter(({ node }) => node === id)
    .map(({ breaker, latency, operations, failures, lastFailure }) => ({
      process,
      breaker: { process, ...breaker },
      latency,
      operations,
      failures,
      lastFailure,
      lastConnectionError,
    }));
}

/** A client may pass null for a variable that it does not set. */
export function checkedFirst(first: number | null | undefined, field: string): number {
  const max = first ?? DEFAULT_FIRST;
  if (max >= 0) return max;
  throw optionInvalid(
    `cacheInspection.${field}: \`first\`: expected an integer of at least 0, got ${describeSetting(max)}`,
  );
}

const DEFAULT_FIRST = 50;
