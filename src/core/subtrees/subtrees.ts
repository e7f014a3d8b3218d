import {
  type ASTNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isObjectType,
  type OperationDefinitionNode,
  visit,
} from "graphql";
import { LRUCache } from "lru-cache";
import { inOneLine, messageOf } from "../base/errors.js";
import { executionOf } from "../base/graphql-version.js";
import { INCREMENTAL, operationIn } from "../directive/compile/document-operation.js";
import { SchemaFacts } from "../directive/compile/field-facts.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { referenceField } from "../directive/compile/reference.js";
import { Selections } from "../directive/look-ahead/selection.js";
import type { CacheParts, ExplainedSubtree, OperationRewriter, RewritableOperation } from "../parts.js";
import type { FieldRule } from "../schema-rules.js";
import type { SkipReason } from "../telemetry/events.js";
import type { HitRatio } from "./hit-ratio.js";
import { ListFinder, listFieldsOf } from "./object-lists.js";
import { RewrittenOperation } from "./rewritten-document.js";
import { type Obstacle, otherDirective, planSelection, SelectedTypes, type SelectionPlan } from "./selection-plan.js";
import { SubtreeField, type SubtreeRun, type SubtreeSource, type Unstorable } from "./subtree-field.js";
import { ERRORS_FIELD, Twins } from "./twins.js";

/** A selection is replaced by another one if it was not asked for in this time. */
const IDLE_MS = 60_000;
/** The fields of one operation that have subtrees. More are an attack: each costs a walk through what it selects. */
const MAX_FIELDS = 32;
/** How many keys a field remembers that could not be stored. */
const MAX_UNSTORABLE = 1_000;

/** A selection of a field, as all documents have it that select the same. */
interface KnownSelection {
  readonly hitRatio: HitRatio;
  usedAt: number;
}

/** A field of the query type with subtrees, or an object type whose objects are entries where lists of them are selected. */
interface SubtreeRoot {
  readonly field: AnyField;
  readonly rule: FieldRule;
  readonly types: SelectedTypes;
  readonly selections: Map<string, KnownSelection>;
  readonly unstorable: SubtreeSource["unstorable"];
  readonly nested: Pick<SubtreeSource, "buildSchema" | "nestedNode">;
}

/** What belongs to one schema. */
interface SchemaState {
  readonly queryType: GraphQLObjectType;
  /** By name. */
  readonly listed: ReadonlyMap<string, SubtreeRoot>;
  /** By name. */
  readonly roots: ReadonlyMap<string, SubtreeRoot>;
  /** Why further fields have no subtrees, by name. */
  readonly refused: ReadonlyMap<string, { readonly coordinate: string; readonly obstacle: Obstacle }>;
  readonly operations: WeakMap<DocumentNode, Map<string, RewrittenOperation | undefined>>;
}

/**
 * The subtrees of a cache: rewrites the operations that a server is about to execute, so that fields with `subtree: true` are answered with
 * their completed selection.
 */
export class Subtrees implements OperationRewriter {
  readonly #parts: CacheParts;
  readonly #twins = new Twins();
  readonly #schemas = new WeakMap<GraphQLSchema, SchemaState | null>();
  readonly #runs = new WeakMap<object, SubtreeRun>();
  readonly #reported = new Set<string>();
  readonly #texts: Selections;

  constructor(parts: CacheParts) {
    this.#parts = parts;
    this.#texts = new Selections(parts.keys.writers.exact, false);
  }

