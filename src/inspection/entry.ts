import { GraphQLError } from "graphql";
import { keyOfCoordinate } from "../directive/coordinate-key.js";
import { tagsOf } from "../directive/field-rule.js";
import { checkInvalidationTarget, keyOfLoader, targetOfCoordinate } from "../directive/invalidation-target.js";
import type { CacheEntry, CacheEntryState, CacheInspectionEntryArgs } from "../generated/schema.js";
import type { Key } from "../keys/key.js";
import type { LoaderRule } from "../loader/loader-rule.js";
import type { CacheParts } from "../parts.js";
import type { Policy } from "../policy/policy.js";
import { type BodyParts, combinedSoftVersion, combinedVersion, readBody, readTagNames } from "../store/body.js";
import type { Entry } from "../store/entry.js";
import type { TagVersion } from "../store/store.js";
import { evaluateFreshness } from "../tier/freshness.js";
import type { RequestTags } from "../tier/request.js";

/** What identifies an entry, and says how long it is served. */
interface Place {
  readonly key: Key;
  readonly policy: Policy;
  readonly tags: RequestTags;
}

/** Whether a value will be served: as it is, as a stale one, or not at all. */
interface Use {
  readonly isOutdated: boolean;
  readonly isStale: boolean;
}

/**
 * Describes the entry of a field or loader as the store has it. Null if there is none. Reads only, and
 * counts as no read.
 *
 * Rejects with `CACHED_OPTION_INVALID`, `CACHED_COORDINATE_UNKNOWN` or `CACHED_KEY_UNUSABLE` if `args` name no
 * entry, and with `CACHED_STORE_UNAVAILABLE`.
 */
export async function describeEntry(parts: CacheParts, args: CacheInspectionEntryArgs): Promise<CacheEntry | null> {
  const place = placeOf(parts, args);
  const { key, tags } = place;
  const { readings, tagVersions, controlVersion } = await parts.store.read([key.name], tags.names);
  const [reading] = readings;
  if (reading?.kind === "failed" || !(await parts.control.prepare(controlVersion, [], parts.clock.now())))
    throw unavailable();
  if (reading?.entry === undefined) return null;
  const { entry, now } = reading;
  const isValue = entry.state === "value";
  const isOutdated =
    entry.state !== "write-in-progress" && entry.signature !== parts.control.signatureOf(place, tagVersions);
  const use = isValue ? await useOf(parts, place, entry, now, tagVersions) : undefined;
  // A soft invalidation by key has put 0 in the place of the instant.
  const freshForMs = entry.freshUntilAt === 0 ? 0 : entry.freshUntilAt - now;
  return {
    state: entry.state.toUpperCase().replaceAll("-", "_") as CacheEntryState,
    negative: entry.isNegative,
    ageMs: isValue ? now - entry.grantedAt : 0,
    freshForMs: use === undefined ? 0 : use.isStale ? Math.min(freshForMs, 0) : freshForMs,
    loadMs: entry.loadMs,
    valueBytes: isValue ? entry.body.byteLength : 0,
    leaseForMs: entry.gen !== "" && entry.untilAt > now ? entry.untilAt - now : null,
    outdated: isOutdated || use?.isOutdated === true,
    stale: use?.isStale === true,
  };
}

/** Returns what will become of a value besides what its signature says. */
async function useOf(
  parts: CacheParts,
  place: Place,
  entry: Entry,
  now: number,
  tagVersions: readonly TagVersion[],
): Promise<Use> {
  const body = bodyOf(parts, place.key, entry);
  if (body === undefined) return { isOutdated: true, isStale: false };
  const byAge = evaluateFreshness(entry, place.policy, now, entry.signature, () => body.freshness);
  const { resultTags } = body;
  const names = resultTags === undefined ? [] : readTagNames(resultTags.list);
  const versions = names.length === 0 ? [] : (await parts.store.read([], names)).tagVersions;
  const isOutdated = resultTags !== undefined && combinedVersion(versions) !== resultTags.version;
  const isSoft =
    parts.control.softSignatureOf(place, tagVersions) !== body.softSignature ||
    (resultTags !== undefined && combinedSoftVersion(versions) !== resultTags.softVersion);
  return { isOutdated, isStale: byAge !== "fresh" || isSoft };
}

/** Returns undefined if the body cannot be read, and the value therefore will not be served. */
function bodyOf({ packing }: CacheParts, key: Key, entry: Entry): BodyParts | undefined {
  try {
    const body = readBody(packing.unseal(entry.body, key.name), key);
    return body === "collision" ? undefined : body;
  } catch {
    return undefined;
  }
}

function placeOf(parts: CacheParts, args: CacheInspectionEntryArgs): Place {
  const caller = "cacheInspection.entry";
  // A client passes null for a variable that it does not set.
  const given = Object.entries(args).filter(([, value]) => value !== undefined && value !== null);
  const target = targetOfCoordinate(parts, { ...Object.fromEntries(given), coordinate: args.coordinate });
  checkInvalidationTarget(target, caller);
  if (!("loader" in target)) {
    const { key, rule, roots, identity } = keyOfCoordinate(parts, target);
    return { key, policy: rule.policy, tags: tagsOf(rule, roots, identity, parts.keys) };
  }
  const loader = parts.loaders.get(target.loader) as LoaderRule;
  return { key: keyOfLoader(loader, target), policy: loader.policy, tags: loader.tagsOf(target.id) };
}

const unavailable = (): GraphQLError =>
  new GraphQLError("the store did not reply", { extensions: { code: "CACHED_STORE_UNAVAILABLE" } });
