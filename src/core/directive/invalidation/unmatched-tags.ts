import { matchesTag, namesTypeOf, sampleOf, type TagTemplate } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { SchemaRules } from "../../schema-rules.js";
import type { EntityTypes } from "../entities/entity-types.js";

/**
 * Warns about tags of `@invalidates` that no cached field can have, such as `Movies:{$args.id}` beside
 * `Movie:{$args.id}`. Loaders compute their tags, so while one does, only those that differ in their form are
 * reported.
 */
export function reportUnmatchedTags(
  { fields, invalidations }: SchemaRules,
  { knownTags, logger }: CacheParts,
  entities: EntityTypes | undefined,
): void {
  const produced = [...[...fields.values()].flatMap(({ tags }) => tags), ...(entities?.tagsOf(fields.keys()) ?? [])];
  const known = [...new Set(produced.map(({ text }) => `\`${text}\``))].join(", ") || "none";
  for (const [coordinate, { tags }] of invalidations)
    for (const tag of tags)
      if (!produced.some((other) => canMatch(tag, other)) && knownTags.unknown(sampleOf(tag.text)) !== undefined)
        logger.warn(
          `graphql-cached: @invalidates on \`${coordinate}\`: no cached field has a tag like \`${tag.text}\`; known tags: ${known}; correct it, unless the tags of a loader or of another schema match`,
        );
}

/** Whether a tag of `invalidated` can invalidate a value with one of `produced`, by the text before their first and after their last path. */
function canMatch(invalidated: TagTemplate, produced: TagTemplate): boolean {
  if (isText(invalidated)) return matchesTag(produced, invalidated.text) || namesTypeOf(produced, invalidated.text);
  if (isText(produced)) return matchesTag(invalidated, produced.text);
  const [first, second] = [endsOf(invalidated), endsOf(produced)];
  const isPrefix = first.start.startsWith(second.start) || second.start.startsWith(first.start);
  const isSuffix = first.end.endsWith(second.end) || second.end.endsWith(first.end);
  return isPrefix && isSuffix;
}

const isText = ({ pieces }: TagTemplate): boolean => pieces.every((piece) => typeof piece === "string");

function endsOf({ pieces }: TagTemplate): { readonly start: string; readonly end: string } {
  const textOf = (piece: TagTemplate["pieces"][number] | undefined): string => (typeof piece === "string" ? piece : "");
  return { start: textOf(pieces[0]), end: textOf(pieces.at(-1)) };
}