  /** Prepares for a schema when a server starts, before the server changes it. */
  prepare(schema: GraphQLSchema): void {
    if (this.#parts.rules.hasSubtrees) this.#stateOf(schema);
  }

  /**
   * Returns the document to execute in the place of that of an operation. Undefined if that is to be executed as it is. What
   * comes of it has to be passed to `finish`. Never throws.
   */
  rewrite(operation: RewritableOperation): DocumentNode | undefined {
    if (!this.#parts.rules.hasSubtrees) return undefined;
    try {
      return this.#rewrite(operation);
    } catch (error) {
      this.#parts.onceLog.warn(
        `graphql-cached: an operation is executed without subtrees: expected to rewrite it, got an error: ${inOneLine(messageOf(error))}; please report it`,
      );
      return undefined;
    }
  }

  #rewrite(operation: RewritableOperation): DocumentNode | undefined {
    const state = this.#stateOf(operation.schema);
    if (state === null || state.roots.size + state.listed.size === 0) return undefined;
    const { scopes, tier } = this.#parts;
    scopes.own(operation.context);
    if (scopes.overrideOf(operation.context) === "BYPASS" || tier.enclosingLoad() !== undefined) return undefined;
    const rewritten = this.#operationOf(operation, state);
    if (rewritten === undefined) return undefined;
    for (const { coordinate, obstacle } of rewritten.left) this.#report(coordinate, obstacle.reason, obstacle.subject);
    return rewritten.with((field) => this.#isUsed(field));
  }

  /** Removes from the data of a rewritten document what its client has not asked for. */
  finish(data: unknown): void {
    if (typeof data !== "object" || data === null) return;
    const [run] = ((data as Record<string, unknown>)[ERRORS_FIELD] ?? []) as readonly (SubtreeRun | null | undefined)[];
    for (const path of run?.places ?? []) {
      let at: unknown = data;
      for (const key of path) at = (at as Record<string | number, unknown> | null | undefined)?.[key];
      if (typeof at === "object" && at !== null) Reflect.deleteProperty(at, ERRORS_FIELD);
    }
    Reflect.deleteProperty(data, ERRORS_FIELD);
  }

  /** Returns what becomes of the fields with subtrees of an operation, as far as that is known before it is executed. */
  explain(operation: Omit<RewritableOperation, "context">): readonly ExplainedSubtree[] {
    const state = this.#stateOf(operation.schema);
    if (state === null) return [];
    const { refused } = state;
    const rewritten = this.#operationOf({ ...operation, context: undefined }, state);
    if (rewritten === undefined) return [];
    const found = [...rewritten.rootFields].flatMap(([responseKey, [node]]): ExplainedSubtree[] => {
      const field = rewritten.subtrees.get(responseKey);
      if (field !== undefined)
        return [
          { coordinate: field.source.rule.coordinate, responseKey, obstacle: undefined, holes: field.plan.holes },
        ];
      const left = rewritten.left.find((one) => one.responseKey === responseKey && !state.listed.has(one.coordinate));
      if (left !== undefined) return [left];
      const without = refused.get(node?.name.value ?? "");
      return without === undefined ? [] : [{ ...without, responseKey, holes: [] }];
    });
    const lists = [...rewritten.lists].map(
      ({ responseKey, field }): ExplainedSubtree => ({
        ...{ coordinate: field.source.rule.coordinate, responseKey, obstacle: undefined, holes: [] },
      }),
    );
    const left = rewritten.left.filter(({ coordinate }) => state.listed.has(coordinate));
    return [...found, ...lists, ...left];
  }

  #isUsed(field: SubtreeField): boolean {
    const { tier } = this.#parts;
    const { coordinate } = field.source.rule;
    const skip = (reason: SkipReason, subject = coordinate): false => {
      field.source.skipped(reason, subject);
      return false;
    };
    if (field.hasRootValue) return skip("ROOT_VALUE");
    if (!tier.modes.isUnrestricted) {
      if (tier.modes.reasonOf(coordinate) === "MODE_OFF") return skip("MODE");
      const other = field.plan.rules.find((rule) => tier.modes.reasonOf(rule.coordinate) !== undefined);
      if (other !== undefined && tier.modes.reasonOf(coordinate) === undefined) return skip("MODE", other.coordinate);
    }
    if (!this.#hasRoom(field)) return skip("TOO_MANY_SELECTIONS");
    if (field.hitRatio.admits()) return true;
    return skip("HIT_RATIO");
  }

  /** Whether the selection of a field is one of those that are kept. */
  #hasRoom(field: SubtreeField): boolean {
    const { clock, counters, subtreeSettings } = this.#parts;
    const { selectionDigest, source } = field;
    const { selections } = source;
    const now = clock.now();
    const known = selections.get(selectionDigest);
    if (known !== undefined) {
      // The one that was asked for longest ago is the first.
      selections.delete(selectionDigest);
      known.usedAt = now;
      field.hitRatio = known.hitRatio;
      selections.set(selectionDigest, known);
      return true;
    }
    if (selections.size >= subtreeSettings.maxSelections) {
      const [[oldest, { usedAt }]] = [...selections.entries()].slice(0, 1) as [[string, KnownSelection]];
      if (usedAt + IDLE_MS > now) return false;
      selections.delete(oldest);
    }
    selections.set(selectionDigest, { hitRatio: field.hitRatio, usedAt: now });
    counters.subtreesOf(source.rule.coordinate).selections = selections.size;
    return true;
  }

