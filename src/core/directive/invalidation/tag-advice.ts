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
import type { TagTemplate } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { SchemaRules } from "../../schema-rules.js";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { fieldAt } from "../compile/reference.js";
import { typeAt } from "../compile/value-types.js";
import type { IdFields } from "../entities/id-fields.js";

/** A tag of a mutation that should take its id from the result. */
export interface TagAdvice {
  readonly coordinate: string;
  readonly from: string;
  readonly to: string;
}

/**
 * Returns the tags of mutations that contain an id as the client spells it (`007`, a UUID in upper case), although
 * the mutation returns the object, whose id has one spelling. None if the tags are brought into one form anyway.
 */
export function adviceOnTags(
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

/** The name of the type that a template such as `Movie:{$args.id}` begins with. */
const typeNamedBy = ({ text }: TagTemplate): string | undefined => /^(\w+):\{/.exec(text)?.[1];

/** Returns the path to the id of the object that an argument names. */
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
