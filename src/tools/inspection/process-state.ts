import { dateOf } from "../../core/base/clock.js";
import type { CacheParts } from "../../core/parts.js";
import type { BreakerStatus } from "../../core/store/breaker.js";
import type { Latency, StoreFailure } from "../../core/store/node-record.js";

/** Returns whether `value`, which another process has sent, is a state that this release can read. */
export function isProcessState(value: unknown): value is ProcessState {
  if (typeof value !== "object" || value === null) return false;
  const {
    format,
    leases,
    sources,
    limits,
    nodes,
    queues,
    unconfirmed,
    events,
    subtrees = [],
  } = value as Partial<ProcessState>;
  return (
    format === FORMAT &&
    [leases?.oldest, sources, nodes, events, subtrees].every((list) => Array.isArray(list) && list.every(isObject)) &&
    [limits, queues, unconfirmed].every(isObject)
  );
}

/** A circuit breaker. `since`: when it was opened or closed; null: closed since the process started. */
export interface BreakerState {
  readonly state: "CLOSED" | "OPEN" | "HALF_OPEN";
  readonly since: string | null;
}

/** A lease that the process holds. */
export interface LeaseState {
  readonly coordinate: string;
  readonly digest: string;
  readonly state: "LOADING" | "STORING";
  readonly since: string;
  readonly forMs: number;
  readonly isRefresh: boolean;
  readonly waiters: number;
}

/** The loads of one field or loader. `breaker`: null if there is none. */
export interface SourceState {
  readonly coordinate: string;
  readonly running: number;
  readonly queued: number;
  readonly overdue: number;
  readonly breaker: BreakerState | null;
}

/** A failure of the store. */
export interface FailureState {
  readonly at: string;
  readonly message: string;
}

/** How the process reaches one node of the store; the id is empty if the store is one node. */
export interface NodeState {
  readonly node: string;
  readonly breaker: BreakerState;
  readonly latency: Latency | null;
  readonly operations: number;
  readonly failures: number;
  readonly lastFailure: FailureState | null;
}

export interface NearCacheState {
  readonly entries: number;
  readonly maxEntries: number;
  readonly bytes: number;
  readonly maxBytes: number;
  readonly hits: number;
  readonly isLive: boolean;
  readonly confirmedAt: string | null;
}

/** Trouble that was reported lately; null where it has no such property. */
export interface EventState {
  readonly name: string;
  readonly at: string;
  readonly firstAt: string;
  readonly count: number;
  readonly coordinate: string | null;
  readonly digest: string | null;
  readonly node: string | null;
  readonly detail: string | null;
  readonly error: string | null;
}

/**
 * The state of one process at one moment, as plain data that can be sent as JSON. Bounded: of what there may be many of, it contains
 * a part, and the total where that says something. Contains no arguments, identities, tags or values. Times are ISO 8601 in UTC.
 */
export interface ProcessState {
  /** Of this type. A process of another release may send another. */
  readonly format: typeof FORMAT;
  /** The id of the process. */
  readonly process: string;
  readonly at: string;
  /** The oldest leases, and how many there are. */
  readonly leases: { readonly total: number; readonly oldest: readonly LeaseState[] };
  /** The fields and loaders with loads that run or wait, or whose breaker has ever been open. All others are idle. */
  readonly sources: readonly SourceState[];
  readonly limits: { readonly maxRunning: number; readonly maxQueued: number; readonly hasBreaker: boolean };
  readonly nodes: readonly NodeState[];
  readonly lastConnectionError: FailureState | null;
  readonly nearCache: NearCacheState | null;
  readonly queues: {
    /** Refresh jobs that `refreshQueue` has not taken yet. */
    readonly enqueuing: number;
    /** Keys with a load without a lease that runs, and with one that waits to run. */
    readonly unleasedRunning: number;
    readonly unleasedQueued: number;
    /** Readers that wait for a load, and the keys that are loaded by another process for some of them. */
    readonly waitingReaders: number;
    readonly waitingKeys: number;
  };
  readonly unconfirmed: {
    readonly keys: number;
    readonly tags: number;
    readonly coordinates: number;
    readonly everything: boolean;
    readonly since: string | null;
  };
  /** How many selections of a field have subtrees, the most first. Undefined: the process is of a release without subtrees. */
  readonly subtrees?: readonly { readonly coordinate: string; readonly selections: number }[];
  /** The newest first. */
  readonly events: readonly EventState[];
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
  const { clock, counters, invalidation, leases, live, processId, store, tier } = parts;
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
    sources: live.guard
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
    subtrees: Array.from(counters.allSubtrees(), ([coordinate, { selections }]) => ({ coordinate, selections }))
      .sort((a, b) => b.selections - a.selections)
      .slice(0, maxListed),
    events: live.recentEvents.newest(maxListed).map((event) => ({
      name: event.name,
      at: dateOf(clock, event.at),
      firstAt: dateOf(clock, event.firstAt),
      count: event.count,
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
