/** What the server answers, as far as it knows it: servers of an older release leave parts out. */

export const OUTCOMES = ["hit", "coalesced", "stale", "staleIfError", "loaded", "bypassed"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export type Counts = Readonly<Record<Outcome, number>> & { readonly reads: number; readonly loads: number };

export interface Durations {
  readonly count: number;
  readonly meanMs: number | null;
  readonly p50Ms: number | null;
  readonly p90Ms: number | null;
  readonly p99Ms: number | null;
}

export interface Bypass {
  readonly reason: string;
  readonly reads: number;
}

export interface Stats extends Counts {
  readonly hitRatio?: number | null;
  readonly loadsSaved?: number;
  readonly failedLoads: number;
  readonly refusedStores?: number;
  readonly storeFailures?: number;
  readonly storedBytes?: number;
  readonly readBytes?: number;
  readonly since?: string;
  readonly until?: string;
  readonly processes?: number;
  readonly missing?: readonly string[];
  readonly loadMs?: Durations;
  readonly waitMs?: Durations;
  readonly bypasses?: readonly Bypass[];
}

export interface HotKey {
  readonly coordinate: string;
  readonly digest: string;
  readonly reads: number;
  readonly maxError?: number;
  readonly args?: object | null;
  readonly source?: object | null;
  readonly id?: unknown;
}

export interface HotKeys {
  readonly keys: readonly HotKey[];
  readonly reads?: number;
  readonly maxError?: number;
  readonly since?: string;
}

export interface Lease {
  readonly process: string;
  readonly coordinate: string;
  readonly digest: string;
  readonly state: string;
  readonly since: string;
  readonly forMs: number;
  readonly isRefresh: boolean;
  readonly waiters: number;
}

export interface ProcessState {
  readonly process: string;
  readonly at: string;
  readonly leases: number;
  readonly queues: {
    readonly waitingReaders: number;
    readonly waitingKeys: number;
    readonly unleasedRunning: number;
    readonly unleasedQueued: number;
    readonly enqueuing: number;
  };
  readonly nearCache: {
    readonly entries: number;
    readonly maxEntries: number;
    readonly bytes: number;
    readonly maxBytes: number;
    readonly hits: number;
    readonly isLive: boolean;
  } | null;
  readonly unconfirmedInvalidations: {
    readonly keys: number;
    readonly tags: number;
    readonly coordinates: number;
    readonly everything: boolean;
    readonly since: string | null;
  };
}

export interface ProcessRef {
  readonly id: string;
  readonly isThis: boolean;
  readonly host: string | null;
  readonly pid: number | null;
}

export interface Process extends ProcessRef {
  readonly version: string;
  readonly nodeVersion: string;
  readonly startedAt: string;
  readonly reportedAt: string;
  readonly isAlive: boolean;
  readonly missing: string | null;
}

export interface RecentEvent {
  readonly process: string;
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

export interface Invalidation {
  readonly id: string;
  readonly at: string;
  readonly tookMs: number;
  readonly kind: string;
  readonly via: string;
  readonly mutation: string | null;
  readonly process: ProcessRef;
  readonly isConfirmed: boolean;
  readonly isClear: boolean;
  readonly coordinates: readonly string[];
  readonly keys: readonly string[];
  readonly tags: readonly string[];
  readonly nameCount: number;
}

export interface Invalidations {
  readonly since: string;
  readonly isThisProcessOnly: boolean;
  readonly count: number;
  readonly items: readonly Invalidation[];
}

export interface Overview {
  readonly total?: Counts & { readonly until: string };
  readonly stats?: Stats;
  readonly hotKeys?: HotKeys;
  readonly leases?: readonly Lease[];
  readonly states?: readonly ProcessState[];
  readonly processes?: readonly Process[];
  readonly events?: readonly RecentEvent[];
  readonly invalidations?: Invalidations | null;
}

export interface Field {
  readonly coordinate: string;
  readonly maxAge?: number | null;
  readonly scope?: string | null;
  readonly stats: Stats;
  readonly bypasses?: readonly Bypass[];
}

export interface Policy {
  readonly maxAge: number;
  readonly maxAgeLimit: number | null;
  readonly staleWhileRevalidate: number;
  readonly refresh: string;
  readonly neverExpires: boolean;
  readonly staleIfError: number;
  readonly negativeMaxAge: number;
  readonly jitter: number;
  readonly earlyRefresh: number;
  readonly scope: string;
  readonly readOnly: boolean;
  readonly key: readonly string[] | null;
  readonly tags: readonly string[] | null;
  readonly version: string | null;
  readonly followsHints: boolean;
}

export interface FieldPolicy {
  readonly coordinate: string;
  readonly variant?: string | null;
  readonly policy?: Policy | null;
  readonly breaker?: readonly { readonly process: string; readonly state: string; readonly since: string | null }[];
}

export interface Policies {
  readonly fields?: readonly FieldPolicy[];
  readonly may: { readonly invalidate: boolean };
}

export interface Failure {
  readonly at: string;
  readonly message: string;
}

export interface Connection {
  readonly process: string;
  readonly breaker: { readonly state: string; readonly since: string | null };
  readonly latency: {
    readonly p50Ms: number;
    readonly p95Ms: number;
    readonly p99Ms: number;
    readonly maxMs: number;
  } | null;
  readonly operations: number;
  readonly failures: number;
  readonly lastFailure: Failure | null;
  readonly lastConnectionError: Failure | null;
}

export interface StoreNode {
  readonly node: string;
  readonly serverMissing: string | null;
  readonly server: {
    readonly version: string | null;
    readonly role: string | null;
    readonly entries: number | null;
    readonly usedBytes: number | null;
    readonly maxBytes: number | null;
    readonly evictionPolicy: string | null;
    readonly evictions: number | null;
  } | null;
  readonly connections: readonly Connection[];
}

export interface Store {
  readonly name: string;
  readonly nodes: readonly StoreNode[];
}

export interface Entry {
  readonly state: string;
  readonly negative: boolean;
  readonly ageMs: number;
  readonly freshForMs: number;
  readonly loadMs: number;
  readonly valueBytes: number;
  readonly leaseForMs: number | null;
  readonly outdated: boolean;
  readonly stale: boolean;
  readonly use?: string;
  readonly reason?: string | null;
  readonly explanation?: string;
  readonly servableForMs?: number | null;
  readonly variant?: string;
  readonly digest?: string;
  readonly lease?: {
    readonly since: string | null;
    readonly endsInMs: number;
    readonly hasWaiters: boolean;
    readonly waiters: number | null;
    readonly process: ProcessRef | null;
  } | null;
  readonly tags?: { readonly static: readonly string[]; readonly resultCount: number } | null;
  readonly invalidation?: Invalidation | null;
}
