import { CachedError } from "../errors.js";
import { idText, type KeyFormOf } from "./canonical.js";
import { EACH, type Path, type PathRoots, parsePath, readPath } from "./path.js";

/** A parsed tag template such as `Movie:{$args.id}`. */
export interface TagTemplate {
  readonly text: string;
  /** Literal text and paths, in the order written. */
  readonly pieces: readonly (string | Path)[];
  /** Whether the template uses `$result`, so that its tags are known only after the load. */
  readonly needsResult: boolean;
}

/** A template with the texts of values in the place of paths that have been read before a resolver runs. */
export interface BoundTemplate {
  readonly text: string;
  /** A list: the texts of the values at a path. */
  readonly pieces: readonly (string | Path | readonly string[])[];
}

/**
 * Parses `text`; returns undefined if it is empty or contains something in braces that is not a
 * path.
 */
export function parseTagTemplate(text: string): TagTemplate | undefined {
  const pieces: (string | Path)[] = [];
  for (const part of text.split(/(\{[^{}]*\})/)) {
    if (part === "") continue;
    if (!part.startsWith("{")) {
      if (/[{}]/.test(part)) return undefined;
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

/**
 * Returns `template` with the values at its paths as they are now, since a resolver may change its arguments, its
 * parent and the context. A path that has no value yet, or cannot be read, is left to `writeTags`: a resolver may set
 * what it leads to, such as the user who logs in.
 */
export function bindTemplate({ text, pieces }: TagTemplate, roots: PathRoots, keyFormOf: KeyFormOf): BoundTemplate {
  const bind = (piece: string | Path): string | Path | readonly string[] => {
    if (typeof piece === "string") return piece;
    try {
      const texts = textsAt(piece, roots, keyFormOf);
      return texts.length === 0 ? piece : texts;
    } catch {
      return piece;
    }
  };
  return { text, pieces: pieces.map(bind) };
}

/**
 * Returns the tags that `template` yields for `roots`: none if a path has no value, several if it
 * leads to the members of a list. Only strings, numbers, bigints and booleans yield tags, instances
 * of classes with a key form, and, in the place of an ID, objects that GraphQL serialises as one.
 * Throws `CACHED_KEY_UNUSABLE` for more than 10,000 tags of several lists.
 */
export function writeTags({ text, pieces }: BoundTemplate, roots: PathRoots, keyFormOf: KeyFormOf): readonly string[] {
  if (combinationsIn({ text, pieces }, roots) > MAX_COMBINATIONS)
    throw new CachedError(
      "CACHED_KEY_UNUSABLE",
      `\`tags\`: expected at most ${MAX_COMBINATIONS} tags of \`${text}\`, whose lists multiply, got more; name one list in each template`,
    );
  let tags = [""];
  for (const piece of pieces) {
    const texts = typeof piece === "string" ? [piece] : "root" in piece ? textsAt(piece, roots, keyFormOf) : piece;
    tags = tags.flatMap((tag) => texts.map((text) => tag + text));
  }
  return tags;
}

/** Returns how many tags the lists of a template make together. 0 if it has less than two: these grow with their list. */
export function combinationsIn({ pieces }: BoundTemplate, roots: PathRoots): number {
  const lists = pieces.flatMap((piece) => {
    if (typeof piece === "string") return [];
    if (!("root" in piece)) return piece.length > 1 ? [piece.length] : [];
    return piece.steps.includes(EACH) ? [readPath(piece, roots).length] : [];
  });
  return lists.length < 2 ? 0 : lists.reduce((product, length) => product * length, 1);
}

/** The most tags that the lists of a template make, whoever asks. */
const MAX_COMBINATIONS = 10_000;

const textsAt = (path: Path, roots: PathRoots, keyFormOf: KeyFormOf): readonly string[] =>
  readPath(path, roots).flatMap((value) => tagText(value, path.isId, keyFormOf) ?? []);

/** Returns the text of a value in a tag. `isId`: whether it is in the place of an ID. */
export function tagText(value: unknown, isId: boolean | undefined, keyFormOf: KeyFormOf): string | undefined {
  switch (typeof value) {
    case "string":
      return value;
    case "number":
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

/** Returns the tags that a user passes, each once. Throws `CACHED_OPTION_INVALID` unless they are non-empty strings. */
export function checkedTags(tags: unknown): readonly string[] {
  if (!Array.isArray(tags))
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `\`tags\`: expected an array of strings, got a value of type ${typeof tags}`,
    );
  if (tags.some((tag) => typeof tag !== "string" || tag === ""))
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      "`tags`: expected an array of non-empty strings, got one with another element",
    );
  return [...new Set(tags as readonly string[])];
}
