import type { Key, Variant } from "../keys/key.js";
import type { Policy, PolicySettings } from "../policy/policy.js";
import type { RequestTags } from "../tier/request/request.js";
import type { Identity } from "./identity.js";

/** What is known of a loader outside of a request. */
export interface LoaderRule {
  readonly name: string;
  /** Whether it has replaced another one of its name, outside of production. */
  readonly isReplacement: boolean;
  /** The batch function, which shows whether a second loader of the same name is the same as the first. */
  readonly batch: unknown;
  readonly policy: Policy;
  readonly settings: PolicySettings;
  /** Whether the id itself is in the key, rather than what `cacheKeyFn` makes of it. */
  readonly hasIdInKey: boolean;
  /** Returns the variant of the entries. Throws `CACHED_OPTION_INVALID` if the shape of the loader's type is not known yet. */
  variantOf(): Variant;
  /** Returns the tags of one id. Throws what the option `tags` throws. */
  tagsOf(id: unknown): RequestTags;
  /** Returns the texts of the same tags. */
  tagTextsOf(id: unknown): readonly string[];
  /** Returns the key of one id; `identity` is undefined for PUBLIC loaders. Throws what `cacheKeyFn` and `variantOf` do, and `CACHED_KEY_UNSERIALIZABLE`. */
  keyOf(id: unknown, identity: Identity | undefined): Key;
}
