import { isPlainObject } from "../../base/built-in.js";
import { CachedError } from "../../base/errors.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import type { Entry } from "../../store/entry.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import { type Decoded, decodeEntry } from "../entry/entry-decoder.js";
import type { DecodedHolder, ReadRequest } from "./request.js";

/** Makes values of entries for requests: each gets a value of its own, which GraphQL accepts. */
export class ValueDecoder {
  constructor(
    private readonly packing: Packing,
    private readonly channel: Channel,
  ) {}

  /**
   * Decodes an entry for a request. A value that GraphQL would refuse is outdated: it is reported
   * and counts as unreadable, so that it is loaded again and does not fail every hit.
   *
   * `holder`: of the readers that share the entry. The value is decoded for the first of them, and
   * each gets a copy of it, unless only decoding it again makes an exact one.
   */
  decode(request: ReadRequest, entry: Entry, holder?: DecodedHolder): Decoded {
    const { key, policy } = request;
    const { readOnly } = policy;
    const shared = holder?.decoded;
    if (shared !== undefined && shared.input === key.input && shared.readOnly === readOnly)
      return this.#validated(request, { ...shared.value, value: shared.copy(shared.value.value) });
    const decoded = decodeEntry(entry, key, this.packing, this.channel);
    if (decoded.kind !== "value") return decoded;
    if (readOnly === true) freezePlain(decoded.value);
    const copy = holder && this.copierOf(request, decoded.content);
    if (holder === undefined || copy === undefined) return this.#validated(request, decoded);
    holder.decoded = { input: key.input, readOnly, value: decoded, copy };
    return this.#validated(request, { ...decoded, value: copy(decoded.value) });
  }

  /** Returns what copies a decoded value exactly. Undefined if only decoding again does that. */
  copierOf({ policy }: ReadRequest, content: Encoded): ((value: unknown) => unknown) | undefined {
    return policy.readOnly === true ? freezePlain : this.packing.copierOf(content);
  }

  /** Returns whether GraphQL accepts a cached value for a request, and reports it if not. */
  isValid(request: ReadRequest, value: unknown): boolean {
    const mistake = request.validator?.mistakeIn(value, request);
    if (mistake === undefined) return true;
    const { coordinate } = request.key;
    const message = `\`${coordinate}\`: a stored value is loaded again: expected a value that matches the schema, got ${mistake}; correct the resolver, or the type in the schema`;
    const error = new CachedError("CACHED_VALUE_INVALID", message, { coordinate });
    this.channel.publish({ name: "entry.corrupt", ...subjectOf(request.key), error });
    return false;
  }

  #validated(request: ReadRequest, decoded: Decoded & { readonly value: unknown }): Decoded {
    return this.isValid(request, decoded.value) ? decoded : { kind: "corrupt" };
  }
}

/** Freezes plain objects and arrays, recursively. Others, such as a Map, would stay mutable. */
export function freezePlain(value: unknown): unknown {
  if (Object.isFrozen(value) || !(Array.isArray(value) || isPlainObject(value))) return value;
  Object.freeze(value);
  for (const member of Object.values(value)) freezePlain(member);
  return value;
}
