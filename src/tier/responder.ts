import type { Clock } from "../clock.js";
import type { Packing } from "../codec/packing.js";
import type { ResponseHint, ResultTag } from "../store/body.js";
import type { Entry } from "../store/entry.js";
import type { Store, TagVersion } from "../store/store.js";
import type { Channel } from "../telemetry/channel.js";
import type { BypassReason, ReadOutcome } from "../telemetry/events.js";
import { type Decoded, decodeEntry, decodeFailure } from "./entry-decoder.js";
import type { UnleasedLoads } from "./load-sharing.js";
import type { Loaded, Loads } from "./loads.js";
import type { ReadRequest } from "./request.js";
import { TickBatch } from "./tick-batch.js";
import type { UnconfirmedInvalidations } from "./unconfirmed-invalidations.js";

/** The parts that `Responder` uses. */
export interface ResponderParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly channel: Channel;
  readonly packing: Packing;
  readonly loads: Loads;
  readonly unleasedLoads: UnleasedLoads;
  readonly unconfirmed: UnconfirmedInvalidations;
}

/**
 * The ways a read ends: with a value from an entry, the result of a load, a load that bypasses the
 * cache, or an error. Each reports its outcome once.
 */
export class Responder {
  readonly #channel: Channel;
  readonly #packing: Packing;
  readonly #loads: Loads;
  readonly #unleasedLoads: UnleasedLoads;
  readonly #unconfirmed: UnconfirmedInvalidations;
  readonly #tagReads: TickBatch<string, TagVersion>;

  constructor({ store, clock, channel, packing, loads, unleasedLoads, unconfirmed }: ResponderParts) {
    this.#unconfirmed = unconfirmed;
    this.#channel = channel;
    this.#packing = packing;
    this.#loads = loads;
    this.#unleasedLoads = unleasedLoads;
    this.#tagReads = new TickBatch(
      clock,
      (tags) => store.read([], tags).then(({ tagVersions }) => tagVersions),
      (tag) => tag,
    );
  }

  decode(request: ReadRequest, entry: Entry): Decoded {
    return decodeEntry(entry, request.key, this.#packing, this.#channel);
  }

  /**
   * Returns whether none of the tags derived from a value has been invalidated since its load. A
   * lost version counts as changed.
   */
  async areTagsCurrent(resultTags: readonly ResultTag[]): Promise<boolean> {
    const names = resultTags.map(({ name }) => name);
    const tagVersions = await Promise.all(names.map((name) => this.#tagReads.add(name).catch(() => undefined)));
    return (
      resultTags.every(({ version }, index) => tagVersions[index] === version) &&
      !this.#unconfirmed.has(undefined, names)
    );
  }

  /** Reports how a read ended. `freshForMs` is how long the value stays fresh, `ageMs` its age. */
  reportServed(
    request: ReadRequest,
    outcome: Exclude<ReadOutcome, "bypassed">,
    freshForMs: number,
    ageMs: number,
    hint?: ResponseHint,
  ): void {
    const { coordinate, digest } = request.key;
    this.#channel.publish({ name: "entry.served", coordinate, digest, outcome });
    if (request.onRead === undefined) return;
    const isPrivate = request.policy.scope === "PRIVATE";
    request.onRead({ outcome, isPrivate, freshForMs: Math.max(0, freshForMs), ageMs: Math.max(0, ageMs), hint });
  }

  /** Returns the value of a load, or throws its error. */
  respondLoaded(request: ReadRequest, loaded: Loaded, outcome: "loaded" | "coalesced"): unknown {
    const hint = loaded.kind === "loaded" ? loaded.hint : undefined;
    this.reportServed(request, outcome, request.policy.maxAgeMs - loaded.loadMs, loaded.loadMs, hint);
    return this.#valueOf(loaded);
  }

  /** Rejects with an error of the source, unchanged. */
  respondFailed(request: ReadRequest, error: unknown, outcome: "loaded" | "coalesced"): Promise<never> {
    this.reportServed(request, outcome, 0, 0);
    return Promise.reject(error as Error);
  }

  /**
   * Rejects with an error that another process got from the source. If its description cannot be
   * read, loads instead.
   */
  respondFailedElsewhere(request: ReadRequest, description: Uint8Array): Promise<unknown> {
    const error = decodeFailure(description, request.key, this.#packing, this.#channel);
    return error === undefined
      ? this.bypass(request, "STORE_UNAVAILABLE")
      : this.respondFailed(request, error, "coalesced");
  }

  /**
   * Bypasses the cache: loads without a lease and stores nothing. Rejects with an error of the
   * source only. Readers of this process share these loads as described in `load-sharing.ts`,
   * unless the value is known not to be shareable.
   */
  async bypass(request: ReadRequest, reason: BypassReason, isShareable = true): Promise<unknown> {
    this.#reportBypassed(request, reason);
    const begin = (): Promise<Loaded> => this.#loads.run(request, false).limited;
    const enclosingKeys = this.#loads.enclosingKeys();
    // A load that asks for its own key would wait for itself.
    if (enclosingKeys.has(request.key.name) || !isShareable) return this.#valueOf(await begin());
    const shared = await this.#unleasedLoads.share(request, reason, enclosingKeys.size > 0, begin);
    const isShared = shared.request !== request;
    // A value that cannot be encoded belongs to the reader that loaded it.
    const canShare = shared.loaded.kind === "failed" || shared.loaded.content !== undefined;
    return this.#valueOf(isShared && !canShare ? await begin() : shared.loaded);
  }

  /** Returns null for a value that does not exist, without a load. */
  respondNull(request: ReadRequest): null {
    this.#reportBypassed(request, "DOES_NOT_EXIST");
    return null;
  }

  #reportBypassed(request: ReadRequest, reason: BypassReason): void {
    const { coordinate, digest } = request.key;
    this.#channel.publish({ name: "resolver.bypassed", coordinate, digest, reason });
    request.onRead?.({ outcome: "bypassed", isPrivate: request.policy.scope === "PRIVATE", reason });
  }

  #valueOf(loaded: Loaded): unknown {
    if (loaded.kind === "failed") throw loaded.error;
    if (loaded.content === undefined) return loaded.value;
    try {
      return this.#packing.decode(loaded.content);
    } catch {
      // A custom codec whose `decode` throws must not fail the load. Reading the entry reports it.
      return loaded.value;
    }
  }
}
