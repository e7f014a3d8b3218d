import type { Cancel, Clock } from "../../base/clock.js";
import { Registry } from "../../base/multimap.js";
import { ABANDONED, type Grant, type LeaseTimes, type Release, type Store } from "../../store/store.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import type { Loaded } from "../request/loaded.js";
import type { ReadRequest } from "../request/request.js";
import type { TierSettings } from "../request/settings.js";
import type { Waiters } from "../request/waiters.js";
import { TickBatch } from "../tick/tick-batch.js";

/** Renews the leases of the loads of this process, and releases them. */
export class HeldLeases {
  readonly #times: LeaseTimes;
  /** The loads whose leases are renewed, by token. */
  readonly #byToken = new Registry<string, InFlightLoad>();
  readonly #releases: TickBatch<Release, boolean>;
  #renewTimer: Cancel | undefined;
  #dueAt = Number.POSITIVE_INFINITY;
  #isRenewing = false;
  #isClosed = false;

  constructor(private readonly parts: HeldLeasesParts) {
    const { leaseMs, storeTimeoutMs } = parts.settings;
    // Longer than `acquire` of the FailOpenStore waits: five budgets for many keys, and up to three
    // times as long in a busy process.
    this.#times = { leaseMs, graceMs: 2 * leaseMs, patienceMs: 20 * storeTimeoutMs };
    this.#releases = new TickBatch(parts.clock, (releases) => parts.store.release(releases));
  }

  get size(): number {
    return this.#byToken.size;
  }

  /** Thousands are used in many batches: the first must last until the last batch has ended. */
  timesFor(count: number): LeaseTimes {
    if (count < MANY_LEASES) return this.#times;
    const { leaseMs, storeTimeoutMs } = this.parts.settings;
    return { ...this.#times, leaseMs: leaseMs + Math.ceil((count / 100) * storeTimeoutMs) };
  }

  /** Renews a lease from now on, until it is released or its value is stored. */
  add(inFlight: InFlightLoad): void {
    this.#byToken.set(inFlight.token, inFlight);
    // After the many batches of a tick with thousands of keys, its first leases may be due.
    this.#renewAt(inFlight.askedAt + this.parts.settings.leaseMs / 3);
  }

  remove({ token }: InFlightLoad): void {
    this.#byToken.delete(token);
  }

  /** Repeats itself, until the lease ends, if the store may not have received it. Never rejects. */
  async release({ token, request }: Pick<InFlightLoad, "token" | "request">, end = ABANDONED): Promise<void> {
    this.#byToken.delete(token);
    await this.#release({ key: request.key.name, token, ...end }, FIRST_RELEASE_RETRY_MS);
  }

  /** A lease that is not held any more is not affected. */
  async #release(release: Release, retryMs: number): Promise<void> {
    const { clock, settings } = this.parts;
    const isReleased = await this.#releases.add(release).catch(() => false);
    if (isReleased || retryMs >= settings.leaseMs || this.#isClosed) return;
    clock.after(retryMs, () => void (this.#isClosed || this.#release(release, 2 * retryMs)));
  }

  /** Releases all leases, so that other processes do not wait for them to expire. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#renewTimer?.();
    await Promise.all(this.#byToken.values().map((inFlight) => this.release(inFlight)));
  }

  /** Renewals of thousands of leases take time and never overlap. */
  #renewAt(dueAt: number): void {
    const { clock } = this.parts;
    if (this.#isRenewing || this.#isClosed || dueAt >= this.#dueAt) return;
    this.#renewTimer?.();
    this.#dueAt = dueAt;
    this.#renewTimer = clock.after(Math.max(0, dueAt - clock.now()), () => void this.#renew());
  }

  /** Renews all leases, except of loads that exceed their time limit. Never rejects. */
  async #renew(): Promise<void> {
    const { clock, store, channel, settings } = this.parts;
    this.#dueAt = Number.POSITIVE_INFINITY;
    const now = clock.now();
    for (const { token, startedAt } of this.#byToken.values())
      if (now - startedAt >= settings.loadTimeoutMs) this.#byToken.delete(token);
    const renewed = this.#byToken.values();
    if (renewed.length === 0) return;
    this.#isRenewing = true;
    const holds = renewed.map(({ request, token }) => ({ key: request.key.name, token }));
    const areHeld = await store.renew(holds, this.timesFor(holds.length)).catch(() => []);
    for (const [index, isHeld] of areHeld.entries()) {
      const { token, request, isStoring } = renewed[index] as InFlightLoad;
      if (isHeld || !this.#byToken.delete(token) || isStoring) continue;
      channel.publish({ name: "lease.lost", ...subjectOf(request.key) });
    }
    this.#isRenewing = false;
    if (this.#byToken.size > 0) this.#renewAt(now + settings.leaseMs / 3);
  }
}

interface HeldLeasesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly channel: Channel;
  readonly settings: TierSettings;
}

/** A lease as its grant describes it. A refresh job carries it to a worker. */
export type Lease = Pick<Extract<Grant, { kind: "granted" }>, "gen" | "token" | "grantedAt" | "position">;

export interface LeaseRequest {
  readonly request: ReadRequest;
  /** See `AcquireRequest.supersededAt`. */
  readonly supersededAt: number;
  /** See `AcquireRequest.endsFreshness`. */
  readonly endsFreshness?: boolean;
  /** Whether the load is a background refresh, which no reader waits for. */
  readonly isRefresh: boolean;
  /** Whether the entry may hold a value that is served. It stays if the load stores none. */
  readonly hasValue: boolean;
  /** Who waits for the load. Undefined: it is never aborted. */
  readonly waiters?: Waiters | undefined;
}

export interface QueuedRequest extends LeaseRequest {
  /** When it was made, on the clock of this process. */
  readonly askedAt: number;
}

/** A load that runs in this process under a lease. `loaded` and `settled` never reject. */
export interface InFlightLoad extends Lease, QueuedRequest {
  /** On the clock of this process. */
  readonly startedAt: number;
  readonly waiters: Waiters;
  readonly loaded: Promise<Loaded>;
  /** Whether the store accepted the value: not if the lease had ended. */
  readonly settled: Promise<boolean>;
  /** Called when it has been stored or released. */
  readonly end: () => void;
  /** Whether its value is being stored, which ends the lease. */
  isStoring: boolean;
}

/** Before a failed release is repeated for the first time; it doubles each time. */
const FIRST_RELEASE_RETRY_MS = 100;

/** From this number on, leases of one tick last longer by one time budget per 100. */
const MANY_LEASES = 1_000;
