import { idText, type KeyFormOf } from "./canonical.js";
import { type Path, type PathRoots, parsePath, readPath } from "./path.js";

/** A parsed tag template such as `Movie:{$args.id}`. */
export interface TagTemplate {
  readonly text: string;
  /** Literal text and paths, in the order written. */
  readonly pieces: readonly (string | Path)[];
  /** Whether the template uses `$result`, so that its tags are known only after the load. */
  readonly needsResult: boolean;
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
 * Returns the tags that `template` yields for `roots`: none if a path has no value, several if it
 * leads to the members of a list. Only strings, numbers, bigints and booleans yield tags, instances
 * of classes with a key form, and, in the place of an ID, objects that GraphQL serialises as one.
 */
export function writeTags(template: TagTemplate, roots: PathRoots, keyFormOf: KeyFormOf): readonly string[] {
  let tags = [""];
  for (const piece of template.pieces) {
    const texts =
      typeof piece === "string"
        ? [piece]
        : readPath(piece, roots).flatMap((value) => tagText(value, piece.isId, keyFormOf) ?? []);
    tags = tags.flatMap((tag) => texts.map((text) => tag + text));
  }
  return tags;
}

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
