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
  readonly #store: Store;
  readonly #time: Clock;
  readonly #random: Random;
  #head: Buffer | undefined;
  #known: Known | undefined;
  /** The latest position that is certain to stay. */
  #shown: ClockOrigin | undefined;
  /** The nonces of the latest known records, in their order. */
  readonly #recent = new Set<string>();
  #lost: Lost = { hard: new Map(), soft: new Map() };
  #fetching: Promise<void> | undefined;
  #starting: Promise<boolean> | undefined;
  #isRepairing = false;
  #isVerifying = false;
  #isOutrunning = false;
  #isClosed = false;
  #storeNow = 0;
  /**
   * On its own clock: this process knows everything that was invalidated, and confirmed, before
   * then.
   */
  asOf = Number.NEGATIVE_INFINITY;
  /** The number of the latest read that has confirmed it. */
  confirmedRead = 0;
  /**
   * When the log last did not go on from what this process knew, on its own clock. The position of
   * an entry that was read before cannot be compared: the store may have lost the records up to it,
   * and have made others with earlier positions since.
   */
  restartedAt = Number.NEGATIVE_INFINITY;

  constructor(store: Store, subjects: Subjects, time: Clock, random: Random) {
    super(subjects);
    this.#store = store;
    this.#time = time;
    this.#random = random;
  }

  get storeNow(): number {
    return Math.max(this.#storeNow, Math.floor((this.#known?.position ?? 0) / 1_000));
  }

  noteTime(storeNow: number): void {
    if (storeNow > this.#storeNow) this.#storeNow = storeNow;
  }

  /**
   * Notes that a read which was sent at `sentAt` has shown a head that this process has caught up
   * with. `nth`: its number, if it has one.
   */
  confirm(sentAt: number, nth = 0): void {
    if (sentAt > this.asOf) this.asOf = sentAt;
    if (nth > this.confirmedRead) this.confirmedRead = nth;
  }

  /**
   * Under which loads begin now: the latest position that a read has shown, or a confirmed
   * invalidation. The log can have later records that a store with several nodes has not copied
   * yet, and may lose. Undefined: nothing is known of the clock, so nothing can be loaded under a
   * lease.
   */
  get origin(): ClockOrigin | undefined {
    const [known, shown] = [this.#known, this.#shown];
    if (known === undefined || shown?.epoch !== known.epoch) return undefined;
    // Not later than what is known to be invalidated.
    return shown.position <= known.position ? shown : known;
  }

  /**
   * The latest position that was shown: whatever is read outside of the store from now on is not
   * older. 0: none was.
   */
  get shownPosition(): number {
    return this.#shown?.epoch === this.epoch ? Math.max(this.position, this.#shown?.position ?? 0) : this.position;
  }

  /**
   * Returns whether entries that were read together with `head` can be evaluated without waiting.
   */
  isAt(head: Buffer | undefined): boolean {
    return head !== undefined && this.#head?.equals(head) === true;
  }

  /**
   * Reads what is missing up to `shown`, the head that a read has shown. Resolves to whether
   * entries of that read can be evaluated. Never rejects.
   */
  async catchUp(shown: Buffer | undefined): Promise<boolean> {
    try {
      const bytes = readHead(shown) === undefined ? await this.#store.appendClock([]) : (shown as Buffer);
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

  /**
   * Whether this process knows every invalidation up to a head, which may be that of an earlier
   * reply or another copy.
   */
  #includes({ epoch, position, nonce }: ClockHead): boolean {
    const known = this.#known;
    if (known?.epoch !== epoch || known.position < position) return false;
    if (known.position === position) return known.nonce === nonce;
    if (!this.#recent.has(nonce)) return false;
    this.#verifyLater();
    return true;
  }

  /** Finds out soon whether the log still has the last record that this process knows. */
  #verifyLater(): void {
    if (this.#isVerifying) return;
    this.#isVerifying = true;
    this.#later(VERIFY_AFTER_MS, async () => {
      this.#isVerifying = false;
      const head = readHead(await this.#store.appendClock([]));
      if (head !== undefined) await this.#fetchOnce(head);
    });
  }

  /**
   * Appends a record that invalidates nothing: the log is then ahead of a copy which shows what the
   * log has lost, so that those who know it find out.
   */
  #outrun(): void {
    if (this.#isOutrunning) return;
    this.#isOutrunning = true;
    void this.#store.appendClock([writeRecord({ kind: "hard", subjects: [] })]).then(ignore, ignore);
    this.#later(VERIFY_AFTER_MS, async () => {
      this.#isOutrunning = false;
    });
  }

  /** Calls `work` after a pause. What it rejects with has been reported by the store. */
  #later(pauseMs: number, work: () => Promise<void>): void {
    this.#time.after(pauseMs, () => {
      if (!this.#isClosed) void work().catch(ignore);
    });
  }

  /**
   * Invalidates in the store. Resolves when it has confirmed, and when this process knows of it.
   * Rejects if it has not. Several records for many subjects are not one step.
   */
  async append({ subjects, forms, ...record }: ClockRecord): Promise<void> {
    for (const [nth, part] of inRecords(subjects).entries())
      await this.#appendOne({ ...record, subjects: part, forms: nth === 0 ? forms : undefined });
  }

  async #appendOne(record: ClockRecord): Promise<number> {
    const bytes = writeRecord(record);
    const shown = await this.#store.appendClock([bytes]);
    const head = readHead(shown);
    if (head === undefined) throw new Error("the store has no invalidation clock");
    const position = Buffer.alloc(8);
    position.writeDoubleLE(head.position);
    this.note(readRecords(Buffer.concat([position, bytes])) as readonly ReadRecord[]);
    this.#noteShown(head);
    // The head does not say what came before the record: if the store has gone back, other records
    // of the same length may have.
    void this.catchUp(shown);
    return head.position;
  }

  /**
   * Notes what this process is about to invalidate: what it knows, and loads until the invalidation
   * is confirmed, counts as older.
   */
  preempt(invalidated: Invalidated, kind: InvalidatingKind): void {
    if (this.#known === undefined) return;
    this.changes++;
    for (const subject of this.allOf(invalidated)) this.raise(kind, subject, this.#known.position + 0.5);
  }

  /**
   * Finds out what has been invalidated, without a read. Resolves to whether it did. Never rejects.
   */
  async follow(): Promise<boolean> {
    return this.catchUp(await this.#store.appendClock([]).catch(() => undefined));
  }

  /**
   * Reads what is new up to the head that a message has told of, which anybody may have sent: it
   * confirms nothing. Never rejects.
   */
  async hear(bytes: Buffer): Promise<void> {
    const head = readHead(bytes);
    const isNews = ({ epoch, position }: ClockHead): boolean =>
      epoch === this.#known?.epoch && position > this.#known.position;
    try {
      // The first fetch may have begun before the message.
      for (let fetches = 0; fetches < 2 && head !== undefined && isNews(head); fetches++) await this.#fetchOnce(head);
    } catch {
      // The store reports its failures itself.
    }
  }

  /**
   * `follow` for the first time, at once for all who ask meanwhile, so that they go on in their
   * order. Never rejects.
   */
  async start(): Promise<void> {
    this.#starting ??= this.follow().finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
  }

  /** Reads the log, or waits for a read that is under way: two of them must not overlap. */
  #fetchOnce(head: ClockHead): Promise<void> {
    this.#fetching ??= this.#fetch(head).finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  /**
   * Reads the records after the known ones, or all of them if the log does not go on from there.
   */
  async #fetch(head: ClockHead): Promise<void> {
    const known = this.#known;
    const from = known && known.endsAt - known.lastBytes - head.beginsAt;
    if (known?.epoch === head.epoch && from !== undefined && from >= 0) {
      const records = readRecords((await this.#store.readClock(LOG_HEAD_BYTES + from)) ?? Buffer.alloc(0));
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
    let log = readLog(await this.#store.readClock(0));
    // What is there is no log: the store begins a new one. It does not look at each record, so it
    // has to be told of one that cannot be.
    for (let lostEpoch: string | undefined, nth = 0; log === undefined && nth < 2; nth++) {
      lostEpoch = readHead(await this.#store.appendClock([], lostEpoch))?.epoch;
      log = readLog(await this.#store.readClock(0));
    }
    if (log === undefined) throw new Error("the invalidation clock could not be read");
    const { epoch, floor, beginsAt, records } = log;
    const before = this.positions;
    this.positions = { hard: new Map(), soft: new Map() };
    // Marks that the log has lost stay: they end by themselves.
    this.note(records);
    if (this.#known !== undefined) this.restartedAt = this.#time.now();
    this.changes++;
    // Nothing of another epoch counts, whatever was invalidated then.
    const isSame = this.#known?.epoch === epoch;
    const lostOfKind = (kind: InvalidatingKind): Map<Subject, number> =>
      isSame ? lostOf(before[kind], this.positions[kind], floor) : new Map();
    this.#lost = { hard: lostOfKind("hard"), soft: lostOfKind("soft") };
    // They stay invalidated here until they are so everywhere.
    for (const kind of KINDS) for (const [subject, position] of this.#lost[kind]) this.raise(kind, subject, position);
    this.#recent.clear();
    this.#setKnown(epoch, floor, beginsAt, records);
    this.#repairLater(this.#random);
  }

  /** Appends what the log has lost, unless another process does so first. */
  #repairLater(ratio: Random): void {
    if (this.#isRepairing || this.#lost.hard.size + this.#lost.soft.size === 0) return;
    this.#isRepairing = true;
    this.#later(REPAIR_WITHIN_MS * ratio(), async () => {
      await this.#repair().catch(ignore);
      this.#isRepairing = false;
      this.#repairLater(() => 1);
    });
  }

  async #repair(): Promise<void> {
    const log = readLog(await this.#store.readClock(0));
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
    for (const oldest of [...this.#recent].slice(0, -MAX_RECENT)) this.#recent.delete(oldest);
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

/** How many subjects one record has at most, since appending it blocks the server. */
const MAX_SUBJECTS = 10_000;
/** How often a process reads the log again before it gives up for the reads that wait. */
const MAX_FETCHES = 3;
/** The pause before a process that has seen an earlier head than it knows reads the log. */
const VERIFY_AFTER_MS = 100;
/** The longest pause before a process repeats what the log has lost: others may do so first. */
const REPAIR_WITHIN_MS = 200;
/** How many records a process recognizes in an earlier head. */
const MAX_RECENT = 1_000;

/** The last record of the log that a process knows. */
interface Known extends ClockOrigin {
  readonly nonce: string;
  /** Where the record ends in all that was appended since the epoch began, and how long it is. */
  readonly endsAt: number;
  readonly lastBytes: number;
}

type Lost = Readonly<Record<InvalidatingKind, Map<Subject, number>>>;

const ignore = (): void => undefined;

/**
 * Divides subjects into as many as one record has at most. A record without subjects is one as
 * well.
 */
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
