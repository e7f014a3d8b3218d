import type { Clock, Random } from "../clock.js";
import type { Content } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { jittered } from "../policy/jitter.js";
import { resultTagsOf, writeBody } from "../store/body.js";
import { isWriteInProgress, type LogPosition, type Store, type StoreRequest } from "../store/store.js";
import type { InFlightLoad } from "./load-sharing.js";
import type { Loaded } from "./loaded.js";
import { tagTtlMs, valueTtlMs } from "./tag-versions.js";
import { NameBatch } from "./tick-batch.js";

/** The result of a load that can be stored. */
export type Storable = Extract<Loaded, { kind: "loaded" }> & { readonly content: Content };

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
   * Returns undefined if one of the tags was invalidated during the load, or if that is unknown.
   * For tags known before the load, the signature of the entry already prevents an outdated value
   * from being served; this check only avoids storing it.
   */
  async build(
    inFlight: InFlightLoad,
    { value, content, hint, loadMs }: Storable,
    logPosition: LogPosition | undefined,
  ): Promise<StoreRequest | undefined> {
    const { key, policy, tags } = inFlight.request;
    const isNegative = value === null || value === undefined || (Array.isArray(value) && value.length === 0);
    const policyMs = isNegative ? policy.negativeMaxAgeMs : policy.maxAgeMs;
    const hintedMs = policy.followsHints === true ? (hint?.maxAge ?? Number.POSITIVE_INFINITY) * 1000 : policyMs;
    const maxAgeMs = Math.min(policyMs, hintedMs);
    // A value that is fresh for no time is not stored. The request ends the lease and removes the
    // value that this one replaces.
    const isKept = maxAgeMs > 0;
    const packed = isKept ? await this.#packing.pack(content) : EMPTY;
    const resultNames = [...new Set(tags.namesOf?.(value) ?? [])];
    const names = [...tags.names, ...resultNames];
    const ttlMs = tagTtlMs(policy, this.#loadTimeoutMs);
    const tagVersions = names.length === 0 ? [] : await this.#ensuredTags.add(ttlMs, names);
    if (
      tags.names.some((_, index) => tagVersions[index] !== inFlight.tagVersions[index]) ||
      tagVersions.some(isWriteInProgress)
    )
      return undefined;
    if (resultNames.length > 0) {
      // The versions are read before the log. An invalidation writes the log before the versions,
      // so one that runs concurrently is seen in at least one of the two.
      const isOverdue = this.#clock.now() - inFlight.startedAt >= this.#loadTimeoutMs;
      if (logPosition === undefined || isOverdue) return undefined;
      if ((await this.#unchangedTags.add(logPosition, resultNames)).includes(false)) return undefined;
    }
    const resultTags = resultTagsOf(resultNames, tagVersions.slice(tags.names.length));
    const random = this.#random();
    return {
      key: key.name,
      gen: inFlight.gen,
      grantedAt: inFlight.grantedAt,
      loadMs,
      isNegative,
      freshMs: jittered(maxAgeMs, policy.jitterRatio, random),
      ttlMs: isKept ? valueTtlMs(policy, maxAgeMs, random) : 0,
      body: isKept
        ? this.#packing.seal(writeBody({ input: key.input, resultTags, hint, value: packed }), key.name)
        : EMPTY,
    };
  }
}

const EMPTY = new Uint8Array();

/** The maximum number of tags that one script compares with the log, since it blocks the server. */
const TAGS_PER_CHECK = 500;
/** The maximum number of calls that search for the tags that have changed. */
const MAX_SEARCHES = 50;

/**
 * Returns for each tag whether it has not been invalidated since `position`. The store judges tags
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
