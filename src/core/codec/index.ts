/**
 * The entry point `graphql-cached/codec`: what a codec or a value type of your own implements and
 * may reuse.
 */
export { type Codec, type Content, TooLarge, Unreadable, Unstorable } from "./codec.js";
export { jsonCodec } from "./json-codec.js";
export { type Dialect, fromPlain, toPlain } from "./plain.js";
export type { ValueType, ValueTypes } from "./value-type.js";
