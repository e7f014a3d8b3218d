import { types } from "node:util";
import { attempt } from "../base/built-in.js";
import { ignoreRejection } from "../base/deferred.js";
import { CachedError, describeSetting, keyUnusable } from "../base/errors.js";
import { getOrMake } from "../base/multimap.js";
import { canonicalize, isRounded, ROUNDED } from "../keys/canonical.js";
import { type Key, type KeySpace, memoText, type Variant } from "../keys/key.js";
import type { KnownTags } from "../keys/known-tags.js";
import { checkTagsOfValue } from "../keys/tag-template.js";
import type { Policy } from "../policy/policy.js";
import { KnownKey, type Memo, type Memos, type Row } from "../tier/request/known-key.js";
import { NO_TAGS, type RequestTags, TagsBeforeLoad } from "../tier/request/tags.js";
import type { Identity } from "./identity.js";
import { type LoaderKind, type LoaderOptions, placeOf } from "./loader-options.js";

export interface KeyOptions<Id> extends Pick<LoaderOptions<Id, never, never>, "name" | "cacheKeyFn" | "tags"> {
  readonly kind: LoaderKind;
}

interface KeyParts {
  readonly keys: KeySpace;
  readonly knownTags: KnownTags;
  readonly memos: Memos;
  readonly policy: Policy;
}

/** Makes and remembers the keys of ids. Calls `tags` for every read: it can depend on more. */
export class LoaderKeys<Id> {
  /** Whether a function of the user makes the key, so that two ids can have one. */
  readonly hasOwnKey: boolean;
  /** The options with functions of the user that can throw. */
  readonly #functions: readonly string[];
  readonly #keys: KeySpace;
  /** Learns the tags of values that are loaded: hits do not need them. */
  readonly #learning: Pick<KeySpace, "tags">;
  readonly #memos: Memos;
  readonly #policy: Policy;
  /** The types that the parts of keys had, by what they are if a string is as good as a number. */
  readonly #typesOfParts = new Map<string, Set<string>>();
  #variant: Variant | undefined;
  #memo: Memo | undefined;
  #slot = 0;

