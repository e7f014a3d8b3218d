import { isControlVersion, MAX_AHEAD_MS, timeOfVersion } from "../store/control-version.js";
import type { VersionedControl } from "../store/store.js";
import type { Mode } from "../telemetry/events.js";
import { MODES, type ModeSetting } from "./modes.js";

/**
 * Stands for the version of the record that it is written in. The server makes that version, so what
 * it names never comes back, even if a command that writes it is carried out again.
 */
const THIS_VERSION = "*";
/** A variant is kept in the list for at least this long after a process has last used it. */
const MIN_LIFE_MS = 24 * 3_600_000;
/** A process that uses a variant says so at least this often. */
const MAX_RENEWAL_MS = 3 * MIN_LIFE_MS;
/** Maximum number of variants of a coordinate. Beyond it, those not used for longest are dropped. */
const MAX_VARIANTS = 100;

/** A variant in the list: entries of it may exist. */
export interface ListedVariant {
  /** The version of the record that listed it. It is part of the signature of its entries. */
  readonly listing: string;
  /** The version of the record in which a process has last said that it uses the variant. */
  readonly seen: string;
  /** The longest life of an entry in milliseconds. Null: entries may last for ever. */
  readonly lifeMs: number | null;
  readonly keyForm: string;
}

/** What the record says about one field or loader. */
interface CoordinateControl {
  readonly variants?: Readonly<Record<string, ListedVariant>>;
}

/** A mode in the record: see `ModeSetting`. */
interface ListedMode {
  readonly mode: string;
  readonly sequence: number;
  readonly version: string;
  readonly by?: string;
}

/** Stands for everything among the coordinates that have a mode. */
const EVERYTHING = "*";

/**
 * The content of the control record, kept as JSON. Other releases may write fields that this one
 * does not know; every change keeps them. Versions are base64url.
 */
export interface ControlContent {
  readonly coordinates: Readonly<Record<string, CoordinateControl>>;
  /** By coordinate, or under `*`. */
  readonly modes?: Readonly<Record<string, ListedMode>>;
}

/** A variant that this process uses. */
export interface DeclaredVariant {
  readonly coordinate: string;
  readonly id: string;
  readonly keyForm: string;
  /** Undefined: entries may last for ever. */
  readonly lifeMs: number | undefined;
}

/** The content of a new record. It lists no variant, so that no entry that exists counts any more. */
export const newContent = (): ControlContent => ({ coordinates: {} });

/**
 * Reads the content of a record. Returns undefined if it is not one, or if it names a version later than its own, which
 * no change can have written. Drops modes that are too far ahead of the record and of `storeNow`, the latest time that
 * is known of the store: no mode could replace them, and each process that has seen one keeps it.
 */
export function parseContent({ version, content }: VersionedControl, storeNow = 0): ControlContent | undefined {
  const ownVersion = Buffer.from(version, "latin1").toString("base64url");
  try {
    const parsed: unknown = JSON.parse(Buffer.from(content).toString("utf8"), (_, value: unknown) =>
      value === THIS_VERSION ? ownVersion : value,
    );
    if (!isObject(parsed) || !isObject(parsed.coordinates)) return undefined;
    const read = parsed as unknown as ControlContent;
    if (versionsIn(read).some((named) => rankOf(named) > version)) return undefined;
    const latestAt = Math.max(timeOfVersion(version), storeNow) + MAX_AHEAD_MS;
    return isObject(read.modes) ? { ...read, modes: modesUntil(read.modes, latestAt) } : read;
  } catch {
    return undefined;
  }
}

/** Returns the versions that content names as those of its changes, as far as this release knows their form. */
function versionsIn(content: ControlContent): string[] {
  const named = [content, ...Object.values(content.coordinates)].flatMap((one: unknown) => {
    if (!isObject(one)) return [];
    const variants = isObject(one.variants) ? Object.values(one.variants) : [];
    return [...variants.flatMap((v) => (isObject(v) ? [v.listing, v.seen] : []))];
  });
  return named.filter((version) => typeof version === "string");
}

/** Sequences are microseconds on the store's clock, except where modes were set in one. */
const modesUntil = (modes: Readonly<Record<string, unknown>>, latestAt: number): Record<string, ListedMode> =>
  Object.fromEntries(
    Object.entries(modes).filter(
      ([, listed]) =>
        !isListedMode(listed) ||
        (listed.sequence <= 1_000 * latestAt && timeOfVersion(rankOf(listed.version)) <= latestAt),
    ),
  ) as Record<string, ListedMode>;

/**
 * Returns whether content still says what the change that made `version` has said: each change writes
 * its own version. False also if a later change of the same kind has replaced it.
 */
export const wasMadeFrom = (content: ControlContent, version: string): boolean =>
  JSON.stringify(content).includes(Buffer.from(version, "latin1").toString("base64url"));

export const writeContent = (content: ControlContent): Uint8Array => Buffer.from(JSON.stringify(content));

/** Returns a version as it is compared. */
const rankOf = (version: string): string => Buffer.from(version, "base64url").toString("latin1");

/**
 * Lists the variants of this process, and says that it uses them if half of their life is over at
 * `now`, the store's time. Drops variants that no process has used for the longest life of their
 * entries. Dropping is always safe: a variant that is listed again gets another listing, so its
 * earlier entries do not count. Returns undefined if nothing has to change.
 */
