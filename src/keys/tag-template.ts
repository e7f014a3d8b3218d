import { type Path, type PathRoots, parsePath, readPath } from "./path.js";

/** A parsed tag such as `Movie:{$args.id}`. */
export interface TagTemplate {
  readonly text: string;
  /** Literal text and paths, alternating as written. */
  readonly pieces: readonly (string | Path)[];
  /** Whether the tag is known only after the load. */
  readonly needsResult: boolean;
}

/** Undefined where `text` is empty or holds something in braces that is no path. */
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
 * The tags that `template` makes of `roots`: none where a path leads nowhere, several where it leads to the members of a list.
 * Only strings, numbers, bigints and booleans make a tag.
 */
export function writeTags(template: TagTemplate, roots: PathRoots): readonly string[] {
  let tags = [""];
  for (const piece of template.pieces) {
    const ends =
      typeof piece === "string"
        ? [piece]
        : readPath(piece, roots)
            .filter((value) => ["string", "number", "bigint", "boolean"].includes(typeof value))
            .map(String);
    tags = tags.flatMap((tag) => ends.map((end) => tag + end));
  }
  return tags;
}
