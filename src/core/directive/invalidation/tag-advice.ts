import {
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isListType,
  isObjectType,
} from "graphql";
import { EACH, type Path } from "../../keys/path.js";
import { matchesTag, namesTypeOf, sampleOf, type TagTemplate } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { SchemaRules } from "../../schema-rules.js";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { fieldAt } from "../compile/reference.js";
import { typeAt } from "../compile/value-types.js";
import type { EntityTypes } from "../entities/entity-types.js";
import type { IdFields } from "../entities/id-fields.js";

interface TagAdvice {
  readonly coordinate: string;
  readonly from: string;
  readonly to: string;
}

/** Returns the tags of mutations with an id as the client spells it (`007`), although the result has it in one spelling. None if tags are normalized. */
function adviceOnTags(
  schema: GraphQLSchema,
  { invalidations }: SchemaRules,
  { keys }: CacheParts,
  idFields: IdFields,
): TagAdvice[] {
  if (keys.normalizesTags) return [];
  return [...invalidations].flatMap(([coordinate, { tags, entities }]) => {
    const place = fieldAt(schema, coordinate);
    if (place === undefined) return [];
    return tags.flatMap((template) => {
      const to = withResult(template, place as Place, idFields);
      // The entities that a mutation returns are invalidated by their own ids.
      const isCovered = entities !== undefined && typeNamedBy(template) !== undefined;
      return to === undefined || isCovered ? [] : [{ coordinate, from: template.text, to }];
    });
  });
}

interface Place {
  readonly type: GraphQLObjectType;
  readonly field: AnyField;
}

export function reportAdvice(schema: GraphQLSchema, rules: SchemaRules, parts: CacheParts, idFields: IdFields): void {
  const lines = adviceOnTags(schema, rules, parts, idFields).map(
    ({ coordinate, from, to }) => `- \`${coordinate}\`: write \`${to}\` in place of \`${from}\``,
  );
  if (lines.length > 0)
    parts.logger.info(
      `graphql-cached: applyCached: tags of @invalidates with ids as the client spells them, so that "007" does not invalidate what has the tag of "7"; the result has the id as it is stored:\n${lines.join("\n")}`,
    );
}

/** Returns the template with the id of the result in the place of the only argument. Undefined if there is no such id. */
function withResult(template: TagTemplate, { type, field }: Place, idFields: IdFields): string | undefined {
  const paths = template.pieces.filter((piece): piece is Path => typeof piece !== "string");
  const [path] = paths;
  if (path === undefined || paths.length > 1 || path.root !== "args") return undefined;
  const given = getNamedType(typeAt(path, type, field) as GraphQLOutputType | undefined);
  if (given === undefined || !["ID", "String"].includes(given.name)) return undefined;
  const result = idInResult(field.type, path, typeNamedBy(template), idFields);
  return result === undefined ? undefined : template.text.replace(`{${path.text}}`, `{${result}}`);
}

const typeNamedBy = ({ text }: TagTemplate): string | undefined => /^(\w+):\{/.exec(text)?.[1];

function idInResult(
  returned: GraphQLOutputType,
  path: Path,
  typeName: string | undefined,
  idFields: IdFields,
): string | undefined {
  const isList = path.steps.includes(EACH);
  const start = isList ? `$result${EACH}` : "$result";
  const type = getNamedType(returned);
  if (!isObjectType(type) || isListType(getNullableType(returned)) !== isList) return undefined;
  const isNamed = type.name === typeName || path.steps.at(isList ? -2 : -1) === (isList ? "ids" : "id");
  const ownId = storedIdOf(type, idFields);
  if (isNamed && ownId !== undefined) return `${start}.${ownId}`;
  // An object with an id is no payload: what it refers to need not be what the mutation has changed.
  if (idFields.in(type) !== undefined) return undefined;
  const inner = (Object.values(type.getFields()) as AnyField[]).find(
    (field) => getNamedType(field.type).name === typeName && !isListType(getNullableType(field.type)),
  );
  const object = inner === undefined || hasOwnResolver(inner) ? undefined : getNamedType(inner.type);
  const id = isObjectType(object) ? storedIdOf(object, idFields) : undefined;
  return id === undefined ? undefined : `${start}.${inner?.name}.${id}`;
}

/** Returns the field that identifies the objects of a type, if it is one, and a property of them. */
function storedIdOf(type: GraphQLObjectType, idFields: IdFields): string | undefined {
  const [field, ...others] = idFields.in(type) ?? [];
  return field === undefined || others.length > 0 || hasOwnResolver(field) ? undefined : field.name;
}

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

const listTags = (tags: readonly TagTemplate[]): string =>
  [...new Set(tags.map(({ text }) => `\`${text}\``))].join(", ") || "none";
