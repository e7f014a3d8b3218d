import {
  defaultFieldResolver,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  isCompositeType,
  isOutputType,
} from "graphql";
import { CachedError, describeSetting, optionInvalid } from "../../base/errors.js";
import { getOrMake } from "../../base/multimap.js";
import { checkOptionNames } from "../../base/option-names.js";
import type { TypeFacts } from "../../loader/type-shapes.js";
import { type CacheHandle, type CacheParts, factoryName, partsOf } from "../../parts.js";
import type { FieldRule, InvalidationRule, SchemaRules } from "../../schema-rules.js";
import { reportEntities } from "../entities/entity-reports.js";
import { type EntityTagsOptions, EntityTypes, resolveEntityTags } from "../entities/entity-types.js";
import { resolveIdFields } from "../entities/id-fields.js";
import { type ExistenceCheck, existenceChecks, type FieldExistence } from "../existence/field-existence.js";
import {
  CacheControlHints,
  type CacheControlOptions,
  isEntitiesField,
  resolveCacheControl,
} from "../hints/cache-control.js";
import { reportUnmatchedTags } from "../invalidation/read-invalidations.js";
import { derivingResolver, privateResolver, publicResolver, uncachedPrivateResolver } from "../permissions/origins.js";
import { cachedResolver, requestFactoryOf } from "../run/cached-field.js";
import {
  asField,
  beginningResolver,
  cachedReference,
  collectingResolver,
  invalidatingResolver,
} from "../run/cached-resolver.js";
import { type PoliciesOption, resolvePolicies } from "./apply-options.js";
import type { AnyField } from "./field-rule.js";
import {
  hasOwnResolver,
  markApplied,
  markWrapped,
  type Resolver,
  readThroughAnother,
  wrappedBy,
} from "./own-resolver.js";
import { readPolicies } from "./read-policies.js";
import { type KeyedType, REFERENCE, type ReferenceResolver, referenceField } from "./reference.js";
import { checkSources } from "./shared-entries.js";
import { Shapes } from "./variant.js";
import { withResolvers } from "./with-resolvers.js";

/**
 * Returns a copy of `schema` in which the resolvers of cached fields ask `cache` first. The given
 * schema is not changed.
 *
 * Apply the cache first and schema transforms that check permissions after it: the outer transform
 * runs on every request, the inner resolver only on a load.
 *
 * Throws `CACHED_OPTION_INVALID` for an invalid argument, and `CACHED_SCHEMA_INVALID`,
 * `CACHED_POLICY_INVALID` or `CACHED_SCOPE_MISSING` with every mistake in the schema.
 */
export function applyCached(
  schema: GraphQLSchema,
  cache: CacheHandle<never>,
  options?: ApplyCachedOptions,
): GraphQLSchema {
  const parts = partsOf(cache, "applyCached");
  checkSchema(schema, parts);
  const given: ApplyCachedOptions = options ?? {};
  checkOptionNames(given, "applyCached", OPTIONS);
  const settings = resolveSettings(given, schema);
  const { cacheControl, idFields, exceptTypes, policies } = settings;
  const hints = cacheControl && new CacheControlHints(schema, cacheControl, idFields);
  const entities = exceptTypes && new EntityTypes(schema, exceptTypes, idFields, parts);
  const shapes = new Shapes(schema, (type) => entities?.markOf(type) ?? "");
  const rules = readPolicies({ schema, parts, shapes, hints, entities, policies, idFields });
  hints?.report(parts);
  if (entities !== undefined) reportEntities(schema, rules, entities, parts);
  const existence = existenceChecks(given.exists, rules, schema, parts);
  checkSources(schema, rules, parts);
  addShapes(schema, shapes, entities, parts);
  register(rules, entities, parts);
  reportUnmatchedTags(rules, parts, entities);
  return wrapFields(schema, { rules, entities, existence, appliedWith: textOf(settings), parts });
}