  /** `given`: the options as the user has passed them. */
  constructor(
    private readonly options: KeyOptions<Id>,
    given: Readonly<Record<string, unknown>>,
    { keys, knownTags, memos, policy }: KeyParts,
  ) {
    this.hasOwnKey = given[options.kind.key] !== undefined;
    this.#functions = ["context", options.kind.key, "tags"].filter((option) => typeof given[option] === "function");
    this.#memos = memos;
    this.#policy = policy;
    this.#keys = keys;
    if (options.tags !== undefined) knownTags.addFunction();
    this.#learning = {
      tags: (texts) => {
        for (const text of texts) knownTags.learn(text);
        return keys.tags(texts);
      },
    };
  }

  of(id: Id, identity: Identity | undefined, variant: Variant): IdKey {
    const memo = this.#memoOf(variant);
    const parts = this.#partsOf(id);
    const textOfId = memoText(parts);
    const owner = identity === undefined ? "" : memoText(identity);
    const text = textOfId === undefined || owner === undefined ? undefined : owner + textOfId;
    // A key that is made from an object is made for each call, and found again by its name.
    const own = text === undefined ? this.#keyOf(parts, identity, variant) : undefined;
    const row = memo.row(text ?? `\0\0${own?.name} ${own?.hash}`);
    const known = row.keys[this.#slot] as IdKey | undefined;
    const returned = this.#returnedTags(id);
    if (known !== undefined && areSame(known.tagTexts, returned)) {
      // Another loader of the name has made it.
      if (this.#typesOfParts.size === 0) this.#noteTypes(parts);
      return known;
    }
    checkReturnedTags(returned);
    const key = own ?? known?.key ?? this.#keyOf(parts, identity, variant);
    // A copy: the loader may change its array.
    const tagTexts = returned.slice();
    const tags = tagTexts.length === 0 ? NO_TAGS : new TagsBeforeLoad(tagTexts, this.#learning, this.hasOwnKey);
    this.#noteTypes(parts);
    const names = new IdKey(key, tags, row, identity, text ?? `\0${key.digest}`, tagTexts);
    memo.remember(names, this.#slot);
    return names;
  }

  #noteTypes(parts: unknown): void {
    const types = typesOf(parts);
    if (this.#typesOfParts.size < MAX_TYPES) getOrMake(this.#typesOfParts, alike(types), () => new Set()).add(types);
  }

  #memoOf(variant: Variant): Memo {
    if (this.#memo === undefined || this.#variant !== variant) {
      this.#variant = variant;
      this.#memo = this.#memos.of(`loader ${this.options.name} ${variant.id}`);
      this.#slot = this.#memo.slotOf(JSON.stringify(this.#policy));
    }
    return this.#memo;
  }

  keyOf(id: Id, identity: Identity | undefined, variant: Variant): Key {
    return this.#keyOf(this.#partsOf(id), identity, variant);
  }

  /** Whether an id still has the key of `names`. */
  isKeyOf(id: Id, { key, identity }: IdKey, variant: Variant): boolean {
    return attempt(() => this.keyOf(id, identity, variant).name) === key.name;
  }

  /** Returns why an id may be meant as another one: all read before had a number, or a string. */
  doubtOf(id: Id): string | undefined {
    const types = typesOf(this.#partsOf(id));
    const known = this.#typesOfParts.get(alike(types));
    if (known === undefined || known.has(types)) return undefined;
    const [expected] = known;
    known.add(types);
    return `expected ${expected}, as in what was read here, got ${types}, which names another entry, since 7 and "7" are two; pass what the ${this.options.kind.noun} gets`;
  }

  tagTextsOf(id: Id): readonly string[] {
    const tags = this.#returnedTags(id);
    checkReturnedTags(tags);
    return tags;
  }

  mistakeOf(cause: unknown): CachedError {
    const { name, kind } = this.options;
    const isOwn = cause instanceof CachedError;
    const code = isOwn ? cause.code : "CACHED_KEY_UNUSABLE";
    const reason = !isOwn
      ? `${this.#functions.map((one) => `\`${one}\``).join(" or ") || `reading the ${kind.input}`} threw an exception, the cause of this error`
      : code === "CACHED_KEY_UNUSABLE"
        ? cause.message
        : `${cause.message}; return plain data from \`${kind.key}\``;
    const message = `${placeOf(name, kind)}: a value is not cached: ${reason}`;
    return new CachedError(code, message, { coordinate: name, cause });
  }

  #partsOf(id: Id): unknown {
    const { cacheKeyFn } = this.options;
    if (isRounded(id)) throw keyUnusable(ROUNDED);
    return cacheKeyFn === undefined ? id : cacheKeyFn(id);
  }

  #keyOf(keyParts: unknown, identity: Identity | undefined, variant: Variant): Key {
    // A promise cannot be part of a key, which is reported.
    ignoreRejection(keyParts);
    const parts = canonicalize(keyParts, this.#keys.writers.byText);
    return this.#keys.entry({ kind: "loader", coordinate: this.options.name, identity, parts }, variant);
  }

  #returnedTags(id: Id): readonly string[] {
    const { tags: tagsOf, kind } = this.options;
    if (tagsOf === undefined) return NO_TAGS.texts;
    const tags: unknown = tagsOf(id);
    if (Array.isArray(tags)) return tags;
    ignoreRejection(tags);
    throw keyUnusable(
      `\`tags\`: expected a function that returns an array of strings, got ${types.isPromise(tags) ? "a promise" : describeSetting(tags)} for an ${kind.input}; return the array itself`,
    );
  }
}

/** The names of one id, and the caller's identity, which is part of the key of PRIVATE values. */
export class IdKey extends KnownKey {
  /** `memoKey`: what a request remembers the id by. Ids that share it have the same value. */
  constructor(
    key: Key,
    tags: RequestTags,
    row: Row | undefined,
    readonly identity: Identity | undefined,
    readonly memoKey: string,
    readonly tagTexts: readonly string[],
  ) {
    super(key, tags, row);
  }
}

/** Of the first arguments: a client may have sent a list of any length. */
const typesOf = (parts: unknown): string =>
  Array.isArray(parts)
    ? `[${parts
        .slice(0, MAX_TYPED_PARTS)
        .map((part) => typeof part)
        .join(", ")}]`
    : typeof parts;

const alike = (types: string): string => types.replaceAll(/number|bigint/g, "string");

const MAX_TYPED_PARTS = 10;
const MAX_TYPES = 100;

const areSame = (some: readonly string[], others: readonly string[]): boolean =>
  some.length === others.length && some.every((text, nth) => text === others[nth]);

/** The message contains no tag: tags can contain user data. Throws `CACHED_KEY_UNUSABLE`. */
function checkReturnedTags(tags: readonly unknown[]): void {
  // A hole counts as well.
  const invalid = tags.findIndex((tag) => typeof tag !== "string" || tag === "");
  if (invalid < 0) {
    checkTagsOfValue(tags as readonly string[], (mistake) => keyUnusable(mistake));
    return;
  }
  for (const each of tags) ignoreRejection(each);
  const tag = tags[invalid];
  const isNamed = typeof tag === "object" || tag === undefined;
  const given = tag === "" ? "an empty string" : isNamed ? describeSetting(tag) : `a ${typeof tag}`;
  throw keyUnusable(
    `\`tags\`: expected a function that returns an array of non-empty strings, got an array with ${given} for an id; return tags such as \`Movie:\${id}\``,
  );
}
