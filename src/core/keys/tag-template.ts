import { types } from "node:util";
import { attempt } from "../base/built-in.js";
import { ignoreRejection } from "../base/deferred.js";
import { CachedError, describeSetting } from "../base/errors.js";
import { idText, isRounded, type KeyFormOf, ROUNDED } from "./canonical.js";
import { EACH, type Path, type PathRoots, parsePath, readPath } from "./path.js";

/** A parsed tag template such as `Movie:{$args.id}`: literal text and paths. */
export interface TagTemplate {
  readonly text: string;
  readonly pieces: readonly (string | Path)[];
  /** Whether the template uses `$result`, so that its tags are known only after the load. */
  readonly needsResult: boolean;
}

/** Has the texts of the values at a path in its place, if it was read before a resolver runs. */
export interface BoundTemplate {
  readonly text: string;
  readonly pieces: readonly (string | Path | readonly string[])[];
}

/** What belongs to a path, or to the text of another language, and not to the text of a tag. */
const STRAY = /[{}]|\$[A-Za-z_]/;

/** Undefined for an empty text, braces around anything but a path, and a path without braces. */
export function parseTagTemplate(text: string): TagTemplate | undefined {
  const pieces: (string | Path)[] = [];
  if (text.includes("${")) return undefined;
  for (const part of text.split(/(\{[^{}]*\})/)) {
    if (part === "") continue;
    if (!part.startsWith("{")) {
      if (STRAY.test(part)) return undefined;
      pieces.push(part);
      continue;
    }
    const path = parsePath(part.slice(1, -1));
    if (path === undefined || path.root === "selection") return undefined;
    pieces.push(path);
  }
  if (pieces.length === 0) return undefined;
  return { text, pieces, needsResult: pieces.some((piece) => typeof piece !== "string" && piece.root === "result") };
}

