import { type GraphQLNamedType, type GraphQLSchema, getNamedType, isAbstractType, isObjectType } from "graphql";
import type { CacheParts } from "../../parts.js";
import type { SchemaRules } from "../../schema-rules.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { reachableTypesOf } from "../compile/type-graph.js";
import type { EntityTypes } from "./entity-types.js";

/**
 * Reports where entity tags have no effect: types whose `id` has a resolver, and values of
 * interfaces and unions whose type only `resolveType` knows. Also names what needs a tag: lists,
 * since an insert returns nothing in them, and mutations that return no entity.
 */
export function reportEntities(
  schema: GraphQLSchema,
  rules: SchemaRules,
  entities: EntityTypes,
  { logger }: CacheParts,
): void {
  const mistakes = untaggedTypes(schema, rules, entities);
  if (mistakes.length > 0) logger.warn(`graphql-cached: applyCached: entities without tags:\n${asList(mistakes)}`);
  const gaps = [...listsWithoutTag(rules, entities), ...mutationsOfNoEntity(schema, rules, entities)];
  if (gaps.length > 0)
    logger.info(`graphql-cached: applyCached: changes that entity tags do not cover:\n${asList(gaps)}`);
}

function untaggedTypes(schema: GraphQLSchema, rules: SchemaRules, entities: EntityTypes): string[] {
  const coordinates = [...rules.fields.keys(), ...rules.invalidations.keys()];
  const mutationFields = Object.values(schema.getMutationType()?.getFields() ?? {});
  const types = [...coordinates.map((at) => entities.typeAt(at)), ...mutationFields.map(({ type }) => type)];
  return [...entities.reachedFrom(types)]
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .flatMap((type) => {
      const { name } = type;
      const [resolved] = isObjectType(type) ? entities.resolvedIdFieldsOf(type) : [];
      if (resolved !== undefined)
        return `\`${name}\`: its \`${resolved}\` has a resolver, and values contain what it is made from; remove the resolver and return objects with the \`${resolved}\`, or use tags such as ${name}:{$args.id} in @cached and @invalidates`;
      const unknown = isAbstractType(type) ? entities.unknownMembersOf(type) : [];
      return unknown.length === 0
        ? []
        : `\`${name}\`: the walk does not call its \`resolveType\`; return ${unknown.map(String).join(", ")} with \`__typename\`, or give them a synchronous isTypeOf`;
    });
}

function listsWithoutTag({ fields }: SchemaRules, entities: EntityTypes): string[] {
  return [...fields.values()]
    .filter(({ coordinate, tags }) => {
      const hasTag = tags.some(({ needsResult }) => !needsResult);
      return !hasTag && entities.hasList(entities.typeAt(coordinate));
    })
    .map(
      ({ coordinate }) =>
        `\`${coordinate}\`: a mutation that adds to the list does not invalidate it; give it a tag, and @invalidates with this tag to the mutation`,
    );
}

/** Leaves out mutations that return objects with further mutation fields, but not those fields. */
function mutationsOfNoEntity(schema: GraphQLSchema, { invalidations }: SchemaRules, entities: EntityTypes): string[] {
  const { mutations, others } = reachableTypesOf(schema);
  const namespaces = [...mutations]
    .filter((name) => !others.has(name))
    .map((name) => schema.getType(name))
    .filter(isObjectType)
    .filter((type) => type === schema.getMutationType() || Object.values(type.getFields()).every(hasOwnResolver));
  const isNamespace = (type: GraphQLNamedType): boolean => isObjectType(type) && namespaces.includes(type);
  const isEntity = (type: GraphQLNamedType): boolean => isObjectType(type) && entities.isEntity(type);
  /** Fields of a payload that return entities, and whose resolvers nobody calls to find them. */
  const unseenIn = (payload: GraphQLNamedType): string[] =>
    isObjectType(payload) && !isEntity(payload)
      ? Object.values(payload.getFields())
          .filter((field) => hasOwnResolver(field) && isEntity(getNamedType(field.type)))
          .map((field) => `\`${payload.name}.${field.name}\``)
      : [];
  return namespaces.flatMap((type) =>
    Object.values(type.getFields()).flatMap(({ name, type: returned }) => {
      const payload = getNamedType(returned);
      const rule = invalidations.get(`${type.name}.${name}`);
      if (isNamespace(payload) || (rule !== undefined && rule.tags.length > 0)) return [];
      const unseen = unseenIn(payload).join(", ");
      if (unseen !== "")
        return `\`${type.name}.${name}\`: ${unseen} has a resolver, so its entities are not seen; return them as properties, or add @invalidates`;
      return rule !== undefined
        ? []
        : `\`${type.name}.${name}\`: it returns no entity, so it invalidates nothing; add @invalidates if it changes one`;
    }),
  );
}

const asList = (lines: readonly string[]): string => lines.map((line) => `- ${line}`).join("\n");
