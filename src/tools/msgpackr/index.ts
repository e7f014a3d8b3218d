/** The entry point `graphql-cached/msgpackr`. */
export { msgpackrCodec } from "./msgpackr-codec.js";
