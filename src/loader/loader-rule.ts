import type { Key } from "../keys/key.js";
import type { Identity } from "./identity.js";

/** What is known of a loader outside of a request. */
export interface LoaderRule {
  readonly name: string;
  /** The batch function, by which a second loader of the same name is told from the first. */
  readonly batch: unknown;
  readonly isPrivate: boolean;
  /**
   * Returns the key of one id; `identity` is undefined for PUBLIC loaders. Throws what `cacheKeyFn` throws,
   * `CACHED_KEY_UNSERIALIZABLE`, and `CACHED_OPTION_INVALID` if the shape of the loader's type is not known yet.
   */
  keyOf(id: unknown, identity: Identity | undefined): Key;
}
