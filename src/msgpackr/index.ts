/** The door `graphql-cached/msgpackr`. */
export { msgpackrCodec } from "./msgpackr-codec.js";
