import { AsyncResource } from "node:async_hooks";
import type { Clock } from "../../base/clock.js";

/** Divides work on large values into turns of the event loop, so that others are served in between. */
export class ByteTurns {
  readonly #clock: Pick<Clock, "afterTick">;
  #bytes = 0;
  #waiting: (() => void)[] = [];

  constructor(clock: Pick<Clock, "afterTick">) {
    this.#clock = clock;
  }

  /**
   * Returns what `work` returns, which never throws: at once, or in a later turn if the values before it have taken this
   * one up. `bytesOf` says how large the value was.
   */
  run<T>(work: () => T, bytesOf: (result: T) => number): T | Promise<T> {
    if (this.#waiting.length === 0 && this.#bytes < BYTES_PER_TURN) return this.#count(work(), bytesOf);
    return new Promise((resolve) => {
      // In the context of its request: types are resolved by functions of the user.
      this.#waiting.push(AsyncResource.bind(() => resolve(this.#count(work(), bytesOf))));
    });
  }

  #count<T>(result: T, bytesOf: (result: T) => number): T {
    const bytes = bytesOf(result);
    if (bytes < MIN_COUNTED_BYTES) return result;
    if (this.#bytes === 0) this.#clock.afterTick(() => this.#beginTurn());
    this.#bytes += bytes;
    return result;
  }

  #beginTurn(): void {
    this.#bytes = 0;
    let next = 0;
    for (let work = this.#waiting[0]; work !== undefined && this.#bytes < BYTES_PER_TURN; work = this.#waiting[++next])
      work();
    this.#waiting.splice(0, next);
  }
}

/** After this much has been encoded in a turn of the event loop, the next value has to wait for the next turn. */
const BYTES_PER_TURN = 4 * 1024 * 1024;
/** Smaller values are not counted: `PER_TURN` bounds them. */
const MIN_COUNTED_BYTES = 4 * 1024;

/** Lets values be worked on at the same time as long as they are `maxBytes` together; one alone in any case. */
export class ByteRoom {
  readonly #maxBytes: number;
  #bytes = 0;
  readonly #waiting: { readonly bytes: number; readonly enter: () => void }[] = [];

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Resolves when there is room for `bytes`, which `leave` makes free. Undefined if there is room now. */
  enter(bytes: number): Promise<void> | undefined {
    if (this.#waiting.length > 0 || !this.#fits(bytes)) {
      return new Promise((enter) => {
        this.#waiting.push({ bytes, enter });
      });
    }
    this.#bytes += bytes;
    return undefined;
  }

  leave(bytes: number): void {
    this.#bytes -= bytes;
    for (let next = this.#waiting[0]; next !== undefined && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#bytes += next.bytes;
      next.enter();
    }
  }

  #fits(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#maxBytes;
  }
}
