import {
  type ASTNode,
  type DirectiveNode,
  type DocumentNode,
  type FieldNode,
  type GraphQLObjectType,
  type GraphQLSchema,
  isObjectType,
  visit,
} from "graphql";
import { LRUCache } from "lru-cache";
import { inOneLine, messageOf } from "../base/errors.js";
import { executionOf, noVariables } from "../base/graphql-version.js";
import { getOrMake } from "../base/multimap.js";
import { INCREMENTAL, operationIn } from "../directive/compile/document-operation.js";
import { SchemaFacts } from "../directive/compile/field-facts.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import { referenceField } from "../directive/compile/reference.js";
import { objectsBelow } from "../directive/compile/type-graph.js";
import { Selections } from "../directive/look-ahead/selection.js";
import type { CacheParts, ExplainedSubtree, OperationRewriter, RewritableOperation } from "../parts.js";
import type { FieldRule } from "../schema-rules.js";
import type { SkipReason } from "../telemetry/events.js";
import { findLists, listFieldsOf } from "./object-lists.js";
import { RewrittenOperation } from "./rewritten-document.js";
import { type Obstacle, otherDirective, planSelection, SelectedTypes } from "./selection-plan.js";
import { SubtreeField, type SubtreeRun, type SubtreeSource, type Unstorable } from "./subtree-field.js";
import { ERRORS_FIELD, Twins } from "./twins.js";

