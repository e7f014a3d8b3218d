import type { Cancel, Clock, Random } from "../clock.js";
import type { Entry } from "../store/entry.js";
import type { Wake } from "../store/store.js";

/** Why a waiter goes on: the key changed, and `entry` is there now if it was small; or it is time to look. */
export type Woken = { readonly kind: "changed"; readonly entry: Entry | undefined } | { readonly kind: "look" };

const FIRST_POLL_MS = 50;
const LAST_POLL_MS = 400;
/** Waiters due this soon after one another look together. */
const TOGETHER_MS = 15;

/**
 * How readers wait for other's loads: a message wakes them, and since messages get lost, so does a poll, at 50 ms, doubling to 400 ms, with
 * jitter. All waiters of a process share one timer, so that those who look together share one read.
 */
export class Waiting {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #byKey = new Map<string, Set<Watch>>();
  #timer: { readonly dueAt: number; readonly cancel: Cancel } | undefined;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * Begins to watch `key`. A reader does so before he asks the store whether somebody is loading: the load may end before he has heard the
   * answer, and then the message is here already. Whoever watches has to `end` it.
   */
  watch(key: string): Watch {
    const watches = this.#byKey.get(key) ?? new Set();
    this.#byKey.set(key, watches);
    const watch = new Watch(
      (round) => {
        const pollMs = Math.min(FIRST_POLL_MS * 2 ** round, LAST_POLL_MS) * (0.75 + this.#random() / 2);
        return { now: this.#clock.now(), pollMs };
      },
      (dueAt) => this.#arm(dueAt),
      () => {
        watches.delete(watch);
        if (watches.size === 0 && this.#byKey.get(key) === watches) this.#byKey.delete(key);
      },
    );
    watches.add(watch);
    return watch;
  }

  readonly wake: Wake = (key, entry) => {
    const watches: readonly Watch[] = key === undefined ? this.#all() : [...(this.#byKey.get(key) ?? [])];
    for (const watch of watches) watch.wake(key === undefined ? { kind: "look" } : { kind: "changed", entry });
  };

  #all(): Watch[] {
    return [...this.#byKey.values()].flatMap((watches) => [...watches]);
  }

  #arm(dueAt: number): void {
    if (this.#timer !== undefined && this.#timer.dueAt <= dueAt) return;
    this.#timer?.cancel();
    this.#timer = { dueAt, cancel: this.#clock.after(Math.max(0, dueAt - this.#clock.now()), () => this.#look()) };
  }

  #look(): void {
    this.#timer = undefined;
    const now = this.#clock.now();
    for (const watch of this.#all()) if (watch.dueAt <= now + TOGETHER_MS) watch.wake({ kind: "look" });
    const next = Math.min(...this.#all().map((watch) => watch.dueAt));
    if (Number.isFinite(next)) this.#arm(next);
  }
}

/** One reader's watch over one key. What happens to the key between two waits ends the next one at once. */
export class Watch {
  /** When the current wait is over; infinite between two waits. */
  dueAt = Number.POSITIVE_INFINITY;
  readonly #pollOf: (round: number) => { readonly now: number; readonly pollMs: number };
  readonly #arm: (dueAt: number) => void;
  readonly #end: () => void;
  #missed: Woken | undefined;
  #go: ((woken: Woken) => void) | undefined;

  constructor(
    pollOf: (round: number) => { readonly now: number; readonly pollMs: number },
    arm: (dueAt: number) => void,
    end: () => void,
  ) {
    this.#pollOf = pollOf;
    this.#arm = arm;
    this.#end = end;
  }

  /** Waits until the key changes, the poll of this `round` (0, 1, 2 …) is due, or `atMostMs` have passed. Never rejects. */
  wait(round: number, atMostMs: number): Promise<Woken> {
    const missed = this.#missed;
    this.#missed = undefined;
    if (missed !== undefined) return Promise.resolve(missed);
    const { now, pollMs } = this.#pollOf(round);
    this.dueAt = now + Math.max(0, Math.min(pollMs, atMostMs));
    this.#arm(this.dueAt);
    return new Promise((resolve) => {
      this.#go = resolve;
    });
  }

  wake(woken: Woken): void {
    this.dueAt = Number.POSITIVE_INFINITY;
    if (this.#go === undefined) this.#missed = woken;
    this.#go?.(woken);
    this.#go = undefined;
  }

  end(): void {
    this.#end();
  }
}
