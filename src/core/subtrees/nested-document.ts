import {
  type DirectiveNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLObjectType,
  type InlineFragmentNode,
  Kind,
  type NameNode,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
  type VariableDefinitionNode,
  visit,
} from "graphql";
import type { Fragments, SelectedTypes } from "./selection-plan.js";
import { COERCED } from "./twins.js";

/** The response keys that nested executions add, which no client can write. */
const ID = "$$i";
export const TYPE = "$$t";

/** The response key of the nth field that identifies an object. */
export const idKey = (nth: number): string => (nth === 0 ? ID : `${ID}${nth}`);

/** Whether a response key is one of these. */
export const isHiddenKey = (name: string): boolean => name === TYPE || name.startsWith(ID);

export const nameNode = (value: string): NameNode => ({ kind: Kind.NAME, value });

const fieldNode = (responseKey: string, name: string, directives: readonly DirectiveNode[] = []): FieldNode => ({
  kind: Kind.FIELD,
  alias: nameNode(responseKey),
  name: nameNode(name),
  directives,
});

export const responseKeyOf = ({ alias, name }: FieldNode): string => (alias ?? name).value;

/** A document of one field of the query type, to be executed inside of an execution. */
export class NestedDocument {
  /** The variables in it. */
  readonly variables: readonly string[];
  readonly #operation: OperationDefinitionNode;
  readonly #fragments: readonly FragmentDefinitionNode[];

  constructor(nodes: readonly FieldNode[], fragments: Fragments) {
    const used = new Map<string, FragmentDefinitionNode>();
    const variables = new Set<string>();
    const collect = (node: FieldNode | FragmentDefinitionNode): void => {
      visit(node, {
        Variable: ({ name }) => {
          variables.add(name.value);
        },
        FragmentSpread: ({ name }) => {
          const definition = fragments.get(name.value);
          if (definition === undefined || used.has(name.value)) return;
          used.set(name.value, definition);
          collect(definition);
        },
      });
    };
    for (const node of nodes) collect(node);
    this.variables = [...variables];
    this.#fragments = [...used.values()];
    this.#operation = {
      kind: Kind.OPERATION_DEFINITION,
      operation: "query" as OperationDefinitionNode["operation"],
      variableDefinitions: this.variables.map(
        (name): VariableDefinitionNode => ({
          kind: Kind.VARIABLE_DEFINITION,
          variable: { kind: Kind.VARIABLE, name: nameNode(name) },
          type: { kind: Kind.NAMED_TYPE, name: nameNode(COERCED) },
        }),
      ),
      selectionSet: { kind: Kind.SELECTION_SET, selections: [...nodes] },
    };
  }

  /** Returns the document. `own` returns the operation of one execution. */
  with(own: (operation: OperationDefinitionNode) => OperationDefinitionNode): DocumentNode {
    return { kind: Kind.DOCUMENT, definitions: [own(this.#operation), ...this.#fragments] };
  }
}

/** Changes selections, and those of the fragments in them once each. */
abstract class SelectionTransform {
  protected readonly types: SelectedTypes;
  readonly #fragments: Fragments;
  readonly #changed = new Map<string, FragmentDefinitionNode>();

  constructor(types: SelectedTypes, fragments: Fragments) {
    this.types = types;
    this.#fragments = fragments;
  }

  /** The fragments of the changed selections. */
  get fragments(): Fragments {
    return this.#changed;
  }

  /** Returns what takes the place of a field. */
  protected abstract field(field: FieldNode, type: GraphQLCompositeType): FieldNode | undefined;
  /** Returns what is added to the selection below a field. */
  protected abstract added(type: GraphQLCompositeType): readonly SelectionNode[];

  /** Returns the nodes of a field of the query type with changed selections. */
  change(nodes: readonly FieldNode[], type: GraphQLCompositeType): FieldNode[] {
    return nodes.map(
      (node) =>
        this.below(node, type) ?? { ...node, selectionSet: { kind: Kind.SELECTION_SET, selections: this.added(type) } },
    );
  }

  /** Returns a field with a changed selection. Undefined if nothing is left of that. */
  protected below(node: FieldNode, type: GraphQLCompositeType): FieldNode | undefined {
    const set = node.selectionSet && this.#selections(node.selectionSet, type);
    return set === undefined
      ? undefined
      : { ...node, selectionSet: { ...set, selections: [...set.selections, ...this.added(type)] } };
  }

  #selections(set: SelectionSetNode, type: GraphQLCompositeType): SelectionSetNode | undefined {
    const selections = set.selections.flatMap((selection): SelectionNode[] => {
      const changed =
        selection.kind === Kind.FIELD
          ? this.field(selection, type)
          : selection.kind === Kind.INLINE_FRAGMENT
            ? this.#inline(selection, type)
            : this.#fragment(selection.name.value, type) && selection;
      return changed === undefined ? [] : [changed];
    });
    return selections.length === 0 ? undefined : { ...set, selections };
  }

  #inline(fragment: InlineFragmentNode, type: GraphQLCompositeType): InlineFragmentNode | undefined {
    const set = this.#selections(fragment.selectionSet, this.types.narrowed(type, fragment.typeCondition?.name.value));
    return set && { ...fragment, selectionSet: set };
  }

  #fragment(name: string, type: GraphQLCompositeType): FragmentDefinitionNode | undefined {
    const known = this.#changed.get(name);
    if (known !== undefined) return known;
    const definition = this.#fragments.get(name);
    if (definition === undefined) return undefined;
    const set = this.#selections(
      definition.selectionSet,
      this.types.narrowed(type, definition.typeCondition.name.value),
    );
    if (set === undefined) return undefined;
    const changed = { ...definition, selectionSet: set };
    this.#changed.set(name, changed);
    return changed;
  }

  /** Returns the selections that ask for the ids of objects, and for their types. */
  protected identity(type: GraphQLCompositeType): readonly SelectionNode[] {
    const identified = this.types.identified(type);
    const typeName = fieldNode(TYPE, "__typename");
    const [first] = identified;
    if (first === undefined) return [typeName];
    const idsOf = (one: GraphQLObjectType): FieldNode[] =>
      this.types.idFieldsOf(one).map((name, nth) => fieldNode(idKey(nth), name));
    const isCommon =
      this.types.isIdentified(type) &&
      this.types.idFieldsOf(first).every((name) => this.types.typeOf(type, name) !== undefined) &&
      new Set(identified.map((one) => this.types.idFieldsOf(one).join())).size === 1;
    if (isCommon) return [typeName, ...idsOf(first)];
    return [
      typeName,
      ...identified.map(
        (one): InlineFragmentNode => ({
          kind: Kind.INLINE_FRAGMENT,
          typeCondition: { kind: Kind.NAMED_TYPE, name: nameNode(one.name) },
          selectionSet: { kind: Kind.SELECTION_SET, selections: idsOf(one) },
        }),
      ),
    ];
  }
}

