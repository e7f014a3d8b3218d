import type { Clock, Random } from "../../base/clock.js";
import type { Key, Subject, Subjects } from "../../keys/key.js";
import {
  type ClockHead,
  type ClockRecord,
  type InvalidatedForm,
  LOG_HEAD_BYTES,
  type ReadRecord,
  readHead,
  readLog,
  readRecords,
  writeRecord,
} from "../../store/clock-log.js";
import type { ClockOrigin, Store } from "../../store/store.js";

/** What the invalidations since a value was loaded have done to it: nothing, made it stale (soft), or outdated it. */
export type TagsState = "current" | "stale" | "changed";

/** How many subjects one record has at most, since appending it blocks the server. */
const MAX_SUBJECTS = 10_000;
/** How often a process reads the log again before it gives up for the reads that wait. */
const MAX_FETCHES = 3;
/** For how long the end of a write is remembered, so that a begin that arrives late has no effect. */
const ENDED_MICROS = 60_000_000;
/** The pause before a process that has seen an earlier head than it knows reads the log. */
const VERIFY_AFTER_MS = 100;
/** The longest pause before a process repeats what the log has lost: others may do so first. */
const REPAIR_WITHIN_MS = 200;
/** How many records a process recognizes in an earlier head. */
const MAX_RECENT = 1_000;

/** What identifies an entry in all variants of its key form. */
export type EntryKey = Pick<Key, "coordinate" | "form" | "digest">;

/** What one invalidation concerns. */
export interface Invalidated {
  readonly subjects: readonly Subject[];
  /** Default: no key is invalidated. */
  readonly forms?: readonly InvalidatedForm[] | undefined;
}

/** An entry with its tags. */
export interface Written {
  readonly key: EntryKey;
  readonly tags: { readonly subjects: readonly Subject[] };
}

/** The latest positions at which all entries of a key form were invalidated: with their coordinate, or the prefix, or as keys of another form. 0: never. */
interface WholePositions {
  readonly hard: number;
  readonly soft: number;
  /** See `InvalidationClock.changes`. */
  readonly changes: number;
}

/** The writes in progress of one subject, with the time at which the mark of each ends, on the store's clock. */
type Writers = Map<string, number>;

/** What a process knows of the clock, up to the record at `position`. */
interface Known {
  readonly epoch: string;
  readonly position: number;
  readonly nonce: string;
  readonly floor: number;
  /** Where the record ends in all that was appended since the epoch began, and how long it is. */
  readonly endsAt: number;
  readonly lastBytes: number;
}

/** What the log had when this process read it before, and has no more. */
interface Lost {
  readonly hard: Map<Subject, number>;
  readonly soft: Map<Subject, number>;
}

/**
 * What this process knows of the invalidation clock of its prefix. Every read of the store shows the head of the clock. If it is not
 * the one that this process knows, the records between the two are read before an entry is evaluated. An entry has the
 * position that its process knew when it requested the lease; it is current if nothing that it depends on was invalidated later.
 *
 * The interleavings it has to handle:
 *
 * - A tag is invalidated during a load. The position of the lease is earlier, whenever the value is stored.
 * - The store goes back, as after a failover or a restart from an older snapshot. The last record that this process knows is not where it
 *   was, so it reads the whole log. What it knows to be invalidated later than the new log says stays so, and is appended again.
 * - The store goes back, its clock is behind as well, and it appends other records: a head with an earlier position is not always an
 *   earlier head. It is if this process has read its record in the log.
 * - The clock is lost. A new epoch begins, and every entry of another one is absent.
 * - The log has dropped records. Entries older than its floor are absent.
 */
export class InvalidationClock {
  readonly #store: Store;
  readonly #time: Clock;
  readonly #random: Random;
  #head: Buffer | undefined;
  #known: Known | undefined;
  /** The latest position that is certain to stay. */
  #shown: ClockOrigin | undefined;
  /** The position of the last invalidation of each subject. */
  #hard = new Map<Subject, number>();
  #soft = new Map<Subject, number>();
  readonly #open = new Map<Subject, Writers>();
  readonly #ended = new Map<string, number>();
  /** The nonces of the latest known records, in their order. */
  readonly #recent = new Set<string>();
  #lost: Lost = { hard: new Map(), soft: new Map() };
  #fetching: Promise<void> | undefined;
  #starting: Promise<boolean> | undefined;
  #isRepairing = false;
  #isVerifying = false;
  #isOutrunning = false;
  #isClosed = false;
  #changes = 0;
  /** Changes whenever the settings may have changed. */
  settingsChanges = 0;
  #storeNow = 0;
  #asOf = Number.NEGATIVE_INFINITY;
  #restartedAt = Number.NEGATIVE_INFINITY;
  readonly #subjects: Subjects;
  /** The latest position in the maps. */
  #latest = 0;
  readonly #whole = new Map<string, Map<Subject, WholePositions>>();
  readonly #forms: Forms;

