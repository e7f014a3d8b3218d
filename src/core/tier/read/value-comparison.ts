import { isDeepStrictEqual } from "node:util";
import { ignoreRejection } from "../../base/deferred.js";
import { CachedError, describeSetting } from "../../base/errors.js";
import type { Entry } from "../../store/entry.js";
import type { Comparison, WatchedValue } from "../../telemetry/events.js";
import type { Settled } from "../lease/load-sharing.js";
import type { ReadRequest } from "../request/request.js";
import { type ServableValue, tagsStateOf } from "../request/verdict.js";
import type { ReadParts, ReadPath } from "./read-parts.js";

/** Compares stored values with what their source returns, and keeps in mind for how long each entry is known to be unchanged. */
export class ValueComparison {
  readonly #parts: ReadParts;
  readonly #path: ReadPath;
  /** By the names of entries; the one that was compared last comes last. */
  readonly #watched = new Map<string, { readonly grantedAt: number; readonly untilMs: number }>();

  constructor(parts: ReadParts, path: ReadPath) {
    this.#parts = parts;
    this.#path = path;
  }

  /** Compares what was served, or would have been, with what would be stored. Leaves the answer as it is, and never throws. */
  compare({ key, compare }: ReadRequest, served: ServableValue, answer: unknown): Comparison {
    const { channel, packing } = this.#parts;
    const { content, value } = served.decoded;
    let loaded: unknown;
    try {
      const own = packing.encode(answer);
      if (compare === undefined && isDeepStrictEqual(own, content)) return "same";
      loaded = packing.decode(own);
    } catch {
      // It cannot be stored, so it cannot be compared either.
      return "none";
    }
    if (compare === undefined) return isDeepStrictEqual(value, loaded) ? "same" : "different";
    try {
      const isSame: unknown = compare(value, loaded);
      if (typeof isSame === "boolean") return isSame ? "same" : "different";
      // Prevents an unhandled rejection.
      ignoreRejection(isSame);
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        `\`${key.coordinate}\`: \`compare\`: expected true or false as its result, got ${describeSetting(isSame)}`,
        { coordinate: key.coordinate },
      );
    } catch (error) {
      channel.publish({ name: "comparison.failed", coordinate: key.coordinate, digest: key.digest, error });
      return "none";
    }
  }

  /**
   * Returns whether what was served was neither invalidated nor replaced before the source was read, so that a difference
   * is no change under way. `settled`: the load of this read that replaces it, if there is one.
   */
  async isConfirmed(
    request: ReadRequest,
    served: ServableValue,
    settled: Promise<Settled> | undefined,
  ): Promise<boolean> {
    const { invalidations } = this.#parts;
    if (settled !== undefined && !(await settled).isStored) return false;
    const readResult = await this.#path.readResultOf(request);
    if (!this.#path.mayRead(request)) return false;
    const { reading } = readResult;
    if (reading.kind === "failed" || invalidations.isWritten(request, reading.now)) return false;
    const { entry } = reading;
    const isReplaced = entry?.grantedAt !== served.entry.grantedAt || entry.freshUntilAt !== served.entry.freshUntilAt;
    // A lease is given to one process at a time, so it was replaced by the value that is compared with it.
    if (isReplaced && settled === undefined) return false;
    return (
      invalidations.counts(served.entry, request.key) &&
      tagsStateOf(request, served.entry, served.decoded, this.#parts) === served.tags
    );
  }

  /**
   * Notes the result of a comparison. An entry that is compared again and again is seen to be unchanged once, for its whole
   * age, and not for the sum of its ages: only what is new says something about how often the source changes.
   */
  watch(name: string, { grantedAt }: Entry, ageMs: number, isSame: boolean): WatchedValue {
    const known = this.#watched.get(name);
    const untilMs = known?.grantedAt === grantedAt ? known.untilMs : 0;
    this.#watched.delete(name);
    // Once a value has changed, nothing more can be learnt of it.
    this.#watched.set(name, { grantedAt, untilMs: isSame ? Math.max(untilMs, ageMs) : Number.POSITIVE_INFINITY });
    if (this.#watched.size > MAX_WATCHED) this.#watched.delete(this.#watched.keys().next().value as string);
    return { ageMs, newMs: Math.max(0, ageMs - untilMs) };
  }
}

/** How many entries are remembered that were compared. */
const MAX_WATCHED = 10_000;
