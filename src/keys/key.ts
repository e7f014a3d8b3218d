import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { checkLength } from "./canonical.js";
import { hashTagOf } from "./hash-tags.js";

/**
 * The version of the storage format. It is part of every key, so releases with different formats
 * never share entries.
 */
const FORMAT = "1";

/** The name of one entry in the store, and the input it was built from. */
export interface Key {
  /** The full name in the store: `prefix:format:coordinate:digest`. Contains no user data. */
  readonly name: string;
  readonly coordinate: string;
  /** The SHA-256 of the input in base64url. Safe to show in events and logs. */
  readonly digest: string;
  /**
   * The canonical input. Stored with the value and compared on read, so a collision or a mixed-up
   * reply is a miss.
   */
  readonly input: string;
}

/**
 * The inputs of a key. `kind` separates fields, loaders of the same name, and the texts of the
 * key-value cache.
 */
export interface KeyInput {
  readonly kind: "field" | "loader" | "text";
  readonly coordinate: string;
  /** The caller's identity for PRIVATE values; undefined for PUBLIC ones. */
  readonly identity: string | undefined;
  /** The canonical text of the inputs. */
  readonly parts: string;
}

/**
 * The names of everything one cache keeps in a store. Caches with different prefixes share nothing.
 */
export interface KeySpace {
  /** The beginning of every name. */
  readonly prefix: string;
  /** Throws `CACHED_KEY_UNSERIALIZABLE`. */
  entry(input: KeyInput): Key;
  /** Returns the name under which the version of `tag` is stored. It contains one of `HASH_TAGS`. */
  tag(tag: string): string;
  /**
   * Returns the name of the tag that all entries of a field have in common whose keys differ in the
   * selection only. `input` is their key without the selection. Throws `CACHED_KEY_UNSERIALIZABLE`.
   */
  selectionsTag(input: KeyInput): string;
  /** The name of the log of recent tag invalidations; a store with several nodes appends hash tags. */
  readonly invalidationLog: string;
  /** The name of the wake-up channel. */
  readonly wakeChannel: string;
}

/** Bounds of the memo of tag names, which saves a hash per tag. Longer tags are not memoized. */
const MAX_TAGS = 2_000;
const MAX_TAG_LENGTH = 256;

export function createKeySpace(prefix: string): KeySpace {
  const tags = new LRUCache<string, string>({ max: MAX_TAGS });
  const tagName = (digest: string): string => `${prefix}:${FORMAT}:#{${hashTagOf(digest)}}${digest}`;
  return {
    prefix: `${prefix}:${FORMAT}:`,
    entry(keyInput) {
      const { coordinate } = keyInput;
      const input = textOf(keyInput);
      const digest = digestOf(input);
      return { name: `${prefix}:${FORMAT}:${coordinate}:${digest}`, coordinate, digest, input };
    },
    // The NUL keeps the name apart from those of the tags that users write.
    selectionsTag: (keyInput) => tagName(digestOf(`\u0000${textOf(keyInput)}`)),
    tag: (tag) => {
      const known = tags.get(tag);
      if (known !== undefined) return known;
      const name = tagName(digestOf(tag));
      if (tag.length <= MAX_TAG_LENGTH) tags.set(tag, name);
      return name;
    },
    invalidationLog: `${prefix}:${FORMAT}:#log`,
    wakeChannel: `${prefix}:${FORMAT}:#wake`,
  };
}

/** Coordinates are GraphQL names, so only the identity needs to be quoted. */
const textOf = ({ kind, coordinate, identity, parts }: KeyInput): string =>
  checkLength(`${kind} ${coordinate} ${identity === undefined ? "" : JSON.stringify(identity)} ${parts}`);

const digestOf = (text: string): string => hash("sha256", text, "base64url");
