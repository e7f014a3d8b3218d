import {
  type DefinitionNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  type GraphQLScalarType,
  Kind,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
} from "graphql";
import { getOrMake } from "../base/multimap.js";
import { rewrittenNode } from "../directive/run/written-nodes.js";
import type { ExplainedSubtree } from "../parts.js";
import { nameNode, responseKeyOf } from "./nested-document.js";
import { resolveList } from "./object-lists.js";
import { type Fragments, otherDirective } from "./selection-plan.js";
import { type ObjectRun, pathOf, type SubtreeField, type SubtreeRun } from "./subtree-field.js";
import { ERRORS_FIELD, listTwinNameOf, resolvedBy, twinNameOf, twinNode } from "./twins.js";

/** An operation whose fields of the query type can be replaced by their twins. */
export class RewrittenOperation {
  /** The nodes of the fields of the query type, by response key. */
  readonly rootFields: ReadonlyMap<string, readonly FieldNode[]>;
  /** A directive of the operation, or around its fields, that is no condition. Undefined if there is none. */
  readonly directive: string | undefined;
  readonly subtrees = new Map<string, SubtreeField>();
  readonly lists: ObjectList[] = [];
  /** The fields with subtrees that are none in this operation. */
  readonly left: ExplainedSubtree[] = [];
  readonly #document: DocumentNode;
  readonly #operation: OperationDefinitionNode;
  readonly #fragments: Fragments;
  readonly #runOf: (info: GraphQLResolveInfo) => SubtreeRun;
  readonly #leaf: GraphQLScalarType;
  readonly #documents = new Map<string, DocumentNode>();

  constructor(
    document: DocumentNode,
    operation: OperationDefinitionNode,
    fragments: Fragments,
    runOf: (info: GraphQLResolveInfo) => SubtreeRun,
    leaf: GraphQLScalarType,
  ) {
    this.#leaf = leaf;
    this.#document = document;
    this.#operation = operation;
    this.#fragments = fragments;
    this.#runOf = runOf;
    const rootFields = new Map<string, FieldNode[]>();
    const visited = new Set<string>();
    let directive = otherDirective(operation);
    const collect = ({ selections }: SelectionSetNode): void => {
      for (const selection of selections) {
        if (selection.kind === Kind.FIELD) {
          getOrMake(rootFields, responseKeyOf(selection), () => []).push(selection);
          continue;
        }
        directive ??= otherDirective(selection);
        const fragment = selection.kind === Kind.FRAGMENT_SPREAD ? fragments.get(selection.name.value) : selection;
        if (fragment === undefined) continue;
        directive ??= otherDirective(fragment);
        if (selection.kind === Kind.FRAGMENT_SPREAD) {
          if (visited.has(selection.name.value)) continue;
          visited.add(selection.name.value);
        }
        collect(fragment.selectionSet);
      }
    };
    collect(operation.selectionSet);
    this.rootFields = rootFields;
    this.directive = directive;
  }

  /** Returns the document with the twins of those fields that `isUsed` returns true for. Undefined if there are none. */
  with(isUsed: (field: SubtreeField) => boolean): DocumentNode | undefined {
    const used = new Map([...this.subtrees].filter(([, field]) => isUsed(field)));
    // What is in a subtree is a part of its entry.
    const lists = this.lists.filter(
      ({ field, roots }) => [...roots].some((root) => root === undefined || !used.has(root)) && isUsed(field),
    );
    if (used.size + lists.length === 0) return undefined;
    const id = JSON.stringify([[...used.keys()], lists.map((list) => this.lists.indexOf(list))]);
    if (this.#documents.size >= MAX_DOCUMENTS && !this.#documents.has(id)) this.#documents.clear();
    return getOrMake(this.#documents, id, () => {
      const listNodes = lists.flatMap(({ field }) => field.nodes.map((node) => [node, field] as const));
      return this.#rewrite(used, new Map(listNodes));
    });
  }

