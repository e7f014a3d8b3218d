import { type Clock, keepingAlive, within } from "../../base/clock.js";

/** What a process that is asked to end has still to do: loads to store, writes to invalidate. */
export class WorkUnderWay {
  readonly #all = new Set<Promise<unknown>>();

  add<T>(work: Promise<T>): Promise<T> {
    this.#all.add(work);
    const end = (): void => void this.#all.delete(work);
    work.then(end, end);
    return work;
  }

  /** Resolves when work and `after` have ended, or after `maxMs`. Keeps the process alive. */
  drain(clock: Clock, maxMs: number, after?: (untilAt: number) => Promise<void>): Promise<void> {
    const untilAt = clock.now() + maxMs;
    const ended = this.#ended().then(() => after?.(untilAt));
    return keepingAlive(within(clock, ended, { ms: maxMs, otherwise: () => undefined }));
  }

  async #ended(): Promise<void> {
    // More may begin meanwhile.
    while (this.#all.size > 0) await Promise.allSettled(this.#all);
  }
}