/** Rewrites the operations that a server is about to execute, so that fields with `subtree: true` are answered with their completed selection. */
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

  prepare(schema: GraphQLSchema): void {
    if (this.#parts.rules.hasSubtrees) this.#stateOf(schema);
  }

  /** Returns the document to execute instead, whose data has to be passed to `finish`. Undefined: the operation is executed as it is. Never throws. */
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
    const { requestStates, tier } = this.#parts;
    requestStates.own(operation.context);
    if (requestStates.overrideOf(operation.context) === "BYPASS" || tier.loads.enclosing() !== undefined)
      return undefined;
    const rewritten = this.#operationOf(operation, state);
    if (rewritten === undefined) return undefined;
    for (const { coordinate, obstacle } of rewritten.left)
      if (obstacle !== undefined) this.#report(coordinate, obstacle.reason, obstacle.subject);
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
    const explained = (responseKey: string, { source, plan }: SubtreeField): ExplainedSubtree => ({
      ...{ coordinate: source.rule.coordinate, responseKey, obstacle: undefined, holes: plan.holes },
    });
    const rewritten = this.#operationOf({ ...operation, context: undefined }, state);
    if (rewritten === undefined) return [];
    const found = [...rewritten.rootFields].flatMap(([responseKey, [node]]): ExplainedSubtree[] => {
      const field = rewritten.subtrees.get(responseKey);
      if (field !== undefined) return [explained(responseKey, field)];
      const left = rewritten.left.find((one) => one.responseKey === responseKey && !state.listed.has(one.coordinate));
      if (left !== undefined) return [left];
      const without = state.refused.get(node?.name.value ?? "");
      return without === undefined ? [] : [{ ...without, responseKey, holes: [] }];
    });
    const lists = rewritten.lists.map(({ responseKey, field }) => explained(responseKey, field));
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
    return field.hitRatio.admits() || skip("HIT_RATIO");
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
      const [[oldest, { usedAt }]] = [...selections] as [[string, { usedAt: number }], ...unknown[]];
      if (usedAt + IDLE_MS > now) return false;
      selections.delete(oldest);
    }
    selections.set(selectionDigest, { hitRatio: field.hitRatio, usedAt: now });
    counters.subtreesOf(source.rule.coordinate).selections = selections.size;
    return true;
  }

  #operationOf({ document, operationName }: RewritableOperation, state: SchemaState): RewrittenOperation | undefined {
    const operations = getOrMake(state.operations, document, () => new Map());
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
    const runOf = this.#runOf.bind(this);
    const rewritten = new RewrittenOperation(document, operation, fragments, runOf, this.#twins.leaf);
    const aroundAll = rewritten.directive ?? incrementalDirective([operation, ...fragments.values()]);
    const spread = Object.fromEntries(fragments);
    /** Returns a field in this operation. Undefined if it has an obstacle. */
    const fieldAt = (
      source: SubtreeSource,
      responseKey: string,
      nodes: readonly FieldNode[],
      {
        nth,
        isList,
        directive,
      }: { readonly nth: number; readonly isList: boolean; readonly directive: string | undefined },
    ): SubtreeField | undefined => {
      const { coordinate } = source.rule;
      const isOver = nth >= MAX_FIELDS;
      const plan = isOver
        ? undefined
        : planSelection(nodes, { coordinate, type: source.field.type }, source.types, fragments);
      const [hole] = plan?.holes ?? [];
      const obstacle: Obstacle | undefined = isOver
        ? { reason: "TOO_MANY_SELECTIONS", subject: coordinate }
        : directive !== undefined
          ? { reason: "DIRECTIVE", subject: `@${directive}` }
          : (plan?.obstacle ?? (isList && hole !== undefined ? { reason: "HOLE", subject: hole } : undefined));
      if (plan === undefined || obstacle !== undefined) {
        const holes = isList || plan === undefined ? [] : plan.holes;
        rewritten.left.push({ coordinate, responseKey, obstacle, holes });
        return undefined;
      }
      const { digest } = this.#texts.outlineOf({
        fieldNodes: nodes,
        fragments: spread,
        operation,
        variableValues: noVariables(),
      });
      for (const one of plan.holes) this.#parts.counters.subtreesOf(coordinate).holes.add(one);
      return new SubtreeField(source, nodes, plan, fragments, `${digest} ${plan.typesDigest}`);
    };
    const { roots, listed, refused, queryType } = state;
    let count = 0;
    for (const [responseKey, nodes] of rewritten.rootFields) {
      const source = roots.get((nodes[0] as FieldNode).name.value);
      if (source === undefined) continue;
      const directive = aroundAll ?? otherDirective(...nodes);
      const field = fieldAt(source, responseKey, nodes, { nth: count++, isList: false, directive });
      if (field !== undefined) rewritten.subtrees.set(responseKey, field);
    }
    const [anyListed] = listed.values();
    if (anyListed !== undefined && aroundAll === undefined) {
      const isListed = (typeName: string): boolean => listed.has(typeName);
      const lists = findLists(operation.selectionSet, queryType, anyListed.types, isListed, fragments);
      for (const [nth, { typeName, responseKey, nodes, roots: leading, directive, isMixed }] of lists.entries()) {
        const place = { nth, isList: true, directive };
        const field = isMixed ? undefined : fieldAt(listed.get(typeName) as SubtreeSource, responseKey, nodes, place);
        if (field !== undefined) rewritten.lists.push({ responseKey, roots: leading, field });
      }
    }
    const { subtrees, lists, left } = rewritten;
    const hasRefused = [...rewritten.rootFields.values()].some(([node]) => refused.has(node?.name.value ?? ""));
    return subtrees.size + lists.length + left.length > 0 || hasRefused ? rewritten : undefined;
  }

  #runOf(info: Parameters<typeof executionOf>[0]): SubtreeRun {
    const { owner, signal } = executionOf(info);
    return getOrMake(this.#runs, signal ?? owner, () => ({ errors: [], pending: [], below: new Map(), places: [] }));
  }

  #stateOf(schema: GraphQLSchema): SchemaState | null {
    return getOrMake(this.#schemas, schema, () => this.#prepare(schema));
  }

  #prepare(schema: GraphQLSchema): SchemaState | null {
    const { rules } = this.#parts;
    const queryType = schema.getQueryType();
    if (queryType == null) return null;
    const ruleOf = (name: string): FieldRule | undefined => {
      const rule = rules.fields.get(name);
      return rule?.subtree === undefined ? undefined : rule;
    };
    const fields = (Object.values(queryType.getFields()) as AnyField[]).filter(({ name }) =>
      ruleOf(`${queryType.name}.${name}`),
    );
    const types = Object.values(schema.getTypeMap()).filter((type) => isObjectType(type));
    const listedTypes = types.filter(({ name }) => ruleOf(name));
    if (fields.length + listedTypes.length === 0) return null;
    const refused = new Map<string, { coordinate: string; obstacle: Obstacle }>();
    // Transforms wrap resolvers in copies, and what they check must not be skipped.
    const isCopy = !rules.queryTypes.has(queryType);
    const facts = new SchemaFacts(schema, this.#parts);
    /** Returns what is known of a field with subtrees. Undefined if it has none. `name`: by which it is refused. */
    const sourceOf = (
      name: string,
      rule: FieldRule,
      field: AnyField,
      replaced: string | undefined,
      nested: Pick<SubtreeSource, "buildSchema" | "nestedNode">,
    ): SubtreeSource | undefined => {
      const { coordinate } = rule;
      if (isCopy || replaced !== undefined) {
        const obstacle: Obstacle = isCopy
          ? { reason: "NO_TWIN", subject: coordinate }
          : { reason: "CHANGED_RESOLVER", subject: replaced as string };
        refused.set(name, { coordinate, obstacle });
        if (this.#report(coordinate, obstacle.reason, obstacle.subject))
          this.#parts.onceLog.warn(
            `graphql-cached: \`${coordinate}\` is cached without its subtree: ${isCopy ? COPIED : replacedText(replaced as string)}`,
          );
        return undefined;
      }
      return {
        parts: this.#parts,
        rule,
        field,
        types: new SelectedTypes(schema, facts, rule),
        ...nested,
        selections: new Map(),
        unstorable: new LRUCache<string, Unstorable>({ max: MAX_UNSTORABLE }),
        runOf: this.#runOf.bind(this),
        skipped: (reason: SkipReason, subject: string) => this.#report(coordinate, reason, subject),
      };
    };
    const roots = new Map<string, SubtreeSource>();
    const ownSchema = isCopy || fields.length === 0 ? schema : this.#twins.buildSchemaOf(schema);
    for (const field of fields) {
      const coordinate = `${queryType.name}.${field.name}`;
      const isReplaced = this.#parts.resolvers.isReplaced(field);
      const replaced = isReplaced ? coordinate : this.#replacedBelow(schema, field);
      const nested = { buildSchema: ownSchema, nestedNode: (node: FieldNode) => node };
      const source = sourceOf(field.name, ruleOf(coordinate) as FieldRule, field, replaced, nested);
      if (source !== undefined) roots.set(field.name, source);
    }
    const listed = new Map<string, SubtreeSource>();
    const objectSchema = isCopy || listedTypes.length === 0 ? schema : this.#twins.objectSchemaOf(schema, listedTypes);
    for (const type of listedTypes) {
      const { name } = type;
      const nestedNode = (node: FieldNode): FieldNode => ({
        ...node,
        alias: node.alias ?? node.name,
        name: { kind: node.name.kind, value: name },
        arguments: [],
      });
      const field = referenceField(type);
      const nested = { buildSchema: objectSchema, nestedNode };
      const replaced = this.#replacedBelow(schema, field);
      const source = sourceOf(`type ${name}`, ruleOf(name) as FieldRule, field, replaced, nested);
      if (source !== undefined) listed.set(name, source);
    }
    if (roots.size > 0) this.#twins.add(queryType, [...roots.keys()]);
    if (listed.size > 0) {
      const notRead: readonly unknown[] = [schema.getMutationType(), schema.getSubscriptionType()];
      for (const type of types) {
        const names = notRead.includes(type) ? [] : listFieldsOf(type, (typeName) => listed.has(typeName));
        // The query has the errors of its own lists, and the paths of all others.
        if (names.length > 0 || type === queryType) this.#twins.addLists(type, names);
      }
    }
    return { queryType, roots, refused, listed, operations: new WeakMap() };
  }

  /** Returns the first field below one whose resolver was replaced after `applyCached`. It would not run on a hit. */
  #replacedBelow(schema: GraphQLSchema, root: AnyField): string | undefined {
    for (const type of objectsBelow(schema, root))
      for (const field of Object.values(type.getFields()))
        if (this.#parts.resolvers.isReplaced(field as AnyField)) return `${type.name}.${field.name}`;
    return undefined;
  }

  #report(coordinate: string, reason: SkipReason, subject: string): boolean {
    const report = `${coordinate} ${reason} ${subject}`;
    const isKnown = this.#reported.has(report);
    if (!isKnown && this.#reported.size >= MAX_REPORTS) return false;
    this.#parts.counters.countSkip(coordinate, reason, subject);
    if (isKnown) return false;
    this.#reported.add(report);
    this.#parts.channel.publish({ name: "subtree.skipped", coordinate, digest: "", reason, subject });
    return true;
  }
}

