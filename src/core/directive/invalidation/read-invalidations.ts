import { type GraphQLInterfaceType, type GraphQLObjectType, isInterfaceType } from "graphql";
import { describeSetting, messageOf } from "../../base/errors.js";
import { unknownName } from "../../base/option-names.js";
import { canMatch, sampleOf } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { InvalidationRule, SchemaRules } from "../../schema-rules.js";
import { directivesAt, expectedArgument } from "../compile/directives.js";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver, hasPlan } from "../compile/own-resolver.js";
import type { Place, SchemaReading } from "../compile/schema-reading.js";
import { emptyTagReporter, readTags } from "../compile/template-reader.js";
import type { EntityTypes } from "../entities/entity-types.js";

/** Adds the rule of a field to `rules`. Returns whether it declares one, with tags or entities. */
export function readInvalidation(
  reading: SchemaReading,
  type: GraphQLObjectType | GraphQLInterfaceType,
  field: AnyField,
  findsEntities: boolean,
  rules: Map<string, InvalidationRule>,
): boolean {
  const { schema, parts, entities } = reading.inputs;
  const coordinate = `${type.name}.${field.name}`;
  const place = { source: "@invalidates", coordinate };
  const isRoot = type === schema.getMutationType();
  const declared = declaredAt(reading, type, field, place);
  const reportEmptyTag = emptyTagReporter(place, declared ?? [], parts);
  if (declared !== undefined && declared.length > 0) {
    const tags = readTags({ reading, parent: type as GraphQLObjectType, field, isRoot, place }, declared);
    rules.set(coordinate, { tags, reportEmptyTag, entities: undefined });
  }
  const found = findsEntities ? entities?.finderOf(field.type, coordinate) : undefined;
  // On nested types, fields without a resolver return a part of what their parent has returned.
  if (found !== undefined && (isRoot || (hasOwnResolver(field) && reading.isOfMutationsOnly(type))))
    rules.set(coordinate, { tags: [], reportEmptyTag, ...rules.get(coordinate), entities: found });
  if (hasPlan(field) && rules.has(coordinate))
    reading.refuse(
      declared === undefined ? { source: "entityTags", coordinate } : place,
      "Grafast answers the field by its plan (`extensions.grafast`), which a resolver would replace; call cache.invalidateTags after the change",
    );
  return declared !== undefined;
}

/** Returns the valid tags that a field declares. Undefined if it declares nothing. */
function declaredAt(
  reading: SchemaReading,
  type: GraphQLObjectType | GraphQLInterfaceType,
  field: AnyField,
  place: Place,
): readonly string[] | undefined {
  const { schema } = reading.inputs;
  const refuse = (text: string): void => reading.refuse(place, text);
  let declared: readonly unknown[];
  try {
    const inExtensions = (field.extensions as { invalidates?: unknown } | undefined)?.invalidates ?? [];
    declared = [...directivesAt(schema, field, "invalidates"), ...[inExtensions].flat()];
  } catch (error) {
    refuse(`invalid argument: ${messageOf(error)}${expectedArgument(schema, field, "invalidates")}`);
    return [];
  }
  if (declared.length === 0) return undefined;
  const mistake = notOfMutations(reading, type);
  if (mistake !== undefined) {
    refuse(mistake);
    return [];
  }
  for (const one of declared)
    for (const name of Object.keys(typeof one === "object" && one !== null ? one : {}))
      if (name !== "tags") refuse(unknownName(name, { kind: "argument", known: ["tags"] }));
  return declared.flatMap((one) => {
    const given = (one as { tags?: unknown } | null)?.tags;
    if (Array.isArray(given) && given.every((tag) => typeof tag === "string")) {
      if (given.length === 0) refuse("`tags`: expected at least one tag, got none; name one, or remove it");
      return given as string[];
    }
    refuse(
      typeof one === "object" && one !== null
        ? `\`tags\`: expected an array of strings, got ${describeSetting(given)}`
        : `expected an object such as { tags: ["Movie:{$result.id}"] }, got ${describeSetting(one)}`,
    );
    return [];
  });
}

/** Returns why a field of `type` cannot invalidate. Undefined if it can. */
function notOfMutations(reading: SchemaReading, type: GraphQLObjectType | GraphQLInterfaceType): string | undefined {
  if (isInterfaceType(type))
    return `interface fields have no resolver; put \`@invalidates\` on the fields of the object types`;
  if (reading.isOfMutationsOnly(type)) return undefined;
  const why = reading.reachable.others.has(type.name)
    ? `queries and subscriptions reach \`${type.name}\` as well`
    : `\`${type.name}\` cannot be reached from the mutation type`;
  return `expected a field that only mutations can ask for, but ${why}; move it to a field of the mutation type, or call cache.invalidateTags in the resolver`;
}

/**
 * Warns about tags of `@invalidates` that no cached field can have, such as `Movies:{$args.id}`
 * beside `Movie:{$args.id}`. Loaders compute their tags, so while one does, only those that differ
 * in their form are reported.
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