const resolveSettings = (given: ApplyCachedOptions, schema: GraphQLSchema) => {
  const idFields = resolveIdFields(given.idFields, schema);
  return {
    cacheControl: resolveCacheControl(given.cacheControl),
    idFields,
    exceptTypes: resolveEntityTags(given.entityTags, schema, idFields),
    policies: resolvePolicies(given.policies),
  };
};

/** The same text for the same options, to compare and to show those of two calls. */
function textOf({ cacheControl, idFields, exceptTypes, policies }: ReturnType<typeof resolveSettings>): string {
  const sorted = (entries: readonly (readonly [string, unknown])[]): object =>
    Object.fromEntries([...entries].sort(([one], [other]) => (one < other ? -1 : 1)));
  const byCoordinate = [...policies].map(([at, policy]) => [at, sorted(Object.entries(policy))] as const);
  return JSON.stringify({
    cacheControl: cacheControl ?? false,
    entityTags: exceptTypes === undefined ? false : { exceptTypes: [...exceptTypes].sort() },
    ...(policies.size === 0 ? {} : { policies: sorted(byCoordinate) }),
    idFields,
  });
}

function checkSchema(schema: GraphQLSchema, parts: CacheParts): void {
  if (typeof (schema as Partial<GraphQLSchema> | undefined)?.getTypeMap !== "function")
    throw optionInvalid(`applyCached: expected a GraphQLSchema as the first argument, got ${describeSetting(schema)}`);
  const other = readThroughAnother(schema, parts);
  // The fields would go on to use the other cache, and this one would have no effect.
  if (other !== undefined) {
    const mistake = `applyCached: expected a schema that no other cache was applied to, got one whose \`${other.coordinate}\` reads through another cache; pass the schema from before applyCached`;
    throw new CachedError("CACHED_SCHEMA_INVALID", mistake, { coordinate: other.coordinate });
  }
}

function register(rules: SchemaRules, entities: EntityTypes | undefined, parts: CacheParts): void {
  parts.rules.add(rules);
  const fields = [...rules.fields.values()];
  for (const { coordinate, variant } of fields) parts.variants.declare(coordinate, variant);
  if (fields.length > 0)
    parts.knownTags.addSchema([...fields.flatMap(({ tags }) => tags), ...(entities?.templates() ?? [])]);
}

/** Tells loaders what the schema says of the values of its types. */
function addShapes(schema: GraphQLSchema, shapes: Shapes, entities: EntityTypes | undefined, parts: CacheParts): void {
  const outputs = Object.values(schema.getTypeMap()).filter(isOutputType);
  const known = new Map<string, TypeFacts>();
  const factsOf = (typeName: string): TypeFacts => {
    const type = schema.getType(typeName) as GraphQLOutputType;
    const finder = entities?.finderOf(type, typeName);
    return {
      shape: shapes.of(type),
      entityTagsIn: finder && ((value, context) => finder.tagsIn(value, { context, info: undefined })),
    };
  };
  parts.typeShapes.add(
    outputs.map(({ name }) => name),
    (name) => getOrMake(known, name, () => factsOf(name)),
  );
}

interface Applied {
  readonly rules: SchemaRules;
  readonly entities: EntityTypes | undefined;
  readonly existence: ReadonlyMap<string, ExistenceCheck>;
  readonly appliedWith: string;
  readonly parts: CacheParts;
}

