import { Deferred } from "../../base/deferred.js";
import type { Key } from "../../keys/key.js";
import type { Reading } from "../../store/store.js";
import type { KnownKey } from "../request/known-key.js";
import type { DecodedHolder } from "../request/request.js";
import { inTurn, type LongTick, PER_TURN, type Turns } from "../tick/long-tick.js";
import type { Miss } from "./miss.js";

/** The reads of one tick, by any request of this process: one read of the store, one promise. */
export class Tick {
  readonly cells = new Map<string, Cell>();
  /** The keys whose values in memory count if the read confirms them. */
  readonly inMemory: KnownKey[] = [];
  /** Whether somebody waits for the head alone, for a whole response in memory. */
  isHeadAwaited = false;
  readonly ended = new Deferred<void>();
  /** Whether the store has replied, and this process knows all invalidations up to then. */
  isRead = false;
  /** When the read began, before anything was sent, on the clock of this process. */
  sentAt = 0;
  /**
   * Whether the read has shown that one of `inMemory` was invalidated. It is read next, and so is
   * what this read has not found, so that what the tick has to load is one batch.
   */
  isOutrun = false;
  /** Whether what it has shown may be served whatever this process has invalidated meanwhile. */
  mayServe = true;
  /** How many wait for it, and when thousands of them may continue. */
  callers = 0;
  turns: Turns | undefined;

  /**
   * `nth`: of the reads of this process. What this one confirms counts for those who have asked
   * before it was sent. `begunAt`: on the clock of this process.
   */
  constructor(
    readonly nth: number,
    readonly begunAt: number,
  ) {}

  cellOf(key: Key): Cell {
    let cell = this.cells.get(key.name);
    if (cell === undefined) {
      cell = new Cell(this, key, false);
      this.cells.set(key.name, cell);
    }
    return cell;
  }

  /** To be called when all cells have their readings. */
  end(longTick: LongTick): void {
    if (this.callers > PER_TURN) this.turns = longTick.turnsFor(this.callers);
    this.ended.resolve();
  }
}

/** What one tick reads of one key, for all who ask. */
export class Cell implements DecodedHolder {
  reading: Reading = UNREAD;
  readers = 0;
  decoded: DecodedHolder["decoded"] = undefined;
  miss: Miss | undefined = undefined;

  /** `isInMemory`: its value is in memory, and counts if the read of the tick confirms it. */
  constructor(
    readonly tick: Tick,
    readonly key: Key,
    readonly isInMemory: boolean,
  ) {}

  /** What was read. To be asked for only if the read was successful. */
  get read(): Extract<Reading, { kind: "read" }> {
    return this.reading as Extract<Reading, { kind: "read" }>;
  }

  /** Calls `use` in the asynchronous context of the caller, in which a miss loads. */
  whenRead<Used>(use: () => Used | PromiseLike<Used>): Promise<Used> {
    const { tick } = this;
    this.readers++;
    const nth = tick.callers++;
    return tick.ended.promise.then(() => inTurn(tick.turns, nth, use));
  }
}

const UNREAD: Reading = { kind: "failed", error: new Error("the store has not been read yet") };
