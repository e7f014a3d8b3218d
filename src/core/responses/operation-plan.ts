import { hash as hashOf } from "node:crypto";
import {
  type DirectiveNode,
  type DocumentNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLObjectType,
  type GraphQLSchema,
  isAbstractType,
  isCompositeType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  print,
  type SelectionSetNode,
} from "graphql";
import { getOrMake } from "../base/multimap.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { REFERENCE } from "../directive/compile/reference.js";
import { objectsOf } from "../directive/compile/type-graph.js";
import type { Path } from "../keys/path.js";
import type { CacheParts } from "../parts.js";
import type { FieldRule } from "../schema-rules.js";
import { SchemaFacts } from "./field-facts.js";
import type { Operation } from "./response-execution.js";

export interface OperationPlan {
  /**
   * The digest of the operation and its fragments, printed. What cannot change the response is not
   * part of it.
   */
  readonly digest: string;
  readonly operation: OperationDefinitionNode;
  /** Undefined for a query that may be answered from the cache; otherwise why not. */
  readonly obstacle: string | undefined;
  /**
   * How long the response is fresh at most by `@cacheControl` alone, as Apollo's rules have it,
   * without its dynamic hints, in seconds. 0: not at all.
   */
  readonly hintedMaxAge: number;
  /** The same by `@cacheControl` and by the policies of the cached fields. */
  readonly ownMaxAge: number;
  /**
   * Whether a part of it is PRIVATE, or covered by an auth mark without a declaration that it is
   * PUBLIC.
   */
  readonly isPrivate: boolean;
  /** Whether every field in it says that it is PUBLIC, or is a part of a value that does. */
  readonly isPublic: boolean;
  readonly coordinates: readonly string[];
  /** Whether every field in it is cached, or a part of a cached value. */
  readonly isAllCached: boolean;
  /** The paths into the context in the keys of these fields, and in their tags. */
  readonly contextPaths: readonly Path[];
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

/** The plans of the operations of all schemas, for everyone who asks for one. */
export class OperationPlanners {
  readonly #parts: CacheParts;
  readonly #planners = new WeakMap<GraphQLSchema, OperationPlanner>();

  constructor(parts: CacheParts) {
    this.#parts = parts;
  }

  /** Undefined if the document, which is valid, has no such operation. */
  plan({ schema, document, operationName }: Pick<Operation, "schema" | "document" | "operationName">) {
    const planner = getOrMake(this.#planners, schema, () => new OperationPlanner(schema, this.#parts));
    return planner.plan(document, operationName);
  }
}

export class OperationPlanner {
  readonly #schema: GraphQLSchema;
  readonly #parts: CacheParts;
  readonly #plans = new WeakMap<DocumentNode, Map<string | undefined, OperationPlan>>();
  readonly #facts: SchemaFacts;

  constructor(schema: GraphQLSchema, parts: CacheParts) {
    this.#schema = schema;
    this.#parts = parts;
    this.#facts = new SchemaFacts(schema, parts);
  }

