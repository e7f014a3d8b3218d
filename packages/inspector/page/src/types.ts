/** What the server answers: the parts of the inspection query that the page asks for. */

export const OUTCOMES = ["hit", "coalesced", "stale", "staleIfError", "loaded", "bypassed"] as const;
export type Outcome = (typeof OUTCOMES)[number];

type All<Names extends string, Value> = Readonly<Record<Names, Value>>;

/** Reads by outcome, and loads, in some time. */
export type Counts = All<Outcome | "reads" | "bypassedOnPurpose" | "loads" | "failedLoads", number>;

export interface FullCounts extends Counts {
  readonly refreshes: number;
  readonly refusedStores: number;
  readonly loadMs: All<"p50Ms" | "p90Ms" | "p99Ms", number | null>;
  readonly bypasses: readonly { readonly reason: string; readonly reads: number }[];
}

export interface Minute {
  readonly at: string;
  readonly count: Counts;
}

/** The counts of a field or loader, or of all of them, whose coordinate is null. */
export interface Series {
  readonly coordinate: string | null;
  readonly sinceStart: FullCounts;
  readonly minutes: readonly Minute[];
}

export type Process = All<"id" | "host" | "version" | "nodeVersion" | "startedAt" | "reportedAt", string> &
  All<"isThis" | "isComplete", boolean> & { readonly pid: number };

export type Invalidation = All<"kind" | "via", string> &
  All<"tookMs" | "tagCount" | "entryCount", number> &
  All<"isConfirmed" | "isClear", boolean> & { readonly mutation: string | null; readonly tags: readonly string[] };

export type Happening = All<"process" | "name" | "at", string> &
  All<"digest" | "node" | "detail" | "error", string | null> & {
    readonly count: number;
    readonly coordinates: readonly string[];
    readonly invalidation: Invalidation | null;
  };

export interface Overview {
  readonly counts: { readonly processes: number; readonly total: Series; readonly fields: readonly Series[] };
  readonly processes: readonly Process[];
  /** Why the reports of other processes could not be read. */
  readonly missing: string | null;
  readonly events: readonly Happening[];
}

export type Policy = All<"maxAge" | "staleWhileRevalidate" | "staleIfError" | "jitter", number> &
  All<"neverExpires" | "readOnly", boolean> &
  All<"refresh" | "scope", string> &
  All<"key" | "tags", readonly string[] | null> & { readonly version: string | null };

export interface FieldPolicy {
  readonly coordinate: string;
  readonly variant: string | null;
  readonly invalidatedBy: readonly string[];
  readonly policy: Policy;
}

export interface Policies {
  readonly policies: readonly FieldPolicy[];
}

export type Entry = All<"state" | "use" | "variant" | "digest", string> &
  All<"ageMs" | "freshForMs" | "servableForMs" | "loadMs" | "storedBytes", number | null> & {
    readonly negative: boolean;
    readonly reasons: readonly (All<"since" | "tag", string | null> & {
      readonly reason: string;
      readonly invalidation: Happening | null;
    })[];
    readonly tags: readonly (All<"text" | "invalidatedAt", string | null> & {
      readonly digest: string;
      readonly isSoft: boolean;
    })[];
    readonly lease:
      | (All<"process" | "since", string | null> & { readonly endsInMs: number; readonly hasWaiters: boolean })
      | null;
  };
