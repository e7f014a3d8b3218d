import { canMatch, sampleOf } from "../../keys/tag-template.js";
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