/** Returns the document of what is stored: without holes, in whose place a string is, and with the ids of all objects. */
export function storedDocument(
  nodes: readonly FieldNode[],
  type: GraphQLCompositeType,
  types: SelectedTypes,
  fragments: Fragments,
): NestedDocument {
  const transform = new (class extends SelectionTransform {
    protected field(field: FieldNode, parent: GraphQLCompositeType): FieldNode | undefined {
      const name = field.name.value;
      if (name.startsWith("__")) return field;
      if (types.isHole(parent, name)) return fieldNode(responseKeyOf(field), "__typename", field.directives);
      const below = types.below(parent, name);
      return below === undefined ? field : this.below(field, below);
    }

    protected added(below: GraphQLCompositeType): readonly SelectionNode[] {
      return this.identity(below);
    }
  })(types, fragments);
  const changed = transform.change(nodes, type);
  return new NestedDocument(changed, transform.fragments);
}

/** Returns the document of the holes: with the fields that lead to them, and the ids of the objects on the way. */
export function holesDocument(
  nodes: readonly FieldNode[],
  type: GraphQLCompositeType,
  types: SelectedTypes,
  fragments: Fragments,
): NestedDocument {
  const transform = new (class extends SelectionTransform {
    protected field(field: FieldNode, parent: GraphQLCompositeType): FieldNode | undefined {
      const name = field.name.value;
      if (name.startsWith("__")) return undefined;
      // As the client has written it.
      if (types.isHole(parent, name)) return keepFragments(field);
      const below = types.below(parent, name);
      return below === undefined ? undefined : this.below(field, below);
    }

    protected added(below: GraphQLCompositeType): readonly SelectionNode[] {
      return this.identity(below);
    }
  })(types, fragments);
  /** Fragments in holes keep their selections, under other names. */
  const kept = new Map<string, FragmentDefinitionNode>();
  const keepFragments = <Node extends FieldNode | FragmentDefinitionNode>(node: Node): Node =>
    visit(node, {
      FragmentSpread: (spread) => {
        const name = `${spread.name.value}$kept`;
        const definition = fragments.get(spread.name.value);
        if (definition === undefined) return undefined;
        if (!kept.has(name)) {
          kept.set(name, definition);
          kept.set(name, { ...keepFragments(definition), name: nameNode(name) });
        }
        return { ...spread, name: nameNode(name) };
      },
    });
  const changed = transform.change(nodes, type);
  return new NestedDocument(changed, new Map([...transform.fragments, ...kept]));
}
