import type { Clock, Random } from "../clock.js";
import type { Encoded, Packing } from "../codec/packing.js";
import type { Key } from "../keys/key.js";
import { jittered } from "../policy/jitter.js";
import { type Body, type OwnFreshness, type ResultTags, resultTagsOf, writeBody } from "../store/body.js";
import { freshMsForWaiters } from "../store/entry.js";
import {
  hardPartOf,
  isWriteInProgress,
  type LogPosition,
  type Store,
  type StoreRequest,
  type TagVersion,
} from "../store/store.js";
import { freshMsOf, isNegative, ownPolicy } from "./freshness.js";
import type { InFlightLoad } from "./load-sharing.js";
import type { LoadedValue } from "./loaded.js";
import { tagTtlMs, valueTtlMs } from "./tag-versions.js";
import { NameBatch } from "./tick-batch.js";
import { derivedTagNames } from "./value-tags.js";

/** What the request that stores a value depends on, besides the value. */
export interface BuildConditions {
  readonly logPosition: LogPosition | undefined;
  /** Resolves when the value may be packed. Undefined: now. */
  readonly room: Promise<void> | undefined;
}

/** Returns how much room a value needs while it is packed and stored, in bytes or characters. */
export const sizeOf = ({ content, settings }: LoadedValue): number =>
  settings?.unchanged === undefined ? (content?.length ?? 0) : 0;

/**
 * Builds the request that stores a loaded value: how long it is fresh, its tags, and whether it may
 * be stored at all.
 */
export class EntryBuilder {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #packing: Packing;
  readonly #loadTimeoutMs: number;
  /** The tags of the values loaded in one tick, by how long their versions are kept. */
  readonly #ensuredTags: NameBatch<number | undefined, string>;
  /** Whether tags are unchanged, for the values loaded in one tick whose loads began in one tick. */
  readonly #unchangedTags: NameBatch<LogPosition, boolean>;

  constructor(store: Store, clock: Clock, random: Random, packing: Packing, loadTimeoutMs: number) {
    this.#clock = clock;
    this.#random = random;
    this.#packing = packing;
    this.#loadTimeoutMs = loadTimeoutMs;
    this.#ensuredTags = new NameBatch((ttlMs, tags) => store.ensureTags(tags, ttlMs));
    this.#unchangedTags = new NameBatch((position, tags) => areUnchangedSince(store, position, tags));
  }

  /**
   * `loaded` can be stored: it has content. Returns undefined if one of the tags was invalidated during the load, or if that is unknown.
   * For tags known before the load, the signature of the entry already prevents an outdated value
   * from being served; this check only avoids storing it.
   */
  async build(
    inFlight: InFlightLoad,
    loaded: LoadedValue,
    { logPosition, room }: BuildConditions,
  ): Promise<StoreRequest | undefined> {
    const { softSignature } = inFlight;
    const { key, policy } = inFlight.request;
    const { value, content, hint, settings, loadMs } = loaded;
    const maxAgeMs = freshMsOf(policy, loaded);
    // At once, like the encoding of the value: its source may go on to change it.
    const resultNames = derivedTagNames(inFlight.request.tags, loaded);
    if (room !== undefined) await room;
    const packed = settings?.unchanged?.packed ?? (await this.#packing.pack(content as Encoded));
    const checked = await this.#checkTags(inFlight, loaded, resultNames, logPosition);
    if (checked === undefined) return undefined;
    const { resultTags } = checked;
    const freshness = keptFreshness(settings?.freshness, maxAgeMs);
    const random = this.#random();
    const keptMs = valueTtlMs(freshness === undefined ? policy : ownPolicy(policy, freshness), maxAgeMs, random);
    const elapsedMs = this.#clock.now() - inFlight.startedAt;
    const isForWaiters = maxAgeMs === 0 || (keptMs !== undefined && keptMs <= elapsedMs);
    return {
      key: key.name,
      gen: inFlight.gen,
      grantedAt: inFlight.grantedAt,
      loadMs,
      isNegative: isNegative(value),
      freshMs: isForWaiters ? freshMsForWaiters(inFlight.grantedAt) : jittered(maxAgeMs, policy.jitterRatio, random),
      ttlMs: ttlMsOf(isForWaiters ? 0 : keptMs, elapsedMs),
      body: this.#bodyOf(loaded, { resultTags, hint, freshness, softSignature, value: packed }, key),
    };
  }

  /** Returns the bytes of a body. Undefined if the stored value has the same. */
  #bodyOf({ settings }: LoadedValue, body: Body, key: Key): Uint8Array | undefined {
    const kept = settings?.unchanged;
    const isSame =
      kept !== undefined &&
      kept.softSignature === body.softSignature &&
      areSameTags(kept.resultTags, body.resultTags) &&
      JSON.stringify([kept.hint, kept.freshness]) === JSON.stringify([body.hint, body.freshness]);
    return isSame ? undefined : this.#packing.seal(writeBody(body, key), key.name);
  }

