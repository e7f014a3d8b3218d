import type { Cancel, Clock, Random } from "../clock.js";
import type { Entry } from "../store/entry.js";
import type { Wake } from "../store/store.js";

/** Why a waiter goes on: the key changed, and `entry` is there now if it was small; or it is time to look. */
export type Woken = { readonly kind: "changed"; readonly entry: Entry | undefined } | { readonly kind: "look" };

interface Waiter {
  readonly dueAt: number;
  go(woken: Woken): void;
}

const FIRST_POLL_MS = 50;
const LAST_POLL_MS = 400;
/** Waiters due this soon after one another look together. */
const TOGETHER_MS = 15;

/**
 * How a reader waits for another's load: a message wakes him, and since messages get lost, so does a poll, at 50 ms, doubling to 400 ms, with
 * jitter. All waiters of a process share one timer, so that those who look together share one read.
 */
export class Waiting {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #byKey = new Map<string, Set<Waiter>>();
  #timer: { readonly dueAt: number; readonly cancel: Cancel } | undefined;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Waits until `key` changes, the poll of this `round` (0, 1, 2 …) is due, or `atMostMs` have passed. Never rejects. */
  wait(key: string, round: number, atMostMs: number): Promise<Woken> {
    const pollMs = Math.min(FIRST_POLL_MS * 2 ** round, LAST_POLL_MS) * (0.75 + this.#random() / 2);
    return new Promise((resolve) => {
      const waiters = this.#byKey.get(key) ?? new Set();
      this.#byKey.set(key, waiters);
      const waiter: Waiter = {
        dueAt: this.#clock.now() + Math.max(0, Math.min(pollMs, atMostMs)),
        go: (woken) => {
          waiters.delete(waiter);
          if (waiters.size === 0 && this.#byKey.get(key) === waiters) this.#byKey.delete(key);
          resolve(woken);
        },
      };
      waiters.add(waiter);
      this.#arm(waiter.dueAt);
    });
  }

  readonly wake: Wake = (key, entry) => {
    const woken: readonly Waiter[] = key === undefined ? this.#all() : [...(this.#byKey.get(key) ?? [])];
    for (const waiter of woken) waiter.go(key === undefined ? { kind: "look" } : { kind: "changed", entry });
  };

  #all(): Waiter[] {
    return [...this.#byKey.values()].flatMap((waiters) => [...waiters]);
  }

  #arm(dueAt: number): void {
    if (this.#timer !== undefined && this.#timer.dueAt <= dueAt) return;
    this.#timer?.cancel();
    this.#timer = { dueAt, cancel: this.#clock.after(Math.max(0, dueAt - this.#clock.now()), () => this.#look()) };
  }

  #look(): void {
    this.#timer = undefined;
    const now = this.#clock.now();
    for (const waiter of this.#all()) if (waiter.dueAt <= now + TOGETHER_MS) waiter.go({ kind: "look" });
    const next = Math.min(...this.#all().map((waiter) => waiter.dueAt));
    if (Number.isFinite(next)) this.#arm(next);
  }
}
