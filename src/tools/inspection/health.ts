import { dateOf } from "../../core/base/clock.js";
import { messageOf } from "../../core/base/errors.js";
import type { CacheParts } from "../../core/parts.js";

/** The codes of what is wrong with a cache, and what they mean. */
export const HEALTH_CODES = {
  STORE_UNREACHABLE:
    "A node of the store did not reply in time, or its breaker is open. Its keys are loaded without the cache.",
  INVALIDATIONS_UNCONFIRMED:
    "The store has not confirmed all invalidations of this process. Other processes may still serve the old values.",
  CONNECTION_FAILED:
    "A connection of the store's own cannot be used: waiting callers poll, and memory with `maxStalenessMs` asks for invalidations.",
  PERMISSION_MISSING: "The server does not allow this user an operation that the cache needs.",
  SOURCE_BREAKER_OPEN: "The loads of a field or loader have failed repeatedly and are refused for a moment.",
  SOURCE_OVERLOADED:
    "Loads of a field or loader are refused: too many run or wait, or too many have exceeded their time limit.",
  CLOSED: "The cache is closed: everything is loaded without it.",
} as const;

/** What is wrong with a cache. */
export type HealthCode = keyof typeof HEALTH_CODES;

/** One thing that is wrong. */
export interface HealthReason {
  readonly code: HealthCode;
  /** In words, without user data. */
  readonly message: string;
  /** The node of the store that it concerns; empty if the store is one node. */
  readonly node?: string;
  /** The field or loader that it concerns. */
  readonly coordinate?: string;
}

/** How this process reaches one node of the store. */
export interface StoreNodeHealth {
  /** Its address or name; empty if the store is one node. */
  readonly node: string;
  readonly isReachable: boolean;
  /** How long its reply took just now, in milliseconds; null if there was none. */
  readonly replyMs: number | null;
  /** Its circuit breaker. `since`: its last change; null: closed since the process started. */
  readonly breaker: { readonly state: "CLOSED" | "OPEN" | "HALF_OPEN"; readonly since: string | null };
  /** The last operation that failed; null if there was none since the process started. */
  readonly lastFailure: { readonly at: string; readonly message: string } | null;
}

/** The health of a cache in this process, as plain data. Times are ISO 8601 in UTC. */
export interface CacheHealth {
  /**
   * `ok`: nothing is wrong. `degraded`: the cache works in part. `unavailable`: it is bypassed.
   * Requests are answered in every case.
   */
  readonly status: "ok" | "degraded" | "unavailable";
  /** What is wrong; empty if `ok`. */
  readonly reasons: readonly HealthReason[];
  /** When this was read. */
  readonly at: string;
  readonly store: { readonly name: string; readonly nodes: readonly StoreNodeHealth[] };
  /** Names that were invalidated without a confirmation. `since`: null if there are none. */
  readonly unconfirmedInvalidations: { readonly count: number; readonly since: string | null };
  /** Leases that this process holds: loads under way. */
  readonly leases: number;
  /** Readers in this process that wait for a load. */
  readonly waitingReaders: number;
  /** Null if no values are kept in memory. `bytes`: about what they and their keys take. */
  readonly memory: { readonly bytes: number; readonly maxBytes: number; readonly confirmedAt: string | null } | null;
}

/** Returns the health of a cache. Asks each node within its time budget. Never rejects. */
export async function healthOf(parts: CacheParts, isClosed: boolean): Promise<CacheHealth> {
  const { clock, invalidation, leases, limits, store, tier } = parts;
  const probes = isClosed ? [] : await store.probe();
  const date = (at: number | undefined): string | null => (at === undefined ? null : dateOf(clock, at));
  const nodes = store.nodes.flatMap(({ node, breaker, lastFailure }): StoreNodeHealth[] => {
    const probe = probes.find((one) => one.node === node);
    // A node that was asked, and is none of the store's any more.
    if (probe === undefined && !isClosed) return [];
    const { state, sinceAt } = breaker.status;
    return [
      {
        node,
        isReachable: probe === undefined ? state === "closed" : probe.replyMs !== undefined,
        replyMs: probe?.replyMs ?? null,
        breaker: { state: BREAKER_STATES[state], since: date(sinceAt) },
        // Messages of a store's client can be long.
        lastFailure: lastFailure
          ? { at: dateOf(clock, lastFailure.at), message: lastFailure.message.slice(0, 300) }
          : null,
      },
    ];
  });
  const since = date(invalidation.unconfirmedSinceAt);
  const memory = tier.memory?.status;
  const unreachable = probes.filter(({ replyMs }) => replyMs === undefined);
  const reasons: HealthReason[] = [];
  const report = (code: HealthCode, detail?: string, where?: Pick<HealthReason, "node" | "coordinate">): void => {
    reasons.push({ code, message: HEALTH_CODES[code] + (detail === undefined ? "" : ` (${detail})`), ...where });
  };
  if (isClosed) report("CLOSED");
  for (const { node, error } of unreachable.slice(0, MAX_NODES))
    report("STORE_UNREACHABLE", messageOf(error), { node });
  for (const { use, node, error } of isClosed ? [] : store.ownFailures)
    report("CONNECTION_FAILED", `${use}: ${messageOf(error)}`, { node });
  for (const { node, operation, message } of isClosed ? [] : store.refusals)
    report("PERMISSION_MISSING", `\`${operation}\`: ${message}`, { node });
  if (since !== null) report("INVALIDATIONS_UNCONFIRMED", `since ${since}`);
  const { maxConcurrentLoads, maxQueuedLoads } = limits;
  for (const { coordinate, running, queued, overdue, breaker } of tier.loads.sourceStatuses()) {
    const isFull = running >= maxConcurrentLoads && queued >= maxQueuedLoads;
    const detail = `\`${coordinate}\`: ${running} run, ${queued} wait, ${overdue} are overdue`;
    if (breaker?.state === "open") report("SOURCE_BREAKER_OPEN", `\`${coordinate}\``, { coordinate });
    else if (isFull || overdue > maxConcurrentLoads) report("SOURCE_OVERLOADED", detail, { coordinate });
  }
  const isUnavailable = isClosed || unreachable.length === probes.length;
  return {
    status: isUnavailable ? "unavailable" : reasons.length > 0 ? "degraded" : "ok",
    reasons,
    at: dateOf(clock, clock.now()),
    store: { name: store.name, nodes: nodes.slice(0, MAX_NODES) },
    // An invalidation of everything counts as one.
    unconfirmedInvalidations: { count: invalidation.unconfirmed.size, since },
    leases: leases.held.size,
    waitingReaders: tier.misses.waitingReaders,
    memory: memory ? { ...memory, confirmedAt: date(memory.confirmedAt) } : null,
  };
}

const MAX_NODES = 50;
const BREAKER_STATES = { closed: "CLOSED", open: "OPEN", "half-open": "HALF_OPEN" } as const;
