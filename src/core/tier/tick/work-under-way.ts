import { type Clock, keepingAlive, within } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";

/** What a process that is asked to end has still to do: loads to store, writes to invalidate. */
export class WorkUnderWay {
  #count = 0;
  #idle: Deferred<void> | undefined;

  /** Counts a piece of work until `end` is called. */
  begin(): void {
    this.#count++;
  }

  end(): void {
    if (--this.#count > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  add<T>(work: Promise<T>): Promise<T> {
    this.begin();
    const end = (): void => this.end();
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
    while (this.#count > 0) {
      this.#idle ??= new Deferred();
      await this.#idle.promise;
    }
  }
}
