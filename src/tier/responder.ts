import type { Clock } from "../clock.js";
import type { Packing } from "../codec/packing.js";
import type { ResponseHint, ResultTag } from "../store/body.js";
import type { Entry } from "../store/entry.js";
import type { Store, TagVersion } from "../store/store.js";
import type { Channel } from "../telemetry/channel.js";
import type { BypassReason, ReadOutcome } from "../telemetry/events.js";
import { type Decoded, decodeEntry, decodeFailure } from "./entry-decoder.js";
import type { Loaded, Loads } from "./loads.js";
import type { OutageSharing } from "./outage-sharing.js";
import type { ReadRequest } from "./request.js";
import { TickBatch } from "./tick-batch.js";
import type { UnconfirmedInvalidations } from "./unconfirmed-invalidations.js";

/** What responder is made of. */
export interface ResponderParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly channel: Channel;
  readonly packing: Packing;
  readonly loads: Loads;
  readonly outageSharing: OutageSharing;
  readonly kept: UnconfirmedInvalidations;
}

/** The ways in which a read ends, each counted once: a value from an entry, a load's result, the source asked directly, or an error. */
export class Responder {
  readonly #channel: Channel;
  readonly #packing: Packing;
  readonly #loads: Loads;
  readonly #outageSharing: OutageSharing;
  readonly #unconfirmed: UnconfirmedInvalidations;
  readonly #tagReads: TickBatch<string, TagVersion>;

  constructor({ store, clock, channel, packing, loads, outageSharing, kept }: ResponderParts) {
    this.#unconfirmed = kept;
    this.#channel = channel;
    this.#packing = packing;
    this.#loads = loads;
    this.#outageSharing = outageSharing;
    this.#tagReads = new TickBatch(
      clock,
      (tags) => store.read([], tags).then(({ tagVersions }) => tagVersions),
      (tag) => tag,
    );
  }

  open(request: ReadRequest, entry: Entry): Decoded {
    return decodeEntry(entry, request.key, this.#packing, this.#channel);
  }

  /** Whether none of the tags that a value's own load gave it has been invalidated since. A version that is gone counts as changed. */
  async areCurrent(resultTags: readonly ResultTag[]): Promise<boolean> {
    const names = resultTags.map(({ name }) => name);
    const tagVersions = await Promise.all(names.map((name) => this.#tagReads.add(name).catch(() => undefined)));
    return (
      resultTags.every(({ version }, index) => tagVersions[index] === version) &&
      !this.#unconfirmed.has(undefined, names)
    );
  }

  /** `freshForMs` says how long the value stays fresh, `ageMs` how old it is. */
  served(
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

  loaded(request: ReadRequest, loaded: Loaded, outcome: "loaded" | "coalesced"): unknown {
    const hint = loaded.kind === "loaded" ? loaded.hint : undefined;
    this.served(request, outcome, request.policy.maxAgeMs - loaded.loadMs, loaded.loadMs, hint);
    return this.#valueOf(loaded);
  }

  /** An error of the source: it passes through as it is. */
  failed(request: ReadRequest, error: unknown, outcome: "loaded" | "coalesced"): Promise<never> {
    this.served(request, outcome, 0, 0);
    return Promise.reject(error as Error);
  }

  /** An error of the source, as another process described it; where the description cannot be decoded, the source is asked. */
  failedElsewhere(request: ReadRequest, description: Uint8Array): Promise<unknown> {
    const error = decodeFailure(description, request.key, this.#packing, this.#channel);
    return error === undefined ? this.bypass(request, "STORE_UNAVAILABLE") : this.failed(request, error, "coalesced");
  }

  /** The cache steps aside: the source is asked without a lease, and nothing is stored. Rejects with the source's error only. */
  async bypass(request: ReadRequest, reason: BypassReason): Promise<unknown> {
    const { name } = request.key;
    this.#bypassed(request, reason);
    const begin = (): Promise<Loaded> => this.#loads.run(request, false).forReaders;
    // Where nothing can be said about what the others may see, such as inside a write bracket, everybody loads for himself.
    if (reason !== "STORE_UNAVAILABLE" && reason !== "WAIT_TIMEOUT") return this.#valueOf(await begin());
    const { maxAgeMs, negativeMaxAgeMs } = request.policy;
    return this.#valueOf(await this.#outageSharing.shared(name, Math.min(maxAgeMs, negativeMaxAgeMs), begin));
  }

  /** There is nothing to load. */
  nothing(request: ReadRequest): null {
    this.#bypassed(request, "DOES_NOT_EXIST");
    return null;
  }

  #bypassed(request: ReadRequest, reason: BypassReason): void {
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
      // A decode of the user's that throws: whoever reads the entry tells of it, and a load must not fail for it.
      return loaded.value;
    }
  }
}
