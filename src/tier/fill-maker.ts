import type { Clock, Random } from "../clock.js";
import type { Content } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { jittered } from "../policy/jitter.js";
import type { Policy } from "../policy/policy.js";
import { writeBody } from "../store/body.js";
import { type Fill, isFence, type RecordMark, type Store } from "../store/store.js";
import type { Flight } from "./flights.js";
import type { Loaded } from "./loads.js";

/** Only tags that nobody loads under for this long are forgotten. */
export const MIN_TAG_TTL_MS = 7 * 24 * 3_600_000;

/** A load that can be stored. */
export type Storable = Extract<Loaded, { kind: "loaded" }> & { readonly content: Content };

/** Makes what is stored of what was loaded: how long it is fresh, under which tags, and whether it may be stored at all. */
export class FillMaker {
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
  async make(
    flight: Flight,
    { value, content, hint, loadMs }: Storable,
    mark: RecordMark | undefined,
  ): Promise<Fill | undefined> {
    const { key, policy, tags } = flight.request;
    const packed = await this.#packing.pack(content);
    const late = [...new Set(tags.namesOf?.(value) ?? [])];
    const all = [...tags.names, ...late];
    const nonces = all.length === 0 ? [] : await this.#store.ensureTags(all, tagTtlMs(policy));
    if (tags.names.some((_, index) => nonces[index] !== flight.nonces[index]) || nonces.some(isFence)) return undefined;
    if (late.length > 0) {
      // Nonces first, then the record: an invalidation writes them the other way round, so it cannot slip between.
      const isOverdue = this.#clock.now() - flight.startedAt >= this.#loadTimeoutMs;
      if (mark === undefined || isOverdue || !(await this.#store.isUntouchedSince(mark, late))) return undefined;
    }
    const resultTags = late.map((name, index) => ({ name, nonce: nonces[tags.names.length + index] as string }));
    const isNegative = value === null || value === undefined || (Array.isArray(value) && value.length === 0);
    const maxAgeMs = isNegative ? policy.negativeMaxAgeMs : policy.maxAgeMs;
    return {
      key: key.name,
      gen: flight.gen,
      grantedAt: flight.grantedAt,
      loadMs,
      isNegative,
      freshMs: jittered(maxAgeMs, policy.jitterRatio, this.#random()),
      ttlMs: policy.neverExpires
        ? undefined
        : maxAgeMs + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs),
      body: this.#packing.seal(writeBody({ echo: key.echo, resultTags, hint, value: packed }), key.name),
    };
  }
}

/** A tag's nonce outlives every entry under it, so that they do not all become outdated with it. */
function tagTtlMs(policy: Policy): number {
  return Math.max(
    MIN_TAG_TTL_MS,
    2 * (policy.maxAgeMs + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs)),
  );
}
