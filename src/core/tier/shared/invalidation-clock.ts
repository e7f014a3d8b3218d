import type { Clock, Random } from "../../base/clock.js";
import type { Subject, Subjects } from "../../keys/key.js";
import {
  type ClockHead,
  type ClockRecord,
  LOG_HEAD_BYTES,
  type ReadRecord,
  readHead,
  readLog,
  readRecords,
  writeRecord,
} from "../../store/clock-log.js";
import type { ClockOrigin, Store } from "../../store/store.js";
import { effectOf, type Invalidated, type InvalidatingKind, KINDS, KnownPositions } from "./known-positions.js";

/**
 * What this process knows of the invalidation clock of its prefix. Every read of the store shows
 * the head of the clock. If it is not the one that this process knows, the records between the two
 * are read before an entry is evaluated.
 *
 * If the store goes back, as after a failover, the last record that this process knows is not where
 * it was, so it reads the whole log. What it knows to be invalidated later than the new log says
 * stays so, and is appended again (PROTOCOL.md, interleaving 7). A head with an earlier position
 * need not be an earlier head: it is if this process has read its record in the log.
 */
export class InvalidationClock extends KnownPositions {
  #head: Buffer | undefined;
  #known: Known | undefined;
  /** The latest position that is certain to stay. */
  #shown: ClockOrigin | undefined;
  /** The nonces of the latest known records, in their order. */
  readonly #recent = new Set<string>();
  #lost: Lost = { hard: new Map(), soft: new Map() };
  #fetching: Promise<void> | undefined;
  /** What is to be done after a pause, or under way. */
  readonly #tasks = new Set<Task>();
  #isClosed = false;
  #storeNow = 0;
  /** On its own clock: this process knows what was invalidated, and confirmed, before then. */
  asOf = Number.NEGATIVE_INFINITY;
  /** The latest read that has confirmed it. */
  confirmedRead = 0;
  /**
   * When the log last did not go on from what this process knew, on its own clock. Positions of
   * entries that were read before cannot be compared: the store may have lost the records up to
   * them, and have made others with earlier positions since.
   */
  restartedAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly store: Store,
    subjects: Subjects,
    time: Clock,
    private readonly random: Random,
  ) {
    super(subjects, time);
  }

  get storeNow(): number {
    return Math.max(this.#storeNow, Math.floor((this.#known?.position ?? 0) / 1_000));
  }

  noteTime(storeNow: number): void {
    if (storeNow > this.#storeNow) this.#storeNow = storeNow;
  }

  /** Notes that this process knows the head that the read `nth`, sent at `sentAt`, has shown. */
  confirm(sentAt: number, nth = 0): void {
    if (sentAt > this.asOf) this.asOf = sentAt;
    if (nth > this.confirmedRead) this.confirmedRead = nth;
  }

  /**
   * Under which loads begin now: the latest position that a read has shown, or a confirmed
   * invalidation. Later records of the log may not be in all nodes yet, and be lost. Undefined:
   * nothing is known of the clock, so nothing can be loaded under a lease.
   */
  get origin(): ClockOrigin | undefined {
    const [known, shown] = [this.#known, this.#shown];
    if (known === undefined || shown?.epoch !== known.epoch) return undefined;
    // Not later than what is known to be invalidated.
    return shown.position <= known.position ? shown : known;
  }

  /** What is read outside of the store from now on is not older. 0: no position was shown. */
  get shownPosition(): number {
    return this.#shown?.epoch === this.epoch ? Math.max(this.position, this.#shown?.position ?? 0) : this.position;
  }

  /** Whether entries that were read together with `head` can be evaluated without waiting. */
  isAt(head: Buffer | undefined): boolean {
    return head !== undefined && this.#head?.equals(head) === true;
  }

  /** Reads up to the head that a read has shown. Returns whether its entries count. Never fails. */
  async catchUp(shown: Buffer | undefined): Promise<boolean> {
    try {
      const bytes = readHead(shown) === undefined ? await this.store.appendClock([]) : (shown as Buffer);
      const head = readHead(bytes);
      if (head === undefined) return false;
      // A fetch that began before this call may have been answered before, so the next one decides.
      for (let fetches = 0; !this.#includes(head); fetches++) {
        if (fetches === MAX_FETCHES) {
          this.#outrun();
          return false;
        }
        await this.#fetchOnce(head);
      }
      this.#noteShown(head);
      if (head.position === this.#known?.position) this.#head = bytes;
      return true;
    } catch {
      // The store reports its failures itself.
      return false;
    }
  }

  close(): void {
    this.#isClosed = true;
  }

  /** Whether this process knows every invalidation up to a head, which may be an earlier one. */
  #includes({ epoch, position, nonce }: ClockHead): boolean {
    const known = this.#known;
    if (known?.epoch !== epoch || known.position < position) return false;
    if (known.position === position) return known.nonce === nonce;
    if (!this.#recent.has(nonce)) return false;
    // Soon finds out whether the log still has the last record that this process knows.
    void this.#later("verify", VERIFY_AFTER_MS, async () => {
      const current = readHead(await this.store.appendClock([]));
      if (current !== undefined) await this.#fetchOnce(current);
    });
    return true;
  }

  /** Appends an empty record, so that those who know what the log has lost find out. */
  #outrun(): void {
    if (this.#later("outrun", VERIFY_AFTER_MS, async () => undefined) !== undefined)
      void this.store.appendClock([writeRecord({ kind: "hard", subjects: [] })]).then(ignore, ignore);
  }

  /**
   * Calls `work` after a pause, unless the task is to be done already. Resolves when it has ended.
   * The store reports its failures itself.
   */
  #later(task: Task, pauseMs: number, work: () => Promise<void>): Promise<void> | undefined {
    if (this.#tasks.has(task)) return undefined;
    this.#tasks.add(task);
    return new Promise((resolve) => {
      const run = async (): Promise<void> => {
        if (this.#isClosed) return;
        await work().catch(ignore);
        this.#tasks.delete(task);
        resolve();
      };
      this.time.after(pauseMs, () => void run());
    });
  }

  /** Resolves when the store has confirmed. Several records for many subjects are not one step. */
  async append({ subjects, forms, ...record }: ClockRecord): Promise<void> {
    for (const [nth, part] of inRecords(subjects).entries())
      await this.#appendOne({ ...record, subjects: part, forms: nth === 0 ? forms : undefined });
  }

  async #appendOne(record: ClockRecord): Promise<number> {
    const bytes = writeRecord(record);
    const shown = await this.store.appendClock([bytes]);
    const head = readHead(shown);
    if (head === undefined) throw new Error("the store has no invalidation clock");
    const position = Buffer.alloc(8);
    position.writeDoubleLE(head.position);
    this.note(readRecords(Buffer.concat([position, bytes])) as readonly ReadRecord[]);
    this.#noteShown(head);
    // The head does not show whether the store has gone back, to other records of that length.
    void this.catchUp(shown);
    return head.position;
  }

  /** What this process knows, and loads until an invalidation is confirmed, counts as older. */
  preempt(invalidated: Invalidated, kind: InvalidatingKind): void {
    this.changes++;
    const { position = 0 } = this.#known ?? {};
    for (const subject of this.allOf(invalidated)) this.raise(kind, subject, position + 0.5);
  }

  /** `catchUp` without a read. Never rejects. */
  async follow(): Promise<boolean> {
    return this.catchUp(await this.store.appendClock([]).catch(() => undefined));
  }

  /** Reads up to the head in a message, which confirms nothing. Never rejects. */
  async hear(bytes: Buffer): Promise<void> {
    const head = readHead(bytes);
    // The first fetch may have begun before the message.
    for (let fetches = 0; fetches < 2; fetches++)
      if (head !== undefined && head.epoch === this.#known?.epoch && head.position > this.#known.position)
        await this.#fetchOnce(head).catch(ignore);
  }

  /** Reads the log, or waits for a read that is under way: two must not overlap. */
  #fetchOnce(head: ClockHead): Promise<void> {
    this.#fetching ??= this.#fetch(head).finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  /** Reads the records after the known ones, or all if the log does not go on from there. */
  async #fetch(head: ClockHead): Promise<void> {
    const known = this.#known;
    const from = known && known.endsAt - known.lastBytes - head.beginsAt;
    if (known?.epoch === head.epoch && from !== undefined && from >= 0) {
      const records = readRecords((await this.store.readClock(LOG_HEAD_BYTES + from)) ?? Buffer.alloc(0));
      const [first, ...later] = records ?? [];
      if (first?.position === known.position && first.nonce === known.nonce) {
        this.note(later);
        if (later.length > 0) this.#setKnown(known.epoch, Math.max(this.floor, head.floor), known.endsAt, later);
        return;
      }
    }
    await this.#fetchAll();
  }

  async #fetchAll(): Promise<void> {
    let log = readLog(await this.store.readClock(0));
    // What is there is no log: the store begins a new one. It does not look at each record, so it
    // has to be told of one that cannot be.
    for (let lostEpoch: string | undefined, nth = 0; log === undefined && nth < 2; nth++) {
      lostEpoch = readHead(await this.store.appendClock([], lostEpoch))?.epoch;
      log = readLog(await this.store.readClock(0));
    }
    if (log === undefined) throw new Error("the invalidation clock could not be read");
    const { epoch, floor, beginsAt, records } = log;
    const before = this.positions;
    this.positions = { hard: new Map(), soft: new Map() };
    // Marks that the log has lost stay: they end by themselves.
    this.note(records);
    if (this.#known !== undefined) {
      this.restartedAt = this.time.now();
      this.restarts++;
    }
    this.changes++;
    // What was invalidated before its floor, this process has forgotten. A log that begins earlier
    // has gone back, and may lack it.
    const { everything } = this.subjects;
    if (floor < this.floor) before.hard.set(everything, Math.max(this.floor, before.hard.get(everything) ?? 0));
    // Nothing of another epoch counts, whatever was invalidated then.
    const isSame = this.#known?.epoch === epoch;
    const lostOfKind = (kind: InvalidatingKind): Map<Subject, number> =>
      isSame ? lostOf(before[kind], this.positions[kind], floor) : new Map();
    this.#lost = { hard: lostOfKind("hard"), soft: lostOfKind("soft") };
    // They stay invalidated here until they are so everywhere.
    for (const kind of KINDS) for (const [subject, position] of this.#lost[kind]) this.raise(kind, subject, position);
    this.#recent.clear();
    this.#setKnown(epoch, floor, beginsAt, records);
    this.#repairLater(this.random);
  }

  /** Appends what the log has lost, unless another process does so first. */
  #repairLater(ratio: Random): void {
    if (this.#lost.hard.size + this.#lost.soft.size > 0)
      void this.#later("repair", REPAIR_WITHIN_MS * ratio(), () => this.#repair())?.then(() =>
        this.#repairLater(() => 1),
      );
  }

  async #repair(): Promise<void> {
    const log = readLog(await this.store.readClock(0));
    if (log === undefined) return;
    if (log.epoch !== this.epoch) {
      this.#lost = { hard: new Map(), soft: new Map() };
      return;
    }
    for (const kind of KINDS) {
      const lost = this.#lost[kind];
      const latest = new Map<Subject, number>();
      for (const record of log.records)
        if (effectOf(record) === kind) for (const subject of this.allOf(record)) latest.set(subject, record.position);
      const missing = lostOf(lost, latest, log.floor);
      for (const subject of lost.keys()) if (!missing.has(subject)) lost.delete(subject);
      for (const part of missing.size === 0 ? [] : inRecords([...missing.keys()])) {
        const position = await this.#appendOne({ kind, ...this.splitForms(part) });
        this.#noteRepaired(kind, part, position);
      }
    }
  }

  /**
   * From now on, what was lost counts from where it was appended again. That is an earlier position
   * if the clock of the store has gone back: whatever was loaded under a later one was so after
   * this record, since positions only grow.
   */
  #noteRepaired(kind: InvalidatingKind, subjects: readonly Subject[], position: number): void {
    this.changes++;
    for (const subject of subjects) {
      if (this.positions[kind].get(subject) === this.#lost[kind].get(subject))
        this.positions[kind].set(subject, position);
      this.#lost[kind].delete(subject);
    }
  }

  #noteShown({ epoch, position }: ClockHead): void {
    if (this.#shown?.epoch !== epoch || this.#shown.position < position) this.#shown = { epoch, position };
  }

  /**
   * `records`: the last ones, at least one, which begin at `beginsAt`. They have been noted: a
   * position that is ahead of the maps would hide an invalidation.
   */
  #setKnown(epoch: string, floor: number, beginsAt: number, records: readonly ReadRecord[]): void {
    for (const { nonce } of records.slice(-MAX_RECENT)) this.#recent.add(nonce);
    for (const oldest of this.#recent) {
      if (this.#recent.size <= MAX_RECENT) break;
      this.#recent.delete(oldest);
    }
    if (floor !== this.floor || epoch !== this.epoch) this.changes++;
    if (floor !== this.floor) this.raiseFloor(floor);
    this.epoch = epoch;
    const { position, nonce, bytes: lastBytes } = records.at(-1) as ReadRecord;
    const endsAt = beginsAt + records.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#known = { epoch, position, nonce, endsAt, lastBytes };
    this.position = position;
    if (this.firstPosition === 0) this.firstPosition = position;
    this.#head = undefined;
  }
}