  /** `roots`: the fields of the query type that are replaced, by response key. `lists`: those that return lists, by their nodes. */
  #rewrite(roots: ReadonlyMap<string, SubtreeField>, lists: ReadonlyMap<FieldNode, SubtreeField>): DocumentNode {
    /**
     * Fragments of the query type, which can also be spread elsewhere, where their fields stay as they are, and those with lists. Others can read
     * the fragments of the client.
     */
    const renamed = new Map<string, FragmentDefinitionNode>();
    const errors: FieldNode = resolvedBy(
      { kind: Kind.FIELD, name: nameNode(ERRORS_FIELD) } as FieldNode,
      (_s, _a, _c, info) => this.#errorsOf(info, lists.size > 0),
    );
    const change = (set: SelectionSetNode, isRoot: boolean): SelectionSetNode => {
      let hasLists = false;
      const selections = set.selections.map((selection): SelectionNode => {
        if (selection.kind === Kind.FIELD) {
          const root = isRoot ? this.#twinOf(selection, roots) : undefined;
          if (root !== undefined) return root;
          const list = this.#listTwinOf(selection, lists);
          if (list !== undefined) hasLists = true;
          if (list !== undefined || selection.selectionSet === undefined || lists.size === 0) return list ?? selection;
          return rewrittenNode(selection, change(selection.selectionSet, false));
        }
        if (selection.kind === Kind.INLINE_FRAGMENT)
          return { ...selection, selectionSet: change(selection.selectionSet, isRoot) };
        const name = `${selection.name.value}${isRoot ? "$subtree" : "$objects"}`;
        const definition = this.#fragments.get(selection.name.value);
        if (definition === undefined) return selection;
        if (!renamed.has(name)) {
          // Documents that were not validated can have cycles.
          renamed.set(name, definition);
          renamed.set(name, {
            ...definition,
            name: nameNode(name),
            selectionSet: change(definition.selectionSet, isRoot),
          });
        }
        return { ...selection, name: nameNode(name) };
      });
      return { ...set, selections: hasLists ? [...selections, errors] : selections };
    };
    const { selectionSet } = this.#operation;
    const changed = change(selectionSet, true);
    const operation = rewrittenNode(this.#operation, { ...changed, selections: [...changed.selections, errors] });
    const definitions = this.#document.definitions.map(
      (definition): DefinitionNode => (definition === this.#operation ? operation : definition),
    );
    return { ...this.#document, definitions: [...definitions, ...renamed.values()] };
  }

  #twinOf(node: FieldNode, used: ReadonlyMap<string, SubtreeField>): FieldNode | undefined {
    const field = used.get(responseKeyOf(node));
    return field && resolvedBy(twinNode(node, twinNameOf(node.name.value)), field.resolve.bind(field));
  }

  #listTwinOf(node: FieldNode, used: ReadonlyMap<FieldNode, SubtreeField>): FieldNode | undefined {
    const field = used.get(node);
    return (
      field &&
      resolvedBy(twinNode(node, listTwinNameOf(node.name.value)), (source, args, context, info) =>
        resolveList(field, this.#leaf, runAt(this.#runOf(info), info), [source, args, context, info]),
      )
    );
  }

  /**
   * Returns the errors of the subtrees that are fields of one object, the query first of all. There, the first is the run itself if there are lists:
   * the field is in the data of other objects as well.
   */
  async #errorsOf(info: GraphQLResolveInfo, hasLists: boolean): Promise<readonly unknown[]> {
    const whole = this.#runOf(info);
    // All fields of an object begin in one turn, but this one need not be the last of them.
    await undefined;
    const { prev } = info.path;
    const run = runAt(whole, info);
    for (let known = -1; known < run.pending.length; ) {
      known = run.pending.length;
      await Promise.allSettled(run.pending);
    }
    if (prev !== undefined) whole.places.push(pathOf(prev));
    return prev === undefined && hasLists ? [whole, ...run.errors] : run.errors;
  }
}

/** The documents that are kept for one operation: which of its fields are replaced changes with modes and with what pays. */
const MAX_DOCUMENTS = 16;

/** A list in an operation whose objects are entries. `roots`: see `ListNodes`. */
export interface ObjectList {
  readonly responseKey: string;
  readonly field: SubtreeField;
  readonly roots: ReadonlySet<string | undefined>;
}

function runAt(whole: SubtreeRun, { path: { prev } }: GraphQLResolveInfo): ObjectRun {
  if (prev === undefined) return whole;
  return getOrMake(whole.below, JSON.stringify(pathOf(prev)), () => ({ errors: [], pending: [] }));
}
