import type { Cancel, Clock } from "../../base/clock.js";
import { CachedError } from "../../base/errors.js";
import type { Store } from "../../store/store.js";
import type { Mode } from "../../telemetry/events.js";
import type { InvalidationClock } from "./invalidation-clock.js";
import {
  coordinatesOf,
  Modes,
  modesOf,
  parseSettings,
  type SettingsContent,
  withCoordinates,
  withModes,
  writeSettings,
} from "./modes.js";
import type { Variants } from "./variants.js";

/**
 * The modes and the names of all fields and loaders, as this process knows them (PROTOCOL.md, settings). A change of them is a record of the
 * invalidation clock, so that every read of the store shows it; they are then read before an entry is evaluated. Each process writes again what
 * they have lost; of two modes, the one with the larger sequence is kept.
 */
export class SharedSettings {
  readonly modes: Modes;
  readonly #store: Store;
  readonly #invalidations: InvalidationClock;
  readonly #clock: Clock;
  readonly #variants: Variants;
  readonly #unusedName: string;
  /** Up to which of `InvalidationClock.settingsChanges` the settings are known. */
  #upTo = -1;
  #coordinateCount = 0;
  #reading: Promise<void> | undefined;
  #writing: Promise<void> | undefined;
  #isUntold = false;
  /** When it last wrote modes again that the settings had lost, on its own clock. */
  #restoredAt = Number.NEGATIVE_INFINITY;
  #cancelPoll: Cancel | undefined;
  #isClosed = false;

  constructor(
    store: Store,
    invalidations: InvalidationClock,
    clock: Clock,
    variants: Variants,
    name: string,
    modes: Modes = new Modes(),
  ) {
    this.modes = modes;
    this.#store = store;
    this.#invalidations = invalidations;
    this.#clock = clock;
    this.#variants = variants;
    this.#unusedName = `${name}:time`;
  }

  /** Whether this process knows the settings up to the last change that the clock has shown to it, and they have all its names. */
  get areCurrent(): boolean {
    return this.#upTo === this.#invalidations.settingsChanges && this.#coordinateCount === this.#variants.size;
  }

  /** Reads the settings if they have changed. Resolves to whether they are known. Never rejects. */
  async catchUp(): Promise<boolean> {
    try {
      // A read that began before the change may not show it, so the next one decides.
      for (let reads = 0; !this.areCurrent && reads < MAX_READS; reads++) await this.#readOnce();
    } catch {
      // The store reports its failures itself.
    }
    return this.areCurrent;
  }

  /** For a process that may not read anything else. Never rejects. */
  async follow(): Promise<void> {
    try {
      // Such a process does not learn the time otherwise, which says whether a mode is too far ahead of it.
      await this.readTime();
      await this.#readOnce();
    } catch {
      // The store reports its failures itself.
    }
  }

