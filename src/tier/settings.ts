/** The few settings the tier needs; the resolved options happen to satisfy it. All in milliseconds. */
export interface TierSettings {
  /** How long a lease lasts unless renewed; it is renewed every third of this. */
  readonly leaseMs: number;
  /** The longest a reader waits for another's load. */
  readonly leaseWaitMs: number;
  /** The longest a reader that is itself inside a load waits for another's. */
  readonly nestedWaitMs: number;
  /** The longest a load may take before its readers get an error. */
  readonly loadTimeoutMs: number;
  /** How long a failure is shared with those who ask next. */
  readonly errorBackoffMs: number;
  /** The time budget of one store operation. */
  readonly storeTimeoutMs: number;
  /** How long nothing is stored after an invalidation; 0: not at all. */
  readonly replicaLagMs: number;
  /** After which a reader who could have a stale value no longer waits for a load; undefined: he waits. */
  readonly softTimeoutMs: number | undefined;
  /** How long a value loaded while the store is away is kept in this process. */
  readonly outageShareMs: number;
  /** How long a write bracket may stay open. */
  readonly writeGuardMs: number;
}
