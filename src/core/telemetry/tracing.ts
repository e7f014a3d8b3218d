/** What a read is traced with. Kept on its request while `Channel.tracing` is set. */
export interface ReadTrace {
  /** What `Tracing.active` returned for the caller of the read. */
  readonly parent: unknown;
  /** What `Tracing.startLoad` returned for the load that was run for the request. */
  load?: Traced | undefined;
  /** The id of the lease chain of that load. */
  gen?: string | undefined;
}

/** A load, or a store operation, that is traced. */
export interface Traced {
  /** Calls `work` so that what it does is traced as a part of it. */
  run<T>(work: () => T): T;
  end(error?: unknown): void;
}

/** A caller that waited for a load that was not its own. */
export interface TracedWait {
  readonly coordinate: string;
  readonly waitMs: number;
  readonly parent: unknown;
  /** The load, if it ran in this process and was traced. */
  readonly load: Traced | undefined;
  /** The id of the lease chain of the load, if it had a lease. */
  readonly gen: string | undefined;
}

/**
 * Traces the work of a cache step by step, as spans do. Its methods must not throw, except what
 * they are given to run.
 */
export interface Tracing {
  /** Returns what the caller does at the moment, to be passed on as `parent`. */
  active(): unknown;
  startLoad(load: {
    readonly coordinate: string;
    readonly isRefresh: boolean;
    readonly parent: unknown;
    readonly gen: string | undefined;
  }): Traced;
  waited(wait: TracedWait): void;
  startStore(call: { readonly operation: string; readonly node: string; readonly nameCount: number }): Traced;
}