/** Of one record: appending it blocks the server. */
const MAX_SUBJECTS = 10_000;
/** How often the log is read again for the reads that wait. */
const MAX_FETCHES = 3;
const VERIFY_AFTER_MS = 100;
/** Another process may repeat first what the log has lost. */
const REPAIR_WITHIN_MS = 200;
/** How many records are recognized in an earlier head. */
const MAX_RECENT = 1_000;

/** The last record of the log that a process knows. */
interface Known extends ClockOrigin {
  readonly nonce: string;
  /** Where the record ends in all that was appended since the epoch began, and how long it is. */
  readonly endsAt: number;
  readonly lastBytes: number;
}

type Task = "verify" | "outrun" | "repair";
type Lost = Readonly<Record<InvalidatingKind, Map<Subject, number>>>;

const ignore = (): void => undefined;

/** Divides subjects into as many as one record has at most. No subjects make one record as well. */
function inRecords(subjects: readonly Subject[]): (readonly Subject[])[] {
  const count = Math.max(1, Math.ceil(subjects.length / MAX_SUBJECTS));
  return Array.from({ length: count }, (_, nth) => subjects.slice(nth * MAX_SUBJECTS, (nth + 1) * MAX_SUBJECTS));
}

/** Returns what is later in `before` than in `after`, and not covered by the floor. */
const lostOf = (
  before: ReadonlyMap<Subject, number>,
  after: ReadonlyMap<Subject, number>,
  floor: number,
): Map<Subject, number> =>
  new Map([...before].filter(([subject, position]) => position > floor && (after.get(subject) ?? 0) < position));
