import {
  type GraphQLInterfaceType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  type GraphQLUnionType,
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  isRequiredArgument,
  isUnionType,
} from "graphql";
import { CachedError, describeSetting, messageOf } from "../../base/errors.js";
import { unknownName } from "../../base/option-names.js";
import { closestTo } from "../../base/spelling.js";
import { type Path, parsePath } from "../../keys/path.js";
import {
  mistakeInTemplate,
  parseTagTemplate,
  repairedPath,
  repairedTemplate,
  type TagTemplate,
} from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import {
  compilePolicy,
  findSettingsMistakes,
  mergeSettings,
  type PolicySettings,
  secondsDoubts,
} from "../../policy/policy.js";
import type { FieldRule, InvalidationRule, KeyFields, KeyPath, SchemaRules, SubtreeRule } from "../../schema-rules.js";
import { createEmbeddedFinder, isPartOfParent } from "../entities/embedded-fields.js";
import type { EntityTypes } from "../entities/entity-types.js";
import { hasSingleValue, type IdFields } from "../entities/id-fields.js";
import { type CacheControlHints, hasPublicHint } from "../hints/cache-control.js";
import { emptyTagReporter } from "../invalidation/missing-tags.js";
import { type ReachableTypes, reachableTypesOf } from "../invalidation/mutation-types.js";
import { LookAhead } from "../look-ahead/look-ahead.js";
import { AuthMarks } from "../permissions/auth-marks.js";
import { type DirectiveNames, directivesAt, expectedArgument } from "./directive-names.js";
import { type AnyField, contextPathsOf, declaresSelection } from "./field-rule.js";
import { keyPathsOf } from "./key-set.js";
import { keyTemplateOf } from "./key-template.js";
import { hasOwnResolver, hasPlan } from "./own-resolver.js";
import { mistakeInPath, type PathPlace } from "./path-checks.js";
import { POLICIES } from "./policies-by-coordinate.js";
import {
  entityKeysOf,
  fieldAt,
  hasOtherReferenceResolver,
  type KeyedType,
  REFERENCE,
  referenceField,
  referenceKeyTemplates,
  referenceResolverOf,
  referenceTagsOf,
  representationWriter,
} from "./reference.js";
import { requiredPathsOf } from "./required-fields.js";
import type { Shapes } from "./shape.js";
import { isIdType, typeAt, ValueWriters } from "./value-types.js";

/**
 * Reads every `@cached`, `@invalidates` and `extensions.cached` of a schema, the `policies` for it by coordinate, its cache
 * hints if `hints` are given, and what `entities` says of its fields.
 * Throws `CACHED_SCHEMA_INVALID`, which lists all mistakes with their coordinates. A single mistake
 * is thrown with its own code.
 */
