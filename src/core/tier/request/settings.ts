/** The settings of the tier, in milliseconds: see the options of the same names. */
export interface TierSettings {
  /** Leases are renewed every third of this. */
  readonly leaseMs: number;
  readonly leaseWaitMs: number;
  /** How long a reader inside a load waits at most for another load. */
  readonly nestedWaitMs: number;
  readonly loadTimeoutMs: number;
  readonly abandonedLoadMs: number;
  /** Also for how long a key is not shared after errors that concern one caller only. */
  readonly errorBackoffMs: number;
  readonly storeTimeoutMs: number;
  readonly replicaLagMs: number;
  readonly softTimeoutMs: number | undefined;
  readonly storeBeforeResponse: boolean | undefined;
  readonly writeGuardMs: number;
}
