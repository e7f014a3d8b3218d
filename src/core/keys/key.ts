import { hash as hashOf } from "node:crypto";
import { LRUCache } from "lru-cache";
import { getOrMake } from "../base/multimap.js";
import { checkLength, createKeyWriters, type KeyFormOf } from "./canonical.js";
import type { TagNormalizer } from "./tag-template.js";

/**
 * Creates the names under `prefix`. `release`: what the settings of the cache say about whether two
 * releases can share entries, a part of every variant. `normalizeTag` makes spellings of a tag one.
 */
export function createKeySpace(
  prefix: string,
  release = "",
  keyFormOf: KeyFormOf = () => undefined,
  normalizeTag?: TagNormalizer,
) {
  const knownTags = new LRUCache<string, readonly Subject[]>({ max: MAX_TAGS });
  const headOf = (coordinate: string, variantId: string): string => `${prefix}:${FORMAT}:${coordinate}:${variantId}:`;
  const subjectsOfTag = (given: string): readonly Subject[] => {
    const known = knownTags.get(given);
    if (known !== undefined) return known;
    const text = normalizeTag?.(given) ?? given;
    const beginning = beginningOf(text);
    const subjects = (beginning === undefined ? [text] : [text, beginning]).map(subjectOf);
    if (given.length <= MAX_MEMO_LENGTH) knownTags.set(given, subjects);
    return subjects;
  };
  return {
    prefix: `${prefix}:`,
    normalizesTags: normalizeTag !== undefined,
    keyFormOf,
    writers: createKeyWriters(keyFormOf),
    /** Throws `CACHED_KEY_UNSERIALIZABLE`. */
    entry(keyInput: KeyInput, variant: Variant): Key {
      const { kind, coordinate } = keyInput;
      const input = textOfKey(keyInput);
      const hash = digestOf(input);
      const digest = hash.slice(0, DIGEST_LENGTH);
      const name = headOf(coordinate, variant.id) + digest;
      return { kind, coordinate, variantId: variant.id, form: variant.form, input, hash, digest, name };
    },
    /** Returns the name of the entry of `key` under another variant of the same key form. */
    nameUnder: ({ coordinate, digest }: Pick<Key, "coordinate" | "digest">, variantId: string): string =>
      headOf(coordinate, variantId) + digest,
    variant({ kind, shape, versions, keyTemplate, tagTemplates }: VariantInput): Variant {
      const form = idOf([FORMAT, kind, ...keyTemplate]);
      return { id: idOf([form, SUBJECTS_OF_TAGS, release, shape, versions, tagTemplates]), form: subjectOf(form) };
    },
    /** What a value with these tags has: the tags, and the types that they begin with. */
    tags: (texts: readonly string[]): readonly Subject[] => [...new Set(texts.flatMap(subjectsOfTag))],
    /** What an invalidation of these tags changes: the tags, and their type tags. */
    invalidatedTags(texts: readonly string[]): Subject[] {
      const spelled = normalizeTag === undefined ? texts : [...texts, ...texts.map(normalizeTag)];
      const types = spelled.flatMap((text) => typeOfTag(text) ?? []).map(typeTag);
      const all = [...new Set([...texts, ...types])];
      // Values of processes without the option have the tag as it is given.
      const given = normalizeTag === undefined ? [] : all.map(subjectOf);
      return [...new Set([...all.map((text) => subjectsOfTag(text)[0] as Subject), ...given])];
    },
    /**
     * Returns what all values have that have one of `texts`, or another tag that begins like it:
     * far fewer. Undefined if that cannot be said, or if they begin in too many ways.
     */
    beginningsOf(texts: readonly string[]): readonly Subject[] | undefined {
      const beginnings = new Set<string | undefined>();
      for (const given of texts) {
        beginnings.add(beginningOf(given));
        if (normalizeTag !== undefined) beginnings.add(beginningOf(normalizeTag(given)));
        if (beginnings.size > MAX_BEGINNINGS || beginnings.has(undefined)) return undefined;
      }
      return [...(beginnings as Set<string>)].map(subjectOf);
    },
    /**
     * Returns the tag that all entries of a field have in common whose keys contain the same
     * `input` and more: a selection, or further fields of a representation. Throws
     * `CACHED_KEY_UNSERIALIZABLE`. The NUL keeps it apart from tags that users write.
     */
    groupTag: (keyInput: KeyInput): Subject => subjectOf(`\u0000${textOfKey(keyInput)}`),
    subjects: SUBJECTS,
    reports: `${prefix}:#reports`,
    clock: `${prefix}:#clock`,
    wakeChannel: `${prefix}:#wake`,
  };
}

/** The version of the storage format, a part of the name of every entry. */
const FORMAT = "3";

/** The version of the rule by which tags have subjects: invalidations need all of them. */
const SUBJECTS_OF_TAGS = 3;

/** In how many ways tags can begin to be invalidated by their beginnings. */
const MAX_BEGINNINGS = 100;

/** What is invalidated: the first 52 bits of a digest, of a tag for example. */
export type Subject = number;

/** As other programs see it: in events, and in the headers for CDNs. */
export const nameOfSubject = (subject: Subject): string => subject.toString(36);

/** The name of one entry in the store, and the input it is made from. */
export interface Key {
  readonly kind: KeyInput["kind"];
  readonly coordinate: string;
  readonly variantId: string;
  readonly form: Subject;
  readonly input: string;
  /**
   * The whole SHA-256 of the input, in base64url. The characters from `CHECK_AT` on have its second
   * half. They are stored with the value and compared on read, so a collision or a mixed-up reply
   * is a miss.
   */
  readonly hash: string;
  /** The first 132 bits of the hash. Safe to show in events and logs. */
  readonly digest: string;
  /** The name in the store: `prefix:format:coordinate:variant:digest`. Contains no user data. */
  readonly name: string;
}

