import { hash as hashOf } from "node:crypto";
import {
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
import { INCREMENTAL, operationIn } from "../directive/compile/document-operation.js";
import { type FieldFacts, SchemaFacts } from "../directive/compile/field-facts.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { REFERENCE } from "../directive/compile/reference.js";
import type { Path } from "../keys/path.js";
import type { CacheParts } from "../parts.js";
import type { FieldRule } from "../schema-rules.js";

/** What can be said of the response of an operation before it is executed. */
export interface OperationPlan {
  /** The digest of the operation and its fragments, printed. What cannot change the response is not part of it. */
  readonly digest: string;
  readonly operation: OperationDefinitionNode;
  /** Undefined for a query that may be answered from the cache; otherwise why not. */
  readonly obstacle: string | undefined;
  /**
   * How long the response is fresh at most by `@cacheControl` alone, as Apollo's rules have it, without its dynamic hints, in seconds.
   * 0: not at all.
   */
  readonly hintedMaxAge: number;
  /** The same by `@cacheControl` and by the policies of the cached fields. */
  readonly ownMaxAge: number;
  /** Whether a part of it is PRIVATE, or covered by an auth mark without a declaration that it is PUBLIC. */
  readonly isPrivate: boolean;
  /** The coordinates of the cached fields that it selects. */
  readonly coordinates: readonly string[];
  /** Whether every field in it is cached, or a part of a cached value. */
  readonly isAllCached: boolean;
  /** The paths into the context in the keys of these fields, and in their tags. */
  readonly contextPaths: readonly Path[];
}

/** What fields without a hint inherit from their parent. */
interface Inherited {
  /** Whether its age comes from a hint. */
  readonly isHinted: boolean;
  /** Whether it is cached, or a part of a cached value. */
  readonly isCached: boolean;
}

/** Where the fields below a field are looked up. */
interface Below {
  readonly type: GraphQLCompositeType;
  readonly inherited: Inherited;
}

const NOTHING: Inherited = { isHinted: false, isCached: false };

/** Makes the plans of one schema. */
export class OperationPlanner {
  readonly #schema: GraphQLSchema;
  readonly #parts: CacheParts;
  readonly #plans = new WeakMap<DocumentNode, Map<string, OperationPlan>>();
  readonly #facts: SchemaFacts;

  constructor(schema: GraphQLSchema, parts: CacheParts) {
    this.#schema = schema;
    this.#parts = parts;
    this.#facts = new SchemaFacts(schema, parts);
  }

  /** Returns the plan of an operation of a valid document. Undefined if the document has no such operation. */
  plan(document: DocumentNode, operationName: string | null | undefined): OperationPlan | undefined {
    let plans = this.#plans.get(document);
    if (plans === undefined) {
      plans = new Map();
      this.#plans.set(document, plans);
    }
    const name = operationName ?? "";
    const known = plans.get(name);
    if (known !== undefined) return known;
    const plan = this.#make(document, name);
    // Clients can send any name.
    if (plan !== undefined) plans.set(name, plan);
    return plan;
  }

  #make(document: DocumentNode, name: string): OperationPlan | undefined {
    const found = operationIn(document, name);
    if (found === undefined) return undefined;
    const { operation, fragments } = found;
    const { rules } = this.#parts;
    const walk = new Walk(this.#schema, fragments, (parent, field) => this.#facts.of(parent, field), rules.fields);
    const root = this.#schema.getQueryType();
    if (operation.operation === "query" && root != null) walk.operation(operation, root);
    const used = [...walk.fragments].sort();
    const text = [operation, ...used.map((one) => fragments.get(one) as FragmentDefinitionNode)].map(print).join("\n");
    return {
      digest: hashOf("sha256", text, "base64url"),
      operation,
      obstacle:
        operation.operation !== "query"
          ? "it is no query"
          : walk.isIncremental
            ? "it has several parts"
            : walk.isUncacheable
              ? "a field in it has @cached(maxAge: 0)"
              : undefined,
      hintedMaxAge: ageOf(walk.hintedMaxAge),
      ownMaxAge: ageOf(walk.ownMaxAge),
      isPrivate: walk.isPrivate,
      coordinates: [...walk.coordinates],
      isAllCached: walk.isAllCached,
      contextPaths: [...walk.contextPaths.values()],
    };
  }
}

/** A response without any field with an age is not cacheable. */
const ageOf = (maxAge: number): number => (Number.isFinite(maxAge) ? maxAge : 0);

/**
 * Adds up what the fields of an operation say, whatever `@include` and `@skip` leave out. The ages are those of Apollo's
 * rules: without a hint, fields of the query type and fields with subfields have the age 0, and all others that of their parent.
 * By own rules, the policy of a cached field is a hint as well, and a field without a resolver is a part of the value of its
 * parent; one with a resolver of its own is not, so that it needs a hint, unless what it inherits is one.
 */
class Walk {
  readonly #schema: GraphQLSchema;
  readonly #definitions: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #factsOf: (parent: GraphQLObjectType, field: AnyField) => FieldFacts;
  readonly #rules: ReadonlyMap<string, FieldRule>;
  /** What has been visited, by fragment or selection, type and what is inherited. */
  readonly #visited = new Map<object, Set<string>>();
  /** What is below fields, by type, name and what is inherited. */
  readonly #below = new Map<string, readonly Below[]>();
  readonly fragments = new Set<string>();
  readonly coordinates = new Set<string>();
  readonly contextPaths = new Map<string, Path>();
  hintedMaxAge = Number.POSITIVE_INFINITY;
  ownMaxAge = Number.POSITIVE_INFINITY;
  isPrivate = false;
  isIncremental = false;
  isUncacheable = false;
  isAllCached = true;

  constructor(
    schema: GraphQLSchema,
    definitions: ReadonlyMap<string, FragmentDefinitionNode>,
    factsOf: (parent: GraphQLObjectType, field: AnyField) => FieldFacts,
    rules: ReadonlyMap<string, FieldRule>,
  ) {
    this.#schema = schema;
    this.#definitions = definitions;
    this.#factsOf = factsOf;
    this.#rules = rules;
  }

  operation(operation: OperationDefinitionNode, root: GraphQLObjectType): void {
    this.#directives(operation);
    this.#selections(operation.selectionSet, root, NOTHING, true);
  }

  #directives({
    directives,
  }: {
    readonly directives?: readonly { readonly name: { readonly value: string } }[] | undefined;
  }): void {
    for (const { name } of directives ?? []) if (INCREMENTAL.has(name.value)) this.isIncremental = true;
  }

  #selections(set: SelectionSetNode, type: GraphQLCompositeType, inherited: Inherited, isRoot: boolean): void {
    const seen = this.#visited.get(set) ?? new Set();
    const visit = `${type.name} ${inherited.isHinted} ${inherited.isCached}`;
    if (seen.has(visit)) return;
    this.#visited.set(set, seen.add(visit));
    for (const selection of set.selections) {
      this.#directives(selection);
      if (selection.kind === Kind.FIELD) {
        const name = selection.name.value;
        if (name.startsWith("__")) continue;
        for (const below of this.#fieldsOf(type, name, inherited, isRoot))
          if (selection.selectionSet !== undefined)
            this.#selections(selection.selectionSet, below.type, below.inherited, false);
        continue;
      }
      const fragment =
        selection.kind === Kind.FRAGMENT_SPREAD ? this.#definitions.get(selection.name.value) : selection;
      if (fragment === undefined) continue;
      if (selection.kind === Kind.FRAGMENT_SPREAD) this.fragments.add(selection.name.value);
      const condition = fragment.typeCondition;
      const narrowed = condition === undefined ? type : this.#schema.getType(condition.name.value);
      if (!isCompositeType(narrowed)) continue;
      // A wider condition selects the fields of no other types than before.
      const next = isObjectType(type) ? type : narrowed;
      this.#selections(fragment.selectionSet, next, inherited, isRoot);
    }
  }

  /** Adds the fields of a name of all types that an object can have, once. Returns what is below them. */
  #fieldsOf(type: GraphQLCompositeType, name: string, inherited: Inherited, isRoot: boolean): Iterable<Below> {
    const visit = `${type.name}.${name} ${inherited.isHinted} ${inherited.isCached}`;
    const known = this.#below.get(visit);
    if (known !== undefined) return known;
    const below = new Map<string, Below>();
    for (const parent of isAbstractType(type) ? this.#schema.getPossibleTypes(type) : [type]) {
      const field = (parent as GraphQLObjectType).getFields()[name];
      const one = field && this.#field(parent as GraphQLObjectType, field, inherited, isRoot);
      if (one !== undefined) below.set(`${one.type.name} ${one.inherited.isHinted} ${one.inherited.isCached}`, one);
    }
    const all = [...below.values()];
    this.#below.set(visit, all);
    return all;
  }

  /** Undefined: nothing is below it. */
  #field(parent: GraphQLObjectType, field: AnyField, inherited: Inherited, isRoot: boolean): Below | undefined {
    const facts = this.#factsOf(parent, field);
    const { rule, hintedMaxAge, inheritsHint, hasResolver, returned } = facts;
    if (facts.isPrivate || facts.isCovered) this.isPrivate = true;
    if (facts.isUncacheable) this.isUncacheable = true;
    if (rule !== undefined) this.coordinates.add(facts.coordinate);
    for (const path of rule?.contextPaths ?? []) this.contextPaths.set(path.text, path);
    const needsHint = isRoot || (isCompositeType(returned) && !inheritsHint);
    this.hintedMaxAge = Math.min(this.hintedMaxAge, hintedMaxAge ?? (needsHint ? 0 : Number.POSITIVE_INFINITY));
    const ownMaxAge = hintedMaxAge ?? (rule && rule.policy.maxAgeMs / 1000);
    const isPart = !hasResolver && inherited.isCached;
    if (rule === undefined && !isPart) this.isAllCached = false;
    const isInherited = !isRoot && (isPart || (inherited.isHinted && !needsHint));
    this.ownMaxAge = Math.min(this.ownMaxAge, ownMaxAge ?? (isInherited ? Number.POSITIVE_INFINITY : 0));
    if (!isCompositeType(returned)) return undefined;
    if (field.name === "_entities") this.#references(returned);
    const isHinted = hintedMaxAge !== undefined || (inheritsHint && inherited.isHinted);
    return { type: returned, inherited: { isHinted, isCached: rule !== undefined || isPart } };
  }

  /** The entities of a subgraph are read by the rules of their references. */
  #references(returned: GraphQLCompositeType): void {
    for (const { name } of isAbstractType(returned) ? this.#schema.getPossibleTypes(returned) : []) {
      const rule = this.#rules.get(`${name}.${REFERENCE}`);
      if (rule === undefined) continue;
      this.coordinates.add(rule.coordinate);
      if (rule.policy.scope === "PRIVATE") this.isPrivate = true;
      for (const path of rule.contextPaths) this.contextPaths.set(path.text, path);
    }
  }
}
