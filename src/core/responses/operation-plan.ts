import { hash as hashOf } from "node:crypto";
import {
  type DirectiveNode,
  type DocumentNode,
  type ExecutionArgs,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  getOperationAST,
  isCompositeType,
  isObjectType,
  isScalarType,
  isSpecifiedScalarType,
  Kind,
  type OperationDefinitionNode,
  print,
  type SelectionSetNode,
  separateOperations,
} from "graphql";
import { getOrMake } from "../base/multimap.js";
import { directivesAt } from "../directive/compile/directives.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { isStitched, rulesOf } from "../directive/compile/own-resolver.js";
import { type KeyedType, REFERENCE, referenceResolverOf } from "../directive/compile/reference.js";
import { objectsOf } from "../directive/compile/type-graph.js";
import { hasPrivateHint, hasPublicHint, hintOf, isPrivateType } from "../directive/hints/cache-control.js";
import { authMarkOf } from "../directive/permissions/auth-marks.js";
import type { Path } from "../keys/path.js";
import type { CacheParts } from "../parts.js";
import { mergeSettings, type PolicySettings } from "../policy/policy.js";
import type { FieldRule, SchemaRules } from "../schema-rules.js";

export interface OperationPlan {
  /** That of the text of the operation and of the fragments that it reaches. */
  readonly digest: string;
  readonly operation: OperationDefinitionNode;
  /** Whether it is a query with a response in one part, and without any `@cached(maxAge: 0)`. */
  readonly isStorable: boolean;
  /** By `@cacheControl` and Apollo's rules, without dynamic hints, in seconds. 0: not at all. */
  readonly hintedMaxAge: number;
  /** The same by `@cacheControl` and by the policies of the cached fields. */
  readonly ownMaxAge: number;
  /** Whether a part is PRIVATE, or covered by an auth mark and not declared to be PUBLIC. */
  readonly isPrivate: boolean;
  /** Whether every field in it says that it is PUBLIC, or is a part of a value that does. */
  readonly isPublic: boolean;
  readonly coordinates: readonly string[];
  /** Whether every field in it is cached, or a part of a cached value. */
  readonly isAllCached: boolean;
  /** The paths into the context in the keys of these fields, and in their tags. */
  readonly contextPaths: readonly Path[];
  /** Whether its data can have values that JSON changes, such as a Date. */
  readonly hasOwnScalars: boolean;
}

export class OperationPlanner {
  readonly #facts = new WeakMap<GraphQLSchema, SchemaFacts>();

  constructor(private readonly parts: CacheParts) {}

  /** Undefined if the document, which is valid, has no such operation. */
  plan(asked: Pick<ExecutionArgs, "schema" | "document" | "operationName">): OperationPlan | undefined {
    const { schema, document, operationName } = asked;
    const facts = getOrMake(this.#facts, schema, () => new SchemaFacts(schema, this.parts));
    const plans = getOrMake(facts.plans, document, () => new Map());
    const name = operationName ?? undefined;
    const operation = plans.has(name) ? undefined : getOperationAST(document, name);
    // Clients can send any name, so only what there is is remembered.
    if (operation != null) plans.set(name, new PlanBuilder(facts, document).plan(operation));
    return plans.get(name);
  }
}

/**
 * A type, and what its fields without a hint inherit from their parent: whether its age comes from
 * a hint, whether it is a part of a cached value, and of one that says it is PUBLIC.
 */
interface Place {
  readonly type: GraphQLCompositeType;
  readonly isHinted: boolean;
  readonly isCached: boolean;
  readonly isPublic: boolean;
}

const textOf = ({ type, isHinted, isCached, isPublic }: Place): string =>
  `${type.name} ${isHinted} ${isCached} ${isPublic}`;

/**
 * Adds up what the fields of an operation say, whatever `@include` and `@skip` leave out. The ages
 * are those of Apollo's rules: without a hint, fields of the query type and fields with subfields
 * have the age 0, and all others that of their parent. By own rules, the policy of a cached field
 * is a hint as well, and a field without a resolver is a part of the value of its parent; one with
 * a resolver of its own is not, so that it needs a hint, unless what it inherits is one.
 *
 * Each selection set is visited once for a place, and each name looked up once, whatever a query
 * repeats. (P13)
 */
class PlanBuilder {
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #sum = {
    isStorable: true,
    hintedMaxAge: Number.POSITIVE_INFINITY,
    ownMaxAge: Number.POSITIVE_INFINITY,
    isPrivate: false,
    isPublic: true,
    isAllCached: true,
    hasOwnScalars: false,
    coordinates: new Set<string>(),
    contextPaths: new Map<string, Path>(),
  };
  readonly #visited = new Map<SelectionSetNode, Set<string>>();
  readonly #below = new Map<string, readonly Place[]>();

  constructor(
    private readonly facts: SchemaFacts,
    { definitions }: DocumentNode,
  ) {
    const fragments = definitions.filter((one) => one.kind === Kind.FRAGMENT_DEFINITION);
    this.#fragments = new Map(fragments.map((fragment) => [fragment.name.value, fragment]));
  }