  constructor(store: Store, subjects: Subjects, time: Clock, random: Random) {
    this.#store = store;
    this.#subjects = subjects;
    this.#forms = new Forms(subjects);
    this.#time = time;
    this.#random = random;
  }

  /** Changes whenever something is invalidated. */
  get changes(): number {
    return this.#changes;
  }

  /** The latest time of the store that this process has seen. */
  get storeNow(): number {
    return Math.max(this.#storeNow, Math.floor((this.#known?.position ?? 0) / 1_000));
  }

  /** Called with the store's time of a read. */
  noteTime(storeNow: number): void {
    if (storeNow > this.#storeNow) this.#storeNow = storeNow;
  }

  /**
   * When this process last confirmed what it knows, on its own clock: it knows everything that was invalidated, and confirmed, before
   * then.
   */
  get asOf(): number {
    return this.#asOf;
  }

  /** Notes that a read which was sent at `sentAt` has shown a head that this process has caught up with. */
  confirm(sentAt: number): void {
    if (sentAt > this.#asOf) this.#asOf = sentAt;
  }

  /**
   * When the log last did not go on from what this process knew, on its own clock. The position of an entry that was read before cannot be
   * compared: the store may have lost the records up to it, and have made others with earlier positions since.
   */
  get restartedAt(): number {
    return this.#restartedAt;
  }

  /**
   * Under which loads begin now: the latest position that a read has shown, or a confirmed invalidation. The log can have later records
   * that a store with several nodes has not copied yet, and may lose. Undefined: nothing is known of the clock, so nothing can be loaded
   * under a lease.
   */
  get origin(): ClockOrigin | undefined {
    const [known, shown] = [this.#known, this.#shown];
    if (known === undefined || shown?.epoch !== known.epoch) return undefined;
    // Not later than what is known to be invalidated.
    return shown.position <= known.position ? shown : known;
  }

  /** Returns whether entries that were read together with `head` can be evaluated without waiting. */
  isAt(head: Buffer | undefined): boolean {
    return head !== undefined && this.#head?.equals(head) === true;
  }

  /**
   * Reads what is missing up to `shown`, the head that a read has shown. Resolves to whether entries of that read can be evaluated.
   * Never rejects.
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

  /** Ends everything that this process does by itself. */
  close(): void {
    this.#isClosed = true;
  }

  /**
   * Returns whether this process knows every invalidation up to a head. If it knows later ones, the head may be that of an earlier reply,
   * or of another copy, or the store has gone back to it.
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
   * Appends a record that invalidates nothing, so that the log is ahead of a copy of its head which shows what the log has lost. Those who
   * know the lost record then find out, and until then nothing can be evaluated that is read with this copy.
   */
  #outrun(): void {
    if (this.#isOutrunning) return;
    this.#isOutrunning = true;
    const record = writeRecord({ kind: "hard", subjects: [] });
    void this.#store.appendClock([record]).then(ignore, ignore);
    this.#later(VERIFY_AFTER_MS, () => {
      this.#isOutrunning = false;
    });
  }

  /** Calls `work` after a pause. What it rejects with has been reported by the store. */
  #later(pauseMs: number, work: () => void | Promise<void>): void {
    this.#time.after(pauseMs, () => {
      if (this.#isClosed) return;
      void Promise.resolve().then(work).catch(ignore);
    });
  }

  /**
   * Invalidates in the store. Resolves to undefined when it has confirmed, and when this process knows of it. Rejects if it has not.
   * Several records for many subjects are not one step.
   */
  async append({ subjects, forms, ...record }: ClockRecord): Promise<void> {
    // A record without subjects is one as well.
    const parts = subjects.length === 0 ? [subjects] : [...inRecords(subjects)];
    for (const [nth, part] of parts.entries())
      await this.#appendOne({ ...record, subjects: part, forms: nth === 0 ? forms : undefined });
  }

