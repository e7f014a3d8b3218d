import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { canonical } from "./canonical.js";

/** The layout of stored entries and of what surrounds them. It is part of every key, so two releases never read each other's. */
const FORMAT = "1";

/** Where one entry rests, and what it was made of. */
export interface Key {
  /** The full name in the store: `prefix:format:coordinate:digest`. Holds no user data. */
  readonly name: string;
  readonly coordinate: string;
  /** SHA-256 of the input, in base64url: what events and logs may show. */
  readonly digest: string;
  /** The canonical input. Stored beside the value and compared on read, so a collision or a mixed-up reply is a miss. */
  readonly input: string;
}

/** What a key is made of. `kind` keeps a loader from meeting a field of its name, and the texts of a key-value cache from meeting either. */
export interface KeyInput {
  readonly kind: "field" | "loader" | "text";
  readonly coordinate: string;
  /** Who is asking, for PRIVATE values; undefined for PUBLIC ones. */
  readonly identity: string | number | bigint | undefined;
  readonly parts: unknown;
}

/** Names everything the cache keeps in a store, so that no two users of one server meet. */
export interface KeySpace {
  /** What all names begin with. */
  readonly prefix: string;
  /** Errors: `CACHED_KEY_UNSERIALIZABLE`. */
  entry(input: KeyInput): Key;
  /** The name of a tag's version. */
  tag(tag: string): string;
  /** The name of the record of recent tag invalidations. */
  readonly invalidationLog: string;
  /** The channel on which waiters are woken. */
  readonly wakeChannel: string;
}

/** The names of tags used lately, which cost a hash each; long tags are not kept. */
const MAX_TAGS = 2_000;
const MAX_TAG_LENGTH = 256;

export function createKeySpace(prefix: string): KeySpace {
  const tags = new LRUCache<string, string>({ max: MAX_TAGS });
  return {
    prefix: `${prefix}:${FORMAT}:`,
    entry({ kind, coordinate, identity, parts }) {
      const input = canonical([kind, coordinate, identity, parts]);
      const digest = digestOf(input);
      return { name: `${prefix}:${FORMAT}:${coordinate}:${digest}`, coordinate, digest, input };
    },
    tag: (tag) => {
      const known = tags.get(tag);
      if (known !== undefined) return known;
      const name = `${prefix}:${FORMAT}:#${digestOf(tag)}`;
      if (tag.length <= MAX_TAG_LENGTH) tags.set(tag, name);
      return name;
    },
    invalidationLog: `${prefix}:${FORMAT}:#log`,
    wakeChannel: `${prefix}:${FORMAT}:#wake`,
  };
}

const digestOf = (text: string): string => hash("sha256", text, "base64url");