  /**
   * Sets a mode, as the latest change of it. Resolves when every read shows that there is a change. Rejects if
   * the store has not confirmed; the mode may have been set nevertheless, and the others are then told of it later.
   */
  async setMode({ mode, coordinate, by }: ModeRequest): Promise<void> {
    const setAt = await this.readTime();
    let sequence = 0;
    await this.#change((before) => {
      const content = withModes(before, this.modes.settings);
      sequence = 1 + Math.max(Math.floor(setAt * 1_000), ...modesOf(content).map((setting) => setting.sequence));
      return withModes(content, [{ mode, coordinate, sequence, setAt, by }]);
    });
    // The store may have lost it. A later change of the same mode counts as well.
    const kept = modesOf(this.#parse(await this.#store.readSettings()));
    if (!kept.some((set) => set.coordinate === coordinate && set.sequence >= sequence))
      throw unavailable("have not taken the mode");
    this.modes.adopt(kept);
    this.#pollLater();
  }

  /** Reads the names of the fields and loaders of all releases. Rejects if they cannot be read. */
  async readCoordinates(): Promise<readonly string[]> {
    const content = this.#parse(await this.#store.readSettings());
    return [...coordinatesOf(content), ...modesOf(content).flatMap(({ coordinate }) => coordinate ?? [])];
  }

  /** Reads the settings at once if the modes keep requests from reading the store. Called when the store is open. */
  open(): void {
    if (!this.modes.areAllOn) void this.#poll();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelPoll?.();
  }

  #readOnce(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const upTo = this.#invalidations.settingsChanges;
    const { size } = this.#variants;
    const content = this.#parse(await this.#store.readSettings());
    if (this.#isClosed) return;
    this.modes.adopt(modesOf(content));
    this.#writeMissing(content);
    this.#pollLater();
    this.#upTo = upTo;
    this.#coordinateCount = size;
  }

  #parse(bytes: Uint8Array | undefined): SettingsContent {
    return parseSettings(bytes, this.#invalidations.storeNow);
  }

  /** Returns `content` itself if it has all modes that this process knows, or later ones, and the names of all its fields and loaders. */
  #completed(content: SettingsContent): SettingsContent {
    return withCoordinates(withModes(content, this.modes.settings), this.#variants.coordinates);
  }

  /** Writes what the settings lack. If that fails, they are read again later. No process waits for names. */
  #writeMissing(content: SettingsContent): void {
    if (this.#completed(content) === content) return;
    const lacksModes = withModes(content, this.modes.settings) !== content;
    const now = this.#clock.now();
    if (lacksModes && now - this.#restoredAt < POLL_MS) {
      // A store that keeps no settings: each attempt is a record of the clock, which has every process read them again.
      this.#followLater();
      return;
    }
    if (lacksModes) this.#restoredAt = now;
    this.#writing ??= this.#change((current) => this.#completed(current))
      .catch(() => this.#followLater())
      .finally(() => {
        this.#writing = undefined;
      });
  }

  /** Replaces the settings by what `edit` returns, unless it is the same, and tells the others if modes have changed. */
  async #change(edit: (content: SettingsContent) => SettingsContent): Promise<void> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = await this.#store.readSettings();
      const current = this.#parse(before);
      const content = edit(current);
      if (content === current) return;
      const hasNewModes = content.modes !== current.modes;
      try {
        if (!(await this.#store.replaceSettings(before, writeSettings(content)))) continue;
        if (hasNewModes) await this.#announce();
        return;
      } catch (error) {
        // They may have been written nevertheless.
        if (hasNewModes) this.#announceLater();
        throw error;
      }
    }
    throw unavailable("change faster than they can be written");
  }

  #announce(): Promise<void> {
    return this.#invalidations.append({ kind: "settings", subjects: [] });
  }

  #announceLater(): void {
    this.#isUntold = true;
    this.#followLater();
  }

  /** Returns the time of the store, from the read of a name that no entry has. Rejects if the store does not reply. */
  async readTime(): Promise<number> {
    const { readings } = await this.#store.read([this.#unusedName]);
    const [reading] = readings;
    if (reading?.kind !== "read") throw reading?.error;
    this.#invalidations.noteTime(reading.now);
    return reading.now;
  }

  #pollLater(): void {
    if (!this.modes.areAllOn) this.#followLater();
  }

  #followLater(): void {
    if (this.#isClosed) return;
    this.#cancelPoll ??= this.#clock.after(POLL_MS, () => {
      this.#cancelPoll = undefined;
      void this.#poll();
    });
  }

  /** Reads the settings, and again later until all modes are on and the others know of them. Never rejects. */
  async #poll(): Promise<void> {
    await this.follow();
    if (this.#isUntold) {
      this.#isUntold = false;
      await this.#announce().catch(() => this.#announceLater());
    }
    this.#pollLater();
  }
}

/** Attempts to change the settings while other processes change them. Each lost one has a winner. */
const MAX_ATTEMPTS = 20;
/** How often the settings are read again because they have changed meanwhile. */
const MAX_READS = 3;
/** How often the settings are read while a mode is not on: reads that bypass the store do not show their changes. */
const POLL_MS = 1_000;

export interface ModeRequest {
  readonly mode: Mode;
  /** Undefined: everything. */
  readonly coordinate: string | undefined;
  /** Which function of which process sets it. */
  readonly by: string;
}

const unavailable = (what: string): CachedError =>
  new CachedError("CACHED_STORE_UNAVAILABLE", `store: the settings ${what}; check what else writes to them`);
