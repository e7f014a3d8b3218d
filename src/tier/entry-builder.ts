import type { Clock, Random } from "../clock.js";
import type { Content } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { jittered } from "../policy/jitter.js";
import type { Policy } from "../policy/policy.js";
import { writeBody } from "../store/body.js";
import { isWriteInProgress, type LogPosition, type Store, type StoreRequest } from "../store/store.js";
import type { InFlightLoad } from "./load-sharing.js";
import type { Loaded } from "./loaded.js";

/** The result of a load that can be stored. */
export type Storable = Extract<Loaded, { kind: "loaded" }> & { readonly content: Content };

/**
 * Builds the request that stores a loaded value: how long it is fresh, its tags, and whether it may
 * be stored at all.
 */
export class EntryBuilder {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #packing: Packing;
  readonly #loadTimeoutMs: number;

  constructor(store: Store, clock: Clock, random: Random, packing: Packing, loadTimeoutMs: number) {
    this.#store = store;
    this.#clock = clock;
    this.#random = random;
    this.#packing = packing;
    this.#loadTimeoutMs = loadTimeoutMs;
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
    const maxAgeMs = isNegative ? policy.negativeMaxAgeMs : policy.maxAgeMs;
    // A value that is fresh for no time is not stored. The request ends the lease and removes the
    // value that this one replaces.
    const isKept = maxAgeMs > 0;
    const packed = isKept ? await this.#packing.pack(content) : EMPTY;
    const resultNames = [...new Set(tags.namesOf?.(value) ?? [])];
    const names = [...tags.names, ...resultNames];
    const tagVersions =
      names.length === 0 ? [] : await this.#store.ensureTags(names, tagTtlMs(policy, this.#loadTimeoutMs));
    if (
      tags.names.some((_, index) => tagVersions[index] !== inFlight.tagVersions[index]) ||
      tagVersions.some(isWriteInProgress)
    )
      return undefined;
    if (resultNames.length > 0) {
      // The versions are read before the log. An invalidation writes the log before the versions,
      // so one that runs concurrently is seen in at least one of the two.
      const isOverdue = this.#clock.now() - inFlight.startedAt >= this.#loadTimeoutMs;
      if (logPosition === undefined || isOverdue || !(await this.#store.areUnchangedSince(logPosition, resultNames)))
        return undefined;
    }
    const resultTags = resultNames.map((name, index) => ({
      name,
      version: tagVersions[tags.names.length + index] as string,
    }));
    return {
      key: key.name,
      gen: inFlight.gen,
      grantedAt: inFlight.grantedAt,
      loadMs,
      isNegative,
      freshMs: jittered(maxAgeMs, policy.jitterRatio, this.#random()),
      ttlMs: isKept ? ttlMsOf(policy, maxAgeMs) : 0,
      body: isKept
        ? this.#packing.seal(writeBody({ input: key.input, resultTags, hint, value: packed }), key.name)
        : EMPTY,
    };
  }
}

const EMPTY = new Uint8Array();

/** Returns how long the store keeps a value. Undefined: it never expires. */
const ttlMsOf = (policy: Policy, maxAgeMs: number): number | undefined =>
  policy.neverExpires ? undefined : maxAgeMs + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs);

/**
 * Returns how long a tag must last, undefined for ever: it outlives every entry that is stored under
 * it now, since a version that expires makes all of them misses at once, and a load that begins now,
 * since its value is not stored under another version.
 */
export function tagTtlMs(policy: Policy, loadTimeoutMs: number): number | undefined {
  const ttlMs = ttlMsOf(policy, Math.max(policy.maxAgeMs, policy.negativeMaxAgeMs));
  return ttlMs === undefined ? undefined : Math.max(ttlMs, loadTimeoutMs);
}
