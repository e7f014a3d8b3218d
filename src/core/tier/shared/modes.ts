import type { Mode } from "../../telemetry/events.js";

/** All modes, from the least to the most use of the cache. */
export const MODES: readonly Mode[] = ["off", "on"];

/** Why a read bypasses the cache because of a mode. */
export type ModeReason = "MODE_OFF";

/** A mode that was set, as the shared settings have it. */
export interface ModeSetting {
  /** The field or loader. Undefined: everything. */
  readonly coordinate: string | undefined;
  readonly mode: Mode;
  /** Of two settings for one coordinate, that with the larger sequence is the later one. */
  readonly sequence: number;
  /** In milliseconds on the store's clock. */
  readonly setAt: number;
  /** Which function of which process has set it. */
  readonly by: string | undefined;
}

export interface ModeChange {
  readonly coordinate: string | undefined;
  readonly mode: Mode;
  readonly previous: Mode;
}

/** The latest modes that this process has seen, also while the store has lost them. Of two that concern a field, the one with less use counts. */
export class Modes {
  /** All modes are on, and the cache is open. Not computed, since every hit reads it. */
  isUnrestricted: boolean;
  changeCount = 0;
  readonly #initial: Mode;
  readonly #onChange: (change: ModeChange) => void;
  readonly #settings = new Map<string | undefined, ModeSetting>();
  #isKnown = false;
  #isClosed = false;

  /** `initial`: the mode of everything until the shared settings have been read. */
  constructor(initial: Mode = "on", onChange: (change: ModeChange) => void = () => undefined) {
    this.#initial = initial;
    this.#onChange = onChange;
    this.isUnrestricted = initial === "on";
  }