export type EntryIdentity = Pick<Key, "name" | "coordinate" | "variantId" | "form" | "digest">;

/** `kind` separates fields, loaders of the same name, and whole responses. */
export interface KeyInput {
  readonly kind: "field" | "loader" | "response";
  readonly coordinate: string;
  /** The caller's identity for PRIVATE values; undefined for PUBLIC ones. */
  readonly identity: string | undefined;
  readonly parts: string;
}

/** A part of the names of entries: releases that cannot share them keep them side by side. */
export interface Variant {
  readonly id: string;
  /**
   * The key form: what invalidations have of the key template and the entry format. The keys of two
   * variants with the same key form differ in the variant's id only, so an entry of one can be
   * named under the other.
   */
  readonly form: Subject;
}

interface VariantInput {
  readonly kind: KeyInput["kind"];
  /** The digest of what the schema says about the value. Empty if no schema describes it. */
  readonly shape: string;
  readonly versions: readonly string[];
  /** What the canonical text of the key's inputs depends on, besides the inputs. */
  readonly keyTemplate: readonly string[];
  readonly tagTemplates: readonly string[];
}

/** What statistics, modes and events call the entries of whole responses. */
export const RESPONSES = "responses";

/**
 * The tag of values with too many entities of a type to have the tag of each (see
 * `entity-walk.ts`). Every invalidation of a tag such as `Movie:7` changes `Movie:*` as well, in
 * every process: the one that has stored such a value can have other settings.
 */
export const typeTag = (typeName: string): string => `${typeName}:*`;

export const entityTag = (typeName: string, id: string): string => `${typeName}:${id}`;

/**
 * Returns the name of the type that a tag begins with. It is a tag as well, which every value with
 * a tag of the type has: `Movie` invalidates whatever has a tag such as `Movie:7` or `Movie:*`. An
 * id cannot be mistaken for it.
 */
const typeOfTag = (tag: string): string | undefined => /^([_A-Za-z][_0-9A-Za-z]*):/.exec(tag)?.[1];

/** Returns tags in lists, one for each type that they begin with. */
export function listsByType(tags: readonly string[]): readonly (readonly string[])[] {
  const lists = new Map<string | undefined, string[]>();
  for (const tag of tags) getOrMake(lists, typeOfTag(tag), () => []).push(tag);
  return [...lists.values()];
}

/** What all tags of one first name and separator have. Undefined: it begins in another way. */
function beginningOf(tag: string): string | undefined {
  const [named] = /^[_A-Za-z][_0-9A-Za-z]*[^_0-9A-Za-z]/.exec(tag) ?? [];
  return typeOfTag(tag) ?? (named && `\u0000begins ${named}`);
}

export type KeySpace = ReturnType<typeof createKeySpace>;

/**
 * Returns the text that a key is made from. Coordinates have no spaces, so only the identity needs
 * to be quoted.
 */
export function textOfKey({ kind, coordinate, identity, parts }: KeyInput): string {
  const owner = identity === undefined ? "" : JSON.stringify(identity);
  return checkLength(`${kind} ${coordinate} ${owner} ${parts}`);
}

const digestOf = (text: string): string => hashOf("sha256", text, "base64url");

const DIGEST_LENGTH = 22;
/** Where the second half of a hash begins, in a character that it shares with the first half. */
export const CHECK_AT = 21;
export const CHECK_LENGTH = 22;

export const checkOf = ({ hash }: Pick<Key, "hash">): string => hash.slice(CHECK_AT);

const ID_LENGTH = 12;
const idOf = (parts: readonly unknown[]): string => digestOf(JSON.stringify(parts)).slice(0, ID_LENGTH);

/** Hexadecimal digits of a subject: 52 bits, which a number has exactly. */
const SUBJECT_DIGITS = 13;
const subjectOf = (text: string): Subject =>
  Number.parseInt(hashOf("sha256", text, "hex").slice(0, SUBJECT_DIGITS), 16);

const MAX_MEMO_LENGTH = 256;
const MAX_TAGS = 10_000;

/** A text that no other value has, nor as a beginning. Undefined for objects, which can change. */
export function memoText(value: unknown): string | undefined {
  switch (typeof value) {
    case "string":
      return value.length <= MAX_MEMO_LENGTH ? `${value.length}:${value}` : undefined;
    case "number":
      return Object.is(value, -0) ? undefined : `n${value},`;
    case "boolean":
      return value ? "T" : "F";
    case "undefined":
      return "U";
    case "object":
      return value === null ? "N" : undefined;
    default:
      return undefined;
  }
}

/** What is invalidated besides tags. Two NULs keep the names apart from those of tags. */
const SUBJECTS = {
  /** One entry, in all variants of its key form: the first 48 bits of its digest. */
  entry: ({ digest }: Pick<Key, "digest">): Subject => Buffer.from(digest.slice(0, 8), "base64url").readUIntBE(0, 6),
  /** All entries of a field or loader, in all variants. */
  coordinate: (coordinate: string): Subject => subjectOf(`\u0000\u0000coordinate ${coordinate}`),
  /** All entries under the prefix. */
  everything: subjectOf("\u0000\u0000everything"),
  /** What contains an entry of a coordinate, but has no subject of it: invalidated with any. */
  anyOf: (coordinate: string): Subject => subjectOf(`\u0000\u0000any ${coordinate}`),
  /** What it has as well, for the form of the entries' keys. Never invalidated itself. */
  formOf: (coordinate: Subject, form: Subject): Subject => subjectOf(`\u0000\u0000form ${coordinate} ${form}`),
};

export type Subjects = typeof SUBJECTS;
