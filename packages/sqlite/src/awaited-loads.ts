import type { Cancel, Clock, Wake } from "graphql-cached/store";
import { knownEntry } from "./entries.js";
import type { Transactions } from "./transactions.js";

/**
 * The loads of others that callers of this process wait for, and wake-ups when they have ended.
 * SQLite has no messages, but says cheaply whether another connection has written. Only then are
 * the entries read.
 */
export class AwaitedLoads {
  readonly #transactions: Transactions;
  readonly #clock: Clock;
  readonly #wakes = new Set<Wake>();
  readonly #byKey = new Map<string, Awaited>();
  #version: number | undefined;
  #pauseMs = POLL_MS;
  #cancelTimer: Cancel | undefined;

  constructor(transactions: Transactions, clock: Clock) {
    this.#transactions = transactions;
    this.#clock = clock;
  }

  open(wake: Wake): Cancel {
    this.#wakes.add(wake);
    return () => {
      this.#wakes.delete(wake);
      if (this.#wakes.size === 0) this.#byKey.clear();
    };
  }

  /** Wakes those who wait when the lease chain `gen` is no longer at `key`. */
  add(key: string, gen: string, remainingMs: number): void {
    if (this.#byKey.size >= MAX_AWAITED && !this.#byKey.has(key)) return;
    this.#byKey.set(key, { gen, until: this.#clock.now() + remainingMs + GRACE_MS });
    // What was written since the caller was answered may not change the version any more.
    this.#version = undefined;
    this.#schedule();
  }

  /** A transaction of this process has ended with the chain `gen` at `key`. */
  update(key: string, gen: string): void {
    const awaited = this.#byKey.get(key);
    if (awaited === undefined || awaited.gen === gen) return;
    this.#byKey.delete(key);
    // Deferred: waiters must not run inside the operation of another caller.
    void Promise.resolve().then(() => {
      for (const wake of this.#wakes) wake(key, undefined, awaited.gen);
    });
  }

  #schedule(): void {
    this.#cancelTimer ??= this.#clock.after(this.#pauseMs, () => {
      this.#cancelTimer = undefined;
      void this.#poll();
    });
  }

  async #poll(): Promise<void> {
    const now = this.#clock.now();
    for (const [key, { until }] of this.#byKey) if (until <= now) this.#byKey.delete(key);
    if (this.#byKey.size === 0) return;
    try {
      const gens = await this.#transactions.read((work) => {
        const { data_version: version } = work.db.get<{ data_version: number }>("PRAGMA data_version") ?? {};
        if (version === this.#version) return [];
        this.#version = version;
        return [...this.#byKey.keys()].map((key) => {
          const { gen = "", untilAt = 0 } = knownEntry(work, key) ?? {};
          return { key, gen, remainingMs: untilAt - work.now };
        });
      });
      for (const { key, gen, remainingMs } of gens) {
        const awaited = this.#byKey.get(key);
        // A lease that is renewed is waited for as long.
        if (awaited?.gen === gen) awaited.until = Math.max(awaited.until, now + remainingMs + GRACE_MS);
        this.update(key, gen);
      }
    } catch {
      // Those who wait read the store themselves, and learn of its failure.
    }
    this.#pauseMs = Math.max(POLL_MS, PAUSE_PER_POLL * (this.#clock.now() - now));
    if (this.#byKey.size > 0) this.#schedule();
  }
}

/**
 * How often it is asked whether a load has ended. Unless another process has written, that takes
 * some 20 us.
 */
const POLL_MS = 10;
/**
 * The pause after a poll is this many times as long as the poll has taken, so that many awaited
 * loads do not keep the process busy.
 */
const PAUSE_PER_POLL = 10;
/** For how long a load is waited for after its lease has ended. */
const GRACE_MS = 1_000;
/** What is beyond is left to the polls of those who wait. */
const MAX_AWAITED = 1_000;

interface Awaited {
  readonly gen: string;
  until: number;
}
