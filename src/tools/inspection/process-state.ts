import { dateOf } from "../../core/base/clock.js";
import type { CacheParts } from "../../core/parts.js";
import type { BreakerStatus } from "../../core/store/breaker.js";
import type { Latency, StoreFailure } from "../../core/store/node-state.js";
import type {
  CacheBulkhead,
  CacheLease,
  CacheNearCache,
  CacheQueues,
  CacheRecentEvent,
  CacheStoreConnection,
  CacheUnconfirmedInvalidations,
} from "../../generated/schema.js";

/** Returns whether `value`, which another process has sent, is a state that this release can read. */
export function isProcessState(value: unknown): value is ProcessState {
  if (typeof value !== "object" || value === null) return false;
  const { format, leases, sources, limits, nodes, queues, unconfirmed, events } = value as Partial<ProcessState>;
  return (
    format === FORMAT &&
    [leases?.oldest, sources, nodes, events].every((list) => Array.isArray(list) && list.every(isObject)) &&
    [limits, queues, unconfirmed].every(isObject)
  );
}

/** A circuit breaker. `since`: when it was opened or closed; null: closed since the process started. */
export interface BreakerState {
  readonly state: "CLOSED" | "OPEN" | "HALF_OPEN";
  readonly since: string | null;
}

/** The loads of one field or loader. `breaker`: null if there is none. */
export interface SourceState extends Pick<CacheBulkhead, "running" | "queued" | "overdue"> {
  readonly coordinate: string;
  readonly breaker: BreakerState | null;
}

export interface FailureState {
  readonly at: string;
  readonly message: string;
}

/** How the process reaches one node of the store; the id is empty if the store is one node. */
export interface NodeState extends Pick<CacheStoreConnection, "operations" | "failures"> {
  readonly node: string;
  readonly breaker: BreakerState;
  readonly latency: Latency | null;
  readonly lastFailure: FailureState | null;
}

/**
 * The state of one process at one moment, as plain data that can be sent as JSON. Bounded: of what there may be many of, it contains
 * a part, and the total where that says something. Contains no arguments, identities, tags or values. Times are ISO 8601 in UTC.
 */
export interface ProcessState {
  /** Of this type. A process of another release may send another. */
  readonly format: typeof FORMAT;
  readonly process: string;
  readonly at: string;
  /** The oldest leases, and how many there are. */
  readonly leases: { readonly total: number; readonly oldest: readonly Omit<CacheLease, "process">[] };
  /** The fields and loaders with loads that run or wait, or whose breaker has ever been open. All others are idle. */
  readonly sources: readonly SourceState[];
  readonly limits: { readonly maxRunning: number; readonly maxQueued: number; readonly hasBreaker: boolean };
  readonly nodes: readonly NodeState[];
  readonly lastConnectionError: FailureState | null;
  readonly nearCache: CacheNearCache | null;
  readonly queues: CacheQueues;
  readonly unconfirmed: Omit<CacheUnconfirmedInvalidations, "since"> & { readonly since: string | null };
  readonly events: readonly Omit<CacheRecentEvent, "process">[];
}

/**
 * To be increased whenever a member of `ProcessState` is removed, changes its meaning, or can be something that earlier
 * releases do not know, such as another state of a breaker: their inspection would fail on it.
 */
const FORMAT = 1;

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;

/** How many leases, events, nodes, and fields and loaders that are not idle, a state contains. */
const MAX_LISTED = 50;

/** Returns the state of this process. Costs time for what it lists, and does not ask the store. */
export function processStateOf(parts: CacheParts, maxListed: number = MAX_LISTED): ProcessState {
  const { clock, invalidation, leases, live, processId, store, tier } = parts;
  const now = clock.now();
  const date = (at: number | undefined): string | null => (at === undefined ? null : dateOf(clock, at));
  const breakerOf = ({ state, sinceAt }: BreakerStatus): BreakerState => ({
    state: state === "half-open" ? "HALF_OPEN" : state === "open" ? "OPEN" : "CLOSED",
    since: date(sinceAt),
  });
  const failureOf = (failure: StoreFailure | undefined): FailureState | null =>
    failure === undefined ? null : { at: dateOf(clock, failure.at), message: failure.message.slice(0, MAX_MESSAGE) };
  const near = live.near?.status;
  const unleased = live.unleasedLoads.counts;
  const { sinceAt, ...unconfirmed } = invalidation.unconfirmed;
  const { maxConcurrentLoads: maxRunning, maxQueuedLoads: maxQueued, breakerThreshold } = live.limits;
  return {
    format: FORMAT,
    process: processId,
    at: dateOf(clock, now),
    leases: {
      total: leases.held.size,
      oldest: leases.held.oldest(maxListed).map(({ startedAt, isStoring, ...lease }) => ({
        ...lease,
        state: isStoring ? "STORING" : "LOADING",
        since: dateOf(clock, startedAt),
        forMs: now - startedAt,
      })),
    },
    sources: live.sources
      .statuses()
      .map((source) => ({ ...source, breaker: source.breaker === undefined ? null : breakerOf(source.breaker) }))
      .filter(({ running, queued, overdue, breaker }) => running + queued + overdue > 0 || hasOpened(breaker))
      .sort((a, b) => urgencyOf(b) - urgencyOf(a))
      .slice(0, maxListed),
    limits: { maxRunning, maxQueued, hasBreaker: breakerThreshold !== undefined },
    nodes: store
      .health()
      .slice(0, maxListed)
      .map(({ breaker, latency = null, lastFailure, ...node }) => ({
        ...node,
        breaker: breakerOf(breaker),
        latency,
        lastFailure: failureOf(lastFailure),
      })),
    lastConnectionError: failureOf(store.lastConnectionError),
    nearCache: near === undefined ? null : { ...near, confirmedAt: date(near.confirmedAt) },
    queues: {
      enqueuing: leases.enqueuing,
      unleasedRunning: unleased.running,
      unleasedQueued: unleased.queued,
      waitingReaders: tier.waitingReaders,
      waitingKeys: live.waiting.waitingKeys,
    },
    unconfirmed: { ...unconfirmed, since: date(sinceAt) },
    events: live.recentEvents.newest(maxListed).map((event) => ({
      ...event,
      at: dateOf(clock, event.at),
      firstAt: dateOf(clock, event.firstAt),
      coordinate: event.coordinate ?? null,
      digest: event.digest ?? null,
      node: event.node ?? null,
      detail: event.detail ?? null,
      error: event.error ?? null,
    })),
  };
}

/** Messages of a store's client can be long. */
const MAX_MESSAGE = 300;

const hasOpened = (breaker: BreakerState | null): boolean => breaker !== null && breaker.since !== null;

/** Open breakers come first, then the longest queues, since a list of sources may be cut off. */
const urgencyOf = ({ running, queued, overdue, breaker }: SourceState): number =>
  (breaker !== null && breaker.state !== "CLOSED" ? 2 ** 40 : 0) + 1_000 * (queued + overdue) + running;
