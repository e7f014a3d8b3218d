import {
  type GraphQLCompositeType,
  type GraphQLInterfaceType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  isRequiredArgument,
  isUnionType,
} from "graphql";
import { messageOf } from "../../base/errors.js";
import { closestTo } from "../../base/option-names.js";
import {
  contradictions,
  mergeSettings,
  type Policy,
  type PolicySettings,
  secondsDoubts,
  settingsMistakes,
} from "../../policy/policy.js";
import type { FieldRule, InvalidationRule, SchemaRules } from "../../schema-rules.js";
import { createEmbeddedFinder, isPartOfParent } from "../entities/embedded-fields.js";
import { hasPrivateHint, isEntitiesField, isPrivateType } from "../hints/cache-control.js";
import { readInvalidation } from "../invalidation/read-invalidations.js";
import { privateTypesOf } from "../permissions/origins.js";
import { POLICIES } from "./apply-options.js";
import { directivesAt, expectedArgument } from "./directives.js";
import type { AnyField } from "./field-rule.js";
import { hasOwnResolver, hasPlan, isStitched } from "./own-resolver.js";
import {
  entityKeysOf,
  fieldAt,
  hasOtherReferenceResolver,
  type KeyedType,
  REFERENCE,
  referenceField,
  referenceResolverOf,
} from "./reference.js";
import { type FieldSettings, makeRule } from "./rule-maker.js";
import { type PolicyInputs, SchemaReading } from "./schema-reading.js";
import { objectsOf } from "./type-graph.js";

/**
 * Reads every `@cached`, `@invalidates` and `extensions.cached` of a schema, the `policies` for it
 * by coordinate, its cache hints if `hints` are given, and what `entities` says of its fields.
 * Throws `CACHED_SCHEMA_INVALID`, which lists all mistakes with their coordinates. A single mistake
 * is thrown with its own code.
 */
export function readPolicies(inputs: PolicyInputs): SchemaRules {
  const reading = new SchemaReading(inputs);
  const rules = new PolicyReader(reading).read();
  reading.report();
  return rules;
}

class PolicyReader {
  readonly #fields = new Map<string, FieldRule>();
  readonly #invalidations = new Map<string, InvalidationRule>();
  readonly #found = new Map<string, { type: GraphQLObjectType; field: AnyField; settings: FieldSettings }>();
  readonly #coordinates = new Set<string>();
  readonly #typeSettings = new Map<string, PolicySettings>();
  readonly #used = new Set<string>();

  constructor(readonly reading: SchemaReading) {}