  /** Returns the position of the record. */
  async #appendOne(record: ClockRecord): Promise<number> {
    const bytes = writeRecord(record);
    const shown = await this.#store.appendClock([bytes]);
    const head = readHead(shown);
    if (head === undefined) throw new Error("the store has no invalidation clock");
    const position = Buffer.alloc(8);
    position.writeDoubleLE(head.position);
    this.#note(readRecords(Buffer.concat([position, bytes])) as readonly ReadRecord[]);
    this.#noteShown(head);
    // The head does not say what came before the record: if the store has gone back, other records of the same length may have.
    void this.catchUp(shown);
    return head.position;
  }

  /**
   * Notes what this process is about to invalidate: from now on, it uses nothing that it knows to be older. What it loads until the
   * invalidation is confirmed counts as older as well.
   */
  preempt(invalidated: Invalidated, kind: "hard" | "soft"): void {
    const known = this.#known;
    if (known === undefined) return;
    this.#changes++;
    for (const subject of this.#all(invalidated)) this.#raise(kind, subject, known.position + 0.5);
  }

  /** Finds out what has been invalidated, without a read. Resolves to whether it did. Never rejects. */
  async follow(): Promise<boolean> {
    return this.catchUp(await this.#store.appendClock([]).catch(() => undefined));
  }

  /**
   * Reads what is new up to `bytes`, the head that a message has told of. It confirms nothing: the head may not be in all copies yet, and
   * anybody may have sent it. Another epoch is left to the next read. Never rejects.
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

  /** The same for the first time, at once for all who ask meanwhile, so that they go on in their order. Never rejects. */
  async start(): Promise<void> {
    this.#starting ??= this.follow().finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
  }

  /** Returns the position before which nothing with these subjects counts: that of their last invalidation, or the floor. */
  latestOf(subjects: readonly Subject[]): number {
    let latest = this.#known?.floor ?? 0;
    for (const subject of subjects) {
      const position = this.#hard.get(subject);
      if (position !== undefined && position > latest) latest = position;
    }
    return latest;
  }

  /** Returns the position before which no entry of a request counts, whatever its own tags. */
  oldestOf({ key, tags }: Written): number {
    const hardAt = this.#hard.get(this.#subjects.entry(key)) ?? 0;
    return Math.max(this.#wholeOf(key).hard, hardAt, this.latestOf(tags.subjects));
  }

  /**
   * Returns whether an entry was stored under the clock as it is, is not older than what the log still has, and not than
   * an invalidation of itself, its coordinate or the prefix.
   */
  counts({ epoch, position }: ClockOrigin, key: EntryKey): boolean {
    const known = this.#known;
    if (known === undefined || epoch !== known.epoch || position < known.floor) return false;
    if (position >= this.#latest) return true;
    if (position < this.#wholeOf(key).hard) return false;
    const hardAt = this.#hard.get(this.#subjects.entry(key));
    return hardAt === undefined || position >= hardAt;
  }

  /** Returns whether an entry that is as old was invalidated softly, alone, with its coordinate or with the prefix. */
  isSoftlyInvalidated(position: number, key: EntryKey): boolean {
    if (position >= this.#latest || this.#soft.size === 0) return false;
    if (position < this.#wholeOf(key).soft) return true;
    const softAt = this.#soft.get(this.#subjects.entry(key));
    return softAt !== undefined && position < softAt;
  }

  #wholeOf(key: EntryKey): WholePositions {
    const { coordinate, form } = key;
    let ofForms = this.#whole.get(coordinate);
    const known = ofForms?.get(form);
    if (known?.changes === this.#changes) return known;
    const subjects = this.#wholeSubjectsOf(key);
    const latestIn = (map: ReadonlyMap<Subject, number>): number =>
      Math.max(...subjects.map((subject) => map.get(subject) ?? 0));
    const whole = { hard: latestIn(this.#hard), soft: latestIn(this.#soft), changes: this.#changes };
    ofForms ??= new Map();
    this.#whole.set(coordinate, ofForms.set(form, whole));
    return whole;
  }

  #wholeSubjectsOf(key: Pick<EntryKey, "coordinate" | "form">): readonly Subject[] {
    return [this.#subjects.everything, this.#subjects.coordinate(key.coordinate), ...this.otherFormsOf(key)];
  }

  /** Returns the subjects of invalidations by key that name the keys of a coordinate in another form than this key has. */
  otherFormsOf({ coordinate, form }: Pick<EntryKey, "coordinate" | "form">): readonly Subject[] {
    return this.#forms.others(this.#subjects.coordinate(coordinate), form);
  }

  /** Returns all subjects of an invalidation, those of this process for its key forms included. */
  #all({ subjects, forms = [] }: Invalidated): readonly Subject[] {
    return forms.length === 0 ? subjects : [...subjects, ...forms.map((form) => this.#forms.add(form))];
  }

  /** Returns what has become of a value with these subjects, loaded at `position`. */
  stateOf(subjects: readonly Subject[], position: number): TagsState {
    // What was invalidated before the floor is not known any more.
    if (subjects.length > 0 && position < (this.#known?.floor ?? 0)) return "changed";
    let state: TagsState = "current";
    if (position >= this.#latest) return state;
    for (const subject of this.#forms.withOthers(subjects)) {
      const hardAt = this.#hard.get(subject);
      if (hardAt !== undefined && hardAt > position) return "changed";
      if (this.#soft.size === 0) continue;
      const softAt = this.#soft.get(subject);
      if (softAt !== undefined && softAt > position) state = "stale";
    }
    return state;
  }

  /** Returns whether an entry, or one of its tags, is being written at `now`, on the store's clock. */
  isWritten({ key, tags }: Written, now: number): boolean {
    if (this.#open.size === 0) return false;
    const whole = this.#wholeSubjectsOf(key);
    return [...this.#forms.withOthers(tags.subjects), this.#subjects.entry(key), ...whole].some((subject) => {
      const writers = this.#open.get(subject);
      return writers !== undefined && [...writers.values()].some((until) => until > now);
    });
  }

  /** Reads the log, or waits for a read that is under way: two of them must not overlap. */
  #fetchOnce(head: ClockHead): Promise<void> {
    this.#fetching ??= this.#fetch(head).finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  /** Reads the records after the known ones, or all of them if the log does not go on from there. */
  async #fetch(head: ClockHead): Promise<void> {
    const known = this.#known;
    if (known?.epoch === head.epoch && known.endsAt - known.lastBytes >= head.beginsAt) {
      const from = LOG_HEAD_BYTES + known.endsAt - known.lastBytes - head.beginsAt;
      const records = readRecords((await this.#store.readClock(from)) ?? Buffer.alloc(0));
      const [first, ...later] = records ?? [];
      if (first !== undefined && first.position === known.position && first.nonce === known.nonce) {
        this.#note(later);
        const last = later.at(-1);
        if (last === undefined) return;
        const endsAt = known.endsAt + later.reduce((sum, { bytes }) => sum + bytes, 0);
        const floor = Math.max(known.floor, head.floor);
        this.#setKnown({ ...known, ...last, floor, endsAt, lastBytes: last.bytes }, later);
        return;
      }
    }
    await this.#fetchAll();
  }

  async #fetchAll(): Promise<void> {
    let log = readLog(await this.#store.readClock(0));
    if (log === undefined) {
      // What is there is no log: the store begins a new one.
      await this.#store.appendClock([]);
      log = readLog(await this.#store.readClock(0));
    }
    if (log === undefined) throw new Error("the invalidation clock could not be read");
    const { epoch, floor, beginsAt, records } = log;
    const before = { hard: this.#hard, soft: this.#soft };
    this.#hard = new Map();
    this.#soft = new Map();
    // Marks that the log has lost stay: they end by themselves.
    this.#note(records);
    this.settingsChanges++;
    if (this.#known !== undefined) this.#restartedAt = this.#time.now();
    this.#changes++;
    // Nothing of another epoch counts, whatever was invalidated then.
    const isSame = this.#known?.epoch === epoch;
    this.#lost = isSame
      ? { hard: lostOf(before.hard, this.#hard, floor), soft: lostOf(before.soft, this.#soft, floor) }
      : { hard: new Map(), soft: new Map() };
    // They stay invalidated here until they are so everywhere.
    for (const kind of KINDS) for (const [subject, position] of this.#lost[kind]) this.#raise(kind, subject, position);
    const last = records.at(-1) as ReadRecord;
    const endsAt = beginsAt + records.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#recent.clear();
    this.#setKnown(
      { epoch, position: last.position, nonce: last.nonce, floor, endsAt, lastBytes: last.bytes },
      records,
    );
    this.#repairLater(() => REPAIR_WITHIN_MS * this.#random());
  }

  /** Appends what the log has lost, unless another process does so first. */
  #repairLater(pauseMs: () => number): void {
    if (this.#isRepairing || this.#lost.hard.size + this.#lost.soft.size === 0) return;
    this.#isRepairing = true;
    this.#later(pauseMs(), () =>
      this.#repair()
        .catch(ignore)
        .finally(() => {
          this.#isRepairing = false;
          this.#repairLater(() => REPAIR_WITHIN_MS);
        }),
    );
  }

  async #repair(): Promise<void> {
    const log = readLog(await this.#store.readClock(0));
    if (log === undefined) return;
    if (log.epoch !== this.#known?.epoch) {
      this.#lost = { hard: new Map(), soft: new Map() };
      return;
    }
    for (const kind of KINDS) {
      const lost = this.#lost[kind];
      const latest = new Map<Subject, number>();
      for (const record of log.records)
        if (mapOfKind(record) === kind) for (const subject of this.#all(record)) latest.set(subject, record.position);
      const missing = lostOf(lost, latest, log.floor);
      for (const subject of lost.keys()) if (!missing.has(subject)) lost.delete(subject);
      for (const part of inRecords([...missing.keys()])) {
        const position = await this.#appendOne({ kind, ...this.#forms.split(part) });
        this.#noteRepaired(kind, part, position);
      }
    }
  }

  /**
   * From now on, what was lost counts from where it was appended again. That is an earlier position if the clock of the store has gone
   * back: whatever was loaded under a later one was so after this record, since positions only grow.
   */
  #noteRepaired(kind: "hard" | "soft", subjects: readonly Subject[], position: number): void {
    const map = this.#mapOf(kind);
    this.#changes++;
    for (const subject of subjects) {
      if (map.get(subject) === this.#lost[kind].get(subject)) map.set(subject, position);
      this.#lost[kind].delete(subject);
    }
  }

  /** Applies records in their order. The maps come before the position: one that is ahead of them would hide an invalidation. */
  #note(records: readonly ReadRecord[]): void {
    for (const record of records) {
      if (record.kind === "settings") this.settingsChanges++;
      const map = mapOfKind(record);
      if (map === undefined) continue;
      this.#changes++;
      for (const subject of this.#all(record)) this.#raise(map, subject, record.position);
      if (record.kind === "begin") this.#noteBegin(record);
      if (record.kind === "end") this.#noteEnd(record);
    }
  }

  #noteBegin(record: ReadRecord): void {
    const { writer, guardMs, position } = record;
    const now = Math.floor(position / 1000);
    this.#forgetEnded(now);
    if (this.#ended.has(writer)) return;
    for (const subject of this.#all(record)) {
      const writers = this.#open.get(subject) ?? new Map<string, number>();
      for (const [other, until] of writers) if (until <= now) writers.delete(other);
      writers.set(writer, now + guardMs);
      // The one whose mark was renewed last is the last.
      this.#open.delete(subject);
      this.#open.set(subject, writers);
    }
  }

  /** Forgets marks that have ended by themselves, about the oldest first. */
  #forgetEnded(now: number): void {
    for (const [subject, writers] of this.#open) {
      for (const until of writers.values()) if (until > now) return;
      this.#open.delete(subject);
    }
  }

  #noteEnd(record: ReadRecord): void {
    const { writer, position } = record;
    this.#ended.set(writer, position);
    for (const [ended, at] of this.#ended) {
      if (position - at < ENDED_MICROS) break;
      this.#ended.delete(ended);
    }
    for (const subject of this.#all(record)) {
      const writers = this.#open.get(subject);
      writers?.delete(writer);
      if (writers?.size === 0) this.#open.delete(subject);
    }
  }

  #noteShown({ epoch, position }: ClockHead): void {
    if (this.#shown?.epoch !== epoch || this.#shown.position < position) this.#shown = { epoch, position };
  }

  /** `records`: the last ones, up to the known one. */
  #setKnown(known: Known, records: readonly ReadRecord[]): void {
    for (const { nonce: recent } of records.slice(-MAX_RECENT)) this.#recent.add(recent);
    for (const oldest of this.#recent) {
      if (this.#recent.size <= MAX_RECENT) break;
      this.#recent.delete(oldest);
    }
    if (known.floor !== this.#known?.floor || known.epoch !== this.#known.epoch) this.#changes++;
    if (known.floor !== this.#known?.floor) this.#forgetBefore(known.floor);
    const { epoch, position, nonce, floor, endsAt, lastBytes } = known;
    this.#known = { epoch, position, nonce, floor, endsAt, lastBytes };
    this.#head = undefined;
  }

  /** An entry that is older than the floor is absent, whatever is known of its subjects. */
  #forgetBefore(floor: number): void {
    for (const map of [this.#hard, this.#soft])
      for (const [subject, position] of map) if (position <= floor) map.delete(subject);
  }

  #raise(kind: "hard" | "soft", subject: Subject, position: number): void {
    const map = this.#mapOf(kind);
    const known = map.get(subject);
    if (known === undefined || known < position) map.set(subject, position);
    if (position > this.#latest) this.#latest = position;
  }

  #mapOf(kind: "hard" | "soft"): Map<Subject, number> {
    return kind === "hard" ? this.#hard : this.#soft;
  }
}

const KINDS = ["hard", "soft"] as const;

const ignore = (): void => undefined;

/** Divides subjects into as many as one record has at most. */
function* inRecords(subjects: readonly Subject[]): Generator<readonly Subject[]> {
  for (let from = 0; from < subjects.length; from += MAX_SUBJECTS) yield subjects.slice(from, from + MAX_SUBJECTS);
}

const mapOfKind = ({ kind }: ReadRecord): "hard" | "soft" | undefined =>
  kind === "epoch" || kind === "settings" ? undefined : kind === "soft" ? "soft" : "hard";

/**
 * The key forms in which keys were invalidated. Each has a subject in this process, for the entries of its coordinate in all other forms: a
 * negative number, as no other one is.
 */
class Forms {
  readonly #subjects: Pick<Subjects, "formOf">;
  readonly #ofCoordinate = new Map<Subject, Map<Subject, Subject>>();
  readonly #all = new Map<Subject, InvalidatedForm>();

  constructor(subjects: Pick<Subjects, "formOf">) {
    this.#subjects = subjects;
  }

  /** Returns the subject of a key form. */
  add({ coordinate, form }: InvalidatedForm): Subject {
    let forms = this.#ofCoordinate.get(coordinate);
    if (forms === undefined) {
      forms = new Map();
      this.#ofCoordinate.set(coordinate, forms);
    }
    let subject = forms.get(form);
    if (subject === undefined) {
      subject = -this.#subjects.formOf(coordinate, form);
      this.#all.set(subject, { coordinate, form });
      forms.set(form, subject);
    }
    return subject;
  }

  /** Returns the subjects of all other key forms of a coordinate. */
  others(coordinate: Subject, form: Subject): readonly Subject[] {
    const forms = this.#ofCoordinate.get(coordinate);
    if (forms === undefined) return [];
    return [...forms].flatMap(([other, subject]) => (other === form ? [] : [subject]));
  }

  /** Adds to the subjects of a value what invalidates it since it contains entries of a coordinate, and none in a form. */
  withOthers(subjects: readonly Subject[]): readonly Subject[] {
    let all = subjects;
    for (const coordinate of subjects)
      for (const subject of this.#ofCoordinate.get(coordinate)?.values() ?? [])
        if (!subjects.includes(-subject)) all = [...all, subject];
    return all;
  }

  /** Divides subjects into those of key forms and all others. */
  split(subjects: readonly Subject[]): Invalidated {
    return {
      subjects: subjects.filter((subject) => subject >= 0),
      forms: subjects.flatMap((subject) => (subject < 0 ? [this.#all.get(subject) as InvalidatedForm] : [])),
    };
  }
}

/** Returns what is later in `before` than in `after`, and not covered by the floor. */
const lostOf = (
  before: ReadonlyMap<Subject, number>,
  after: ReadonlyMap<Subject, number>,
  floor: number,
): Map<Subject, number> =>
  new Map([...before].filter(([subject, position]) => position > floor && (after.get(subject) ?? 0) < position));
