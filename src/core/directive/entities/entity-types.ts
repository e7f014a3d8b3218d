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
import { type Clock, within } from "../../base/clock.js";
import { ignoreRejection } from "../../base/deferred.js";
import { CachedError, describeSetting } from "../../base/errors.js";
import type { KeyFormOf } from "../../keys/canonical.js";
import { parseTagTemplate, type TagTemplate } from "../../keys/tag-template.js";
import type { EntityCall, EntityFinder, Obstacle } from "../../schema-rules.js";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { fieldAt } from "../compile/reference.js";
import {
  type AbstractPlan,
  EntityWalk,
  type IsTypeOf,
  MAX_ENTITY_TAGS,
  type MemberPlan,
  type ObjectPlan,
  type Place,
  tagsOfEntities,
  tagsOfValue,
} from "./entity-walk.js";
import type { IdFields } from "./id-fields.js";

/** How `applyCached` tags values with the entities in them. */
export interface EntityTagsOptions {
  /** Object types with an `id` or `idFields` whose values get no tag and are not invalidated by mutations. Default: none. */
  readonly exceptTypes?: readonly string[] | undefined;
}

/**
 * How long a mutation waits for promises in its result. GraphQL waits for them as well if the
 * fields are selected.
 */
const MAX_WAIT_MS = 10_000;

/**
 * Returns the names of the excepted types; undefined if entity tags are not used. Throws
 * `CACHED_OPTION_INVALID`.
 */
export function resolveEntityTags(
  given: unknown,
  schema: GraphQLSchema,
  idFields: IdFields,
): readonly string[] | undefined {
  if (given === undefined || given === false) return undefined;
  if (given === true) return [];
  const reject = (mistake: string): never => {
    throw new CachedError("CACHED_OPTION_INVALID", `applyCached: ${mistake}`);
  };
  if (typeof given !== "object" || given === null || Array.isArray(given))
    return reject(`\`entityTags\`: expected true, false or an object of options, got ${describeSetting(given)}`);
  for (const name of Object.keys(given))
    if (name !== "exceptTypes") reject(`\`entityTags.${name}\`: unknown option; the only one is \`exceptTypes\``);
  const exceptTypes: unknown = (given as EntityTagsOptions).exceptTypes ?? [];
  if (!Array.isArray(exceptTypes))
    return reject(
      `\`entityTags.exceptTypes\`: expected an array of names of object types, got ${describeSetting(exceptTypes)}`,
    );
  for (const name of exceptTypes as unknown[]) {
    const type = typeof name === "string" ? schema.getType(name) : undefined;
    if (!isObjectType(type) || idFields.in(type) === undefined)
      reject(
        `\`entityTags.exceptTypes\`: expected names of object types of the schema that have a field \`id\` or \`idFields\`, got ${describeSetting(name)}`,
      );
  }
  return exceptTypes as readonly string[];
}

/**
 * The entities of one schema: the object types with an `id`, or the fields in `idFields`, that are properties of the object, as GraphQL's
 * default resolver reads them. A walk through a value finds them as `Shapes` finds what a value
 * contains: through the fields without a resolver.
 */
export class EntityTypes {
  readonly #schema: GraphQLSchema;
  readonly #except: ReadonlySet<string>;
  readonly #idFields: IdFields;
  readonly #keyFormOf: KeyFormOf;
  readonly #clock: Clock;
  readonly #roots: ReadonlySet<unknown>;
  /** The types whose values can contain entities, those of entities included. */
  readonly #leading: ReadonlySet<GraphQLNamedType>;
  /** The types whose values can contain a list of such types. */
  readonly #listing: ReadonlySet<GraphQLNamedType>;
  readonly #plans = new Map<GraphQLNamedType, ObjectPlan | AbstractPlan>();

  constructor(
    schema: GraphQLSchema,
    { exceptTypes, idFields }: { readonly exceptTypes: readonly string[]; readonly idFields: IdFields },
    keyFormOf: KeyFormOf,
    clock: Clock,
  ) {
    this.#schema = schema;
    this.#idFields = idFields;
    this.#except = new Set(exceptTypes);
    this.#keyFormOf = keyFormOf;
    this.#clock = clock;
    this.#roots = new Set([schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]);
    const types = Object.values(schema.getTypeMap());
    const containing = containingTypes(schema);
    this.#leading = closure(
      types.filter((type) => isObjectType(type) && this.isEntity(type)),
      containing,
    );
    const isListing = (type: GraphQLNamedType): boolean =>
      isObjectType(type) && walkedFields(type).some((field) => this.#isListOfEntities(field.type));
    this.#listing = closure(types.filter(isListing), containing);
  }

  /** Whether the objects of a type have a tag. */
  isEntity(type: GraphQLObjectType): boolean {
    return this.#idFields.in(type)?.some(hasOwnResolver) === false && this.#canBeEntity(type);
  }