  read(): SchemaRules {
    const { schema, policies, entities } = this.reading.inputs;
    const types = Object.values(schema.getTypeMap()).filter((type) => !type.name.startsWith("__"));
    for (const type of types) {
      const settings = isCompositeType(type) ? this.#settings(type, type.name) : undefined;
      if (settings !== undefined) this.#typeSettings.set(type.name, settings);
    }
    for (const type of types) {
      if (isInterfaceType(type)) this.#checkInterface(type);
      if (!isObjectType(type)) continue;
      for (const field of Object.values(type.getFields())) this.#readField(type, field);
    }
    const isPrivateObject = (type: GraphQLObjectType) => this.#isPrivateType(type) || isPrivateType(type);
    const privateTypes = privateTypesOf(schema, isPrivateObject, (type, field) => this.#scopeOf(type, field));
    for (const { type, field, settings } of this.#found.values()) {
      const isPrivateByDefault = isPrivateObject(type) || privateTypes.has(type) || this.#returnsPrivate(type, field);
      this.#add(makeRule(this.reading, type, field, { ...settings, isPrivateByDefault }));
    }
    for (const type of types) {
      const settings = this.#typeSettings.get(type.name);
      if (settings === undefined) continue;
      if (isUnionType(type)) this.#checkIsUsed(type);
      else this.#readReference(type as KeyedType, settings);
    }
    this.#checkEmbeddedPrivate();
    this.#checkCoordinates();
    const objectTags = new Set(entities?.templates().map(({ text }) => text));
    const privateFields = new Set<string>();
    for (const type of types)
      if (isObjectType(type) || isInterfaceType(type))
        for (const field of [...(isObjectType(type) ? Object.values(type.getFields()) : []), referenceField(type)])
          if (this.#isPrivate(type, field)) privateFields.add(`${type.name}.${field.name}`);
    return { fields: this.#fields, invalidations: this.#invalidations, policies, objectTags, privateFields };
  }

  #add(rule: FieldRule | undefined): void {
    if (rule !== undefined) this.#fields.set(rule.coordinate, rule);
  }

  #readField(type: GraphQLObjectType, field: AnyField): void {
    const { schema, hints } = this.reading.inputs;
    const coordinate = `${type.name}.${field.name}`;
    const refuse = (text: string): void => this.reading.refuseCached(coordinate, text);
    const own = this.#settings(field, coordinate);
    const isUncacheable = type === schema.getMutationType() || type === schema.getSubscriptionType();
    if (isUncacheable && own !== undefined)
      refuse(`mutation and subscription fields are never cached; remove \`@cached\``);
    const invalidates = readInvalidation(this.reading, type, field, own === undefined, this.#invalidations);
    if (isUncacheable) return;
    if (invalidates && own !== undefined)
      this.reading.refuse(
        { source: "@invalidates", coordinate },
        `the field is cached as well, and a hit would invalidate nothing; remove \`@cached\``,
      );
    if (invalidates) return;
    // Policies of types and hints are not for nested mutation fields, which a hit would skip.
    if (this.reading.isOfMutationsOnly(type)) {
      if (own !== undefined)
        refuse(
          `only mutations can ask for this field, and a hit would skip what it does; remove \`@cached\`, or move the field to a type that queries reach`,
        );
      return;
    }
    // Those of the returned type are for fields with a resolver: reading a parent saves nothing.
    const hasResolver = hasOwnResolver(field);
    const typeName = getNamedType(field.type).name;
    const returned = own !== undefined || hasResolver ? this.#typeSettings.get(typeName) : undefined;
    if (returned !== undefined) this.#used.add(typeName);
    if (own !== undefined && own.maxAge !== 0) {
      if (!hasResolver && this.#needsResolver(type, field)) this.reading.unresolved.push(coordinate);
      this.#checkLeftOut(field, own, coordinate);
    }
    const isExplicit = own !== undefined || returned !== undefined;
    const hinted = hints?.policyOf(type, field, isExplicit);
    if (!isExplicit && hinted === undefined) return;
    if (hasPlan(field) && own?.maxAge !== 0)
      refuse(
        "Grafast answers the field by its plan (`extensions.grafast`), which a resolver would replace; use cache.loader in the step of the plan, as the function of loadOne",
      );
    this.#found.set(coordinate, { type, field, settings: { own, returned, hinted } });
  }

  /** Undefined if what a field returns is as private as its parent. */
  #scopeOf(type: GraphQLObjectType, field: AnyField): Policy["scope"] | undefined {
    const { schema, parts } = this.reading.inputs;
    const found = this.#found.get(`${type.name}.${field.name}`)?.settings;
    const { scope } = mergeSettings(found?.own, found?.returned, found?.hinted);
    const isPrivate = found === undefined ? hasPrivateHint(schema, type, field) : parts.defaults.scope === "PRIVATE";
    return scope ?? (isPrivate || this.#returnsPrivate(type, field) ? "PRIVATE" : undefined);
  }

  /** Whether a field is PRIVATE, cached or not, by what it says, or a type that it can return. */
  #isPrivate(type: KeyedType, field: AnyField): boolean {
    const rule = this.#fields.get(`${type.name}.${field.name}`);
    if (rule !== undefined) return rule.policy.scope === "PRIVATE";
    const isSaid = this.#scopeOf(type as GraphQLObjectType, field) === "PRIVATE";
    return isSaid || hasPrivateHint(this.reading.inputs.schema, type, field);
  }

  #isPrivateType({ name }: GraphQLNamedType): boolean {
    return this.#typeSettings.get(name)?.scope === "PRIVATE";
  }

  #returnsPrivate(parent: GraphQLNamedType, field: AnyField): boolean {
    const { schema } = this.reading.inputs;
    if (isEntitiesField(schema, parent, field)) return false;
    const returned = getNamedType(field.type);
    return [returned, ...objectsOf(schema, returned)].some((type) => this.#isPrivateType(type));
  }

  #checkCoordinates(): void {
    for (const coordinate of this.reading.inputs.policies.keys()) {
      if (this.#coordinates.has(coordinate)) continue;
      const [typeName = "", fieldName] = coordinate.split(".");
      const meant = fieldName === REFERENCE ? typeName : closestTo(coordinate, this.#coordinates);
      this.reading.refuse(
        { source: POLICIES, coordinate },
        `expected the coordinate of a field, an object type, an interface or a union of the schema, got an unknown one${meant === undefined ? "" : `; did you mean \`${meant}\`?`}`,
      );
    }
  }

  /** Calls that differ in a required argument that `key` leaves out get one value. */
  #checkLeftOut({ args }: AnyField, { key }: PolicySettings, coordinate: string): void {
    if (key === undefined) return;
    const isNamed = (name: string): boolean =>
      key.some((path) => /^(\$args$|!)/.test(path) || `${path}.`.startsWith(`$args.${name}.`));
    const leftOut = args.filter((argument) => isRequiredArgument(argument) && !isNamed(argument.name));
    if (leftOut.length === 0) return;
    const names = leftOut.map(({ name }) => `\`$args.${name}\``).join(", ");
    this.reading.warnOf(
      coordinate,
      `\`key\` leaves out ${names}, which every call has to pass, so calls that differ only there share one value; add ${leftOut.length === 1 ? "it" : "them"}, or remove \`key\``,
    );
  }

  #readReference(type: KeyedType, settings: PolicySettings): void {
    const keys = referenceResolverOf(type) === undefined ? [] : entityKeysOf(this.reading.inputs.schema, type);
    if (keys.length === 0) this.#checkIsUsed(type);
    else this.#add(makeRule(this.reading, type as GraphQLObjectType, referenceField(type), { own: settings }, keys));
  }

  /** A stitched schema has settings of types that apply elsewhere. */
  #checkIsUsed(type: GraphQLCompositeType): void {
    const { schema } = this.reading.inputs;
    if (this.#used.has(type.name) || isStitched(schema)) return;
    const why = isUnionType(type) ? undefined : this.#unresolvedReference(type);
    if (why === undefined)
      this.reading.warnOf(
        type.name,
        `no field with a resolver of its own returns the type, so it has no effect; put ${this.reading.outside.has(type.name) ? "the policy" : `\`@cached\``} on the fields that load values, or remove it`,
      );
    else
      this.reading.refuseCached(
        type.name,
        `expected a type whose values are loaded, got one that no field with a resolver of its own returns, and ${why}; put \`@cached\` on the fields that load values, or remove it`,
      );
  }