export function withVariants(
  content: ControlContent,
  declared: readonly DeclaredVariant[],
  now: number,
): ControlContent | undefined {
  const isDue = declared.some((variant) => {
    const listed = listedVariant(content, variant.coordinate, variant.id);
    return listed === undefined || now >= renewalAt(listed) || lifeOf(listed) < lifeOf(variant);
  });
  if (!isDue) return undefined;
  const own = new Map<string, DeclaredVariant[]>();
  for (const variant of declared) own.set(variant.coordinate, [...(own.get(variant.coordinate) ?? []), variant]);
  const names = new Set([...Object.keys(content.coordinates), ...own.keys()]);
  const coordinates = [...names].flatMap((name) => {
    const before = coordinateOf(content, name);
    const kept = Object.entries(variantsOf(content, name)).filter(([, listed]) => now < endOf(listed));
    const variants = new Map(kept.sort(([, one], [, other]) => seenAt(one) - seenAt(other)));
    for (const { id, keyForm, lifeMs } of own.get(name) ?? []) {
      const listed = variants.get(id);
      const longest = Math.max(lifeOf({ lifeMs }), listed === undefined ? 0 : lifeOf(listed));
      variants.delete(id);
      variants.set(id, {
        ...listed,
        listing: listed?.listing ?? THIS_VERSION,
        seen: THIS_VERSION,
        lifeMs: Number.isFinite(longest) ? longest : null,
        keyForm,
      });
    }
    if (variants.size === 0) return [];
    return [[name, { ...before, variants: Object.fromEntries([...variants].slice(-MAX_VARIANTS)) }] as const];
  });
  return { ...content, coordinates: Object.fromEntries(coordinates) };
}

/** Returns a variant if it is listed. */
export function listedVariant(content: ControlContent, coordinate: string, id: string): ListedVariant | undefined {
  const variants = variantsOf(content, coordinate);
  return Object.hasOwn(variants, id) ? variants[id] : undefined;
}

/** Returns the listed variants of a coordinate by id. */
export function variantsOf(content: ControlContent, coordinate: string): Readonly<Record<string, ListedVariant>> {
  const { variants } = coordinateOf(content, coordinate);
  if (!isObject(variants)) return {};
  return Object.fromEntries(Object.entries(variants).filter(([, listed]) => isListed(listed)));
}

/**
 * Returns what decides whether entries of a variant count: two records for which it is the same have
 * not invalidated them in between. Undefined if the variant is not listed.
 */
export function scopeOf(content: ControlContent, coordinate: string, id: string): string | undefined {
  const listed = listedVariant(content, coordinate, id);
  if (listed === undefined) return undefined;
  return listed.listing;
}

/** Returns when a process that uses a listed variant says so again, on the store's clock. */
export const renewalAt = (listed: ListedVariant): number =>
  seenAt(listed) + Math.min(MAX_RENEWAL_MS, Math.max(MIN_LIFE_MS, lifeOf(listed)) / 2);

const endOf = (listed: ListedVariant): number => seenAt(listed) + Math.max(MIN_LIFE_MS, lifeOf(listed));

const seenAt = ({ seen }: ListedVariant): number => timeOfVersion(Buffer.from(seen, "base64url").toString("latin1"));

const lifeOf = ({ lifeMs }: { readonly lifeMs?: number | null | undefined }): number =>
  lifeMs ?? Number.POSITIVE_INFINITY;

function coordinateOf({ coordinates }: ControlContent, name: string): CoordinateControl {
  const control = Object.hasOwn(coordinates, name) ? coordinates[name] : undefined;
  return isObject(control) ? control : {};
}

/** Returns the modes that the record has, of fields and loaders of other releases as well. */
export function modesOf({ modes }: ControlContent): ModeSetting[] {
  if (!isObject(modes)) return [];
  return Object.entries(modes).flatMap(([name, listed]) => {
    if (!isListedMode(listed)) return [];
    const { mode, sequence, version, by } = listed;
    const coordinate = name === EVERYTHING ? undefined : name;
    // A mode that only a later release knows: without the cache, nothing can be wrong.
    return [{ coordinate, mode: isMode(mode) ? mode : "off", sequence, version, by }];
  });
}

/** Adds modes unless the record has later ones. Returns undefined if nothing has to change. */
export function withModes(content: ControlContent, settings: readonly ModeSetting[]): ControlContent | undefined {
  const listed = new Map(modesOf(content).map(({ coordinate, sequence }) => [coordinate, sequence]));
  const missing = settings.filter(({ coordinate, sequence }) => sequence > (listed.get(coordinate) ?? 0));
  if (missing.length === 0) return undefined;
  const added = missing.map(({ coordinate = EVERYTHING, mode, sequence, version, by }) => {
    const own: ListedMode = { mode, sequence, version, ...(by === undefined ? {} : { by }) };
    return [coordinate, own] as const;
  });
  return { ...content, modes: { ...content.modes, ...Object.fromEntries(added) } };
}

/** Sets a mode, as the latest of the record: `sequence` is larger than that of any other. */
export const withMode = (content: ControlContent, setting: Omit<ModeSetting, "version">): ControlContent =>
  withModes(content, [{ ...setting, version: THIS_VERSION }]) ?? content;

const isMode = (mode: string): mode is Mode => MODES.some((known) => known === mode);

const isListedMode = (listed: unknown): listed is ListedMode =>
  isObject(listed) &&
  typeof listed.mode === "string" &&
  Number.isSafeInteger(listed.sequence) &&
  isVersion(listed.version) &&
  (listed.by === undefined || typeof listed.by === "string");

const isVersion = (version: unknown): version is string =>
  typeof version === "string" && isControlVersion(Buffer.from(version, "base64url").toString("latin1"));

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isListed = (listed: unknown): listed is ListedVariant =>
  isObject(listed) &&
  typeof listed.listing === "string" &&
  isVersion(listed.seen) &&
  typeof listed.keyForm === "string" &&
  (listed.lifeMs === null || typeof listed.lifeMs === "number");
