import { hash } from "node:crypto";
import { type Cancel, type Clock, within } from "../clock.js";
import { CachedError } from "../errors.js";
import type { Key, KeySpace } from "../keys/key.js";
import { timeOfVersion } from "../store/control-version.js";
import type { Store, VersionedControl } from "../store/store.js";
import type { Mode } from "../telemetry/events.js";
import {
  type ControlContent,
  listedVariant,
  modesOf,
  newContent,
  parseContent,
  renewalAt,
  scopeOf,
  variantsOf,
  wasMadeFrom,
  withMode,
  withModes,
  withVariants,
  writeContent,
} from "./control-content.js";
import { type ModeSetting, Modes } from "./modes.js";
import type { Variants } from "./variants.js";

/** Attempts to change the record while other processes change it. Each lost one has a winner. */
const MAX_ATTEMPTS = 20;
/** Pause after a failed attempt to list the variants of this process. */
const LIST_AGAIN_MS = 1_000;
/**
 * How long a copy that is behind the others may stay so before this process writes it: usually the
 * process that changes the record is just doing that.
 */
const REPAIR_AFTER_MS = 1_000;

/**
 * How often the version of the record is read while a mode is not on: reads that bypass the store do not show it. A
 * process knows a change of modes after this time, a read and a read of the record: within two seconds.
 */
const POLL_MS = 1_000;

/** What identifies an entry in all variants. */
export type EntryIdentity = Pick<Key, "name" | "coordinate" | "variantId" | "digest">;

/** Where the entries of keys may be. */
export interface Places {
  /** Their names under each listed variant with the same key form. */
  readonly names: readonly string[];
  /** The coordinates that have a listed variant with another key form. */
  readonly coordinates: readonly string[];
}

/** The settings of `ControlRecord`, in milliseconds. */
export interface ControlRecordSettings {
  /** How long a request waits at most for the record. */
  readonly storeTimeoutMs: number;
}

/** A mode to be set. */
export interface ModeRequest {
  readonly mode: Mode;
  /** Undefined: everything. */
  readonly coordinate: string | undefined;
  /** Which function of which process sets it. */
  readonly by: string;
}

/** A version of the record, as this process knows it. */
interface Known {
  readonly record: VersionedControl;
  readonly content: ControlContent;
  /** Whether all copies are known to have this version or a later one. */
  readonly isEverywhere: boolean;
  /** The signatures that were asked for, by coordinate and variant. */
  readonly scopes: Map<string, Map<string, string | undefined>>;
}

/**
 * What this process knows of the control record, the one place that says which entries under the
 * prefix count besides the invalidation clock: its list of variants says under which names entries may be, and the listing of a variant is the
 * signature of its entries. Every read of the store shows the version of the record. If it is
 * not the one that this process knows, the record is read before an entry is evaluated.
 *
 * The interleavings it has to handle:
 *
 * - A variant is listed while a key is being invalidated: see `Invalidation`. For that, a variant is
 *   listed in all copies before its first lease request.
 * - The store goes back to an earlier record, as after a failover. A process that knows a later one
 *   writes it again.
 * - A variant was dropped from the list while its process was away. The process lists it again, under
 *   another listing, so that entries which an invalidation could not know of do not count.
 * - The record is lost while a field is off. Each process that has seen the mode writes it again; a process
 *   that has not does not know it for as long as that takes. Of two modes, the one with the larger sequence is
 *   kept.
 */
export class ControlRecord {
  /** What this process knows of the modes, also while there is no record. */
  readonly modes: Modes;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #keys: Pick<KeySpace, "nameUnder">;
  readonly #variants: Variants;
  readonly #settings: ControlRecordSettings;
  #known: Known | undefined;
  /** The listings of own variants that all copies are known to have, by coordinate and variant. */
  readonly #confirmed = new Map<string, string>();
  /** Whether all own variants are listed everywhere. False if that is unknown. */
  #isListed = false;
  #declaredCount = 0;
  #fetching: Promise<void> | undefined;
  #nextFetch: Promise<void> | undefined;
  #listing: Promise<void> | undefined;
  #listAgainAt = Number.NEGATIVE_INFINITY;
  /** The latest time of the store that a read has shown. */
  #storeNow = 0;
  #renewAt = Number.POSITIVE_INFINITY;
  #cancelRepair: Cancel | undefined;
  #cancelPoll: Cancel | undefined;
  #writingModes: Promise<void> | undefined;
  #changesReported = 0;
  #changesSettled = 0;
  #isClosed = false;