  /**
   * Returns whether no tag was invalidated during a load whose result is not stored. If none is derived
   * from the result, readers that joined the load have found that out themselves.
   */
  async areTagsUnchanged(
    inFlight: InFlightLoad,
    loaded: LoadedValue,
    logPosition: LogPosition | undefined,
  ): Promise<boolean> {
    const resultNames = derivedTagNames(inFlight.request.tags, loaded);
    return (
      resultNames.length === 0 || (await this.#checkTags(inFlight, loaded, resultNames, logPosition)) !== undefined
    );
  }

  /** Returns the tags derived from a result. Undefined as `build` describes. */
  async #checkTags(
    inFlight: InFlightLoad,
    loaded: LoadedValue,
    resultNames: readonly string[],
    logPosition: LogPosition | undefined,
  ): Promise<{ readonly resultTags: ResultTags | undefined } | undefined> {
    const { policy, tags } = inFlight.request;
    const names = [...tags.names, ...resultNames];
    const tagVersions =
      names.length === 0 ? [] : await this.#ensuredTags.add(tagTtlMs(policy, this.#loadTimeoutMs), names);
    if (
      tags.names.some((_, index) => hardPart(tagVersions[index]) !== hardPart(inFlight.tagVersions[index])) ||
      tagVersions.some(isWriteInProgress)
    )
      return undefined;
    const resultTags = resultTagsOf(resultNames, tagVersions.slice(tags.names.length));
    // With the versions that an unchanged value was stored with, none has been invalidated since.
    if (resultNames.length > 0 && !areSameTags(loaded.settings?.unchanged?.resultTags, resultTags)) {
      // The versions are read before the log. An invalidation writes the log before the versions,
      // so one that runs concurrently is seen in at least one of the two.
      const isOverdue = this.#clock.now() - inFlight.startedAt >= this.#loadTimeoutMs;
      if (logPosition === undefined || isOverdue) return undefined;
      if ((await this.#unchangedTags.add(logPosition, resultNames)).includes(false)) return undefined;
    }
    return { resultTags };
  }
}

const areSameTags = (some: ResultTags | undefined, others: ResultTags | undefined): boolean =>
  some?.version === others?.version &&
  some?.softVersion === others?.softVersion &&
  (some === undefined || others?.list.equals(some.list) === true);

/** Returns what to keep of what a load has set: its `maxAge` as it applies. */
const keptFreshness = (own: OwnFreshness | undefined, maxAgeMs: number): OwnFreshness | undefined =>
  own?.maxAgeMs === undefined ? own : { ...own, maxAgeMs };

/** How long those who have waited for a load can find its value: longer than until their next poll. */
const FOR_WAITERS_MS = 2_000;

/** Returns how long the store keeps a value: at least until those who wait for it have read it. */
const ttlMsOf = (keptMs: number | undefined, elapsedMs: number): number | undefined =>
  keptMs === undefined ? undefined : Math.max(keptMs, Math.ceil(elapsedMs) + FOR_WAITERS_MS);

const hardPart = (version: TagVersion): TagVersion => (version === undefined ? undefined : hardPartOf(version));

/** The maximum number of tags that one script compares with the log, since it blocks the server. */
const TAGS_PER_CHECK = 500;
/** The maximum number of calls that search for the tags that have changed. */
const MAX_SEARCHES = 50;

/**
 * Returns for each tag whether it has not been invalidated since `position`. The store checks tags
 * together only, so tags of which one has changed are divided until it is found. If too many have
 * changed, or if the log has been lost, the rest count as changed: their values are not stored.
 */
async function areUnchangedSince(
  store: Store,
  position: LogPosition,
  tags: readonly string[],
  searches = { left: MAX_SEARCHES },
): Promise<readonly boolean[]> {
  if (tags.length <= TAGS_PER_CHECK) {
    if (await store.areUnchangedSince(position, tags)) return tags.map(() => true);
    if (tags.length === 1 || searches.left-- <= 0) return tags.map(() => false);
  }
  const middle = Math.ceil(tags.length / 2);
  const first = await areUnchangedSince(store, position, tags.slice(0, middle), searches);
  return [...first, ...(await areUnchangedSince(store, position, tags.slice(middle), searches))];
}
