import {
  type GraphQLAbstractType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  type GraphQLType,
  getNamedType,
  getNullableType,
  isAbstractType,
  isCompositeType,
  isLeafType,
  isListType,
  isObjectType,
} from "graphql";
import { CachedError, describeSetting } from "../../base/errors.js";
import { parseTagTemplate, type TagTemplate } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { EntityFinder } from "../../schema-rules.js";
import { featureOption, refuseMistakes } from "../compile/apply-options.js";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { fieldAt } from "../compile/reference.js";
import { nextTypes, reached, reversed } from "../compile/type-graph.js";
import { type AbstractPlan, entityFinder, type IsTypeOf, type ObjectPlan, type Place } from "./entity-walk.js";
import type { IdFields } from "./id-fields.js";

/**
 * The entities of one schema: the object types with an `id`, or the fields in `idFields`, that are
 * properties of the object, as GraphQL's default resolver reads them. A walk through a value finds
 * them as `Shapes` finds what a value contains: through the fields without a resolver.
 */
export class EntityTypes {
  readonly #except: ReadonlySet<string>;
  readonly #roots: ReadonlySet<unknown>;
  readonly #leading: ReadonlySet<GraphQLNamedType>;
  readonly #listing: ReadonlySet<GraphQLNamedType>;
  readonly #plans = new Map<GraphQLNamedType, ObjectPlan | AbstractPlan>();

  constructor(
    private readonly schema: GraphQLSchema,
    exceptTypes: readonly string[],
    private readonly idFields: IdFields,
    private readonly parts: CacheParts,
  ) {
    this.#except = new Set(exceptTypes);
    this.#roots = new Set([schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]);
    const types = Object.values(schema.getTypeMap());
    const containers = reversed(types, (type) => this.#nextTypes(type));
    this.#leading = reached(
      types.filter((type) => isObjectType(type) && this.isEntity(type)),
      containers,
    );
    const isListing = (type: GraphQLNamedType): boolean =>
      isObjectType(type) && walkedFields(type).some((field) => this.#isListOfEntities(field.type));
    this.#listing = reached(types.filter(isListing), containers);
  }

  isEntity(type: GraphQLObjectType): boolean {
    return this.idFields.in(type)?.some(hasOwnResolver) === false && this.#canBeEntity(type);
  }

  resolvedIdFieldsOf(type: GraphQLObjectType): readonly string[] {
    const fields = this.#canBeEntity(type) ? this.idFields.in(type) : [];
    return (fields ?? []).filter(hasOwnResolver).map(({ name }) => name);
  }

  #canBeEntity(type: GraphQLObjectType): boolean {
    const areLeaves = this.idFields.in(type)?.every((field) => isLeafType(getNamedType(field.type)));
    return areLeaves === true && !this.#roots.has(type) && !this.#except.has(type.name);
  }

  /** What releases have to agree on to share values of an object type, besides its fields. */
  markOf(type: GraphQLObjectType): string {
    if (!this.#leading.has(type)) return "";
    return `${this.isEntity(type) ? `#entity${this.idFields.markOf(type.name)}` : ""}${type.isTypeOf == null ? "" : "#isTypeOf"}`;
  }

  /** Returns what finds the entities in the values of `type`. Undefined if they contain none. */
  finderOf(type: GraphQLOutputType, coordinate: string): EntityFinder | undefined {
    if (!this.#leading.has(getNamedType(type))) return undefined;
    const typeNames = (): ReadonlySet<string> => new Set(this.#entitiesIn(this.reachedFrom([type])).map(String));
    return entityFinder(this.#placeOf(type, coordinate), typeNames, this.parts, (at, { kind }) => {
      const mistake = `\`${coordinate}\`: entityTags: expected the entities at \`${at}\`, got ${kind}; mutations that return them do not invalidate the value; return them as objects, or give the field a tag`;
      this.parts.channel.mistaken(coordinate, new CachedError("CACHED_POLICY_INVALID", mistake, { coordinate }));
    });
  }

  hasList(type: GraphQLOutputType): boolean {
    return this.#isListOfEntities(type) || this.#listing.has(getNamedType(type));
  }

  typeAt(coordinate: string): GraphQLOutputType {
    return (fieldAt(this.schema, coordinate) as { readonly field: AnyField }).field.type;
  }

  tagsOf(coordinates: Iterable<string>): readonly TagTemplate[] {
    return this.#templatesOf(this.reachedFrom([...coordinates].map((coordinate) => this.typeAt(coordinate))));
  }

  templates(): readonly TagTemplate[] {
    return this.#templatesOf(Object.values(this.schema.getTypeMap()));
  }

  #templatesOf(types: Iterable<GraphQLNamedType>): readonly TagTemplate[] {
    const tagged = this.#entitiesIn(types);
    return tagged.flatMap(({ name }) => parseTagTemplate(this.idFields.templateOf(name, "result")) ?? []);
  }

  #entitiesIn(types: Iterable<GraphQLNamedType>): readonly GraphQLNamedType[] {
    return [...types].filter((type) => isObjectType(type) && this.isEntity(type));
  }