  plan(operation: OperationDefinitionNode): OperationPlan {
    const type = this.facts.schema.getQueryType();
    if (operation.operation === "query" && type != null) {
      this.#addDirectives(operation);
      this.#addSelections(operation.selectionSet, { type, isHinted: false, isCached: false, isPublic: false }, true);
    } else this.#sum.isStorable = false;
    const { hintedMaxAge, ownMaxAge, coordinates, contextPaths } = this.#sum;
    // A response without any field with an age is not cacheable.
    const ageOf = (maxAge: number): number => (Number.isFinite(maxAge) ? maxAge : 0);
    return {
      ...this.#sum,
      digest: this.#digestOf(operation),
      operation,
      hintedMaxAge: ageOf(hintedMaxAge),
      ownMaxAge: ageOf(ownMaxAge),
      coordinates: [...coordinates],
      contextPaths: [...contextPaths.values()],
    };
  }

  /** Fragments below `__schema` decide about the response as well. Their order does not. */
  #digestOf(operation: OperationDefinitionNode): string {
    const names = [...this.#fragments.keys()].sort();
    const definitions = [operation, ...names.map((name) => this.#fragments.get(name) as FragmentDefinitionNode)];
    const [reached] = Object.values(separateOperations({ kind: Kind.DOCUMENT, definitions }));
    return hashOf("sha256", (reached as DocumentNode).definitions.map(print).join("\n"), "base64url");
  }

  #addSelections(set: SelectionSetNode, at: Place, isRoot: boolean): void {
    const seen = getOrMake(this.#visited, set, () => new Set<string>());
    if (seen.has(textOf(at))) return;
    seen.add(textOf(at));
    for (const selection of set.selections) {
      this.#addDirectives(selection);
      if (selection.kind === Kind.FIELD) {
        const { name, selectionSet } = selection;
        if (name.value.startsWith("__")) continue;
        for (const place of this.#addFields(at, name.value, isRoot))
          if (selectionSet !== undefined) this.#addSelections(selectionSet, place, false);
        continue;
      }
      const isSpread = selection.kind === Kind.FRAGMENT_SPREAD;
      const fragment = isSpread ? this.#fragments.get(selection.name.value) : selection;
      if (fragment === undefined) continue;
      const condition = fragment.typeCondition;
      const narrowed = condition === undefined ? at.type : this.facts.schema.getType(condition.name.value);
      if (!isCompositeType(narrowed)) continue;
      // A wider condition selects the fields of no other types than before.
      const type = isObjectType(at.type) ? at.type : narrowed;
      this.#addSelections(fragment.selectionSet, { ...at, type }, isRoot);
    }
  }

  #addDirectives({ directives = [] }: { readonly directives?: readonly DirectiveNode[] | undefined }): void {
    if (directives.some(({ name }) => INCREMENTAL.has(name.value))) this.#sum.isStorable = false;
  }

  /** Adds the fields of a name of all types that an object can have. Returns what is below them. */
  #addFields(at: Place, name: string, isRoot: boolean): readonly Place[] {
    return getOrMake(this.#below, `${name} ${textOf(at)}`, () => {
      const places = new Map<string, Place>();
      for (const parent of objectsOf(this.facts.schema, at.type)) {
        const field = parent.getFields()[name];
        const place = field && this.#addField(parent, field, at, isRoot);
        if (place !== undefined) places.set(textOf(place), place);
      }
      return [...places.values()];
    });
  }

  #addField(parent: GraphQLObjectType, field: AnyField, at: Place, isRoot: boolean): Place | undefined {
    const { rule, returned, hintedMaxAge, inheritsHint, hasResolver, ...its } = this.facts.of(parent, field);
    const sum = this.#sum;
    const needsHint = isRoot || (isCompositeType(returned) && !inheritsHint);
    const isPart = !hasResolver && at.isCached;
    const isPublic = its.isMarkedPublic || (!hasResolver && at.isPublic);
    const isInherited = !isRoot && (isPart || (at.isHinted && !needsHint));
    const ownMaxAge = hintedMaxAge ?? (rule && rule.policy.maxAgeMs / 1000);
    sum.hintedMaxAge = Math.min(sum.hintedMaxAge, hintedMaxAge ?? (needsHint ? 0 : Number.POSITIVE_INFINITY));
    sum.ownMaxAge = Math.min(sum.ownMaxAge, ownMaxAge ?? (isInherited ? Number.POSITIVE_INFINITY : 0));
    sum.isStorable &&= !its.isUncacheable;
    sum.isPrivate ||= its.isPrivate;
    sum.isPublic &&= isPublic;
    sum.isAllCached &&= rule !== undefined || isPart;
    sum.hasOwnScalars ||= isScalarType(returned) && !isSpecifiedScalarType(returned);
    if (rule !== undefined) this.#addRule(rule);
    if (!isCompositeType(returned)) return undefined;
    if (field.name === "_entities") this.#addReferences(returned);
    const isHinted = hintedMaxAge !== undefined || (inheritsHint && at.isHinted);
    return { type: returned, isHinted, isCached: rule !== undefined || isPart, isPublic };
  }

  /** The entities of a subgraph are read by the rules of their references. */
  #addReferences(returned: GraphQLCompositeType): void {
    const { schema, rules } = this.facts;
    const objects = objectsOf(schema, returned);
    this.#sum.isPrivate ||= objects.some(isPrivateType);
    // An interface has references of its own.
    for (const type of new Set(objects.flatMap((object) => [object, ...object.getInterfaces()]))) {
      const rule = rules.fields.get(`${type.name}.${REFERENCE}`);
      if (this.facts.isTurnedOff(type)) this.#sum.isStorable = false;
      if (rule === undefined) continue;
      if (rule.policy.scope === "PRIVATE") this.#sum.isPrivate = true;
      this.#addRule(rule);
    }
  }

  #addRule({ coordinate, contextPaths }: FieldRule): void {
    this.#sum.coordinates.add(coordinate);
    for (const path of contextPaths) this.#sum.contextPaths.set(path.text, path);
  }
}

