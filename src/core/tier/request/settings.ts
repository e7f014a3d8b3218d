/** The settings of the tier, in milliseconds. The resolved options satisfy this interface. */
export interface TierSettings {
  /** How long a lease lasts unless it is renewed. Leases are renewed every third of this. */
  readonly leaseMs: number;
  /** How long a reader waits at most for a load of another process. */
  readonly leaseWaitMs: number;
  /** How long a reader inside a load waits at most for another load. */
  readonly nestedWaitMs: number;
  /** How long readers wait at most for a load before they get an error. */
  readonly loadTimeoutMs: number;
  /** How long a load goes on when nobody waits for it any more. */
  readonly abandonedLoadMs: number;
  /**
   * How long the failure of a load is shared with later readers, and a key is not after errors that
   * concern one caller only.
   */
  readonly errorBackoffMs: number;
  /** The time budget of one store operation. */
  readonly storeTimeoutMs: number;
  /** How long nothing is stored after an invalidation; 0: no hold-off. */
  readonly replicaLagMs: number;
  /**
   * How long a reader waits for a load before it takes a stale value, if there is one. Undefined:
   * no limit.
   */
  readonly softTimeoutMs: number | undefined;
  /** Whether readers of a load wait until its value is stored. */
  readonly storeBeforeResponse: boolean | undefined;
  /** How long a write may be in progress. */
  readonly writeGuardMs: number;
}
