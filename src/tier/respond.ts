import type { ReadRequest } from "./request.js";

/**
 * The outcome of a miss that several requests may share. It is called once for each of them: it
 * reports how that request was served and returns a value of its own, or a promise of one. It
 * throws or rejects with an error of the source only.
 */
export type Respond = (request: ReadRequest) => unknown;
