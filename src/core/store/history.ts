/** A part of a history, as a process has appended it. What it contains is up to the cache. */
export interface HistoryPart {
  /** When the store received it, on the store's clock. */
  readonly at: number;
  readonly content: Uint8Array;
}

/** What a store remembers of the parts that were appended to it. */
export interface History {
  /** The time on the clock of the history's node. */
  readonly now: number;
  /** No part that was appended later than this is missing. The same as `now` if nothing is known. */
  readonly since: number;
  /** Oldest first. A part may be there twice, since clients resend commands. */
  readonly parts: readonly HistoryPart[];
}

/** How much a store remembers. */
export interface HistoryLimits {
  /** The most bytes of all parts, each with `HISTORY_OVERHEAD_BYTES`. */
  readonly maxBytes: number;
  /** How long a part is kept, in milliseconds. */
  readonly keepMs: number;
}

/** What a part takes besides its content, estimated. */
export const HISTORY_OVERHEAD_BYTES = 128;

/** A history in the memory of this process. */
export class MemoryHistory {
  readonly #parts: HistoryPart[] = [];
  #bytes = 0;
  #since: number;

  /** `now`: the time on the store's clock. */
  constructor(now: number) {
    this.#since = now;
  }

  append(content: Uint8Array, { maxBytes, keepMs }: HistoryLimits, now: number): void {
    this.#parts.push({ at: now, content });
    this.#bytes += sizeOf(content);
    for (;;) {
      const [oldest] = this.#parts;
      if (oldest === undefined || (this.#bytes <= maxBytes && oldest.at >= now - keepMs)) return;
      this.#parts.shift();
      this.#bytes -= sizeOf(oldest.content);
      this.#since = Math.max(this.#since, oldest.at);
    }
  }

  read(now: number): History {
    return { now, since: this.#since, parts: [...this.#parts] };
  }
}

const sizeOf = (content: Uint8Array): number => content.byteLength + HISTORY_OVERHEAD_BYTES;
