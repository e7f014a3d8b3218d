import type { Key } from "../../keys/key.js";
import type { Reading } from "../../store/store.js";
import type { KnownKey } from "../request/known-key.js";
import { ReadResult } from "../request/request.js";
import type { Unservable } from "../request/verdict.js";
import { type LongTick, PER_TURN, type Turns, turnOf } from "../tick/long-tick.js";

/** What one tick reads of one key, for all who ask. */
export class Cell extends ReadResult {
  readonly tick: Tick;
  readonly key: Key;
  /** Whether its value is in memory, and counts if the read of the tick confirms it. */
  readonly isInMemory: boolean;
  /** What was found for the first reader, if nothing could be served. */
  missed: Unservable | undefined = undefined;

  constructor(tick: Tick, key: Key, isInMemory: boolean) {
    super(UNREAD, 0);
    this.readersLeft = 0;
    this.tick = tick;
    this.key = key;
    this.isInMemory = isInMemory;
  }

  /**
   * Calls `use` once it has been read, in the asynchronous context of the caller, in which a miss
   * loads.
   */
  whenRead<Used>(use: () => Used | PromiseLike<Used>): Promise<Used> {
    const { tick } = this;
    this.readersLeft++;
    const nth = tick.callers++;
    return tick.ready.then(() => {
      const turn = tick.turns && turnOf(tick.turns, nth);
      return turn === undefined ? use() : turn.then(use);
    });
  }
}

/** The reads of one tick, by any request of this process: one read of the store, one promise. */
export class Tick {
  /**
   * Counts the reads of this process: what is confirmed by this one counts for those who have asked
   * before it was sent.
   */
  readonly nth: number;
  /** On the clock of this process. */
  readonly begunAt: number;
  /** What is read from the store, by name. */
  readonly cells = new Map<string, Cell>();
  /** The keys whose values in memory count if the read confirms them. */
  readonly inMemory: KnownKey[] = [];
  readonly ready: Promise<void>;
  /** To be called when all cells have their readings. */
  readonly resolve: () => void;
  /** Whether the store has replied, and this process knows all invalidations up to then. */
  isRead = false;
  /**
   * Whether the read has shown that one of these was invalidated. It is read next, and so is what
   * this read has not found, so that what the tick has to load is one batch.
   */
  isOutrun = false;
  /** Whether what it has shown may be served whatever this process has invalidated meanwhile. */
  mayServe = true;
  /** How many wait for it. */
  callers = 0;
  /** When thousands of callers may continue. Undefined: at once. */
  turns: Turns | undefined;

  constructor(nth: number, begunAt: number) {
    this.nth = nth;
    this.begunAt = begunAt;
    let resolve: () => void = () => undefined;
    this.ready = new Promise((resolved) => {
      resolve = resolved;
    });
    this.resolve = resolve;
  }

  /** Returns what is read of a key. */
  cellOf(key: Key): Cell {
    let cell = this.cells.get(key.name);
    if (cell === undefined) {
      cell = new Cell(this, key, false);
      this.cells.set(key.name, cell);
    }
    return cell;
  }

  /** To be called before `resolve`: divides thousands of callers into turns of the event loop. */
  divide(longTick: LongTick): void {
    if (this.callers > PER_TURN) this.turns = longTick.turnsFor(this.callers);
  }
}

const UNREAD: Reading = { kind: "failed", error: new Error("the store has not been read yet") };