  /** Returns the fields with a resolver without which the objects of a type would have a tag. */
  resolvedIdFieldsOf(type: GraphQLObjectType): readonly string[] {
    const fields = this.#canBeEntity(type) ? this.#idFields.in(type) : [];
    return (fields ?? []).filter(hasOwnResolver).map(({ name }) => name);
  }

  /** Whether the objects of the type of a name have a tag in what is completed: there, an `id` with a resolver is as good. */
  isEntityName(typeName: string): boolean {
    const type = this.#schema.getType(typeName);
    return isObjectType(type) && this.#canBeEntity(type);
  }

  #canBeEntity(type: GraphQLObjectType): boolean {
    const areLeaves = this.#idFields.in(type)?.every((field) => isLeafType(getNamedType(field.type)));
    return areLeaves === true && !this.#roots.has(type) && !this.#except.has(type.name);
  }

  /** What releases have to agree on to share values of an object type, besides its fields. */
  markOf(type: GraphQLObjectType): string {
    if (!this.#leading.has(type)) return "";
    return `${this.isEntity(type) ? `#entity${this.#idFields.markOf(type.name)}` : ""}${type.isTypeOf == null ? "" : "#isTypeOf"}`;
  }

  /** Returns what finds the entities in the values of `type`. Undefined if they contain none. */
  finderOf(type: GraphQLOutputType, coordinate: string): EntityFinder | undefined {
    const named = getNamedType(type);
    if (!this.#leading.has(named)) return undefined;
    const place = { coordinate, isList: isListType(getNullableType(type)), plan: this.#planOf(named) };
    return new Finder(place, this.#keyFormOf, this.#clock);
  }

  /** Whether values of `type` contain a list of entities. */
  hasList(type: GraphQLOutputType): boolean {
    return this.#isListOfEntities(type) || this.#listing.has(getNamedType(type));
  }

  /** Returns the type of the values of a field, or of the references to an entity type. */
  typeAt(coordinate: string): GraphQLOutputType {
    return (fieldAt(this.#schema, coordinate) as { readonly field: AnyField }).field.type;
  }

  /** Returns the tags that the entities in the values of fields have. */
  tagsOf(coordinates: Iterable<string>): readonly TagTemplate[] {
    return [...this.reachedFrom([...coordinates].map((coordinate) => this.typeAt(coordinate)))].flatMap((type) => {
      if (!isObjectType(type) || !this.isEntity(type)) return [];
      return parseTagTemplate(this.#idFields.templateOf(type.name, "result")) ?? [];
    });
  }

  /** Returns the templates of the tags of all entities. */
  templates(hasSubtrees: boolean): readonly TagTemplate[] {
    return this.#entities(hasSubtrees).flatMap(
      ({ name }) => parseTagTemplate(this.#idFields.templateOf(name, "result")) ?? [],
    );
  }

  /** `hasSubtrees`: whether entries have the entities in completed values, where an `id` with a resolver is as good. */
  #entities(hasSubtrees: boolean): readonly GraphQLObjectType[] {
    return Object.values(this.#schema.getTypeMap()).filter(
      (type): type is GraphQLObjectType =>
        isObjectType(type) && (this.isEntity(type) || (hasSubtrees && this.#canBeEntity(type))),
    );
  }

  /** Returns the object types, interfaces and unions that a walk through a value of `types` can reach. */
  reachedFrom(types: Iterable<GraphQLOutputType>): ReadonlySet<GraphQLNamedType> {
    const start = [...types].map((type): GraphQLNamedType => getNamedType(type)).filter(isCompositeType);
    return closure(start, (type) => nextTypes(this.#schema, type).filter(isCompositeType));
  }

  /**
   * Returns the entities whose type a walk may not know: those of an interface or union whose `resolveType` knows
   * them, since the walk does not call it.
   */
  unknownMembersOf(type: GraphQLAbstractType): readonly GraphQLObjectType[] {
    if (type.resolveType == null) return [];
    return this.#schema.getPossibleTypes(type).filter((one) => one.isTypeOf == null && this.#leading.has(one));
  }

  #isListOfEntities(type: GraphQLType): boolean {
    return isListType(getNullableType(type)) && this.#leading.has(getNamedType(type));
  }

  #planOf(type: GraphQLNamedType): ObjectPlan | AbstractPlan {
    const known = this.#plans.get(type);
    if (known !== undefined) return known;
    return isAbstractType(type) ? this.#abstractPlan(type) : this.#objectPlan(type as GraphQLObjectType);
  }

  #objectPlan(type: GraphQLObjectType): ObjectPlan {
    const members: MemberPlan[] = [];
    const plan = {
      typeName: type.name,
      idFields: this.isEntity(type) ? this.#idFields.of(type.name) : undefined,
      members,
    };
    // Before the members, since types can contain themselves.
    this.#plans.set(type, plan);
    for (const field of walkedFields(type)) {
      const named = getNamedType(field.type);
      if (!this.#leading.has(named)) continue;
      const isList = isListType(getNullableType(field.type));
      const place: Place = { coordinate: `${type.name}.${field.name}`, isList, plan: this.#planOf(named) };
      members.push({ fieldName: field.name, place });
    }
    return plan;
  }

  #abstractPlan(type: GraphQLAbstractType): AbstractPlan {
    const possible = new Map<string, ObjectPlan | undefined>();
    const testable: { isTypeOf: IsTypeOf; plan: ObjectPlan | undefined }[] = [];
    const plan = { possible, testable };
    this.#plans.set(type, plan);
    for (const one of this.#schema.getPossibleTypes(type)) {
      const ofOne = this.#leading.has(one) ? (this.#planOf(one) as ObjectPlan) : undefined;
      possible.set(one.name, ofOne);
      if (one.isTypeOf != null) testable.push({ isTypeOf: one.isTypeOf, plan: ofOne });
    }
    return plan;
  }
}

class Finder implements EntityFinder {
  readonly #place: Place;
  readonly #keyFormOf: KeyFormOf;
  readonly #clock: Clock;

  constructor(place: Place, keyFormOf: KeyFormOf, clock: Clock) {
    this.#place = place;
    this.#keyFormOf = keyFormOf;
    this.#clock = clock;
  }

  tagsIn(value: unknown, call: EntityCall): readonly string[] {
    const walk = new EntityWalk(call, this.#keyFormOf, MAX_ENTITY_TAGS + 1);
    walk.add(value, this.#place);
    return tagsOfValue(walk.ids);
  }

  partsIn(value: unknown, call: EntityCall): readonly string[] | undefined {
    const walk = new EntityWalk(call, this.#keyFormOf, MAX_ENTITY_TAGS + 1);
    walk.add(value, this.#place);
    const isComplete = walk.obstacles.size === 0 && walk.pending.length === 0 && !walk.hasUnknown;
    for (const { promise } of walk.pending) ignoreRejection(promise);
    return isComplete ? tagsOfValue(walk.ids) : undefined;
  }

  async changedIn(
    value: unknown,
    call: EntityCall,
    report: (coordinate: string, obstacle: Obstacle) => void,
  ): Promise<readonly string[]> {
    const walk = new EntityWalk(call, this.#keyFormOf);
    walk.add(value, this.#place);
    if (walk.pending.length > 0) await this.#settle(walk);
    for (const [coordinate, obstacle] of walk.obstacles) report(coordinate, obstacle);
    return tagsOfEntities(walk.ids);
  }

  /** Waits for the promises in a value, and for those in what they resolve to. */
  async #settle(walk: EntityWalk): Promise<void> {
    const giveUpAt = this.#clock.now() + MAX_WAIT_MS;
    for (let found = walk.pending.splice(0); found.length > 0; found = walk.pending.splice(0)) {
      const settling = found.map(({ promise, place }) =>
        promise.then(
          (value) => walk.add(value, place),
          // GraphQL reports it as the error of its field.
          () => undefined,
        ),
      );
      const isOver = await within(this.#clock, Promise.all(settling), {
        ms: giveUpAt - this.#clock.now(),
        otherwise: () => undefined,
      });
      if (isOver !== undefined) continue;
      for (const { place } of found)
        walk.obstacles.set(place.coordinate, { kind: `a promise that was pending for ${MAX_WAIT_MS} ms` });
      return;
    }
  }
}

/** The fields that a walk goes through. */
const walkedFields = (type: GraphQLObjectType) =>
  Object.values(type.getFields()).filter((field) => !hasOwnResolver(field));

/** Returns the types that values of `type` directly contain, and for an interface or union its possible types. */
function nextTypes(schema: GraphQLSchema, type: GraphQLNamedType): readonly GraphQLNamedType[] {
  if (isAbstractType(type)) return schema.getPossibleTypes(type);
  return isObjectType(type) ? walkedFields(type).map((field) => getNamedType(field.type)) : [];
}

/** Returns a function that returns the types whose values directly contain values of a type. */
function containingTypes(schema: GraphQLSchema): (type: GraphQLNamedType) => readonly GraphQLNamedType[] {
  const containing = new Map<GraphQLNamedType, GraphQLNamedType[]>();
  for (const type of Object.values(schema.getTypeMap()))
    for (const next of nextTypes(schema, type)) {
      const some = containing.get(next);
      if (some === undefined) containing.set(next, [type]);
      else some.push(type);
    }
  return (type) => containing.get(type) ?? [];
}

/** Returns the types that can be reached from `types`, these included. */
function closure(
  types: readonly GraphQLNamedType[],
  nextOf: (type: GraphQLNamedType) => readonly GraphQLNamedType[],
): ReadonlySet<GraphQLNamedType> {
  const reached = new Set(types);
  // A set is also iterated over what is added meanwhile.
  for (const type of reached) for (const next of nextOf(type)) reached.add(next);
  return reached;
}