  get settings(): readonly ModeSetting[] {
    const nameOf = ({ coordinate = "" }: ModeSetting): string => coordinate;
    return [...this.#settings.values()].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  }

  get areAllOn(): boolean {
    return this.#ofEverything === "on" && [...this.#settings.values()].every(({ mode }) => mode === "on");
  }

  of(coordinate: string): Mode {
    const all = this.#ofEverything;
    const own = this.#settings.get(coordinate)?.mode ?? "on";
    return MODES.indexOf(own) < MODES.indexOf(all) ? own : all;
  }

  /** Returns why reads of a field or loader bypass the cache. Undefined: it is on. */
  reasonOf(coordinate: string): ModeReason | undefined {
    if (this.isUnrestricted) return undefined;
    const mode = this.of(coordinate);
    return mode === "on" ? undefined : "MODE_OFF";
  }

  /** Takes over the modes of the shared settings, except those that are older than the known ones. */
  adopt(settings: readonly ModeSetting[]): void {
    const changes: ModeChange[] = [];
    const change = (coordinate: string | undefined, previous: Mode, mode: Mode): void => {
      if (previous !== mode) changes.push({ coordinate, mode, previous });
    };
    const previousOfEverything = this.#ofEverything;
    this.#isKnown = true;
    for (const setting of settings) {
      const { coordinate, mode, sequence } = setting;
      const known = this.#settings.get(coordinate);
      if (known !== undefined && known.sequence >= sequence) continue;
      this.#settings.set(coordinate, setting);
      if (coordinate !== undefined) change(coordinate, known?.mode ?? "on", mode);
    }
    change(undefined, previousOfEverything, this.#ofEverything);
    if (changes.length === 0) return;
    this.changeCount++;
    this.isUnrestricted = this.areAllOn && !this.#isClosed;
    for (const each of changes) this.#onChange(each);
  }

  close(): void {
    this.#isClosed = true;
    this.isUnrestricted = false;
  }

  get #ofEverything(): Mode {
    return this.#isKnown ? (this.#settings.get(undefined)?.mode ?? "on") : this.#initial;
  }
}

/**
 * Returns the settings in these bytes; none in bytes that are no settings. Drops modes that are too far ahead of `storeNow`, the latest time
 * that is known of the store: no mode could replace them, and each process that has seen one keeps it.
 */
export function parseSettings(bytes: Uint8Array | undefined, storeNow: number): SettingsContent {
  if (bytes === undefined) return NO_SETTINGS;
  try {
    const parsed: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
    if (!isObject(parsed)) return NO_SETTINGS;
    const latestAt = storeNow + MAX_AHEAD_MS;
    const isPossible = (listed: unknown): boolean =>
      !isListedMode(listed) || (listed.sequence <= 1_000 * latestAt && listed.setAt <= latestAt);
    const modes = Object.entries(isObject(parsed.modes) ? parsed.modes : {}).filter(([, listed]) => isPossible(listed));
    return { ...parsed, modes: Object.fromEntries(modes) as Record<string, ListedMode> };
  } catch {
    return NO_SETTINGS;
  }
}

/**
 * How far a mode may be ahead of the store's clock, which may have gone back: a day. One that is further ahead was not set by the library.
 */
const MAX_AHEAD_MS = 24 * 3_600_000;
/** How many names of fields and loaders are kept. */
const MAX_COORDINATES = 10_000;
/** Stands for everything among the coordinates that have a mode. */
const EVERYTHING = "*";

interface ListedMode {
  readonly mode: string;
  readonly sequence: number;
  readonly setAt: number;
  readonly by?: string;
}

/**
 * The settings of a prefix, kept as JSON. Other releases may write fields that this one does not know; every change keeps them. Modes only
 * get larger sequences and names are only added, so that a content never returns.
 */
export interface SettingsContent {
  /** By coordinate, or under `*`. */
  readonly modes?: Readonly<Record<string, ListedMode>>;
  /** The names of the fields and loaders of all releases. */
  readonly coordinates?: readonly string[];
}

const NO_SETTINGS: SettingsContent = {};

export const writeSettings = (content: SettingsContent): Uint8Array => Buffer.from(JSON.stringify(content));

export const modesOf = ({ modes = {} }: SettingsContent): ModeSetting[] =>
  Object.entries(modes).flatMap(([name, listed]) => {
    if (!isListedMode(listed)) return [];
    const { mode, sequence, setAt, by } = listed;
    const coordinate = name === EVERYTHING ? undefined : name;
    // A mode that only a later release knows: without the cache, nothing can be wrong.
    return [{ coordinate, mode: MODES.find((known) => known === mode) ?? "off", sequence, setAt, by }];
  });

/** Adds modes unless the settings have later ones. Returns `content` itself if nothing has to change. */
export function withModes(content: SettingsContent, settings: readonly ModeSetting[]): SettingsContent {
  const listed = new Map(modesOf(content).map(({ coordinate, sequence }) => [coordinate, sequence]));
  const missing = settings.filter(({ coordinate, sequence }) => sequence > (listed.get(coordinate) ?? 0));
  if (missing.length === 0) return content;
  const added = missing.map(({ coordinate = EVERYTHING, by, ...setting }): [string, ListedMode] => [
    coordinate,
    by === undefined ? setting : { ...setting, by },
  ]);
  return { ...content, modes: { ...content.modes, ...Object.fromEntries(added) } };
}

export const coordinatesOf = ({ coordinates }: SettingsContent): readonly string[] =>
  Array.isArray(coordinates) ? coordinates.filter((name: unknown) => typeof name === "string") : [];

/** Adds names of fields and loaders. Returns `content` itself if it has all of them. */
export function withCoordinates(content: SettingsContent, names: readonly string[]): SettingsContent {
  const listed = new Set(coordinatesOf(content));
  const missing = names.filter((name) => !listed.has(name)).slice(0, Math.max(0, MAX_COORDINATES - listed.size));
  return missing.length === 0 ? content : { ...content, coordinates: [...listed, ...missing] };
}

const isListedMode = (listed: unknown): listed is ListedMode =>
  isObject(listed) &&
  typeof listed.mode === "string" &&
  Number.isSafeInteger(listed.sequence) &&
  Number.isFinite(listed.setAt) &&
  (listed.by === undefined || typeof listed.by === "string");

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