  /**
   * Returns the plan of an operation of a valid document. Undefined if the document has no such
   * operation.
   */
  plan(document: DocumentNode, operationName: string | null | undefined): OperationPlan | undefined {
    const plans = getOrMake(this.#plans, document, () => new Map());
    const name = operationName ?? undefined;
    const known = plans.get(name);
    if (known !== undefined) return known;
    const found = operationIn(document, name);
    // Clients can send any name, so only what there is is remembered.
    if (found === undefined) return undefined;
    const plan = new PlanBuilder(found.fragments, this.#schema, this.#facts, this.#parts).plan(found.operation);
    plans.set(name, plan);
    return plan;
  }
}

/**
 * Adds up what the fields of an operation say, whatever `@include` and `@skip` leave out. The ages
 * are those of Apollo's rules: without a hint, fields of the query type and fields with subfields
 * have the age 0, and all others that of their parent. By own rules, the policy of a cached field
 * is a hint as well, and a field without a resolver is a part of the value of its parent; one with
 * a resolver of its own is not, so that it needs a hint, unless what it inherits is one.
 */
class PlanBuilder {
  readonly #schema: GraphQLSchema;
  readonly #facts: SchemaFacts;
  readonly #rules: CacheParts["rules"]["fields"];
  readonly #definitions: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #coordinates = new Set<string>();
  readonly #contextPaths = new Map<string, Path>();
  readonly #visited = new Map<SelectionSetNode, Set<string>>();
  readonly #below = new Map<string, Iterable<Place>>();
  #hintedMaxAge = Number.POSITIVE_INFINITY;
  #ownMaxAge = Number.POSITIVE_INFINITY;
  #isPrivate = false;
  #isIncremental = false;
  #isUncacheable = false;
  #isAllCached = true;
  #isPublic = true;

  constructor(
    definitions: ReadonlyMap<string, FragmentDefinitionNode>,
    schema: GraphQLSchema,
    facts: SchemaFacts,
    { rules }: CacheParts,
  ) {
    this.#definitions = definitions;
    this.#schema = schema;
    this.#facts = facts;
    this.#rules = rules.fields;
  }

  plan(operation: OperationDefinitionNode): OperationPlan {
    const type = this.#schema.getQueryType();
    const isQuery = operation.operation === "query";
    if (isQuery && type != null) {
      this.#addDirectives(operation);
      this.#addSelections(operation.selectionSet, { type, isHinted: false, isCached: false, isPublic: false }, true);
    }
    const texts = [operation, ...fragmentsIn(operation.selectionSet, this.#definitions)].map(print);
    const obstacles = [
      !isQuery && "it is no query",
      this.#isIncremental && "it has several parts",
      this.#isUncacheable && "a field in it has @cached(maxAge: 0)",
    ];
    // A response without any field with an age is not cacheable.
    const ageOf = (maxAge: number): number => (Number.isFinite(maxAge) ? maxAge : 0);
    return {
      digest: hashOf("sha256", texts.join("\n"), "base64url"),
      operation,
      obstacle: obstacles.find((one) => one !== false),
      hintedMaxAge: ageOf(this.#hintedMaxAge),
      ownMaxAge: ageOf(this.#ownMaxAge),
      isPrivate: this.#isPrivate,
      isPublic: this.#isPublic,
      coordinates: [...this.#coordinates],
      isAllCached: this.#isAllCached,
      contextPaths: [...this.#contextPaths.values()],
    };
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
      const fragment = isSpread ? this.#definitions.get(selection.name.value) : selection;
      if (fragment === undefined) continue;
      const condition = fragment.typeCondition;
      const narrowed = condition === undefined ? at.type : this.#schema.getType(condition.name.value);
      if (!isCompositeType(narrowed)) continue;
      // A wider condition selects the fields of no other types than before.
      const type = isObjectType(at.type) ? at.type : narrowed;
      this.#addSelections(fragment.selectionSet, { ...at, type }, isRoot);
    }
  }

  /**
   * Adds the fields of a name of all types that an object can have, once. Returns what is below
   * them.
   */
  #addFields(at: Place, name: string, isRoot: boolean): Iterable<Place> {
    return getOrMake(this.#below, `${name} ${textOf(at)}`, () => {
      const places = new Map<string, Place>();
      for (const parent of objectsOf(this.#schema, at.type)) {
        const field = parent.getFields()[name];
        const place = field && this.#addField(parent, field, at, isRoot);
        if (place !== undefined) places.set(textOf(place), place);
      }
      return [...places.values()];
    });
  }

  /** Returns the place of what is below a field. Undefined: nothing is. */
  #addField(parent: GraphQLObjectType, field: AnyField, at: Place, isRoot: boolean): Place | undefined {
    const { rule, returned, inheritsHint, hasResolver, ...its } = this.#facts.of(parent, field);
    if (its.isPrivate || its.isCovered) this.#isPrivate = true;
    if (its.isUncacheable) this.#isUncacheable = true;
    if (rule !== undefined) this.#addRule(rule);
    const needsHint = isRoot || (isCompositeType(returned) && !inheritsHint);
    const unhinted = needsHint ? 0 : Number.POSITIVE_INFINITY;
    this.#hintedMaxAge = Math.min(this.#hintedMaxAge, its.hintedMaxAge ?? unhinted);
    const isPart = !hasResolver && at.isCached;
    if (rule === undefined && !isPart) this.#isAllCached = false;
    const isPublic = its.isMarkedPublic || (!hasResolver && at.isPublic);
    if (!isPublic) this.#isPublic = false;
    const isInherited = !isRoot && (isPart || (at.isHinted && !needsHint));
    const age = its.hintedMaxAge ?? (rule && rule.policy.maxAgeMs / 1000);
    this.#ownMaxAge = Math.min(this.#ownMaxAge, age ?? (isInherited ? Number.POSITIVE_INFINITY : 0));
    if (!isCompositeType(returned)) return undefined;
    if (field.name === "_entities") this.#addReferences(returned);
    const isHinted = its.hintedMaxAge !== undefined || (inheritsHint && at.isHinted);
    return { type: returned, isHinted, isCached: rule !== undefined || isPart, isPublic };
  }

  /** The entities of a subgraph are read by the rules of their references. */
  #addReferences(returned: GraphQLCompositeType): void {
    for (const { name } of isAbstractType(returned) ? this.#schema.getPossibleTypes(returned) : []) {
      const rule = this.#rules.get(`${name}.${REFERENCE}`);
      if (rule === undefined) continue;
      if (rule.policy.scope === "PRIVATE") this.#isPrivate = true;
      this.#addRule(rule);
    }
  }

  #addRule({ coordinate, contextPaths }: FieldRule): void {
    this.#coordinates.add(coordinate);
    for (const path of contextPaths) this.#contextPaths.set(path.text, path);
  }

  #addDirectives({ directives = [] }: { readonly directives?: readonly DirectiveNode[] | undefined }): void {
    if (directives.some(({ name }) => INCREMENTAL.has(name.value))) this.#isIncremental = true;
  }
}

/**
 * Returns all fragments that a selection reaches, whatever the field, in the order of their names:
 * those below `__schema` decide about the response as well.
 */
function fragmentsIn(
  selectionSet: SelectionSetNode,
  definitions: ReadonlyMap<string, FragmentDefinitionNode>,
): readonly FragmentDefinitionNode[] {
  const found = new Map<string, FragmentDefinitionNode>();
  const add = ({ selections }: SelectionSetNode): void => {
    for (const selection of selections) {
      const isSpread = selection.kind === Kind.FRAGMENT_SPREAD;
      const below = isSpread ? definitions.get(selection.name.value) : selection;
      if (below?.selectionSet === undefined || (isSpread && found.has(selection.name.value))) continue;
      if (below.kind === Kind.FRAGMENT_DEFINITION) found.set(below.name.value, below);
      add(below.selectionSet);
    }
  };
  add(selectionSet);
  return [...found.keys()].sort().map((name) => found.get(name) as FragmentDefinitionNode);
}

/**
 * Returns the operation of a name, or the only one. Undefined if the document has no such
 * operation.
 */
function operationIn(
  document: DocumentNode,
  name: string | undefined,
):
  | {
      readonly operation: OperationDefinitionNode;
      readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
    }
  | undefined {
  const fragments = new Map<string, FragmentDefinitionNode>();
  const operations: OperationDefinitionNode[] = [];
  for (const definition of document.definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition);
    if (definition.kind === Kind.OPERATION_DEFINITION) operations.push(definition);
  }
  const operation = name === undefined ? operations[0] : operations.find((one) => one.name?.value === name);
  return operation === undefined || (name === undefined && operations.length > 1)
    ? undefined
    : { operation, fragments };
}

/** Directives with which a response has more than one part. */
const INCREMENTAL: ReadonlySet<string> = new Set(["defer", "stream", "live"]);
