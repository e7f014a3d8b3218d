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
import { rewrittenNode } from "../directive/run/written-nodes.js";
import { nameNode, responseKeyOf } from "./nested-document.js";
import { resolveList } from "./object-lists.js";
import { type Fragments, type Obstacle, otherDirective } from "./selection-plan.js";
import { type ObjectRun, pathOf, type SubtreeField, type SubtreeRun } from "./subtree-field.js";
import { ERRORS_FIELD, listTwinNameOf, resolvedBy, twinNameOf, twinNode } from "./twins.js";

/** The documents that are kept for one operation: which of its fields are replaced changes with modes and with what pays. */
const MAX_DOCUMENTS = 16;

/** A field with subtrees that is not answered with one in an operation. */
interface LeftField {
  readonly coordinate: string;
  readonly responseKey: string;
  readonly obstacle: Obstacle;
  readonly holes: readonly string[];
}

/** A list in an operation whose objects are entries. */
export interface ObjectList {
  readonly responseKey: string;
  readonly field: SubtreeField;
  /** See `ListNodes`. */
  readonly roots: ReadonlySet<string | undefined>;
}

/** The fields that are replaced: those of the query type by response key, and lists by their nodes. */
interface UsedFields {
  readonly roots: ReadonlyMap<string, SubtreeField>;
  readonly lists: ReadonlyMap<FieldNode, SubtreeField>;
}

/** An operation whose fields of the query type can be replaced by their twins. */
export class RewrittenOperation {
  /** The nodes of the fields of the query type, by response key. */
  readonly rootFields: ReadonlyMap<string, readonly FieldNode[]>;
  /** A directive of the operation, or around its fields, that is no condition. Undefined if there is none. */
  readonly directive: string | undefined;
  readonly #document: DocumentNode;
  readonly #operation: OperationDefinitionNode;
  readonly #fragments: Fragments;
  readonly #subtrees = new Map<string, SubtreeField>();
  readonly #lists = new Map<string, ObjectList>();
  readonly #left: LeftField[] = [];
  readonly #runOf: (info: GraphQLResolveInfo) => SubtreeRun;
  readonly #leaf: GraphQLScalarType;
  /** By the response keys that are replaced. */
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
          const key = responseKeyOf(selection);
          const same = rootFields.get(key);
          if (same === undefined) rootFields.set(key, [selection]);
          else same.push(selection);
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

  get hasFields(): boolean {
    return this.#subtrees.size + this.#lists.size + this.#left.length > 0;
  }

  /** The fields with subtrees that are none in this operation. */
  get left(): readonly LeftField[] {
    return this.#left;
  }

  /** The others, by response key. */
  get subtrees(): ReadonlyMap<string, SubtreeField> {
    return this.#subtrees;
  }

  add(responseKey: string, field: SubtreeField): void {
    this.#subtrees.set(responseKey, field);
  }

  /** The lists whose objects are entries. */
  get lists(): Iterable<ObjectList> {
    return this.#lists.values();
  }

  addList(list: ObjectList): void {
    this.#lists.set(`${list.responseKey} ${list.field.source.rule.coordinate}`, list);
  }

  leave(field: LeftField): void {
    this.#left.push(field);
  }

  /** Returns the document with the twins of those fields that `isUsed` returns true for. Undefined if there are none. */
  with(isUsed: (field: SubtreeField) => boolean): DocumentNode | undefined {
    const used = new Map([...this.#subtrees].filter(([, field]) => isUsed(field)));
    // What is in a subtree is a part of its entry.
    const lists = [...this.#lists].filter(
      ([, { field, roots }]) => [...roots].some((root) => root === undefined || !used.has(root)) && isUsed(field),
    );
    if (used.size + lists.length === 0) return undefined;
    const id = JSON.stringify([[...used.keys()], lists.map(([name]) => name)]);
    let document = this.#documents.get(id);
    if (document === undefined) {
      if (this.#documents.size >= MAX_DOCUMENTS) this.#documents.clear();
      const listNodes = lists.flatMap(([, { field }]) => field.nodes.map((node) => [node, field] as const));
      document = this.#rewrite({ roots: used, lists: new Map(listNodes) });
      this.#documents.set(id, document);
    }
    return document;
  }

  #rewrite(used: UsedFields): DocumentNode {
    /**
     * Fragments of the query type, which can also be spread elsewhere, where their fields stay as they are, and those with lists. Others can read
     * the fragments of the client.
     */
    const renamed = new Map<string, FragmentDefinitionNode>();
    const errors: FieldNode = resolvedBy(
      { kind: Kind.FIELD, name: nameNode(ERRORS_FIELD) } as FieldNode,
      (_s, _a, _c, info) => this.#errorsOf(info, used.lists.size > 0),
    );
    const change = (set: SelectionSetNode, isRoot: boolean): SelectionSetNode => {
      let hasLists = false;
      const selections = set.selections.map((selection): SelectionNode => {
        if (selection.kind === Kind.FIELD) {
          const root = isRoot ? this.#twinOf(selection, used.roots) : undefined;
          if (root !== undefined) return root;
          const list = this.#listTwinOf(selection, used.lists);
          if (list !== undefined) hasLists = true;
          if (list !== undefined || selection.selectionSet === undefined || used.lists.size === 0)
            return list ?? selection;
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
    return field && resolvedBy(twin(node, twinNameOf(node.name.value)), field.resolve.bind(field));
  }

  #listTwinOf(node: FieldNode, used: ReadonlyMap<FieldNode, SubtreeField>): FieldNode | undefined {
    const field = used.get(node);
    return (
      field &&
      resolvedBy(twin(node, listTwinNameOf(node.name.value)), (source, args, context, info) =>
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

/** Returns the run of the object that a field belongs to. */
function runAt(whole: SubtreeRun, { path: { prev } }: GraphQLResolveInfo): ObjectRun {
  if (prev === undefined) return whole;
  const place = JSON.stringify(pathOf(prev));
  let run = whole.below.get(place);
  if (run === undefined) {
    run = { errors: [], pending: [] };
    whole.below.set(place, run);
  }
  return run;
}

function twin(node: FieldNode, name: string): FieldNode {
  const { selectionSet: _below, ...others } = node;
  return twinNode(node, { ...others, alias: nameNode(responseKeyOf(node)), name: nameNode(name) });
}
