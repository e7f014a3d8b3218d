import { CachedError } from "../../base/errors.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import type { Entry } from "../../store/entry.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import { type Decoded, decodeEntry } from "../entry/entry-decoder.js";
import { freezePlain } from "../entry/freeze-plain.js";
import type { DecodedHolder, ReadRequest, ReadResult } from "./request.js";

/**
 * Makes values of entries for requests: each request gets a value of its own, which GraphQL
 * accepts.
 */
export class ValueDecoder {
  readonly #packing: Packing;
  readonly #channel: Channel;

  constructor(packing: Packing, channel: Channel) {
    this.#packing = packing;
    this.#channel = channel;
  }

  /**
   * Decodes an entry for a request. A value that GraphQL would refuse is outdated: it is reported
   * and counts as unreadable, so that it is loaded again and does not fail every hit.
   */
  decode(request: ReadRequest, entry: Entry): Decoded {
    const decoded = decodeEntry(entry, request.key, this.#packing, this.#channel);
    if (request.policy.readOnly === true && decoded.kind === "value") freezePlain(decoded.value);
    return this.#validated(request, decoded);
  }

  #validated(request: ReadRequest, decoded: Decoded): Decoded {
    if (decoded.kind !== "value") return decoded;
    const mistake = request.validator?.mistakeIn(decoded.value, request);
    return mistake === undefined ? decoded : this.#reportMistake(request, mistake);
  }

  /**
   * Decodes the entry that a read has shown. Requests of a tick for the same key share the read:
   * the value is decoded once for all of them.
   */
  decodeShared(request: ReadRequest, entry: Entry, readResult: ReadResult): Decoded {
    readResult.readersLeft--;
    if (readResult.readersLeft > 0) return this.#decodeOnce(request, entry, readResult, false);
    return readResult.decoded === undefined
      ? this.decode(request, entry)
      : this.#decodeOnce(request, entry, readResult, true);
  }

  /** The same for any number of requests. */
  decodeForMany(request: ReadRequest, entry: Entry, holder: DecodedHolder): Decoded {
    return this.#decodeOnce(request, entry, holder, false);
  }

  /**
   * Decodes the value for the first of several readers, and gives each a copy of it, except the
   * last one, who gets the value itself. All readers of a read-only value share it. A value that
   * cannot be copied exactly is decoded for each of them.
   */
  #decodeOnce(request: ReadRequest, entry: Entry, holder: DecodedHolder, isLast: boolean): Decoded {
    const { key, policy } = request;
    const shared = holder.decoded;
    if (shared === undefined || shared.input !== key.input || shared.readOnly !== policy.readOnly) {
      if (isLast) return this.decode(request, entry);
      const decoded = decodeEntry(entry, key, this.#packing, this.#channel);
      const copy = decoded.kind === "value" ? this.copierOf(request, decoded.content) : undefined;
      if (decoded.kind !== "value" || copy === undefined) return this.#validated(request, decoded);
      holder.decoded = { input: key.input, readOnly: policy.readOnly, value: decoded, copy };
      return this.#validated(request, decoded.with(copy(decoded.value)));
    }
    if (isLast) holder.decoded = undefined;
    const { value: decoded, copy } = shared;
    // A read-only value is frozen by then.
    const isShared = isLast || policy.readOnly === true;
    return this.#validated(request, isShared ? decoded : decoded.with(copy(decoded.value)));
  }

  /**
   * Returns what makes a value for another reader from the decoded one. Undefined if only decoding
   * again does that.
   */
  copierOf({ policy }: ReadRequest, content: Encoded): ((value: unknown) => unknown) | undefined {
    return policy.readOnly === true ? freezePlain : this.#packing.copierOf(content);
  }

  /** Returns whether GraphQL accepts a cached value for a request, and reports it if not. */
  isValid(request: ReadRequest, value: unknown): boolean {
    const mistake = request.validator?.mistakeIn(value, request);
    if (mistake !== undefined) this.#reportMistake(request, mistake);
    return mistake === undefined;
  }

  #reportMistake(request: ReadRequest, mistake: string): { readonly kind: "corrupt" } {
    const { coordinate } = request.key;
    const error = new CachedError(
      "CACHED_VALUE_INVALID",
      `\`${coordinate}\`: a stored value is loaded again: expected a value that matches the schema, got ${mistake}; correct the resolver, or the type in the schema`,
      { coordinate },
    );
    this.#channel.publish({ name: "entry.corrupt", ...subjectOf(request.key), error });
    return { kind: "corrupt" };
  }
}
