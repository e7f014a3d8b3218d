/** The few settings the tier needs; the resolved options happen to satisfy it. All in milliseconds. */
export interface TierSettings {
  /** How long a lease lasts unless renewed; it is renewed every third of this. */
  readonly leaseMs: number;
  /** The longest a reader waits for another's load. */
  readonly waitMs: number;
  /** The longest a reader that is itself inside a load waits for another's. */
  readonly nestedWaitMs: number;
  /** The longest a load may take before its readers get an error. */
  readonly loadTimeoutMs: number;
  /** How long a failure is shared with those who ask next. */
  readonly failureMs: number;
  /** The time budget of one store operation. */
  readonly storeTimeoutMs: number;
  /** How long a write bracket may stay open. */
  readonly fenceMs: number;
}
