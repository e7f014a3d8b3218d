import type { Clock, Random } from "../clock.js";
import type { Content } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { jittered } from "../policy/jitter.js";
import type { Policy } from "../policy/policy.js";
import { writeBody } from "../store/body.js";
import { isWriteInProgress, type LogPosition, type Store, type StoreRequest } from "../store/store.js";
import type { InFlightLoad } from "./in-flight-loads.js";
import type { Loaded } from "./loads.js";

/** Only tags that nobody loads under for this long are forgotten. */
export const MIN_TAG_TTL_MS = 7 * 24 * 3_600_000;

/** A load that can be stored. */
export type Storable = Extract<Loaded, { kind: "loaded" }> & { readonly content: Content };

/** Makes what is stored of what was loaded: how long it is fresh, under which tags, and whether it may be stored at all. */
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
   * Undefined where one of its tags was invalidated during the load, or that cannot be known. Of tags known before the load, the signature in
   * the entry is what keeps an outdated value from being served; looking once more only keeps it from being stored.
   */
  async build(
    inFlight: InFlightLoad,
    { value, content, hint, loadMs }: Storable,
    logPosition: LogPosition | undefined,
  ): Promise<StoreRequest | undefined> {
    const { key, policy, tags } = inFlight.request;
    const packed = await this.#packing.pack(content);
    const resultNames = [...new Set(tags.namesOf?.(value) ?? [])];
    const all = [...tags.names, ...resultNames];
    const tagVersions = all.length === 0 ? [] : await this.#store.ensureTags(all, tagTtlMs(policy));
    if (
      tags.names.some((_, index) => tagVersions[index] !== inFlight.tagVersions[index]) ||
      tagVersions.some(isWriteInProgress)
    )
      return undefined;
    if (resultNames.length > 0) {
      // Versions first, then the record: an invalidation writes them the other way round, so it cannot slip between.
      const isOverdue = this.#clock.now() - inFlight.startedAt >= this.#loadTimeoutMs;
      if (logPosition === undefined || isOverdue || !(await this.#store.areUnchangedSince(logPosition, resultNames)))
        return undefined;
    }
    const resultTags = resultNames.map((name, index) => ({
      name,
      version: tagVersions[tags.names.length + index] as string,
    }));
    const isNegative = value === null || value === undefined || (Array.isArray(value) && value.length === 0);
    const maxAgeMs = isNegative ? policy.negativeMaxAgeMs : policy.maxAgeMs;
    return {
      key: key.name,
      gen: inFlight.gen,
      grantedAt: inFlight.grantedAt,
      loadMs,
      isNegative,
      freshMs: jittered(maxAgeMs, policy.jitterRatio, this.#random()),
      ttlMs: policy.neverExpires
        ? undefined
        : maxAgeMs + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs),
      body: this.#packing.seal(writeBody({ input: key.input, resultTags, hint, value: packed }), key.name),
    };
  }
}

/** A tag's version outlives every entry under it, so that they do not all become outdated with it. */
function tagTtlMs(policy: Policy): number {
  return Math.max(
    MIN_TAG_TTL_MS,
    2 * (policy.maxAgeMs + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs)),
  );
}
