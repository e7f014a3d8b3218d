import type { Cancel, Clock } from "../../base/clock.js";
import type { Hold, LeaseTimes, Release, Store } from "../../store/store.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import type { TierSettings } from "../request/settings.js";
import { TickBatch } from "../tick/tick-batch.js";
import type { InFlightLoad } from "./load-sharing.js";

/** Renews the leases of the loads of this process, and releases them. */
export class HeldLeases {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #settings: TierSettings;
  readonly #times: LeaseTimes;
  /** The loads whose leases are renewed, by token. */
  readonly #byToken = new Map<string, InFlightLoad>();
  readonly #releases: TickBatch<Release, boolean>;
  #renewTimer: Cancel | undefined;
  /** When the timer is due. */
  #dueAt = Number.POSITIVE_INFINITY;
  #isRenewing = false;
  #isClosed = false;

  constructor(store: Store, clock: Clock, channel: Channel, settings: TierSettings) {
    this.#store = store;
    this.#clock = clock;
    this.#channel = channel;
    this.#settings = settings;
    const { leaseMs, storeTimeoutMs } = settings;
    // Longer than `acquire` of the FailOpenStore waits: five budgets for many keys, and up to three
    // times as long in a busy process.
    this.#times = { leaseMs, graceMs: 2 * leaseMs, patienceMs: 20 * storeTimeoutMs };
    this.#releases = new TickBatch(clock, (releases) => store.release(releases));
  }

  get size(): number {
    return this.#byToken.size;
  }

  /** The leases that this process holds, oldest first, at most `max`. */
  oldest(max: number): HeldLease[] {
    return [...this.#byToken.values()].slice(0, max).map((inFlight) => {
      const { request, startedAt, isRefresh, isStoring, waiters } = inFlight;
      const { coordinate, digest } = request.key;
      // Nobody was waiting when a refresh began.
      const count = Math.max(0, waiters.count - (isRefresh ? 1 : 0));
      return { coordinate, digest, startedAt, isRefresh, isStoring, waiters: count };
    });
  }

  /**
   * Returns the times of `count` leases. Thousands of them are requested, renewed and used in many
   * batches, one after the other; the leases of the first batches have to last until the last one
   * has ended.
   */
  timesFor(count: number): LeaseTimes {
    if (count < MANY_LEASES) return this.#times;
    const { leaseMs, storeTimeoutMs } = this.#settings;
    return { ...this.#times, leaseMs: leaseMs + Math.ceil((count / 100) * storeTimeoutMs) };
  }

  /** Renews a lease from now on, until it is released or its value is stored. */
  add(inFlight: InFlightLoad): void {
    this.#byToken.set(inFlight.token, inFlight);
    // A tick with thousands of keys takes many batches: when its loads begin, its leases may
    // already be due.
    this.#renewAt(inFlight.askedAt + this.#settings.leaseMs / 3);
  }

  remove(inFlight: InFlightLoad): void {
    this.#byToken.delete(inFlight.token);
  }

  /**
   * Ends a lease. Repeats that until it has ended by itself if the store may not have received it.
   * Never rejects.
   */
  async release(inFlight: InFlightLoad, end: LeaseEnd): Promise<void> {
    this.#byToken.delete(inFlight.token);
    const release = { key: inFlight.request.key.name, token: inFlight.token, ...end };
    if (!(await this.tryRelease(release))) this.#releaseLater(release, FIRST_RELEASE_RETRY_MS);
  }

  /** Returns whether the lease was held and has been released. */
  tryRelease(release: Release): Promise<boolean> {
    return this.#releases.add(release).catch(() => false);
  }

  /** A lease that is not held any more is not affected. */
  #releaseLater(release: Release, delayMs: number): void {
    if (delayMs >= this.#settings.leaseMs || this.#isClosed) return;
    const retry = async (): Promise<void> => {
      if (!this.#isClosed && !(await this.tryRelease(release))) this.#releaseLater(release, 2 * delayMs);
    };
    this.#clock.after(delayMs, () => void retry());
  }

  /** Releases all leases, so that other processes do not wait for them to expire. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#renewTimer?.();
    await Promise.all([...this.#byToken.values()].map((inFlight) => this.release(inFlight, ABANDONED)));
  }

  /** Renewals of thousands of leases take time and never overlap. */
  #renewAt(dueAt: number): void {
    if (this.#isRenewing || this.#isClosed || dueAt >= this.#dueAt) return;
    this.#renewTimer?.();
    this.#dueAt = dueAt;
    this.#renewTimer = this.#clock.after(Math.max(0, dueAt - this.#clock.now()), () => void this.#renew());
  }

  /**
   * Renews all leases. A load that exceeds its time limit keeps running, but its lease is left to
   * expire. Never rejects.
   */
  async #renew(): Promise<void> {
    this.#dueAt = Number.POSITIVE_INFINITY;
    const now = this.#clock.now();
    const { loadTimeoutMs, leaseMs } = this.#settings;
    for (const [token, { startedAt }] of this.#byToken)
      if (now - startedAt >= loadTimeoutMs) this.#byToken.delete(token);
    const renewed = [...this.#byToken.values()];
    if (renewed.length === 0 || this.#isRenewing) return;
    this.#isRenewing = true;
    const holds = renewed.map(({ request, token }) => ({ key: request.key.name, token }));
    const areHeld = await this.#store.renew(holds, this.timesFor(holds.length)).catch(() => []);
    for (const [index, isHeld] of areHeld.entries()) {
      const inFlight = renewed[index] as InFlightLoad;
      if (isHeld || !this.#byToken.delete(inFlight.token) || inFlight.isStoring) continue;
      this.#channel.publish({ name: "lease.lost", ...subjectOf(inFlight.request.key) });
    }
    this.#isRenewing = false;
    if (this.#byToken.size > 0) this.#renewAt(now + leaseMs / 3);
  }
}

/** The delay before a failed release is repeated for the first time; it doubles each time. */
const FIRST_RELEASE_RETRY_MS = 100;

/** From this number on, leases of one tick last longer by one time budget per 100. */
const MANY_LEASES = 1_000;

/** How a lease ends without a value. */
export type LeaseEnd = Omit<Release, keyof Hold>;

/** As if the lease had never been granted. */
export const ABANDONED: LeaseEnd = { outcome: "abandoned", holdMs: 0, body: new Uint8Array() };

/** A lease that this process holds: its load runs, or its value is being stored. */
export interface HeldLease {
  readonly coordinate: string;
  readonly digest: string;
  /** On the clock of this process. */
  readonly startedAt: number;
  readonly isRefresh: boolean;
  readonly isStoring: boolean;
  /** The number of callers in this process that wait for it. */
  readonly waiters: number;
}