  constructor(
    store: Store,
    clock: Clock,
    keys: Pick<KeySpace, "nameUnder">,
    variants: Variants,
    settings: ControlRecordSettings,
    modes: Modes = new Modes(),
  ) {
    this.modes = modes;
    this.#store = store;
    this.#clock = clock;
    this.#keys = keys;
    this.#variants = variants;
    this.#settings = settings;
  }

  /** The latest time of the store that a read has shown. */
  get storeNow(): number {
    return this.#storeNow;
  }

  /** Returns the digest of the listing of the variant of a key, under which its loads begin: 8 bytes. Undefined if it is not listed. */
  signatureOf(key: EntryIdentity): string | undefined {
    const known = this.#known;
    return known === undefined ? undefined : findScope(known, key.coordinate, key.variantId);
  }

  /** As long as this is the same object, so is what `signatureOf` returns for a key. */
  get signatures(): object | undefined {
    return this.#known?.scopes;
  }

  /** Returns whether a lease may be requested: the variant is listed, and all copies say so. */
  mayLoad({ coordinate, variantId }: EntryIdentity): boolean {
    if (this.#isListed && this.#variants.count === this.#declaredCount) return true;
    return this.#isConfirmed(coordinate, variantId);
  }

  /**
   * Returns whether entries that were read with `version` can be evaluated, and their keys be loaded,
   * without waiting.
   */
  isReady(version: string | undefined): boolean {
    // Without a known record the list is not known either.
    return this.#isListed && this.#variants.count === this.#declaredCount && version === this.#known?.record.version;
  }

  /**
   * Reads the record if a store read has shown another `version` than the known one, and lists the
   * variants of this process that are not listed. Waits until two time budgets after `readAt`, when the
   * read was sent, or for as long as the read has taken if that is later: the read of a tick with
   * thousands of keys takes several budgets. Returns whether entries of that read can be evaluated. Never rejects.
   */
  async prepare(version: string | undefined, keys: readonly EntryIdentity[], readAt: number): Promise<boolean> {
    const catchUp = this.#isAt(version) ? undefined : this.#catchUp(version);
    // Handled below, but perhaps later than it rejects.
    catchUp?.catch(() => undefined);
    // An earlier version than the known one: a copy was lost, or is behind.
    if (version !== undefined && version !== this.#known?.record.version && this.#isAt(version)) this.#repairLater();
    const prepare = async (): Promise<boolean> => {
      await catchUp;
      const listing = this.list();
      if (!keys.every((key) => this.mayLoad(key))) await listing;
      return true;
    };
    const waitMs = 2 * Math.max(this.#settings.storeTimeoutMs, this.#clock.now() - readAt);
    return this.#until(readAt + waitMs, prepare()).then(
      (isPrepared) => isPrepared ?? this.#isAt(version),
      () => false,
    );
  }

  /** As `list`, but waits for one time budget at most. */
  async listInTime(): Promise<void> {
    await this.#until(this.#clock.now() + this.#settings.storeTimeoutMs, this.list());
  }

  /**
   * Lists the variants of this process, unless that has just failed. Resolves when they are listed in
   * all copies, or with the attempt. Never rejects.
   */
  list(): Promise<void> {
    if (this.#isListed && this.#variants.count === this.#declaredCount) return Promise.resolve();
    if (this.#clock.now() < this.#listAgainAt || this.#isClosed) return Promise.resolve();
    this.#listing ??= this.#changeVariants()
      .catch(() => {
        this.#listAgainAt = this.#clock.now() + LIST_AGAIN_MS;
      })
      .finally(() => {
        this.#listing = undefined;
      });
    return this.#listing;
  }

  /**
   * Called with the store's time of a read. Says from time to time that this process still uses its
   * variants, so that they are not dropped from the list.
   */
  renew(storeNow: number): void {
    if (storeNow > this.#storeNow) this.#storeNow = storeNow;
    if (this.#storeNow < this.#renewAt) return;
    this.#renewAt = Number.POSITIVE_INFINITY;
    this.#isListed = false;
    void this.list();
  }

  /**
   * Sets a mode, as the latest change of it. Resolves when all copies say so, and it or a later one applies. Rejects if
   * the store has not confirmed; the mode may have been set nevertheless.
   */
  async setMode({ mode, coordinate, by }: ModeRequest): Promise<void> {
    let sequence = 0;
    const latest = (content: ControlContent): number =>
      Math.max(0, ...modesOf(content).map((setting) => setting.sequence));
    await this.#change(
      (before) => {
        const content = this.#withKnownModes(before) ?? before;
        sequence = Math.max(Math.floor(this.#storeNow * 1_000), latest(content)) + 1;
        return withMode(content, { mode, coordinate, sequence, by });
      },
      // A later change of the same mode counts as well.
      (content) => modesOf(content).some((set) => set.coordinate === coordinate && set.sequence >= sequence),
    );
    const isOfTarget = (setting: ModeSetting): boolean => setting.coordinate === coordinate;
    const written = modesOf((this.#known as unknown as Known).content).find(isOfTarget);
    const applied = this.modes.settings.find(isOfTarget);
    if (written === undefined || written.sequence < sequence || applied?.sequence !== written.sequence)
      throw unavailable("has not taken the mode");
  }

  /** Reads the names of the fields and loaders of all releases that the record has. Rejects if it cannot be read. */
  async readCoordinates(): Promise<readonly string[]> {
    await this.#fetchNow();
    const { content } = this.#known as unknown as Known;
    const ofModes = modesOf(content).flatMap(({ coordinate }) => coordinate ?? []);
    return [...Object.keys(content.coordinates), ...ofModes];
  }

  /** Reads the record at once if the modes keep requests from reading it. Called when the store is open. */
  open(): void {
    if (!this.modes.areAllOn) void this.#poll();
  }

  /**
   * Reads the version of the record, and the record if it is another one: a process that reads nothing knows no change
   * of modes otherwise. Waits for the time budgets of these reads. Never rejects.
   */
  async followModes(): Promise<void> {
    const readAt = this.#clock.now();
    try {
      // A name that no entry has.
      const name = this.#keys.nameUnder({ coordinate: "#control", digest: "" }, "");
      const { readings, controlVersion } = await this.#store.read([name]);
      if (this.#isClosed) return;
      const isKnown = controlVersion !== undefined && controlVersion === this.#known?.record.version;
      if (readings[0]?.kind === "read" && !isKnown) await this.prepare(controlVersion, [], readAt);
      if (this.#known !== undefined && this.#withKnownModes(this.#known.content) !== undefined) this.#writeModes();
    } catch {
      // The store reports its failures itself.
    }
  }

  /**
   * Returns where entries of `keys` may be, according to the known record: under every listed variant,
   * and under those of this process in any case.
   */
  placesOf(keys: readonly EntryIdentity[]): Places {
    const names = new Set<string>();
    const coordinates = new Set<string>();
    for (const key of keys) {
      names.add(key.name);
      const own = this.#variants.declared(key.coordinate);
      const keyForm = own.find(({ id }) => id === key.variantId)?.keyForm;
      const listed = this.#known === undefined ? {} : variantsOf(this.#known.content, key.coordinate);
      for (const [id, variant] of [...own.map((one) => [one.id, one] as const), ...Object.entries(listed)])
        if (variant.keyForm === keyForm) names.add(this.#keys.nameUnder(key, id));
        else coordinates.add(key.coordinate);
    }
    return { names: [...names], coordinates: [...coordinates] };
  }

  /**
   * Returns where entries of `keys` may be, according to a record that a read of the store shows to be
   * current: a read that begins after this call. `readName` is any name in the store. Rejects if the
   * store does not reply.
   */
  async currentPlacesOf(keys: readonly EntryIdentity[], readName: string): Promise<Places> {
    const { readings, controlVersion } = await this.#store.read([readName]);
    const [reading] = readings;
    if (reading?.kind === "failed") throw reading.error;
    if (controlVersion === undefined || controlVersion !== this.#known?.record.version) {
      await this.#catchUp(controlVersion);
    }
    return this.placesOf(keys);
  }

  /** Number of changes that the store has reported. Read it before a store read, for `settle`. */
  get changesReported(): number {
    return this.#changesReported;
  }

  /** Whether the store has reported a change of the record that this process has not read yet. */
  get isOutdated(): boolean {
    return this.#changesSettled < this.#changesReported;
  }

  /** Called when the store reports that a copy has changed, or may have. */
  reportChange(): void {
    this.#changesReported++;
  }

  /** Called when a read that began after `changesReported` changes has been evaluated. */
  settle(changesReported: number): void {
    if (changesReported > this.#changesSettled) this.#changesSettled = changesReported;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRepair?.();
    this.#cancelPoll?.();
  }

  /** Returns whether the known record is that of `version` or a later one. */
  #isAt(version: string | undefined): boolean {
    return version !== undefined && this.#known !== undefined && this.#known.record.version >= version;
  }

  /**
   * Reads the record, which must be at least of `version`; undefined: with a read that begins now.
   * Rejects if it cannot be read.
   */
  async #catchUp(version: string | undefined): Promise<void> {
    // A read under way may be enough, if it is known which version to expect.
    if (version !== undefined && this.#fetching !== undefined) await this.#fetching.catch(() => undefined);
    if (this.#isAt(version)) return;
    await this.#fetchNow();
    if (version !== undefined && !this.#isAt(version)) throw unavailable("was lost while it was read");
  }

  /** Reads the record, beginning now or when the read under way has ended. */
  #fetchNow(): Promise<void> {
    if (this.#fetching === undefined) {
      this.#fetching = this.#fetch().finally(() => {
        this.#fetching = undefined;
      });
      return this.#fetching;
    }
    this.#nextFetch ??= this.#fetching
      .catch(() => undefined)
      .then(() => {
        this.#nextFetch = undefined;
        return this.#fetchNow();
      });
    return this.#nextFetch;
  }

  /**
   * Reads all copies and keeps the latest. If there is none at all, creates a record with a new epoch:
   * what the lost one had invalidated is unknown. Rejects if that is not possible.
   */
  async #fetch(): Promise<void> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const readings = await this.#store.readControl(this.#store.controlCopies());
      const records = readings.flatMap((reading) => (reading.kind === "read" ? [reading.record] : []));
      const failed = readings.find((reading) => reading.kind === "failed");
      const latest = records.reduce(
        (one, other) => (one === undefined || isLater(other, one) ? other : one),
        undefined,
      );
      if (latest === undefined) {
        if (failed?.kind === "failed") throw failed.error;
        this.#isListed = false;
        if (await this.#replace(undefined, this.#newContent())) return;
        continue;
      }
      const known = this.#known?.record;
      // The store has gone back to an earlier version: a failover, or a restart with older data.
      const record = known !== undefined && isLater(known, latest) ? known : latest;
      const content = parseContent(record, this.#storeNow);
      if (content === undefined) {
        // Something else was written there. As if the record were lost.
        if (await this.#replace(latest.version, this.#newContent())) return;
        continue;
      }
      const isBehind = records.some((copy) => copy === undefined || copy.version < record.version);
      this.#adopt(record, content, isBehind ? false : failed === undefined ? true : undefined);
      if (isBehind) this.#repairLater();
      return;
    }
    throw unavailable("changes faster than it can be read");
  }

  /** The content of a new record, with the variants of this process and the modes that it knows. */
  #newContent(): ControlContent {
    this.#declaredCount = this.#variants.count;
    const content = withVariants(newContent(), this.#variants.all(), this.#storeNow) ?? newContent();
    return this.#withKnownModes(content) ?? content;
  }

  /** Returns undefined if `content` has all modes that this process knows, or later ones. */
  #withKnownModes(content: ControlContent): ControlContent | undefined {
    return withModes(content, this.modes.settings);
  }

  /** Writes the known modes to a record that has lost them. Tried again with the next poll or the next record. */
  #writeModes(): void {
    this.#writingModes ??= this.#change(
      (content) => this.#withKnownModes(content),
      (content) => this.#withKnownModes(content) === undefined,
    )
      .catch(() => undefined)
      .finally(() => {
        this.#writingModes = undefined;
      });
  }

  #pollLater(): void {
    if (this.modes.areAllOn || this.#isClosed) return;
    this.#cancelPoll ??= this.#clock.after(POLL_MS, () => {
      this.#cancelPoll = undefined;
      void this.#poll();
    });
  }

  /** Follows the modes until all are on. Never rejects. */
  async #poll(): Promise<void> {
    await this.followModes();
    this.#pollLater();
  }

  /**
   * Adds what `edit` returns; undefined: nothing has to change. `isIn` returns whether content has the change that has made `version`.
   */
  async #change(
    edit: (content: ControlContent) => ControlContent | undefined,
    isIn: (content: ControlContent, version: string) => boolean = wasMadeFrom,
  ): Promise<void> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      if (this.#known === undefined || attempt > 0) await this.#fetchNow();
      const { record, content } = this.#known as unknown as Known;
      const next = edit(content);
      if (next === undefined) return this.#confirm();
      // Attempts after a conflict begin with a first copy that may be behind.
      if (attempt > 0) await this.#confirm();
      if ((await this.#replace(record.version, next)) && (await this.#confirmChange(isIn))) return;
    }
    throw unavailable("changes faster than it can be written");
  }

  /**
   * Resolves when all copies have the change that was just made at the first one: with true if it
   * lasts. The first copy may have been lost meanwhile, written again from one that did not have the
   * change yet, and changed by another process from there.
   */
  async #confirmChange(isIn: (content: ControlContent, version: string) => boolean): Promise<boolean> {
    const { version } = (this.#known as unknown as Known).record;
    await this.#confirm();
    const copies = this.#store.controlCopies();
    if (copies.length === 1) return true;
    const [first] = await this.#store.readControl(copies.slice(0, 1));
    if (first?.kind === "failed") throw first.error;
    if (first?.record?.version === version) return true;
    await this.#fetchNow();
    return isIn((this.#known as unknown as Known).content, version);
  }

  async #changeVariants(): Promise<void> {
    const declared = this.#variants.all();
    const count = this.#variants.count;
    await this.#change((content) => withVariants(content, declared, this.#storeNow));
    this.#declaredCount = count;
    this.#updateListed();
  }

  /** Replaces the first copy. Returns false if it does not have the version `expected`. */
  async #replace(expected: string | undefined, content: ControlContent): Promise<boolean> {
    const bytes = writeContent(content);
    const version = await this.#store.replaceControl(expected, bytes);
    if (version === undefined) return false;
    const record = { version, content: bytes };
    // A new record counts although a later one may have been known: the clock of the store may have gone back. Until then the lost
    // one is kept for the changes under way, which begin with what is known.
    if (expected === undefined) this.#known = undefined;
    this.#adopt(
      record,
      parseContent(record, this.#storeNow) as ControlContent,
      this.#store.controlCopies().length === 1,
    );
    return true;
  }

  /** Resolves when all copies have the known record or a later one. */
  async #confirm(): Promise<void> {
    const known = this.#known as unknown as Known;
    if (!known.isEverywhere) await this.#store.raiseControl(this.#store.controlCopies(), known.record);
    if (this.#known?.record.version === known.record.version) this.#adopt(known.record, known.content, true);
  }

  /**
   * Keeps a record, unless a later one is known. `isEverywhere`: whether all copies have it; undefined
   * if that is as before.
   */
  #adopt(record: VersionedControl, content: ControlContent, isEverywhere: boolean | undefined): void {
    const known = this.#known;
    if (known !== undefined && isLater(known.record, record)) return;
    const isSame = known?.record.version === record.version;
    this.#known = {
      record,
      content,
      isEverywhere: isEverywhere ?? (isSame && known.isEverywhere),
      scopes: isSame ? known.scopes : new Map(),
    };
    const madeAt = timeOfVersion(record.version);
    if (madeAt > this.#storeNow) this.#storeNow = madeAt;
    this.#updateListed();
    if (isSame) return;
    this.modes.adopt(modesOf(content));
    if (this.#withKnownModes(content) !== undefined) this.#writeModes();
    this.#pollLater();
  }

  /** Updates what is known of the listings of own variants. */
  #updateListed(): void {
    const { content, isEverywhere } = this.#known as Known;
    this.#renewAt = Number.POSITIVE_INFINITY;
    let isListed = this.#variants.count === this.#declaredCount;
    for (const { coordinate, id } of this.#variants.all()) {
      const listed = listedVariant(content, coordinate, id);
      if (listed !== undefined && isEverywhere) this.#confirmed.set(nameOf(coordinate, id), listed.listing);
      if (listed !== undefined) this.#renewAt = Math.min(this.#renewAt, renewalAt(listed));
      if (!this.#isConfirmed(coordinate, id)) isListed = false;
    }
    this.#isListed = isListed;
  }

  #isConfirmed(coordinate: string, id: string): boolean {
    const listed = this.#known === undefined ? undefined : listedVariant(this.#known.content, coordinate, id);
    return listed !== undefined && this.#confirmed.get(nameOf(coordinate, id)) === listed.listing;
  }

  /** Writes the known record to copies that are still behind a little later. */
  #repairLater(): void {
    if (this.#isClosed) return;
    this.#cancelRepair ??= this.#clock.after(REPAIR_AFTER_MS, () => {
      this.#cancelRepair = undefined;
      void this.#repair().catch(() => undefined);
    });
  }

  async #repair(): Promise<void> {
    await this.#fetchNow();
    const known = this.#known as unknown as Known;
    if (!known.isEverywhere) await this.#confirm();
  }

  /** Returns the result of `work`, or undefined at `deadlineAt`. */
  #until<T>(deadlineAt: number, work: Promise<T>): Promise<T | undefined> {
    const ms = deadlineAt - this.#clock.now();
    return within(this.#clock, work, { ms, inParts: true, otherwise: () => undefined });
  }
}

function findScope(known: Known, coordinate: string, variantId: string): string | undefined {
  const { content, scopes } = known;
  let ofCoordinate = scopes.get(coordinate);
  if (ofCoordinate === undefined) {
    ofCoordinate = new Map();
    scopes.set(coordinate, ofCoordinate);
  }
  if (!ofCoordinate.has(variantId)) {
    const scope = scopeOf(content, coordinate, variantId);
    ofCoordinate.set(variantId, scope === undefined ? undefined : digestOf(scope));
  }
  return ofCoordinate.get(variantId);
}

const isLater = (one: VersionedControl | undefined, other: VersionedControl): boolean =>
  one !== undefined && one.version > other.version;

const unavailable = (what: string): CachedError =>
  new CachedError("CACHED_STORE_UNAVAILABLE", `store: the control record ${what}; check what else writes to it`);

/** Returns when a version that is part of the content was made. */
const nameOf = (coordinate: string, id: string): string => `${coordinate}:${id}`;

const digestOf = (text: string): string => hash("sha256", text, "binary").slice(0, 8);