function wrapFields(schema: GraphQLSchema, { rules, entities, existence, appliedWith, parts }: Applied): GraphQLSchema {
  const { loads } = parts.tier;
  const { privateValues } = loads;
  if ([...rules.fields.values()].some(({ policy }) => policy.scope === "PUBLIC" && policy.isDeclaredPublic !== true))
    privateValues.isAsked = true;
  const notRead: readonly unknown[] = [schema.getMutationType(), schema.getSubscriptionType()];
  const hasCachedChildren = [...rules.fields.values()].some(({ isRoot }) => !isRoot);

  /** A schema that is applied twice is wrapped once, so later options would have no effect. */
  const isWrapped = (coordinate: string, resolve: Resolver | ReferenceResolver): boolean => {
    const before = wrappedBy(resolve);
    if (before?.cache !== parts) return false;
    const mistake =
      before.options !== appliedWith
        ? `expected the options with which the cache was applied to \`${coordinate}\` before, ${before.options}, got ${appliedWith}; pass all options the first time`
        : `\`exists["${coordinate}"]\`: expected a schema to which the cache was not applied yet, got one in which the field is cached already; pass \`exists\` the first time`;
    if (before.options !== appliedWith || existence.has(coordinate))
      throw new CachedError("CACHED_OPTION_INVALID", `applyCached: ${mistake}`, { coordinate });
    return true;
  };
  const marked = <Outer extends object>(outer: Outer, inner: Resolver, usesCache = true): Outer =>
    markWrapped(outer, { inner, cache: parts, options: appliedWith, usesCache });
  const beginning = (resolve: Resolver, { type: returned }: AnyField, type: GraphQLObjectType): Resolver => {
    const isOfRoot = type === schema.getQueryType() || notRead.includes(type);
    const leadsToCached = hasCachedChildren && isOfRoot && isCompositeType(getNamedType(returned));
    return leadsToCached ? beginningResolver(resolve, parts) : resolve;
  };
  const addFactory = (rule: FieldRule, parentType: KeyedType, { name: fieldName, type }: AnyField, inner: Resolver) => {
    const query = { fieldNodes: [], fragments: {}, rootValue: undefined };
    const info = { fieldName, parentType, returnType: type, schema, ...query };
    const factory = requestFactoryOf(rule, inner, info, parts);
    if (factory === undefined) return;
    parts.requestFactories.set(rule.coordinate, factory);
    parts.requestFactories.set(factoryName(rule.coordinate, rule.variant.id), factory);
  };
  // Whatever the schema says: a loader can be made afterwards.
  const isOrigin = ({ type }: AnyField): boolean => isCompositeType(getNamedType(type));
  const noting = (coordinate: string, field: AnyField, resolve: Resolver): Resolver => {
    if (rules.privateFields.has(coordinate)) return uncachedPrivateResolver(coordinate, resolve, parts);
    return isOrigin(field) ? derivingResolver(coordinate, resolve, privateValues) : resolve;
  };
  const uncached = ({ coordinate, policy }: FieldRule, field: AnyField, resolve: Resolver): Resolver => {
    if (policy.scope === "PRIVATE" || !isOrigin(field)) return resolve;
    const bypassing: Resolver = (source, args, context, info) =>
      loads.bypass(() => resolve(source, args, context, info), context, [], info.path);
    return policy.isDeclaredPublic === true ? bypassing : derivingResolver(coordinate, bypassing, privateValues);
  };
  /** Where the value of a cached field comes from, for what is below it. */
  const cachedNoting = ({ coordinate, policy, isRoot }: FieldRule, field: AnyField, cached: Resolver): Resolver => {
    if (policy.scope === "PRIVATE" && isCompositeType(getNamedType(field.type)))
      return privateResolver(coordinate, cached, privateValues);
    const isPublic = policy.isDeclaredPublic === true && !isRoot && isOrigin(field);
    return isPublic ? publicResolver(cached, privateValues) : cached;
  };
  /** Where the value of a field without a rule comes from, and the entities in it. */
  const wrapOther = (coordinate: string, field: AnyField, type: GraphQLObjectType): Resolver | undefined => {
    const resolve = field.resolve ?? defaultFieldResolver;
    if (wrappedBy(resolve)?.cache === parts) return undefined;
    const hasOwn = hasOwnResolver(field);
    const isPrivate = rules.privateFields.has(coordinate);
    if (!hasOwn && !(isOrigin(field) && isPrivate)) return undefined;
    const isRead = !notRead.includes(type);
    const finder = isRead && hasOwn ? entities?.finderOf(field.type, coordinate) : undefined;
    const collecting = finder === undefined ? resolve : collectingResolver(coordinate, finder, resolve, parts);
    // References note where each entity comes from.
    const own = isEntitiesField(schema, type, field) ? collecting : noting(coordinate, field, collecting);
    const outer = beginning(own, field, type);
    if (own !== resolve) return marked(outer, resolve, isPrivate || finder !== undefined);
    // Without a mark: what the field returns is as it was.
    return outer === resolve ? undefined : outer;
  };
  const wrapField = (field: AnyField, type: GraphQLObjectType): Resolver | undefined => {
    const coordinate = `${type.name}.${field.name}`;
    const rule = rules.fields.get(coordinate);
    const invalidation = rules.invalidations.get(coordinate);
    if (rule === undefined && invalidation === undefined) return wrapOther(coordinate, field, type);
    const resolve = field.resolve ?? defaultFieldResolver;
    if (isWrapped(coordinate, resolve)) return undefined;
    parts.rules.wrapped.set(coordinate, resolve);
    if (rule === undefined) {
      const inner = noting(coordinate, field, resolve);
      const invalidating = invalidatingResolver(invalidation as InvalidationRule, inner, parts);
      return marked(beginning(invalidating, field, type), resolve);
    }
    addFactory(rule, type, field, resolve);
    const cached = cachedResolver(rule, resolve, parts, existence.get(coordinate), uncached(rule, field, resolve));
    return marked(cachedNoting(rule, field, cached), resolve);
  };
  const wrapReference = (resolve: ReferenceResolver, type: KeyedType): ReferenceResolver => {
    const coordinate = `${type.name}.${REFERENCE}`;
    const rule = rules.fields.get(coordinate);
    const field = referenceField(type);
    const inner = asField(resolve);
    // The function itself, by which `checkSources` knows it.
    const markedReference = (outer: ReferenceResolver, usesCache?: boolean) =>
      marked(outer, resolve as never, usesCache);
    if (rule === undefined) {
      const own = noting(coordinate, field, inner);
      if (own === inner || wrappedBy(resolve)?.cache === parts) return resolve;
      const outer: ReferenceResolver = (representation, context, info) => own(representation, {}, context, info);
      return markedReference(outer, rules.privateFields.has(coordinate));
    }
    if (isWrapped(coordinate, resolve)) return resolve;
    addFactory(rule, type, field, inner);
    const cached = cachedReference(rule, resolve, parts, existence.get(coordinate), uncached(rule, field, inner));
    if (rule.policy.scope !== "PRIVATE") return markedReference(cached);
    const own = privateResolver(coordinate, asField(cached), privateValues);
    return markedReference((representation, context, info) => own(representation, {}, context, info));
  };
  const applied = withResolvers(schema, wrapField, wrapReference);
  parts.resolvers.addApplied(applied);
  markApplied(applied, parts, rules);
  return applied;
}