const INCREMENTAL: ReadonlySet<string> = new Set(["defer", "stream", "live"]);

interface FieldFacts {
  readonly rule: FieldRule | undefined;
  readonly hintedMaxAge: number | undefined;
  readonly inheritsHint: boolean;
  /** Whether its own policy, or that of the type that it loads, has `maxAge: 0`. */
  readonly isUncacheable: boolean;
  /** Whether it is PRIVATE, or not said to be PUBLIC and under an auth mark or a later wrapper. */
  readonly isPrivate: boolean;
  /** Whether it says itself that all callers get the same. */
  readonly isMarkedPublic: boolean;
  readonly hasResolver: boolean;
  readonly returned: GraphQLNamedType;
}

/** What a schema says about its fields. Each is looked at once. */
class SchemaFacts {
  readonly rules: SchemaRules;
  readonly plans = new WeakMap<DocumentNode, Map<string | undefined, OperationPlan>>();
  readonly #fields = new Map<string, FieldFacts>();
  #hasWarned = false;

  constructor(
    readonly schema: GraphQLSchema,
    readonly parts: CacheParts,
  ) {
    this.rules = rulesOf(schema, parts);
  }

  of(parent: GraphQLObjectType, field: AnyField): FieldFacts {
    const coordinate = `${parent.name}.${field.name}`;
    return getOrMake(this.#fields, coordinate, () => this.#read(coordinate, parent, field));
  }

  #read(coordinate: string, parent: GraphQLObjectType, field: AnyField): FieldFacts {
    const { schema, parts } = this;
    const rule = this.rules.fields.get(coordinate);
    const { maxAge, inheritMaxAge } = hintOf(field);
    const returned = getNamedType(field.type);
    const isLoaded = parts.resolvers.has(field);
    // Only without a rule: what made it a rule says the rest.
    const declared = rule === undefined ? this.#declaredAt(coordinate, field) : {};
    const ofType = rule === undefined && isLoaded ? this.#declaredAt(returned.name, returned) : {};
    const { maxAge: ownMaxAge } = mergeSettings(declared, ofType);
    const saysPublic = hasPublicHint(field, { scope: "PUBLIC" });
    // A check around a cached field's resolver runs on hits of the field, not of what contains it.
    const isCovered = (): boolean =>
      authMarkOf(schema, parent, field) !== undefined || this.#isWrapped(coordinate, field);
    return {
      rule,
      hintedMaxAge: maxAge,
      inheritsHint: inheritMaxAge === true,
      isUncacheable: ownMaxAge === 0,
      isPrivate:
        (!saysPublic && isCovered()) ||
        hasPrivateHint(schema, parent, field) ||
        this.rules.privateFields.has(coordinate),
      isMarkedPublic: rule?.policy.isDeclaredPublic === true || saysPublic,
      // A method of an instance is a resolver.
      hasResolver: parts.hasValueTypes || isLoaded,
      returned,
    };
  }

  /** Whether a type has references, and a policy with `maxAge: 0`, which makes no rule for them. */
  isTurnedOff(type: KeyedType): boolean {
    return referenceResolverOf(type) !== undefined && this.#declaredAt(type.name, type).maxAge === 0;
  }

  /** The resolvers of a stitched schema ask those of `applyCached`. */
  #isWrapped(coordinate: string, field: AnyField): boolean {
    const isWrapped = !isStitched(this.schema) && this.parts.resolvers.isWrapped(coordinate, field);
    if (isWrapped && !this.#hasWarned) {
      this.#hasWarned = true;
      this.parts.onceLog.warn(
        `graphql-cached: the resolver of \`${coordinate}\`, and maybe others, was wrapped after applyCached; a hit of a whole response does not call it, so responses with such fields belong to one caller; write @cacheControl(scope: PUBLIC) on those that check no permission`,
      );
    }
    return isWrapped;
  }

  /** Returns the policy of a field or type itself. With `maxAge: 0`, it makes no rule. */
  #declaredAt(coordinate: string, target: AnyField | GraphQLNamedType): PolicySettings {
    const { cached } = target.extensions as { readonly cached?: PolicySettings };
    const settings = this.rules.policies.get(coordinate);
    return mergeSettings(settings, ...directivesAt(this.schema, target, "cached"), cached);
  }
}