  #operationOf({ document, operationName }: RewritableOperation, state: SchemaState): RewrittenOperation | undefined {
    let operations = state.operations.get(document);
    if (operations === undefined) {
      operations = new Map();
      state.operations.set(document, operations);
    }
    const name = operationName ?? "";
    if (operations.has(name)) return operations.get(name);
    const made = this.#make(document, name, state);
    // Clients can send any name.
    if (made !== undefined || operations.size === 0) operations.set(name, made);
    return made;
  }

  #make(document: DocumentNode, name: string, state: SchemaState): RewrittenOperation | undefined {
    const found = operationIn(document, name);
    if (found?.operation.operation !== "query") return undefined;
    const { operation, fragments } = found;
    const rewritten = new RewrittenOperation(
      document,
      operation,
      fragments,
      (info) => this.#runOf(info),
      this.#twins.leaf,
    );
    const incremental = incrementalDirective([operation, ...fragments.values()]);
    const spread = Object.fromEntries(fragments);
    const fieldOf = (of: SubtreeRoot, nodes: readonly FieldNode[], plan: SelectionPlan): SubtreeField => {
      const { digest } = this.#texts.outlineOf({ fieldNodes: nodes, fragments: spread, operation, variableValues: {} });
      const { rule } = of;
      for (const hole of plan.holes) this.#parts.counters.subtreesOf(rule.coordinate).holes.add(hole);
      const source: SubtreeSource = {
        parts: this.#parts,
        rule,
        field: of.field,
        types: of.types,
        ...of.nested,
        selections: of.selections,
        unstorable: of.unstorable,
        runOf: this.#runOf.bind(this),
        skipped: (reason: SkipReason, subject: string) => this.#report(rule.coordinate, reason, subject),
      };
      return new SubtreeField(source, nodes, plan, fragments, `${digest} ${plan.typesDigest}`);
    };
    let count = 0;
    for (const [responseKey, nodes] of rewritten.rootFields) {
      const root = state.roots.get((nodes[0] as FieldNode).name.value);
      if (root === undefined) continue;
      if (++count > MAX_FIELDS) {
        const { coordinate } = root.rule;
        const obstacle = { reason: "TOO_MANY_SELECTIONS", subject: coordinate } as const;
        rewritten.leave({ coordinate, responseKey, obstacle, holes: [] });
        continue;
      }
      const directive = rewritten.directive ?? incremental ?? otherDirective(...nodes);
      const plan = planSelection(
        nodes,
        { coordinate: root.rule.coordinate, type: root.field.type },
        root.types,
        fragments,
      );
      const obstacle =
        directive === undefined ? plan.obstacle : ({ reason: "DIRECTIVE", subject: `@${directive}` } as const);
      if (obstacle !== undefined) {
        rewritten.leave({ coordinate: root.rule.coordinate, responseKey, obstacle, holes: plan.holes });
        continue;
      }
      rewritten.add(responseKey, fieldOf(root, nodes, plan));
    }
    if (rewritten.directive === undefined && incremental === undefined && state.listed.size > 0)
      this.#addLists(rewritten, operation, fragments, state, fieldOf);
    const hasFields = [...rewritten.rootFields.values()].some(([node]) => state.refused.has(node?.name.value ?? ""));
    return rewritten.hasFields || hasFields ? rewritten : undefined;
  }

  /** Adds the lists of an operation whose objects are entries. */
  #addLists(
    rewritten: RewrittenOperation,
    { selectionSet }: OperationDefinitionNode,
    fragments: ReadonlyMap<string, FragmentDefinitionNode>,
    { listed, queryType }: SchemaState,
    fieldOf: (of: SubtreeRoot, nodes: readonly FieldNode[], plan: SelectionPlan) => SubtreeField,
  ): void {
    const [{ types }] = [...listed.values()] as [SubtreeRoot];
    const found = new ListFinder(types, (typeName) => listed.has(typeName), fragments).find(selectionSet, queryType);
    for (const [nth, { typeName, responseKey, nodes, roots, directive, isMixed }] of found.entries()) {
      if (isMixed) continue;
      const of = listed.get(typeName) as SubtreeRoot;
      const { coordinate } = of.rule;
      const leave = (obstacle: Obstacle): void => rewritten.leave({ coordinate, responseKey, obstacle, holes: [] });
      if (nth >= MAX_FIELDS) {
        leave({ reason: "TOO_MANY_SELECTIONS", subject: coordinate });
        continue;
      }
      const plan = planSelection(nodes, { coordinate, type: of.field.type }, of.types, fragments);
      const [hole] = plan.holes;
      if (directive !== undefined) leave({ reason: "DIRECTIVE", subject: `@${directive}` });
      else if (plan.obstacle !== undefined) leave(plan.obstacle);
      else if (hole !== undefined) leave({ reason: "HOLE", subject: hole });
      else rewritten.addList({ responseKey, roots, field: fieldOf(of, nodes, plan) });
    }
  }

  #runOf(info: Parameters<typeof executionOf>[0]): SubtreeRun {
    const { owner, signal } = executionOf(info);
    const execution = signal ?? owner;
    let run = this.#runs.get(execution);
    if (run === undefined) {
      run = { errors: [], pending: [], below: new Map(), places: [] };
      this.#runs.set(execution, run);
    }
    return run;
  }

  #stateOf(schema: GraphQLSchema): SchemaState | null {
    const known = this.#schemas.get(schema);
    if (known !== undefined) return known;
    const state = this.#prepare(schema);
    this.#schemas.set(schema, state);
    return state;
  }

  #prepare(schema: GraphQLSchema): SchemaState | null {
    const { rules } = this.#parts;
    const queryType = schema.getQueryType();
    if (queryType == null) return null;
    const found = Object.values(queryType.getFields()).flatMap((field) => {
      const rule = rules.fields.get(`${queryType.name}.${field.name}`);
      return rule?.subtree === undefined ? [] : [{ field: field as AnyField, rule }];
    });
    const listed = Object.values(schema.getTypeMap()).flatMap((type) => {
      const rule = isObjectType(type) ? rules.fields.get(type.name) : undefined;
      return rule?.subtree === undefined ? [] : [{ type: type as GraphQLObjectType, rule }];
    });
    if (found.length + listed.length === 0) return null;
    const refused = new Map<string, { coordinate: string; obstacle: Obstacle }>();
    const refuse = (name: string, { coordinate }: FieldRule, obstacle: Obstacle, why: string): void => {
      refused.set(name, { coordinate, obstacle });
      this.#warn(coordinate, obstacle, why);
    };
    // Transforms wrap resolvers in copies, and what they check must not be skipped.
    const isCopy = !rules.queryTypes.has(queryType);
    const facts = new SchemaFacts(schema, this.#parts);
    /** Returns what is known of a field with subtrees. Undefined if it has none. */
    const rootOf = (name: string, rule: FieldRule, field: AnyField, replaced: string | undefined) => {
      if (isCopy) {
        refuse(name, rule, { reason: "NO_TWIN", subject: rule.coordinate }, COPIED);
        return undefined;
      }
      if (replaced !== undefined) {
        refuse(name, rule, { reason: "CHANGED_RESOLVER", subject: replaced }, replacedText(replaced));
        return undefined;
      }
      const types = new SelectedTypes(schema, facts, rule);
      const unstorable = new LRUCache<string, Unstorable>({ max: MAX_UNSTORABLE });
      return { field, rule, types, selections: new Map<string, KnownSelection>(), unstorable };
    };
    const roots = new Map<string, SubtreeRoot>();
    for (const { field, rule } of found) {
      const root = rootOf(field.name, rule, field, this.#replacedAt(schema, queryType, field));
      const nestedNode = (node: FieldNode): FieldNode => node;
      if (root !== undefined)
        roots.set(field.name, { ...root, nested: { buildSchema: this.#twins.buildSchemaOf(schema), nestedNode } });
    }
    const ofTypes = new Map<string, Omit<SubtreeRoot, "nested">>();
    for (const { type, rule } of listed) {
      const field = referenceField(type);
      const of = rootOf(`type ${type.name}`, rule, field, this.#replacedBelow(schema, field));
      if (of !== undefined) ofTypes.set(type.name, of);
    }
    if (roots.size > 0) this.#twins.add(queryType, [...roots.keys()]);
    return {
      ...{ queryType, roots, refused, operations: new WeakMap() },
      listed: this.#prepareLists(schema, ofTypes),
    };
  }

  /** Adds the twins of all fields that return lists of the given types. */
  #prepareLists(
    schema: GraphQLSchema,
    types: ReadonlyMap<string, Omit<SubtreeRoot, "nested">>,
  ): ReadonlyMap<string, SubtreeRoot> {
    if (types.size === 0) return new Map();
    const all = Object.values(schema.getTypeMap()).filter((type) => isObjectType(type));
    const buildSchema = this.#twins.objectSchemaOf(
      schema,
      all.filter(({ name }) => types.has(name)),
    );
    const notRead: readonly unknown[] = [schema.getMutationType(), schema.getSubscriptionType()];
    for (const type of all) {
      const names = notRead.includes(type) ? [] : listFieldsOf(type, (typeName) => types.has(typeName));
      if (names.length > 0) this.#twins.addLists(type, names);
    }
    // The query has the errors of its own lists, and the paths of all others.
    const queryType = schema.getQueryType();
    if (queryType != null) this.#twins.addLists(queryType, []);
    return new Map(
      [...types].map(([name, of]) => {
        const nestedNode = (node: FieldNode): FieldNode => ({
          ...node,
          alias: node.alias ?? node.name,
          name: { kind: node.name.kind, value: name },
          arguments: [],
        });
        return [name, { ...of, nested: { buildSchema, nestedNode } }];
      }),
    );
  }

  /** Returns the first field at or below one whose resolver was replaced after `applyCached`. It would not run on a hit. */
  #replacedAt(schema: GraphQLSchema, queryType: GraphQLObjectType, root: AnyField): string | undefined {
    const isReplaced = this.#parts.resolvers.isReplaced(root);
    return isReplaced ? `${queryType.name}.${root.name}` : this.#replacedBelow(schema, root);
  }

  /** The same for those below it. */
  #replacedBelow(schema: GraphQLSchema, root: AnyField): string | undefined {
    const { resolvers } = this.#parts;
    for (const type of reachableFrom(schema, root))
      for (const field of Object.values(type.getFields()))
        if (resolvers.isReplaced(field as AnyField)) return `${type.name}.${field.name}`;
    return undefined;
  }

  #warn(coordinate: string, { reason, subject }: Obstacle, why: string): void {
    if (this.#report(coordinate, reason, subject))
      this.#parts.onceLog.warn(`graphql-cached: \`${coordinate}\` is cached without its subtree: ${why}`);
  }

  /** Counts a reason, and publishes it once. Returns whether it is new. */
  #report(coordinate: string, reason: SkipReason, subject: string): boolean {
    const report = `${coordinate} ${reason} ${subject}`;
    const isNew = !this.#reported.has(report);
    if (isNew && this.#reported.size >= MAX_REPORTS) return false;
    this.#parts.counters.countSkip(coordinate, reason, subject);
    if (!isNew) return false;
    this.#reported.add(report);
    this.#parts.channel.publish({ name: "subtree.skipped", coordinate, digest: "", reason, subject });
    return true;
  }
}