export function readPolicies(
  schema: GraphQLSchema,
  parts: CacheParts,
  names: Required<DirectiveNames>,
  shapes: Shapes,
  hints: CacheControlHints | undefined,
  entities: EntityTypes | undefined,
  policies: ReadonlyMap<string, PolicySettings>,
  idFields: IdFields,
): SchemaRules {
  const { rules, mistakes, ...found } = collectPolicies(
    schema,
    parts,
    names,
    shapes,
    hints,
    entities,
    policies,
    idFields,
  );
  const errors = mistakes.map(({ error }) => error);
  if (errors.length === 1) throw errors[0] as CachedError;
  if (errors.length > 1) {
    const list = errors.map(({ message, code }) => `- ${message} [${code}]`).join("\n");
    throw new CachedError(
      "CACHED_SCHEMA_INVALID",
      `applyCached: found ${errors.length} mistakes in the schema:\n${list}`,
      { cause: errors },
    );
  }
  for (const { source, coordinate, doubt } of found.doubts)
    parts.logger.warn(`graphql-cached: ${source} on \`${coordinate}\`: ${doubt}`);
  if (found.unresolved.length > 0)
    parts.logger.warn(`graphql-cached: @${names.directive} on ${unresolvedText(found.unresolved)}`);
  for (const { source, coordinate } of found.unusedTypes)
    parts.logger.warn(
      `graphql-cached: ${source} on \`${coordinate}\`: no field with a resolver of its own returns the type, so it has no effect; put ${source === POLICIES ? "the policy" : `\`@${names.directive}\``} on the fields that load values, or remove it`,
    );
  return rules;
}

/** What a schema says about caching, as far as it is valid, and what is wrong with the rest. */
export interface CollectedPolicies {
  readonly rules: SchemaRules;
  readonly mistakes: readonly PolicyMistake[];
  /** The types whose settings apply to nothing. */
  readonly unusedTypes: readonly Place[];
  readonly doubts: readonly Doubt[];
  /** The fields with settings of their own that only read a property of their parent. */
  readonly unresolved: readonly string[];
}

/** Does what `readPolicies` does, and returns the mistakes instead of throwing them. */
export function collectPolicies(...args: ConstructorParameters<typeof PolicyReader>): CollectedPolicies {
  const reader = new PolicyReader(...args);
  const rules = reader.read();
  const { mistakes, unusedTypes, doubts, unresolved } = reader;
  return { rules, mistakes, unusedTypes, doubts, unresolved };
}

/** What is valid, but probably not meant. */
export interface Doubt extends Place {
  readonly about: "seconds" | "key";
  readonly doubt: string;
}

/**
 * Where a mistake was made: a directive's name with its @, `extensions.cached`, or `policies` for the option of `applyCached`,
 * and the coordinate.
 */
interface Place {
  readonly source: string;
  readonly coordinate: string;
}

/** What `applyCached` refuses. */
export interface PolicyMistake extends Place {
  /** The mistake without its place. */
  readonly text: string;
  /** Whether a setting or an argument of a directive is unknown. */
  readonly isUnknownName: boolean;
  readonly error: CachedError;
}

/** How many fields an error message names besides the first. */
const MAX_NAMED = 20;

class PolicyReader {
  readonly mistakes: PolicyMistake[] = [];
  /** The types whose settings apply to nothing. */
  readonly unusedTypes: Place[] = [];
  readonly doubts: Doubt[] = [];
  /** The fields with settings of their own that only read a property of their parent. */
  readonly unresolved: string[] = [];
  readonly #schema: GraphQLSchema;
  readonly #parts: CacheParts;
  readonly #names: Required<DirectiveNames>;
  readonly #authMarks: AuthMarks;
  readonly #argumentWriters: ValueWriters;
  readonly #otherWriters: ValueWriters;
  readonly #shapes: Shapes;
  readonly #hints: CacheControlHints | undefined;
  readonly #entities: EntityTypes | undefined;
  readonly #policies: ReadonlyMap<string, PolicySettings>;
  /** What a policy can be written for. */
  readonly #coordinates = new Set<string>();
  /** The coordinates with a policy in `policies` alone. */
  readonly #outside = new Set<string>();
  readonly #idFields: IdFields;
  readonly #subtreeRule: SubtreeRule;
  readonly #paths = new Map<string, Path | undefined>();
  /** The types whose objects are entries in lists, with their settings. */
  readonly #listed = new Map<GraphQLObjectType, PolicySettings>();
  /** The PUBLIC fields for which nothing but the defaults can have said so. */
  readonly #unscoped: Place[] = [];
  #reachable: ReachableTypes | undefined;

  constructor(
    schema: GraphQLSchema,
    parts: CacheParts,
    names: Required<DirectiveNames>,
    shapes: Shapes,
    hints: CacheControlHints | undefined,
    entities: EntityTypes | undefined,
    policies: ReadonlyMap<string, PolicySettings>,
    idFields: IdFields,
  ) {
    this.#hints = hints;
    this.#idFields = idFields;
    this.#entities = entities;
    this.#policies = policies;
    this.#schema = schema;
    this.#shapes = shapes;
    this.#parts = parts;
    this.#names = names;
    this.#argumentWriters = new ValueWriters(parts.keys.writers.exact);
    this.#otherWriters = new ValueWriters(parts.keys.writers.byText);
    this.#authMarks = new AuthMarks(schema, parts.isAuthDirective, Object.values(names));
    this.#subtreeRule = {
      tagsEntity: (typeName) => entities?.isEntityName(typeName) === true,
      idFields,
    };
  }

  read(): SchemaRules {
    const fields = new Map<string, FieldRule>();
    const invalidations = new Map<string, InvalidationRule>();
    const uncacheable = [this.#schema.getMutationType(), this.#schema.getSubscriptionType()];
    const types = Object.values(this.#schema.getTypeMap()).filter((type) => !type.name.startsWith("__"));
    const typeSettings = new Map<string, PolicySettings | undefined>();
    for (const type of types)
      if (isObjectType(type) || isInterfaceType(type) || isUnionType(type))
        typeSettings.set(type.name, this.#typeSettings(type));
    const used = new Set<string>();
    for (const type of types) {
      if (isInterfaceType(type)) this.#checkInterface(type);
      if (!isObjectType(type)) continue;
      for (const field of Object.values(type.getFields())) {
        const coordinate = `${type.name}.${field.name}`;
        const own = this.#settings(field, coordinate);
        if (uncacheable.includes(type)) {
          if (own !== undefined)
            this.#mistake(
              this.#cachedAt(coordinate),
              `mutation and subscription fields are never cached; remove \`@${this.#names.directive}\``,
            );
        }
        const invalidates = this.#readInvalidations(type, field, coordinate, invalidations);
        if (own === undefined) this.#readChanges(type, field, coordinate, invalidations);
        if (hasPlan(field) && invalidations.has(coordinate))
          this.#mistake(
            invalidates ? this.#invalidatesAt(coordinate) : { source: "entityTags", coordinate },
            "Grafast answers the field by its plan (`extensions.grafast`), which a resolver would replace; call cache.invalidateTags after the change",
          );
        if (uncacheable.includes(type)) continue;
        if (invalidates && own !== undefined)
          this.#mistake(
            this.#invalidatesAt(coordinate),
            `the field is cached as well, and a hit would invalidate nothing; remove \`@${this.#names.directive}\``,
          );
        if (invalidates) continue;
        // What types and hints say does not apply to nested mutation fields: they would not run on a hit.
        if (this.#isOfMutationsOnly(type)) {
          if (own !== undefined)
            this.#mistake(
              this.#cachedAt(coordinate),
              `only mutations can ask for this field, and a hit would skip what it does; remove \`@${this.#names.directive}\`, or move the field to a type that queries reach`,
            );
          continue;
        }
        // Settings of the returned type alone apply only to fields with a resolver: reading the
        // parent object saves nothing.
        const ofReturnedType =
          own !== undefined || hasOwnResolver(field) ? this.#ofReturnedType(field, typeSettings) : undefined;
        if (ofReturnedType !== undefined) used.add(getNamedType(field.type).name);
        if (own !== undefined && own.maxAge !== 0 && !hasOwnResolver(field) && this.#needsResolver(type, field))
          this.unresolved.push(coordinate);
        if (own !== undefined) this.#checkLeftOut(field, own, coordinate);
        const isExplicit = own !== undefined || ofReturnedType !== undefined;
        const hinted = this.#hints?.policyOf(type, field, isExplicit);
        if (!isExplicit && hinted === undefined) continue;
        if (hasPlan(field) && own?.maxAge !== 0)
          this.#mistake(
            this.#cachedAt(coordinate),
            "Grafast answers the field by its plan (`extensions.grafast`), which a resolver would replace; use cache.loader in the step of the plan, as the function of loadOne",
          );
        const rule = this.#rule(type, field, own, ofReturnedType, hinted);
        if (rule !== undefined) fields.set(coordinate, rule);
      }
    }
    for (const type of types) {
      const settings = typeSettings.get(type.name);
      if (settings === undefined) continue;
      if (isUnionType(type)) this.#checkIsUsed(type, used);
      else this.#readReference(type as KeyedType, settings, used, fields);
    }
    for (const [type, own] of this.#listed) {
      const rule = this.#objectRule(type, own);
      if (rule !== undefined) fields.set(rule.coordinate, rule);
    }
    this.#checkEmbeddedPrivate(fields);
    this.#checkCoordinates();
    this.#checkUnscoped();
    return { fields, invalidations };
  }

  /** Reports policies for what the schema does not have. */
  #checkCoordinates(): void {
    for (const coordinate of this.#policies.keys()) {
      if (this.#coordinates.has(coordinate)) continue;
      const [typeName = "", fieldName] = coordinate.split(".");
      const meant = fieldName === REFERENCE ? typeName : closestTo(coordinate, this.#coordinates);
      this.#mistake(
        { source: POLICIES, coordinate },
        `expected the coordinate of a field, an object type, an interface or a union of the schema, got an unknown one${meant === undefined ? "" : `; did you mean \`${meant}\`?`}`,
      );
    }
  }

  /** Reports a `key` without an argument that every call has to pass: calls that differ there get one value. */
  #checkLeftOut({ args }: AnyField, { key, maxAge }: PolicySettings, coordinate: string): void {
    if (key === undefined || key === null || maxAge === 0) return;
    const isNamed = (name: string): boolean =>
      key.some((path) => path === "$args" || path === `$args.${name}` || path.startsWith(`$args.${name}.`));
    const leftOut = args.filter((argument) => isRequiredArgument(argument) && !isNamed(argument.name));
    if (leftOut.length === 0) return;
    const names = leftOut.map(({ name }) => `\`$args.${name}\``).join(", ");
    this.doubts.push({
      ...this.#cachedAt(coordinate),
      about: "key",
      doubt: `\`key\` leaves out ${names}, which every call has to pass, so calls that differ only there share one value; add ${leftOut.length === 1 ? "it" : "them"}, or remove \`key\``,
    });
  }

  /** Adds the rule of the references to a type with settings, if it is an entity that this subgraph resolves. */
  #readReference(
    type: KeyedType,
    settings: PolicySettings,
    used: ReadonlySet<string>,
    fields: Map<string, FieldRule>,
  ): void {
    const keys = referenceResolverOf(type) === undefined ? [] : entityKeysOf(this.#schema, type);
    if (keys.length === 0) {
      this.#checkIsUsed(type, used);
      return;
    }
    const rule = this.#rule(type as GraphQLObjectType, referenceField(type), settings, undefined, undefined, keys);
    if (rule !== undefined) fields.set(rule.coordinate, rule);
  }

  /**
   * Notes the settings of a type that apply to nothing, and refuses those of a type that looks like a
   * federation entity. A stitched schema has them from schemas in which they apply.
   */
  #checkIsUsed(type: KeyedType | GraphQLUnionType, used: ReadonlySet<string>): void {
    if (
      used.has(type.name) ||
      this.#listed.has(type as GraphQLObjectType) ||
      "stitchingInfo" in this.#schema.extensions
    )
      return;
    const resolve = isUnionType(type) ? undefined : referenceResolverOf(type);
    const hasKey = !isUnionType(type) && entityKeysOf(this.#schema, type).length > 0;
    const why =
      resolve !== undefined
        ? `its \`${REFERENCE}\` is never called, since the type has no \`@key\` that this subgraph resolves`
        : !isUnionType(type) && hasOtherReferenceResolver(type)
          ? `its \`${REFERENCE}\` is not one of @apollo/subgraph, and is not cached; use cache.loader in it`
          : hasKey
            ? `it has no \`${REFERENCE}\``
            : undefined;
    if (why === undefined) {
      this.unusedTypes.push(this.#cachedAt(type.name));
      return;
    }
    this.#mistake(
      this.#cachedAt(type.name),
      `expected a type whose values are loaded, got one that no field with a resolver of its own returns, and ${why}; put \`@${this.#names.directive}\` on the fields that load values, or remove it`,
    );
  }

  /**
   * Whether a field of a type needs a resolver to load something. Without any other, its parents have methods, as
   * rootValue has. A stitched schema has the resolvers of nested fields elsewhere, and those of root fields itself.
   */
  #needsResolver(type: GraphQLObjectType, { resolve }: AnyField): boolean {
    const isRoot = type === this.#schema.getQueryType();
    if (isRoot && resolve?.name.endsWith("defaultMergedResolver") === true) return true;
    if ("stitchingInfo" in this.#schema.extensions) return false;
    const others = isRoot ? [type] : Object.values(this.#schema.getTypeMap());
    return others.some(hasResolvers);
  }

  /**
   * A private field without a resolver reads its parent object. If the parent object is shared, so
   * is the private value.
   */
  #checkEmbeddedPrivate(fields: ReadonlyMap<string, FieldRule>): void {
    const isPrivate = (coordinate: string): boolean => fields.get(coordinate)?.policy.scope === "PRIVATE";
    if (![...fields.keys()].some(isPrivate)) return;
    const embeddedIn = createEmbeddedFinder(
      this.#schema,
      (type, field) => isPartOfParent(field) && isPrivate(`${type.name}.${field.name}`),
    );
    for (const [coordinate, { policy }] of fields) {
      const found = fieldAt(this.#schema, coordinate);
      if (policy.scope === "PRIVATE" || found === undefined) continue;
      for (const embedded of embeddedIn(getNamedType(found.field.type)))
        this.#mistake(
          this.#cachedAt(embedded),
          `\`scope\`: the field is PRIVATE but has no resolver, so its value is stored inside the PUBLIC value of \`${coordinate}\`; give it a resolver, or make \`${coordinate}\` PRIVATE`,
        );
    }
  }

  /**
   * Returns the settings of one field or type, from `policies`, the directive and `extensions.cached`. The first of them that
   * sets an argument wins.
   */
  #settings(
    target: AnyField | GraphQLObjectType | GraphQLInterfaceType | GraphQLUnionType,
    coordinate: string,
  ): PolicySettings | undefined {
    this.#coordinates.add(coordinate);
    const directive = `@${this.#names.directive}`;
    let inDirective: Record<string, unknown> | undefined;
    try {
      [inDirective] = directivesAt(this.#schema, target, this.#names.directive);
    } catch (error) {
      this.#mistake(
        { source: directive, coordinate },
        `invalid argument: ${messageOf(error)}${expectedArgument(this.#schema, target, this.#names.directive)}`,
      );
      return undefined;
    }
    const inExtensions = (target.extensions as { cached?: PolicySettings } | undefined)?.cached;
    const outside = this.#policies.get(coordinate);
    const layers = [outside, inDirective, inExtensions];
    if (layers.every((layer) => layer === undefined)) return undefined;
    if (inDirective === undefined && inExtensions === undefined) this.#outside.add(coordinate);
    const before = this.mistakes.length;
    for (const [nth, source] of [POLICIES, directive, "extensions.cached"].entries())
      for (const { text, isUnknownName } of layers[nth] === undefined ? [] : findSettingsMistakes(layers[nth]))
        this.#mistake({ source, coordinate }, text, { isUnknownName });
    if (this.mistakes.length > before) return undefined;
    const settings = mergeSettings(...layers);
    for (const doubt of secondsDoubts(settings))
      this.doubts.push({ ...this.#cachedAt(coordinate), about: "seconds", doubt });
    return settings;
  }

  /** Returns the settings of a type. Its fields are not all on the query type. */
  #typeSettings(type: GraphQLObjectType | GraphQLInterfaceType | GraphQLUnionType): PolicySettings | undefined {
    const settings = this.#settings(type, type.name);
    if (settings?.subtree !== true) return settings;
    const mistake = (text: string): void => this.#mistake(this.#cachedAt(type.name), `\`subtree\`: ${text}`);
    if (!isObjectType(type))
      mistake(
        "expected an object type, got an interface or a union; set it on the object types whose lists are selected",
      );
    else if (type === this.#schema.getQueryType())
      mistake("expected a type whose objects are in lists, got the query type; set it on its fields");
    else if (this.#idFields.in(type)?.every(isPlain) !== true)
      mistake(
        "expected a type with an `id` without arguments, which each entry has in its key; add one, or name other fields in `idFields` of applyCached",
      );
    else this.#listed.set(type, settings);
    const { subtree: _, ...others } = settings;
    return others;
  }

  /** Returns the settings of the type that a field returns. In those with `subtree: true`, `$source` is the object, of which fields can return many. */
  #ofReturnedType(
    { type }: AnyField,
    typeSettings: ReadonlyMap<string, PolicySettings | undefined>,
  ): PolicySettings | undefined {
    const named = getNamedType(type);
    const settings = typeSettings.get(named.name);
    if (settings?.tags === undefined || !this.#listed.has(named as GraphQLObjectType)) return settings;
    const result = `$result${"[]".repeat(String(type).split("[").length - 1)}`;
    return { ...settings, tags: settings.tags?.map((text) => text.replaceAll("$source", () => result)) ?? null };
  }

  /** Returns the rule of the objects of a type in lists. */
  #objectRule(type: GraphQLObjectType, settings: PolicySettings): FieldRule | undefined {
    const before = this.mistakes.length;
    const place = this.#cachedAt(type.name);
    const field = referenceField(type);
    const { profiles, defaults, identify } = this.#parts;
    const { policy, versions, declaresScope, mistakes, ...compiled } = compilePolicy({
      declared: [settings],
      profiles,
      hinted: undefined,
      defaults,
    });
    for (const mistake of mistakes) this.#mistake(place, mistake);
    if (compiled.settings.maxAge === 0)
      this.#mistake(
        place,
        "`subtree`: expected `maxAge` of at least 1, got 0, which turns caching off; remove one of the two",
      );
    if (policy.scope === "PRIVATE" && identify === undefined)
      this.#mistake(
        place,
        "`scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })",
        { code: "CACHED_SCOPE_MISSING" },
      );
    const scopeMistake =
      policy.scope === "PUBLIC" ? this.#scopeMistake(type, field, settings.scope === "PUBLIC") : undefined;
    if (scopeMistake !== undefined)
      this.#mistake(place, `\`scope\`: ${scopeMistake}`, { code: "CACHED_SCOPE_MISSING" });
    else if (policy.scope === "PUBLIC" && !declaresScope) this.#unscoped.push(place);
    if ("stitchingInfo" in this.#schema.extensions)
      this.#mistake(
        place,
        "`subtree`: expected a schema that is executed here, got a stitched one; cache subtrees in the subschemas",
      );
    const contextKey = (compiled.settings.key ?? []).filter((text) => text.startsWith("$context"));
    const keyPaths = this.#keyPaths(type, field, place, false, [...this.#idPaths(type), ...contextKey], []);
    const declaredTags = (compiled.settings.tags ?? [])
      .filter((text) => !text.includes("$args"))
      .map((text) => text.replaceAll(/\$result(\[\])*/g, () => "$source"));
    const tags = this.#tags(type, field, place, false, [...declaredTags, ...this.#parentTag(type, keyPaths)]);
    if (this.mistakes.length > before) return undefined;
    const variant = this.#parts.keys.variant({
      kind: "field",
      shape: this.#shapes.of(type),
      versions,
      keyTemplate: keyTemplateOf(keyPaths, policy.scope, type, field, this.#parts.keys.writers.exact),
      tagTemplates: tags.map(({ text }) => text),
    });
    return {
      coordinate: type.name,
      policy,
      settings: compiled.settings,
      variant,
      isRoot: false,
      keyPaths,
      tags,
      contextPaths: contextPathsOf(keyPaths, tags),
      reportEmptyTag: emptyTagReporter(place, declaredTags, this.#parts.tagMistakes),
      entities: undefined,
      args: [],
      canKeySelection: true,
      queryUse: new LookAhead(
        {
          coordinate: type.name,
          hasSelection: true,
          declaresSelection: false,
          isStitched: false,
          isReference: true,
        },
        this.#parts.channel,
        this.#parts.keys.writers.exact,
      ),
      reference: undefined,
      subtree: this.#subtreeRule,
    };
  }

  /** `entityKeys`: those of the type whose references the rule is for, which is the parent. */
  #rule(
    parent: GraphQLObjectType,
    field: AnyField,
    own: PolicySettings | undefined,
    ofReturnedType: PolicySettings | undefined,
    hinted: PolicySettings | undefined,
    entityKeys?: readonly KeyFields[],
  ): FieldRule | undefined {
    const before = this.mistakes.length;
    const coordinate = `${parent.name}.${field.name}`;
    const place = this.#cachedAt(entityKeys === undefined ? coordinate : parent.name);
    const { profiles, defaults, identify } = this.#parts;
    const { settings, policy, versions, declaresScope, mistakes } = compilePolicy({
      declared: [own, ofReturnedType],
      profiles,
      hinted,
      defaults,
    });
    for (const mistake of mistakes) this.#mistake(place, mistake);
    if (settings.maxAge === 0 && own?.subtree === true)
      this.#mistake(
        place,
        "`subtree`: expected `maxAge` of at least 1, got 0, which turns caching off; remove one of the two",
      );
    if (settings.maxAge === 0 && mistakes.length === 0) return undefined;
    if (policy.scope === "PRIVATE" && identify === undefined)
      this.#mistake(
        place,
        "`scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })",
        { code: "CACHED_SCOPE_MISSING" },
      );
    const isPublicItself = own?.scope === "PUBLIC" || hasPublicHint(field, hinted);
    const scopeMistake = policy.scope === "PUBLIC" ? this.#scopeMistake(parent, field, isPublicItself) : undefined;
    if (scopeMistake !== undefined)
      this.#mistake(place, `\`scope\`: ${scopeMistake}`, { code: "CACHED_SCOPE_MISSING" });
    else if (policy.scope === "PUBLIC" && !declaresScope) this.#unscoped.push(place);
    const isRoot = parent === this.#schema.getQueryType();
    const key = entityKeys === undefined ? settings.key : (settings.key ?? ["$source"]);
    const requiring = entityKeys === undefined ? [field] : Object.values(parent.getFields());
    const required = requiring.flatMap((one) => requiredPathsOf(this.#schema, parent, one));
    const keyPaths = this.#keyPaths(parent, field, place, isRoot, key, required);
    const entityTags =
      entityKeys === undefined ? this.#parentTag(parent, keyPaths) : referenceTagsOf(parent, entityKeys);
    const tags = this.#tags(parent, field, place, isRoot, [...(settings.tags ?? []), ...entityTags]);
    if (entityKeys !== undefined && this.mistakes.length === before) this.#checkReference(place, entityKeys, keyPaths);
    if (settings.subtree === true) this.#checkSubtree(parent, field, place, keyPaths);
    if (this.mistakes.length > before) return undefined;
    const variant = this.#parts.keys.variant({
      kind: "field",
      shape: this.#shapes.of(field.type),
      versions,
      keyTemplate: [
        ...keyTemplateOf(keyPaths, policy.scope, parent, field, this.#parts.keys.writers.exact),
        ...(entityKeys === undefined ? [] : referenceKeyTemplates(parent, entityKeys)),
      ],
      tagTemplates: tags.map(({ text }) => text),
    });
    const hasSelection = isCompositeType(getNamedType(field.type));
    const isDeclared = declaresSelection(keyPaths);
    const isStitched = "stitchingInfo" in this.#schema.extensions;
    const queryUse = new LookAhead(
      { coordinate, hasSelection, declaresSelection: isDeclared, isStitched, isReference: entityKeys !== undefined },
      this.#parts.channel,
      this.#parts.keys.writers.exact,
    );
    return {
      coordinate,
      policy,
      settings,
      variant,
      isRoot,
      keyPaths,
      tags,
      contextPaths: contextPathsOf(keyPaths, tags),
      reportEmptyTag: emptyTagReporter(place, settings.tags ?? [], this.#parts.tagMistakes),
      entities: this.#entities?.finderOf(field.type, coordinate),
      args: field.args,
      canKeySelection: hasSelection || isDeclared,
      queryUse,
      reference:
        entityKeys === undefined
          ? undefined
          : { type: field.type, keys: settings.key === undefined ? entityKeys : undefined },
      subtree: settings.subtree === true ? this.#subtreeRule : undefined,
    };
  }

  /** Reports `subtree: true` where what is selected below the field cannot be an entry. */
  #checkSubtree(parent: GraphQLObjectType, field: AnyField, place: Place, keyPaths: readonly KeyPath[]): void {
    const mistake = (text: string): void => this.#mistake(place, `\`subtree\`: ${text}`);
    if (field.name === REFERENCE || parent !== this.#schema.getQueryType())
      mistake(
        "expected a field of the query type, got another one; remove it: this field is part of the subtrees of the query fields that lead to it",
      );
    else if (!isCompositeType(getNamedType(field.type)))
      mistake(
        "expected a field that returns objects, got one that returns a leaf, whose entry is complete without it; remove it",
      );
    if (declaresSelection(keyPaths))
      mistake("the selection is part of the key of a subtree in any case; remove `$selection` from `key`");
    if ("stitchingInfo" in this.#schema.extensions)
      mistake("expected a schema that is executed here, got a stitched one; cache subtrees in the subschemas");
  }

  /**
   * Returns why a field must not be PUBLIC as it is. Only the field itself can declare that it is shared although an auth
   * mark covers it: a type, a profile or the defaults were not written with this mark in view.
   */
  #scopeMistake(parent: GraphQLObjectType, field: AnyField, isPublicItself: boolean): string | undefined {
    const inside = this.#authMarks.checkedInside(parent, field);
    if (inside !== undefined)
      return `expected PRIVATE, since ${inside.checkedBy} checks ${inside.text} in the resolver of the field, where a hit would skip the check, got ${isPublicItself ? "PUBLIC" : "nothing"}; set scope: PRIVATE, or remove \`@${this.#names.directive}\` and read shared data with cache.loader in the resolver, after the check`;
    if (isPublicItself) return undefined;
    const what = field.name === REFERENCE ? "type" : "field";
    const cover = this.#authMarks.coverOf(parent, field);
    return cover === undefined
      ? undefined
      : `expected a declaration on the ${what} itself, since ${cover}, got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the ${what} gets the same value`;
  }

  /** Reports the fields without a scope as one mistake, if each has to have one and nothing else is wrong. */
  #checkUnscoped(): void {
    const { first } = this.#authMarks;
    const [place, ...others] = this.#unscoped;
    if (place === undefined || this.mistakes.length > 0 || !(this.#parts.requireScope ?? first !== undefined)) return;
    const why = first === undefined ? "`requireScope` is set" : `the schema has ${first}`;
    const named = others.slice(0, MAX_NAMED).map(({ coordinate }) => `\`${coordinate}\``);
    if (others.length > MAX_NAMED) named.push(`${others.length - MAX_NAMED} more`);
    const got = named.length === 0 ? "nothing" : `nothing, and nothing on ${named.join(", ")}`;
    this.#mistake(
      place,
      `\`scope\`: expected a declaration, since ${why}, got ${got}; set scope: PUBLIC where every caller gets the same value, otherwise scope: PRIVATE, or turn this check off with createCache({ privacy: { requireScope: false } })`,
      { code: "CACHED_SCOPE_MISSING" },
    );
  }

  /**
   * Returns the tag of the entity that a field belongs to, if each of them has entries of its own. Entries
   * that entities share have none: each of them would write its own into it, in turn.
   */
  #parentTag(parent: GraphQLObjectType, keyPaths: readonly KeyPath[]): readonly string[] {
    if (this.#entities?.isEntity(parent) !== true) return [];
    const isInKey = (name: string): boolean =>
      keyPaths.some(
        ({ root, steps }) => root === "source" && (steps.length === 0 || (steps.length === 1 && steps[0] === name)),
      );
    return this.#idFields.of(parent.name).every(isInKey) ? [this.#idFields.templateOf(parent.name, "source")] : [];
  }

  #idPaths({ name }: GraphQLObjectType): string[] {
    return this.#idFields.of(name).map((field) => `$source.${field}`);
  }

  #keyPaths(
    parent: GraphQLObjectType,
    field: AnyField,
    place: Place,
    isRoot: boolean,
    key: readonly string[] | undefined,
    required: readonly string[],
  ): KeyPath[] {
    if (key === undefined) {
      if (!isRoot && this.#idFields.in(parent) === undefined)
        this.#mistake(
          place,
          `\`key\`: the default key needs \`${parent.name}.id\`, which does not exist; name what identifies the parent, such as key: ["$args", "$source.code"], or for all of its fields, in \`idFields\` of applyCached`,
        );
    }
    const requiredTexts = [...new Set(required)].map((path) => `$source.${path}`);
    const texts = key ?? (isRoot ? ["$args"] : ["$args", ...this.#idPaths(parent), ...requiredTexts]);
    if (key !== undefined) this.#checkRequired(place, requiredTexts, key);
    return texts.flatMap((text) => {
      const path = this.#pathOf(text);
      if (path === undefined || path.root === "result" || path.steps.includes("[]")) {
        this.#mistake(
          place,
          `\`key\`: expected paths such as $args.id, $source.id, $context.locale or $selection, got ${JSON.stringify(text)}${didYouMean(field, repairedPath(text))}`,
        );
        return [];
      }
      this.#checkPath(path, "key", { parent, field, isRoot }, place);
      const writers = path.root === "args" ? this.#argumentWriters : this.#otherWriters;
      const isAllArguments = path.root === "args" && path.steps.length === 0;
      const write = isAllArguments ? writers.ofArguments(field) : writers.of(typeAt(path, parent, field));
      const isReference = field.name === REFERENCE && path.root === "source" && path.steps.length === 0;
      const isOptional = requiredTexts.includes(text);
      return [{ ...path, write: isReference ? representationWriter(write) : write, isOptional }];
    });
  }

  /** Reports a `key` without what the value is computed from: one representation would decide about the value for all others. */
  #checkRequired(place: Place, required: readonly string[], key: readonly string[]): void {
    if (required.every((path) => key.some((text) => path === text || path.startsWith(`${text}.`)))) return;
    const [last = "", ...others] = [...required].reverse();
    const fields = others.length === 0 ? last : `${others.reverse().join(", ")} and ${last}`;
    this.#mistake(
      place,
      `\`key\`: expected the fields of \`@requires\`, ${fields}, got ${key.join(", ") || "nothing"}; add them, or remove \`key\``,
    );
  }

  /** Parses the path of a key once: most fields have the same. */
  #pathOf(text: string): Path | undefined {
    if (!this.#paths.has(text)) this.#paths.set(text, parsePath(text));
    return this.#paths.get(text);
  }

  /** Reports a `key` that does not say which entity a reference is to: references to others would share entries. */
  #checkReference(place: Place, entityKeys: readonly KeyFields[], keyPaths: readonly KeyPath[]): void {
    const sources = keyPaths.filter(({ root }) => root === "source").map(({ steps }) => steps.join("."));
    const isCovered = (path: string): boolean =>
      sources.some((source) => source === "" || source === path || path.startsWith(`${source}.`));
    const keys = entityKeys.map(keyPathsOf);
    if (keys.some((paths) => paths.every(isCovered))) return;
    const choices = keys.map((paths) => paths.map((path) => `$source.${path}`).join(" and ")).join(", or ");
    this.#mistake(
      place,
      `\`key\`: expected the key of the entity for \`${REFERENCE}\`, ${choices}, got ${keyPaths.map(({ text }) => text).join(", ") || "nothing"}; add it, or remove \`key\`: the default is the whole representation`,
    );
  }

  #tags(
    parent: GraphQLObjectType,
    field: AnyField,
    place: Place,
    isRoot: boolean,
    tags: readonly string[],
  ): TagTemplate[] {
    // Sorted, so that releases which differ in the order of their tags read each other's entries.
    return [...new Set(tags)].sort().flatMap((text) => {
      const template = parseTagTemplate(text);
      if (template === undefined) {
        this.#mistake(
          place,
          `\`tags\`: expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got ${JSON.stringify(text)}${didYouMean(field, repairedTemplate(text))}`,
        );
        return [];
      }
      const mistake = mistakeInTemplate(text, !place.source.endsWith(this.#names.invalidates));
      if (mistake !== undefined) {
        this.#mistake(place, mistake);
        return [];
      }
      for (const piece of template.pieces)
        if (typeof piece !== "string") this.#checkPath(piece, "tag", { parent, field, isRoot }, place);
      const pieces = template.pieces.map((piece) =>
        typeof piece === "string" ? piece : { ...piece, isId: isIdType(typeAt(piece, parent, field)) },
      );
      return [{ ...template, pieces }];
    });
  }

  #checkPath(
    path: Path,
    use: PathPlace["use"],
    at: Omit<PathPlace, "schema" | "use" | "otherProperties">,
    place: Place,
  ): void {
    const otherProperties = place.source.endsWith(this.#names.invalidates)
      ? "call cache.invalidateTags in the resolver"
      : "add the tag with resultControl(info).set({ tags })";
    const mistake = mistakeInPath(path, { ...at, use, schema: this.#schema, otherProperties });
    if (mistake !== undefined) this.#mistake(place, mistake);
  }

  #checkInterface(type: GraphQLInterfaceType): void {
    for (const field of Object.values(type.getFields()) as AnyField[]) {
      const coordinate = `${type.name}.${field.name}`;
      if (this.#settings(field, coordinate) !== undefined)
        this.#mistake(
          this.#cachedAt(coordinate),
          `interface fields have no resolver; put \`@${this.#names.directive}\` on the fields of the object types`,
        );
      this.#readInvalidations(type, field, coordinate, new Map());
    }
  }

  /**
   * Reads `@invalidates` and `extensions.invalidates`, which take effect on fields that only mutations can
   * ask for. Returns whether the field has any.
   */
  #readInvalidations(
    type: GraphQLObjectType | GraphQLInterfaceType,
    field: AnyField,
    coordinate: string,
    invalidations: Map<string, InvalidationRule>,
  ): boolean {
    const place = this.#invalidatesAt(coordinate);
    let declared: readonly unknown[];
    try {
      const inExtensions = (field.extensions as { invalidates?: unknown } | undefined)?.invalidates ?? [];
      declared = [...directivesAt(this.#schema, field, this.#names.invalidates), ...[inExtensions].flat()];
    } catch (error) {
      this.#mistake(
        place,
        `invalid argument: ${messageOf(error)}${expectedArgument(this.#schema, field, this.#names.invalidates)}`,
      );
      return true;
    }
    if (declared.length === 0) return false;
    const mistake = this.#notOfMutations(type);
    if (mistake !== undefined) {
      this.#mistake(place, mistake);
      return true;
    }
    for (const one of declared)
      for (const name of Object.keys(typeof one === "object" && one !== null ? one : {}))
        if (name !== "tags")
          this.#mistake(place, unknownName(name, { kind: "argument", known: ["tags"] }), { isUnknownName: true });
    const tags = declared.flatMap((one) => {
      const given = (one as { tags?: unknown } | null)?.tags;
      if (Array.isArray(given) && given.every((tag) => typeof tag === "string")) {
        if (given.length === 0)
          this.#mistake(place, "`tags`: expected at least one tag, got none; name one, or remove it");
        return given as string[];
      }
      this.#mistake(
        place,
        typeof one === "object" && one !== null
          ? `\`tags\`: expected an array of strings, got ${describeSetting(given)}`
          : `expected an object such as { tags: ["Movie:{$result.id}"] }, got ${describeSetting(one)}`,
      );
      return [];
    });
    const isRoot = type === this.#schema.getMutationType();
    if (tags.length > 0)
      invalidations.set(coordinate, {
        tags: this.#tags(type as GraphQLObjectType, field, place, isRoot, tags),
        reportEmptyTag: emptyTagReporter(place, tags, this.#parts.tagMistakes),
        entities: undefined,
      });
    return true;
  }

  /**
   * Adds the entities that a mutation returns to what it invalidates. On nested types, only fields with a
   * resolver count: those without one return a part of what their parent has returned.
   */
  #readChanges(
    type: GraphQLObjectType,
    field: AnyField,
    coordinate: string,
    invalidations: Map<string, InvalidationRule>,
  ): void {
    const entities = this.#entities?.finderOf(field.type, coordinate);
    if (entities === undefined) return;
    const isRoot = type === this.#schema.getMutationType();
    if (!isRoot && !(hasOwnResolver(field) && this.#isOfMutationsOnly(type))) return;
    const declared = invalidations.get(coordinate) ?? { tags: [], reportEmptyTag: () => undefined };
    invalidations.set(coordinate, { ...declared, entities });
  }

  /** Returns why a field of `type` cannot invalidate. Undefined if it can. */
  #notOfMutations(type: GraphQLObjectType | GraphQLInterfaceType): string | undefined {
    if (isInterfaceType(type))
      return `interface fields have no resolver; put \`@${this.#names.invalidates}\` on the fields of the object types`;
    if (this.#isOfMutationsOnly(type)) return undefined;
    const why = this.#reachableTypes().others.has(type.name)
      ? `queries and subscriptions reach \`${type.name}\` as well`
      : `\`${type.name}\` cannot be reached from the mutation type`;
    return `expected a field that only mutations can ask for, but ${why}; move it to a field of the mutation type, or call cache.invalidateTags in the resolver`;
  }

  /** Whether mutations can reach a type, and no other operation. */
  #isOfMutationsOnly({ name }: GraphQLObjectType): boolean {
    const { mutations, others } = this.#reachableTypes();
    return mutations.has(name) && !others.has(name);
  }

  #reachableTypes(): ReachableTypes {
    this.#reachable ??= reachableTypesOf(this.#schema);
    return this.#reachable;
  }

  #invalidatesAt(coordinate: string): Place {
    return { source: `@${this.#names.invalidates}`, coordinate };
  }

  #cachedAt(coordinate: string): Place {
    return { source: this.#outside.has(coordinate) ? POLICIES : `@${this.#names.directive}`, coordinate };
  }

  #mistake(
    { source, coordinate }: Place,
    text: string,
    {
      code = "CACHED_POLICY_INVALID",
      isUnknownName = false,
    }: { readonly code?: "CACHED_POLICY_INVALID" | "CACHED_SCOPE_MISSING"; readonly isUnknownName?: boolean } = {},
  ): void {
    // A remedy must not name a directive that is not there.
    const ownText = this.#outside.has(coordinate)
      ? text.replaceAll(`\`@${this.#names.directive}\``, "the policy")
      : text;
    const error = new CachedError(code, `${source} on \`${coordinate}\`: ${ownText}`, { coordinate });
    this.mistakes.push({ source, coordinate, text: ownText, isUnknownName, error });
  }
}

/** What is wrong with fields that have a policy and no resolver. */
export const unresolvedText = (coordinates: readonly string[]): string =>
  `fields without a resolver, which read a property of their parent, so that nothing is saved: ${coordinates.map((coordinate) => `\`${coordinate}\``).join(", ")}; give them a resolver, or cache the field that loads the parent; it is right if the property is a method, as with rootValue`;

/** Whether a field is a single value that can be asked for without arguments. */
const isPlain = (field: AnyField): boolean => hasSingleValue(field) && !field.args.some(isRequiredArgument);

const hasResolvers = (type: GraphQLNamedType): boolean =>
  isObjectType(type) &&
  !type.name.startsWith("__") &&
  Object.values(type.getFields()).some((field) => hasOwnResolver(field as AnyField));

/** `text`: a key path or a tag template; without effect if it names an argument that the field does not have. */
function didYouMean({ args }: AnyField, text: string | undefined): string {
  const named = [...(text ?? "").matchAll(/\$args\.(\w+)/g)].map(([, name]) => name);
  const isPossible = named.every((name) => args.some((argument) => argument.name === name));
  return text === undefined || !isPossible ? "" : `; did you mean ${JSON.stringify(text)}?`;
}
