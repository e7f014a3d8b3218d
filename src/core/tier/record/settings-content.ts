import type { Mode } from "../../telemetry/events.js";
import { MODES, type ModeSetting } from "./modes.js";

/**
 * Returns undefined for bytes that are no settings. Drops modes that are too far ahead of `storeNow`, the latest time that is known of the
 * store: no mode could replace them, and each process that has seen one keeps it.
 */
export function parseSettings(bytes: Uint8Array | undefined, storeNow: number): SettingsContent | undefined {
  if (bytes === undefined) return undefined;
  try {
    const parsed: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
    if (!isObject(parsed)) return undefined;
    const latestAt = storeNow + MAX_AHEAD_MS;
    const isPossible = (listed: unknown): boolean =>
      !isListedMode(listed) || (listed.sequence <= 1_000 * latestAt && listed.setAt <= latestAt);
    const modes = isObject(parsed.modes)
      ? Object.fromEntries(Object.entries(parsed.modes).filter(([, listed]) => isPossible(listed)))
      : {};
    return { ...parsed, modes: modes as Record<string, ListedMode> };
  } catch {
    return undefined;
  }
}

/**
 * How far a mode may be ahead of the store's clock, which may have gone back: a day. One that is further ahead was not set by the library,
 * and nothing that is set later could replace it.
 */
const MAX_AHEAD_MS = 24 * 3_600_000;
/** How many names of fields and loaders are kept. */
const MAX_COORDINATES = 10_000;
/** Stands for everything among the coordinates that have a mode. */
const EVERYTHING = "*";

/** A mode in the settings: see `ModeSetting`. */
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

export const EMPTY: SettingsContent = {};

export const writeSettings = (content: SettingsContent): Uint8Array => Buffer.from(JSON.stringify(content));

/** Returns the modes that were set, of fields and loaders of other releases as well. */
export const modesOf = ({ modes = {} }: SettingsContent): ModeSetting[] =>
  Object.entries(modes).flatMap(([name, listed]) => {
    if (!isListedMode(listed)) return [];
    const { mode, sequence, setAt, by } = listed;
    const coordinate = name === EVERYTHING ? undefined : name;
    // A mode that only a later release knows: without the cache, nothing can be wrong.
    return [{ coordinate, mode: isMode(mode) ? mode : "off", sequence, setAt, by }];
  });

/** Adds modes unless the settings have later ones. Returns undefined if nothing has to change. */
export function withModes(content: SettingsContent, settings: readonly ModeSetting[]): SettingsContent | undefined {
  const listed = new Map(modesOf(content).map(({ coordinate, sequence }) => [coordinate, sequence]));
  const missing = settings.filter(({ coordinate, sequence }) => sequence > (listed.get(coordinate) ?? 0));
  if (missing.length === 0) return undefined;
  const added = missing.map(({ coordinate = EVERYTHING, mode, sequence, setAt, by }) => {
    const own: ListedMode = { mode, sequence, setAt, ...(by === undefined ? {} : { by }) };
    return [coordinate, own] as const;
  });
  return { ...content, modes: { ...content.modes, ...Object.fromEntries(added) } };
}

/** Sets a mode, as the latest of the settings: `sequence` is larger than that of any other. */
export const withMode = (content: SettingsContent, setting: ModeSetting): SettingsContent =>
  withModes(content, [setting]) ?? content;

export const coordinatesOf = ({ coordinates }: SettingsContent): readonly string[] =>
  Array.isArray(coordinates) ? coordinates.filter((name: unknown) => typeof name === "string") : [];

/** Adds names of fields and loaders. Returns `content` itself if it has all of them. */
export function withCoordinates(content: SettingsContent, names: readonly string[]): SettingsContent {
  const listed = new Set(coordinatesOf(content));
  const missing = names.filter((name) => !listed.has(name)).slice(0, Math.max(0, MAX_COORDINATES - listed.size));
  return missing.length === 0 ? content : { ...content, coordinates: [...listed, ...missing] };
}

const isMode = (mode: string): mode is Mode => MODES.some((known) => known === mode);

const isListedMode = (listed: unknown): listed is ListedMode =>
  isObject(listed) &&
  typeof listed.mode === "string" &&
  Number.isSafeInteger(listed.sequence) &&
  Number.isFinite(listed.setAt) &&
  (listed.by === undefined || typeof listed.by === "string");

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
