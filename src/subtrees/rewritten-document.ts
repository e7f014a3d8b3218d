import {
  type DefinitionNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  Kind,
  type NameNode,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
} from "graphql";
import { responseKeyOf } from "./nested-document.js";
import { type Fragments, type Obstacle, otherDirective } from "./selection-plan.js";
import type { SubtreeField, SubtreeRun } from "./subtree-field.js";
import { ERRORS_FIELD, resolvedBy, twinNameOf, twinNode } from "./twins.js";

/** The documents that are kept for one operation: which of its fields are replaced changes with modes and with what pays. */
const MAX_DOCUMENTS = 16;

const nameNode = (value: string): NameNode => ({ kind: Kind.NAME, value });

/** A field with subtrees that is not answered with one in an operation. */
interface LeftField {
  readonly coordinate: string;
  readonly responseKey: string;
  readonly obstacle: Obstacle;
  readonly holes: readonly string[];
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
  readonly #left: LeftField[] = [];
  readonly #runOf: (info: GraphQLResolveInfo) => SubtreeRun;
  /** By the response keys that are replaced. */
  readonly #documents = new Map<string, DocumentNode>();

  constructor(
    document: DocumentNode,
    operation: OperationDefinitionNode,
    fragments: Fragments,
    runOf: (info: GraphQLResolveInfo) => SubtreeRun,
  ) {
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
    return this.#subtrees.size + this.#left.length > 0;
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

  leave(field: LeftField): void {
    this.#left.push(field);
  }

  /** Returns the document with the twins of those fields that `isUsed` returns true for. Undefined if there are none. */
  with(isUsed: (field: SubtreeField) => boolean): DocumentNode | undefined {
    const used = new Map([...this.#subtrees].filter(([, field]) => isUsed(field)));
    if (used.size === 0) return undefined;
    const id = [...used.keys()].join(" ");
    let document = this.#documents.get(id);
    if (document === undefined) {
      if (this.#documents.size >= MAX_DOCUMENTS) this.#documents.clear();
      document = this.#rewrite(used);
      this.#documents.set(id, document);
    }
    return document;
  }

  #rewrite(used: ReadonlyMap<string, SubtreeField>): DocumentNode {
    /** Fragments of the query type, which can also be spread elsewhere, where their fields stay as they are. */
    const renamed = new Map<string, FragmentDefinitionNode>();
    const change = (set: SelectionSetNode): SelectionSetNode => ({
      ...set,
      selections: set.selections.map((selection): SelectionNode => {
        if (selection.kind === Kind.FIELD) return this.#twinOf(selection, used) ?? selection;
        if (selection.kind === Kind.INLINE_FRAGMENT)
          return { ...selection, selectionSet: change(selection.selectionSet) };
        const name = `${selection.name.value}$subtree`;
        const definition = this.#fragments.get(selection.name.value);
        if (definition === undefined) return selection;
        if (!renamed.has(name))
          renamed.set(name, { ...definition, name: nameNode(name), selectionSet: change(definition.selectionSet) });
        return { ...selection, name: nameNode(name) };
      }),
    });
    const { selectionSet } = this.#operation;
    const changed = change(selectionSet);
    const errors: FieldNode = resolvedBy(
      { kind: Kind.FIELD, name: nameNode(ERRORS_FIELD) } as FieldNode,
      (_s, _a, _c, info) => this.#errorsOf(info),
    );
    const operation = {
      ...this.#operation,
      selectionSet: { ...changed, selections: [...changed.selections, errors] },
    };
    const definitions = this.#document.definitions.map(
      (definition): DefinitionNode => (definition === this.#operation ? operation : definition),
    );
    return { ...this.#document, definitions: [...definitions, ...renamed.values()] };
  }

  #twinOf(node: FieldNode, used: ReadonlyMap<string, SubtreeField>): FieldNode | undefined {
    const responseKey = responseKeyOf(node);
    const field = used.get(responseKey);
    if (field === undefined) return undefined;
    const { selectionSet: _below, ...others } = node;
    const twin = { ...others, alias: nameNode(responseKey), name: nameNode(twinNameOf(node.name.value)) };
    return resolvedBy(twinNode(node, twin), field.resolve.bind(field));
  }

  /** Returns the errors of all subtrees. The field is the last of the query, so they have all begun. */
  async #errorsOf(info: GraphQLResolveInfo): Promise<readonly unknown[]> {
    const { pending, errors } = this.#runOf(info);
    await Promise.allSettled(pending);
    return errors;
  }
}