  /** Returns what an entity type lacks to be loaded by its references. Undefined: it is none. */
  #unresolvedReference(type: KeyedType): string | undefined {
    if (referenceResolverOf(type) !== undefined)
      return `its \`${REFERENCE}\` is never called, since the type has no \`@key\` that this subgraph resolves`;
    if (hasOtherReferenceResolver(type))
      return `its \`${REFERENCE}\` is not one of @apollo/subgraph, and is not cached; use cache.loader in it`;
    return entityKeysOf(this.reading.inputs.schema, type).length > 0 ? `it has no \`${REFERENCE}\`` : undefined;
  }

  /** Without any resolver, parents have methods. A stitched schema has resolvers elsewhere. */
  #needsResolver(type: GraphQLObjectType, { resolve }: AnyField): boolean {
    const { schema } = this.reading.inputs;
    const isRoot = type === schema.getQueryType();
    if (isRoot && resolve?.name.endsWith("defaultMergedResolver") === true) return true;
    if (isStitched(schema)) return false;
    const others = isRoot ? [type] : Object.values(schema.getTypeMap());
    return others.some(
      (one) => isObjectType(one) && !one.name.startsWith("__") && Object.values(one.getFields()).some(hasOwnResolver),
    );
  }

  /** A PRIVATE field without a resolver reads its parent. If that is shared, so is its value. */
  #checkEmbeddedPrivate(): void {
    const { schema } = this.reading.inputs;
    const embeddedIn = createEmbeddedFinder(schema, (type, field) => {
      const rule = this.#fields.get(`${type.name}.${field.name}`);
      // In the place of an entity, there can be a reference to it.
      const isReference = (returned: GraphQLNamedType) =>
        isObjectType(returned) && referenceResolverOf(returned) !== undefined;
      const isPrivate = (): boolean => this.#returnsPrivate(type, field) && !isReference(getNamedType(field.type));
      return isPartOfParent(field) && (rule === undefined ? isPrivate() : rule.policy.scope === "PRIVATE");
    });
    for (const [coordinate, { policy }] of this.#fields) {
      const found = fieldAt(schema, coordinate);
      if (policy.scope === "PRIVATE" || found === undefined) continue;
      for (const embedded of embeddedIn(getNamedType(found.field.type)))
        this.reading.refuseCached(
          embedded,
          `\`scope\`: the field is PRIVATE but has no resolver, so its value is stored inside the PUBLIC value of \`${coordinate}\`; give it a resolver, or make \`${coordinate}\` PRIVATE`,
        );
    }
  }

  /** Of `policies`, the directive and `extensions.cached`, the first that sets an argument wins. */
  #settings(target: AnyField | GraphQLCompositeType, coordinate: string): PolicySettings | undefined {
    const { schema, policies } = this.reading.inputs;
    const { reading } = this;
    this.#coordinates.add(coordinate);
    let inDirective: Record<string, unknown> | undefined;
    try {
      [inDirective] = directivesAt(schema, target, "cached");
    } catch (error) {
      reading.refuse(
        { source: "@cached", coordinate },
        `invalid argument: ${messageOf(error)}${expectedArgument(schema, target, "cached")}`,
      );
      return undefined;
    }
    const inExtensions = (target.extensions as { cached?: PolicySettings } | undefined)?.cached;
    const layers = [policies.get(coordinate), inDirective, inExtensions];
    if (layers.every((layer) => layer === undefined)) return undefined;
    if (inDirective === undefined && inExtensions === undefined) reading.outside.add(coordinate);
    const before = reading.mistakes.length;
    for (const [nth, source] of [POLICIES, "@cached", "extensions.cached"].entries()) {
      const layer = layers[nth];
      if (layer === undefined) continue;
      const mistakes = settingsMistakes(layer);
      for (const text of mistakes.length > 0 ? mistakes : contradictions(layer))
        reading.refuse({ source, coordinate }, text);
    }
    if (reading.mistakes.length > before) return undefined;
    const settings = mergeSettings(...layers);
    for (const doubt of secondsDoubts(settings)) reading.warnOf(coordinate, doubt);
    return settings;
  }

  #checkInterface(type: GraphQLInterfaceType): void {
    for (const field of Object.values(type.getFields()) as AnyField[]) {
      const coordinate = `${type.name}.${field.name}`;
      if (this.#settings(field, coordinate) !== undefined)
        this.reading.refuseCached(
          coordinate,
          `interface fields have no resolver; put \`@cached\` on the fields of the object types`,
        );
      readInvalidation(this.reading, type, field, false, new Map());
    }
  }
}