/** Options of `applyCached`. */
export interface ApplyCachedOptions {
  /**
   * Policies by the coordinate of a field or type, such as `Query.movie`, for a schema that cannot
   * be annotated. Each argument takes precedence over that of `@cached` and `extensions.cached` at
   * the same coordinate. Default: none.
   */
  readonly policies?: PoliciesOption | undefined;
  /**
   * Also cache fields with the hints of Apollo's response cache (`@cacheControl`), by their
   * `maxAge` and `scope`. `@cached` takes precedence. Default: false, hints only say what clients
   * may keep.
   */
  readonly cacheControl?: boolean | CacheControlOptions | undefined;
  /**
   * Tag cached values with the entities in them, such as `Movie:7`, and let each mutation
   * invalidate the entities that its resolver returns. Default: false.
   */
  readonly entityTags?: boolean | EntityTagsOptions | undefined;
  /**
   * By type: the field, or fields, that identify its objects, in entity tags, and in the default
   * keys of its fields: `{ Movie: "slug", Rating: ["movieId", "userId"] }`. Default: `id`.
   */
  readonly idFields?: Readonly<Record<string, string | readonly string[]>> | undefined;
  /**
   * By coordinate: knows which ids cannot exist. A cached field that is asked for such an id, and
   * has no entry for it, is null without a load, and nothing is stored. Only fields that can be
   * null.
   */
  readonly exists?: Readonly<Record<string, FieldExistence>> | undefined;
}

const OPTIONS: (keyof ApplyCachedOptions)[] = ["policies", "cacheControl", "entityTags", "idFields", "exists"];
