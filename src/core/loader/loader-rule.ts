import type { Key, Variant } from "../keys/key.js";
import type { Policy, PolicySettings } from "../policy/policy.js";
import type { Identity } from "./identity.js";
import type { LoaderKind } from "./loader-options.js";

/** What is known of a loader outside of a request. */
export interface LoaderRule {
  readonly name: string;
  /** Whether it has replaced another one of its name, outside of production. */
  readonly isReplacement: boolean;
  /**
   * The user's function that loads, which shows whether a second loader of the same name is the
   * same as the first.
   */
  readonly given: unknown;
  readonly kind: LoaderKind;
  readonly policy: Policy;
  readonly settings: PolicySettings;
  /**
   * Returns the variant of the entries. Throws `CACHED_OPTION_INVALID` if the shape of the loader's
   * type is not known yet.
   */
  variantOf(): Variant;
  /** Returns the texts of the tags of one id. Throws what the option `tags` throws. */
  tagTextsOf(id: unknown): readonly string[];
  /**
   * Returns the key of one id; `identity` is undefined for PUBLIC loaders. Throws what `cacheKeyFn`
   * does, `CACHED_KEY_UNSERIALIZABLE`, and `CACHED_OPTION_INVALID` if the shape of the loader's
   * type is not known yet.
   */
  keyOf(id: unknown, identity: Identity | undefined): Key;
}