/** A selection is replaced by another one if it was not asked for in this time. */
const IDLE_MS = 60_000;
/** The fields of one operation that have subtrees. More are an attack: each costs a walk through what it selects. */
const MAX_FIELDS = 32;
/** How many keys a field remembers that could not be stored. */
const MAX_UNSTORABLE = 1_000;
/** Bounds the memory of past reports. */
const MAX_REPORTS = 1_000;

/** What belongs to one schema. */
interface SchemaState {
  readonly queryType: GraphQLObjectType;
  /** The object types whose objects are entries where lists of them are selected, by name. */
  readonly listed: ReadonlyMap<string, SubtreeSource>;
  readonly roots: ReadonlyMap<string, SubtreeSource>;
  /** Why further fields have no subtrees, by name. */
  readonly refused: ReadonlyMap<string, { readonly coordinate: string; readonly obstacle: Obstacle }>;
  readonly operations: WeakMap<DocumentNode, Map<string, RewrittenOperation | undefined>>;
}

/** Returns a directive with which a response has several parts. */
function incrementalDirective(definitions: readonly ASTNode[]): string | undefined {
  let found: string | undefined;
  const Directive = ({ name }: DirectiveNode): void => {
    if (INCREMENTAL.has(name.value)) found ??= name.value;
  };
  for (const definition of definitions) visit(definition, { Directive });
  return found;
}

const COPIED =
  "expected the schema that applyCached returned, got a copy of it, whose resolvers may do more; pass the result of applyCached to the server as it is";

const replacedText = (coordinate: string): string =>
  `expected the resolvers of applyCached, got another one for \`${coordinate}\`, which would not be called on a hit; set resolvers before applyCached`;