/** Returns a directive with which a response has several parts. */
function incrementalDirective(definitions: readonly ASTNode[]): string | undefined {
  let found: string | undefined;
  for (const definition of definitions)
    visit(definition, {
      Directive: ({ name }) => {
        if (INCREMENTAL.has(name.value)) found ??= name.value;
      },
    });
  return found;
}

/** Bounds the memory of past reports. */
const MAX_REPORTS = 1_000;

const COPIED =
  "expected the schema that applyCached returned, got a copy of it, whose resolvers may do more; pass the result of applyCached to the server as it is";

const replacedText = (coordinate: string): string =>
  `expected the resolvers of applyCached, got another one for \`${coordinate}\`, which would not be called on a hit; set resolvers before applyCached`;

/** Returns the object types that can be selected below a field. */
function reachableFrom(schema: GraphQLSchema, root: AnyField): Iterable<GraphQLObjectType> {
  const reached = new Set<GraphQLObjectType>();
  const add = (field: AnyField): void => {
    const named = getNamedType(field.type);
    const possible = isObjectType(named) ? [named] : isAbstractType(named) ? schema.getPossibleTypes(named) : [];
    for (const type of possible) {
      if (reached.has(type)) continue;
      reached.add(type);
      for (const below of Object.values(type.getFields())) add(below as AnyField);
    }
  };
  add(root);
  return reached;
}
