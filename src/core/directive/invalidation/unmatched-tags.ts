import { matchesTag, namesTypeOf, sampleOf, type TagTemplate } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { SchemaRules } from "../../schema-rules.js";
import type { EntityTypes } from "../entities/entity-types.js";

/**
 * Warns about tags of `@invalidates` that no cached field can have, such as `Movies:{$args.id}` beside
 * `Movie:{$args.id}`. Loaders compute their tags, so while one does, only those that differ in their form are
 * reported. Also names the tags of fields that no `@invalidates` can have, unless the schema has none at all: that is
 * not a mistake, since other code may call `cache.invalidateTags`.
 */
export function reportUnmatchedTags(
  { fields, invalidations }: SchemaRules,
  { knownTags, logger }: CacheParts,
  entities: EntityTypes | undefined,
): void {
  const produced = [...[...fields.values()].flatMap(({ tags }) => tags), ...(entities?.tagsOf(fields.keys()) ?? [])];
  for (const [coordinate, { tags }] of invalidations)
    for (const tag of tags)
      if (!produced.some((other) => canMatch(tag, other)) && knownTags.unknown(sampleOf(tag.text)) !== undefined)
        logger.warn(
          `graphql-cached: @invalidates on \`${coordinate}\`: no cached field has a tag like \`${tag.text}\`; known tags: ${listTags(produced)}; correct it, unless the tags of a loader or of another schema match`,
        );
  if (invalidations.size === 0) return;
  const changing = [...invalidations].filter(([, rule]) => rule.entities !== undefined);
  const invalidated = [
    ...[...invalidations.values()].flatMap(({ tags }) => tags),
    ...(entities?.tagsOf(changing.map(([coordinate]) => coordinate)) ?? []),
  ];
  const coordinatesOf = new Map<string, string[]>();
  for (const { coordinate, tags } of fields.values())
    for (const tag of tags)
      if (!invalidated.some((other) => canMatch(other, tag)))
        coordinatesOf.set(tag.text, [...(coordinatesOf.get(tag.text) ?? []), coordinate]);
  const list = [...coordinatesOf].sort().map(([text, coordinates]) => `\`${text}\` (${coordinates.sort().join(", ")})`);
  if (list.length > 0)
    logger.info(
      `graphql-cached: no @invalidates of the schema has a tag like ${list.join(", ")}; only cache.invalidateTags can invalidate them`,
    );
}

/**
 * Whether a tag of `invalidated` can invalidate a value with one of `produced`, by the text before their first and after their last path.
 */
export function canMatch(invalidated: TagTemplate, produced: TagTemplate): boolean {
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

const listTags = (tags: readonly TagTemplate[]): string =>
  [...new Set(tags.map(({ text }) => `\`${text}\``))].join(", ") || "none";
