import { hostname } from "node:os";
import { dateOf } from "../../core/base/clock.js";
import { CachedError, describeSetting, optionInvalid } from "../../core/base/errors.js";
import { RESPONSES } from "../../core/keys/key.js";
import type { CacheParts } from "../../core/parts.js";
import type { Mode } from "../../core/telemetry/events.js";
import { MODES } from "../../core/tier/shared/modes.js";
import type { CacheMode, CacheModeSetting } from "../../generated/schema.js";
import { isoTimeOf } from "./times.js";

/** Returns the modes that were set, that of everything first. */
export const modeSettings = ({
  clock,
  sharedSettings,
  store,
}: Pick<CacheParts, "clock" | "sharedSettings" | "store">): CacheModeSetting[] =>
  sharedSettings.modes.settings.map((setting) => ({
    coordinate: setting.coordinate ?? null,
    mode: asEnum(setting.mode),
    // The clock of a store in this process is that of the process, which does not know the date.
    setAt: store.isShared === false ? dateOf(clock, setting.setAt) : isoTimeOf(setting.setAt),
    setBy: setting.by ?? null,
  }));

/**
 * Sets the mode of a field or loader, or of everything if there is no coordinate, for all processes that share the
 * store and the prefix. `via` names the function that was called.
 *
 * Rejects with `CACHED_OPTION_INVALID`, with `CACHED_COORDINATE_UNKNOWN` if neither this process nor any release that the
 * store knows of has such a field or loader, and with `CACHED_STORE_UNAVAILABLE` if the store did not confirm.
 */
export async function setMode(
  parts: CacheParts,
  { mode, coordinate }: { readonly mode: unknown; readonly coordinate: unknown },
  via: string,
): Promise<void> {
  const wanted = MODES.find((known) => known === mode);
  if (wanted === undefined)
    throw optionInvalid(`${via}: expected the mode "off" or "on", got ${describeSetting(mode)}`);
  if (coordinate !== undefined && typeof coordinate !== "string")
    throw optionInvalid(
      `${via}: \`coordinate\`: expected a field such as "Query.movie", or the name of a loader, got ${describeSetting(coordinate)}; leave it out to set the mode of everything`,
    );
  if (coordinate !== undefined) await checkKnown(parts, coordinate, via);
  await parts.sharedSettings.setMode({
    mode: wanted,
    coordinate,
    by: `${via} on ${hostname()}, process ${process.pid}`,
  });
  // A response with a value that must not be served must not be served either.
  if (coordinate !== undefined && wanted !== "on")
    await parts.invalidations.append({ kind: "hard", subjects: [parts.keys.subjects.mode(coordinate)] });
}

/** A mode can be set for a release that this process does not run, by a process without a schema, and before there are responses. */
async function checkKnown(
  { sharedSettings, loaders, rules }: CacheParts,
  coordinate: string,
  via: string,
): Promise<void> {
  if (coordinate === RESPONSES || rules.fields.has(coordinate) || loaders.has(coordinate)) return;
  const known = new Set([...rules.fields.keys(), ...loaders.keys(), ...(await sharedSettings.readCoordinates())]);
  if (known.has(coordinate)) return;
  throw new CachedError(
    "CACHED_COORDINATE_UNKNOWN",
    `${via}: expected a cached field, or the name of a loader, of this process or of one that shares its store, got \`${coordinate}\`; known are ${[...known].sort().join(", ") || "none"}`,
    { coordinate },
  );
}

export const modeOf = ({ sharedSettings }: Pick<CacheParts, "sharedSettings">, coordinate: string): CacheMode =>
  asEnum(sharedSettings.modes.of(coordinate));

const asEnum = (mode: Mode): CacheMode => mode.toUpperCase() as Uppercase<Mode>;
