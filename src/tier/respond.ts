import type { ReadRequest } from "./request.js";

/**
 * What a sharedMiss has come to. Called once for each of those who set out together, it counts how he was served and gives him a value of his own, or
 * a promise of one; that rejects, or it throws, with an error of the source only.
 */
export type Respond = (request: ReadRequest) => unknown;
