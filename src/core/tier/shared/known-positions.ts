import type { Clock } from "../../base/clock.js";
import { getOrMake } from "../../base/multimap.js";
import type { Key, Subject, Subjects } from "../../keys/key.js";
import type { InvalidatedForm, ReadRecord } from "../../store/clock-log.js";
import type { ClockOrigin } from "../../store/store.js";

/**
 * What has been invalidated, and when, as far as a process knows; and which writes are in progress.
 * An entry has the position that its process knew when it requested the lease; it is current if
 * nothing that it depends on was invalidated later.
 */
export class KnownPositions {
  /** The earliest position that counts: what was invalidated before is not known. */
  protected floor = 0;
  protected epoch: string | undefined;
  protected positions: Readonly<Record<InvalidatingKind, Positions>> = { hard: new Map(), soft: new Map() };
  changes = 0;
  /** How often the order has begun anew: earlier positions cannot be compared with later ones. */
  restarts = 0;
  /** Remembered, as hits ask and each is a digest. As many as the schemas have. */
  readonly #coordinates = new Map<string, Subject>();
  /** Of the latest invalidation that is known. */
  latest = 0;
  /** Of the last record that is known, whatever it invalidates: no entry can have a later one. */
  position = 0;
  /** The first `position` that was known: nothing was read before. */
  firstPosition = 0;
  /** The mark of each write of a subject, by writer. */
  readonly #open = new Map<Subject, Map<string, Mark>>();
  readonly #ended = new Map<string, number>();
  /**
   * The key forms in which keys were invalidated, by the subject of their coordinate. Each has a
   * subject in this process, for the entries of its coordinate in all other forms: a negative
   * number, as no other one is.
   */
  readonly #formsOf = new Map<Subject, Map<Subject, Subject>>();

  constructor(
    protected readonly subjects: Subjects,
    protected readonly time: Clock,
  ) {}

  /** The position before which nothing with these subjects counts. */
  latestOf(subjects: readonly Subject[]): number {
    return latestIn(this.positions.hard, subjects, this.floor);
  }

  /** When one of these subjects was last invalidated, as far as is known; else 0. */
  lastOf(kind: InvalidatingKind, subjects: readonly Subject[]): number {
    return latestIn(this.positions[kind], subjects, 0);
  }