  reachedFrom(types: Iterable<GraphQLOutputType>): ReadonlySet<GraphQLNamedType> {
    const start = [...types].map((type): GraphQLNamedType => getNamedType(type)).filter(isCompositeType);
    return reached(start, (type) => this.#nextTypes(type).filter(isCompositeType));
  }

  #nextTypes(type: GraphQLNamedType): readonly GraphQLNamedType[] {
    return nextTypes(this.schema, type, (field) => !hasOwnResolver(field));
  }

  /** Returns possible types that a walk may not know: it does not call `resolveType`. */
  unknownMembersOf(type: GraphQLAbstractType): readonly GraphQLObjectType[] {
    if (type.resolveType == null) return [];
    return this.schema.getPossibleTypes(type).filter((one) => one.isTypeOf == null && this.#leading.has(one));
  }

  #isListOfEntities(type: GraphQLType): boolean {
    return isListType(getNullableType(type)) && this.#leading.has(getNamedType(type));
  }

  #placeOf(type: GraphQLOutputType, coordinate: string): Place {
    const named = getNamedType(type);
    const plan = this.#plans.get(named) ?? this.#planOf(named as GraphQLObjectType | GraphQLAbstractType);
    return { coordinate, isList: isListType(getNullableType(type)), plan };
  }

  /** A plan is kept before its members are known, since types can contain themselves. */
  #planOf(type: GraphQLObjectType | GraphQLAbstractType): ObjectPlan | AbstractPlan {
    if (isAbstractType(type)) {
      const possible = new Map<string, ObjectPlan | undefined>();
      const testable: { isTypeOf: IsTypeOf; plan: ObjectPlan | undefined }[] = [];
      this.#plans.set(type, { possible, testable });
      for (const one of this.schema.getPossibleTypes(type)) {
        const plan = this.#leading.has(one) ? (this.#placeOf(one, one.name).plan as ObjectPlan) : undefined;
        possible.set(one.name, plan);
        if (one.isTypeOf != null) testable.push({ isTypeOf: one.isTypeOf, plan });
      }
      return { possible, testable };
    }
    const { name: typeName } = type;
    const members: { fieldName: string; place: Place }[] = [];
    const plan = { typeName, idFields: this.isEntity(type) ? this.idFields.of(typeName) : undefined, members };
    this.#plans.set(type, plan);
    for (const { name, type: returned } of walkedFields(type))
      if (this.#leading.has(getNamedType(returned)))
        members.push({ fieldName: name, place: this.#placeOf(returned, `${typeName}.${name}`) });
    return plan;
  }
}

/** How `applyCached` tags values with the entities in them. */
export interface EntityTagsOptions {
  /**
   * Object types with an `id` or `idFields` whose values get no tag and are not invalidated by
   * mutations. Default: none.
   */
  readonly exceptTypes?: readonly string[] | undefined;
}

/** Returns the excepted types. Undefined without entity tags. Throws `CACHED_OPTION_INVALID`. */
export function resolveEntityTags(
  given: unknown,
  schema: GraphQLSchema,
  idFields: IdFields,
): readonly string[] | undefined {
  const options = featureOption(given, "entityTags", ["exceptTypes"]);
  if (options === undefined) return undefined;
  const { exceptTypes = [] } = options;
  if (!Array.isArray(exceptTypes))
    refuseMistakes(
      `\`entityTags.exceptTypes\`: expected an array of names of object types, got ${describeSetting(exceptTypes)}`,
    );
  for (const name of exceptTypes as unknown[]) {
    const type = typeof name === "string" ? schema.getType(name) : undefined;
    if (!isObjectType(type) || idFields.in(type) === undefined)
      refuseMistakes(
        `\`entityTags.exceptTypes\`: expected names of object types of the schema that have a field \`id\` or \`idFields\`, got ${describeSetting(name)}`,
      );
  }
  return exceptTypes as readonly string[];
}

const walkedFields = (type: GraphQLObjectType) =>
  Object.values(type.getFields()).filter((field) => !hasOwnResolver(field));