/** What only a template has. */
const TEMPLATE = /\$\{?(args|source|context|result)(?=[.[}]|$)/;
/** A part of a tag that is the text of a missing value. */
const MISSING = /(?:^|[:/|#,;=])(?:undefined|null|NaN)(?:$|[:/|#,;=])|\[object [A-Z]\w*\]/;
/** A part of a tag that is an asterisk, or ends the tag with one. */
const WILDCARD = /(?:^|[:/|#,;=])\*(?:$|[:/|#,;=])|\*$/;
/** The tag of values with many entities of a type: see `typeTag`. */
const TYPE_TAG = /^[_A-Za-z]\w*:\*$/;

/**
 * Returns why a text cannot be meant as a tag. The answer does not contain the text: tags can
 * contain user data. Undefined if it can. `isOfValue`: whether a value has it; it can have a tag
 * such as `Movie:*`, which every tag of the type invalidates.
 */
export function mistakeInTag(tag: string, isOfValue: boolean): string | undefined {
  const problem = TEMPLATE.test(tag)
    ? `the template of one, which only \`@cached\` and \`@invalidates\` fill in; write the value itself, such as \`Movie:\${id}\``
    : MISSING.test(tag)
      ? "one with the text of a missing value (undefined, null, NaN or [object Object]) as a part; check what it is made of"
      : WILDCARD.test(tag) && !(isOfValue && TYPE_TAG.test(tag))
        ? "one with `*`, but tags have no wildcards; name each tag, or the type, as in `Movie`, for all tags that begin with `Movie:`, or invalidate all entries of a field or loader"
        : undefined;
  return problem === undefined ? undefined : `\`tags\`: expected tags such as "Movie:7", got ${problem}`;
}

export const sampleOf = (text: string): string => text.replaceAll(/\{[^{}]*\}/g, "0");

/** Throws what `fail` makes of the mistake in the first text that cannot be meant as a tag. */
export function checkTagsOfValue(tags: readonly string[], fail: (mistake: string) => Error): void {
  for (const tag of tags) {
    const mistake = mistakeInTag(tag, true);
    if (mistake !== undefined) throw fail(mistake);
  }
}

/** Whether a tag is the type that the tags of a template begin with: it invalidates all of them. */
export const namesTypeOf = ({ pieces: [start] }: TagTemplate, tag: string): boolean =>
  /^[_A-Za-z]\w*$/.test(tag) && typeof start === "string" && start.startsWith(`${tag}:`);

/** Whether a template can yield a tag, by the text before its first and after its last path. */
export function matchesTag(template: TagTemplate, tag: string): boolean {
  if (isText(template)) return template.text === tag;
  const [start, end] = endsOf(template);
  return tag.length >= start.length + end.length && tag.startsWith(start) && tag.endsWith(end);
}

/** Whether they can be the same, by the text before their first and after their last path. */
export function canMatch(invalidated: TagTemplate, produced: TagTemplate): boolean {
  if (isText(invalidated)) return matchesTag(produced, invalidated.text) || namesTypeOf(produced, invalidated.text);
  if (isText(produced)) return matchesTag(invalidated, produced.text);
  const [start, end] = endsOf(invalidated);
  const [otherStart, otherEnd] = endsOf(produced);
  const isPrefix = start.startsWith(otherStart) || otherStart.startsWith(start);
  return isPrefix && (end.endsWith(otherEnd) || otherEnd.endsWith(end));
}

const isText = ({ pieces }: TagTemplate): boolean => pieces.every((piece) => typeof piece === "string");

const endsOf = ({ pieces }: TagTemplate) =>
  [pieces[0], pieces.at(-1)].map((piece) => (typeof piece === "string" ? piece : "")) as [string, string];

/**
 * Returns `template` with the values at its paths as they are now, since a resolver may change its
 * arguments, its parent and the context. A path that has no value yet, or cannot be read, is left
 * to `writeTags`: a resolver may set what it leads to, such as the user who logs in.
 */
export function bindTemplate({ text, pieces }: TagTemplate, roots: PathRoots, keyFormOf: KeyFormOf): BoundTemplate {
  const bind = (piece: string | Path): string | Path | readonly string[] => {
    const texts = typeof piece === "string" ? [] : (attempt(() => textsAt(piece, roots, keyFormOf)) ?? []);
    return texts.length === 0 ? piece : texts;
  };
  return { text, pieces: pieces.map(bind) };
}

/**
 * Returns the tags that `template` yields for `roots`: none if a path has no value, several if it
 * leads to the members of a list. Only strings, numbers, bigints and booleans yield tags, instances
 * of classes with a key form, and, in the place of an ID, objects that GraphQL serialises as one.
 * Throws `CACHED_KEY_UNUSABLE` for more than 10,000 tags of several lists, and for a number that
 * may be rounded.
 */
export function writeTags({ text, pieces }: BoundTemplate, roots: PathRoots, keyFormOf: KeyFormOf): readonly string[] {
  if (combinationsIn({ text, pieces }, roots) > MAX_COMBINATIONS) {
    const mistake = `\`tags\`: expected at most ${MAX_COMBINATIONS} tags of \`${text}\`, whose lists multiply, got more; name one list in each template`;
    throw new CachedError("CACHED_KEY_UNUSABLE", mistake);
  }
  let tags = [""];
  for (const piece of pieces) {
    const texts = typeof piece === "string" || !("root" in piece) ? piece : textsAt(piece, roots, keyFormOf);
    tags = tags.flatMap((tag) => (typeof texts === "string" ? tag + texts : texts.map((text) => tag + text)));
  }
  return tags;
}

/** Returns how many tags the lists of a template make together. 0 for one list, or none. */
export function combinationsIn({ pieces }: BoundTemplate, roots: PathRoots): number {
  let lists = 0;
  let product = 1;
  for (const piece of pieces) {
    if (typeof piece === "string") continue;
    const isBound = !("root" in piece);
    if (isBound ? piece.length < 2 : !piece.steps.includes(EACH)) continue;
    lists++;
    product *= isBound ? piece.length : readPath(piece, roots).length;
  }
  return lists < 2 ? 0 : product;
}

/** The most tags that the lists of a template make, whoever asks. */
export const MAX_COMBINATIONS = 10_000;

const textsAt = (path: Path, roots: PathRoots, keyFormOf: KeyFormOf): readonly string[] =>
  readPath(path, roots).flatMap((value) => tagText(value, path.isId, keyFormOf) ?? []);

export function tagText(value: unknown, isId: boolean | undefined, keyFormOf: KeyFormOf): string | undefined {
  switch (typeof value) {
    case "string":
      return value;
    case "number":
      if (isRounded(value)) throw new CachedError("CACHED_KEY_UNUSABLE", `\`tags\`: ${ROUNDED}`);
      return String(value);
    case "bigint":
    case "boolean":
      return String(value);
    case "object": {
      const text = isId === true ? idText(value) : undefined;
      return text ?? (value === null ? undefined : keyFormOf(value)?.text);
    }
    default:
      return undefined;
  }
}

/** Returns each tag once. Throws `CACHED_OPTION_INVALID` unless they are non-empty strings. */
export function checkedTags(tags: unknown, caller: string): readonly string[] {
  const fail = (mistake: string): CachedError => new CachedError("CACHED_OPTION_INVALID", `${caller}: ${mistake}`);
  if (!Array.isArray(tags))
    throw fail(`\`tags\`: expected an array of strings, got a value of type ${typeof tags}; pass ["Movie:7"]`);
  if (tags.some((tag) => typeof tag !== "string" || tag === ""))
    throw fail("`tags`: expected an array of non-empty strings, got one with another element");
  return [...new Set(tags as readonly string[])];
}

export type TagNormalizer = (tag: string) => string;

/**
 * Returns the function of the option `normalizeTag`, which returns tags as they are if the option
 * throws or returns no tag: an invalidation must not fail for it. `report` gets why.
 */
export function tagNormalizer(normalize: TagNormalizer, report: (problem: string) => void): TagNormalizer {
  return (tag) => {
    let problem: string;
    try {
      const normalized: unknown = normalize(tag);
      if (typeof normalized === "string" && normalized !== "") return normalized;
      ignoreRejection(normalized);
      problem = types.isPromise(normalized) ? "a promise" : describeSetting(normalized);
    } catch {
      problem = "an exception";
    }
    report(
      `createCache: \`invalidation.normalizeTag\`: expected a function that returns a non-empty string, got ${problem}; until then such tags count as they are`,
    );
    return tag;
  };
}
