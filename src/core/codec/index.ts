/** The entry point `graphql-cached/codec`: what your own codec or value type uses. */
export { type Codec, type Content, TooLarge, Unreadable, Unstorable } from "./codec.js";
export { jsonCodec } from "./json-codec.js";
export { type Dialect, fromPlain, toPlain } from "./plain.js";
export type { ValueType, ValueTypes } from "./value-type.js";