  /** The position before which no entry of a request counts, whatever its own tags. */
  oldestOf({ key, tags }: Written): number {
    return Math.max(this.latestOf(tags.subjects), this.#latestOfKey(this.positions.hard, key));
  }

  /** Whether an entry is not older than an invalidation of itself, its coordinate or the prefix. */
  counts({ epoch, position }: ClockOrigin, key: EntryKey): boolean {
    if (epoch !== this.epoch || position < this.floor) return false;
    return position >= this.latest || position >= this.#latestOfKey(this.positions.hard, key);
  }

  /** Whether nothing that an entry with tags depends on was invalidated later, hard or softly. */
  isUntouched(position: number, key: EntryKey, subjects: readonly Subject[]): boolean {
    if (position < this.floor) return false;
    if (position >= this.latest) return true;
    const { hard, soft } = this.positions;
    const ofKey = Math.max(this.#latestOfKey(hard, key), this.#latestOfKey(soft, key));
    return ofKey <= position && this.stateOf(subjects, position) === "current";
  }

  /** Whether anything may have been invalidated since a moment. */
  hasNewsSince({ position, restarts }: Moment): boolean {
    return position < this.latest || restarts !== this.restarts;
  }

  /** Whether what was read elsewhere at a moment may be older than an invalidation of an entry. */
  isOlderThanKnown({ position, restarts }: Moment, key: EntryKey, subjects: readonly Subject[]): boolean {
    if (restarts !== this.restarts) return true;
    // The log goes back further than the life of a process that knows nothing of it yet.
    return !this.isUntouched(position === 0 ? this.floor : position, key, subjects);
  }

  isSoftlyInvalidated(position: number, key: EntryKey): boolean {
    const { soft } = this.positions;
    return position < this.latest && soft.size > 0 && position < this.#latestOfKey(soft, key);
  }

  stateOf(subjects: readonly Subject[], position: number): TagsState {
    // What was invalidated before the floor is not known any more.
    if (subjects.length > 0 && position < this.floor) return "changed";
    if (position >= this.latest) return "current";
    const all = this.#withOtherForms(subjects);
    if (latestIn(this.positions.hard, all, 0) > position) return "changed";
    return latestIn(this.positions.soft, all, 0) > position ? "stale" : "current";
  }

  isWritten({ key, tags }: Written, now: number): boolean {
    if (this.#open.size === 0) return false;
    const { everything, entry } = this.subjects;
    const ofKey = [everything, this.#coordinateOf(key.coordinate), entry(key), ...this.otherFormsOf(key)];
    return [...this.#withOtherForms(tags.subjects), ...ofKey].some((subject) =>
      [...(this.#open.get(subject)?.values() ?? [])].some((mark) => this.#lasts(mark, now)),
    );
  }

  /** On either clock: if that of the store is set back, it would last longer by as much. */
  #lasts({ until, ownUntil }: Mark, now: number): boolean {
    return until > now && ownUntil > this.time.now();
  }

  /** The subjects of invalidations that name keys of this coordinate in another form. */
  otherFormsOf({ coordinate, form }: Pick<EntryKey, "coordinate" | "form">): readonly Subject[] {
    const forms = this.#formsOf.get(this.#coordinateOf(coordinate));
    return forms === undefined ? [] : [...forms].flatMap(([other, subject]) => (other === form ? [] : [subject]));
  }

  /** When a key, its coordinate, everything or another form of it was last invalidated; else 0. */
  #latestOfKey(positions: Positions, key: EntryKey): number {
    if (positions.size === 0) return 0;
    const { everything, entry } = this.subjects;
    const ofAll = positions.get(everything) ?? 0;
    const ofCoordinate = positions.get(this.#coordinateOf(key.coordinate)) ?? 0;
    const latest = Math.max(ofAll, ofCoordinate, positions.get(entry(key)) ?? 0);
    return this.#formsOf.size === 0 ? latest : latestIn(positions, this.otherFormsOf(key), latest);
  }

  #coordinateOf(coordinate: string): Subject {
    const subject = this.#coordinates.get(coordinate) ?? this.subjects.coordinate(coordinate);
    this.#coordinates.set(coordinate, subject);
    return subject;
  }

  /** Adds what invalidates a value that contains entries of a coordinate, and none in a form. */
  #withOtherForms(subjects: readonly Subject[]): readonly Subject[] {
    if (this.#formsOf.size === 0) return subjects;
    const forms = subjects.flatMap((coordinate) => [...(this.#formsOf.get(coordinate)?.values() ?? [])]);
    return [...subjects, ...forms.filter((subject) => !subjects.includes(-subject))];
  }

  /** All subjects of an invalidation, those of this process for its key forms included. */
  protected allOf({ subjects, forms = [] }: Invalidated): readonly Subject[] {
    return [...subjects, ...forms.map((form) => this.#subjectOfForm(form))];
  }

  #subjectOfForm({ coordinate, form }: InvalidatedForm): Subject {
    const forms = getOrMake(this.#formsOf, coordinate, () => new Map<Subject, Subject>());
    return getOrMake(forms, form, () => -this.subjects.formOf(coordinate, form));
  }

  /** The opposite of `allOf`. */
  protected splitForms(subjects: readonly Subject[]): Invalidated {
    const forms = [...this.#formsOf].flatMap(([coordinate, subjectOf]) =>
      [...subjectOf].flatMap(([form, subject]) => (subjects.includes(subject) ? [{ coordinate, form }] : [])),
    );
    return { subjects: subjects.filter((subject) => subject >= 0), forms };
  }

  protected raise(kind: InvalidatingKind, subject: Subject, position: number): void {
    const positions = this.positions[kind];
    positions.set(subject, Math.max(position, positions.get(subject) ?? 0));
    this.latest = Math.max(this.latest, position);
  }

  /** An entry that is older than the floor is absent, whatever is known of its subjects. */
  protected raiseFloor(floor: number): void {
    this.floor = floor;
    for (const kind of KINDS)
      for (const [subject, position] of this.positions[kind])
        if (position <= floor) this.positions[kind].delete(subject);
  }

  protected note(records: readonly ReadRecord[]): void {
    for (const record of records) {
      const effect = effectOf(record);
      if (effect === undefined) continue;
      this.changes++;
      for (const subject of this.allOf(record)) this.raise(effect, subject, record.position);
      if (record.kind === "begin") this.#noteBegin(record);
      if (record.kind === "end") this.#noteEnd(record);
    }
  }

  #noteBegin(record: ReadRecord): void {
    const { writer, guardMs, position } = record;
    const now = Math.floor(position / 1000);
    // About the oldest first: the subject whose mark was renewed last is the last.
    for (const [subject, writers] of this.#open) {
      if ([...writers.values()].some((mark) => this.#lasts(mark, now))) break;
      this.#open.delete(subject);
    }
    if (this.#ended.has(writer)) return;
    for (const subject of this.allOf(record)) {
      const others = [...(this.#open.get(subject) ?? [])].filter(([, mark]) => this.#lasts(mark, now));
      const mark: Mark = { until: now + guardMs, ownUntil: this.time.now() + guardMs };
      this.#open.delete(subject);
      this.#open.set(subject, new Map([...others, [writer, mark]]));
    }
  }

  #noteEnd(record: ReadRecord): void {
    const { writer, position } = record;
    this.#ended.set(writer, position);
    for (const [ended, at] of this.#ended) {
      if (position - at < ENDED_MICROS) break;
      this.#ended.delete(ended);
    }
    for (const subject of this.allOf(record)) {
      const writers = this.#open.get(subject);
      writers?.delete(writer);
      if (writers?.size === 0) this.#open.delete(subject);
    }
  }
}

/** What invalidations have done to a value: nothing, made it stale (soft), or outdated it. */
export type TagsState = "current" | "stale" | "changed";

/** Up to where a process knew the invalidations. `position` 0: nothing was shown yet. */
export interface Moment {
  readonly position: number;
  /** See `KnownPositions`. */
  readonly restarts: number;
}

/** What identifies an entry in all variants of its key form. */
export type EntryKey = Pick<Key, "coordinate" | "form" | "digest">;

export interface Invalidated {
  readonly subjects: readonly Subject[];
  /** Default: no key is invalidated. */
  readonly forms?: readonly InvalidatedForm[] | undefined;
}

export interface Written {
  readonly key: EntryKey;
  readonly tags: { readonly subjects: readonly Subject[] };
}

type Positions = Map<Subject, number>;

/** When a mark ends: on the store's clock, and on that of this process, which has heard of it. */
interface Mark {
  readonly until: number;
  readonly ownUntil: number;
}

/** For how long the end of a write is remembered: a begin that arrives later has no effect. */
const ENDED_MICROS = 60_000_000;

export const KINDS = ["hard", "soft"] as const;
export type InvalidatingKind = (typeof KINDS)[number];

/** What a record does with what it names. Undefined: nothing. */
export const effectOf = ({ kind }: ReadRecord): InvalidatingKind | undefined =>
  kind === "epoch" ? undefined : kind === "soft" ? "soft" : "hard";

function latestIn(positions: Positions, subjects: readonly Subject[], least: number): number {
  let latest = least;
  for (const subject of subjects) latest = Math.max(latest, positions.get(subject) ?? 0);
  return latest;
}
