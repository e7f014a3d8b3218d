import {
  type DirectiveNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLCompositeType,
  type GraphQLObjectType,
  Kind,
  type NameNode,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
  visit,
} from "graphql";
import type { Fragments, SelectedTypes } from "./selection-plan.js";
import { COERCED } from "./twins.js";

export function nestedDocument(nodes: readonly FieldNode[], fragments: Fragments): NestedDocument {
  const used = new Map<string, FragmentDefinitionNode>();
  const names = new Set<string>();
  const collect = (node: FieldNode | FragmentDefinitionNode): void => {
    visit(node, {
      Variable: ({ name }) => {
        names.add(name.value);
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
  const variables = [...names];
  const operation: OperationDefinitionNode = {
    kind: Kind.OPERATION_DEFINITION,
    operation: "query" as OperationDefinitionNode["operation"],
    variableDefinitions: variables.map((name) => ({
      kind: Kind.VARIABLE_DEFINITION,
      variable: { kind: Kind.VARIABLE, name: nameNode(name) },
      type: { kind: Kind.NAMED_TYPE, name: nameNode(COERCED) },
    })),
    selectionSet: selectionOf(nodes),
  };
  return { variables, with: (own) => ({ kind: Kind.DOCUMENT, definitions: [own(operation), ...used.values()] }) };
}

/** The response keys that nested executions add, which no client can write. */
const ID = "$$i";
export const TYPE = "$$t";

/** The response key of the nth field that identifies an object. */
export const idKey = (nth: number): string => (nth === 0 ? ID : `${ID}${nth}`);

export const isHiddenKey = (name: string): boolean => name === TYPE || name.startsWith(ID);

export const nameNode = (value: string): NameNode => ({ kind: Kind.NAME, value });

type Transform = (field: FieldNode, type: GraphQLCompositeType) => FieldNode | undefined;

const fieldNode = (responseKey: string, name: string, directives: readonly DirectiveNode[] = []): FieldNode => ({
  kind: Kind.FIELD,
  alias: nameNode(responseKey),
  name: nameNode(name),
  directives,
});

export const responseKeyOf = ({ alias, name }: FieldNode): string => (alias ?? name).value;

/** A document of one field of the query type, to be executed inside of an execution. */
export interface NestedDocument {
  readonly variables: readonly string[];
  /** Returns the document. `own` returns the operation of one execution. */
  with(own: (operation: OperationDefinitionNode) => OperationDefinitionNode): DocumentNode;
}

const selectionOf = (selections: readonly SelectionNode[]): SelectionSetNode => ({
  kind: Kind.SELECTION_SET,
  selections: [...selections],
});

/**
 * Returns the document of a field with holes. `stored`: of what is stored, without holes, in whose place a string is. `holes`: that of the holes, with the
 * fields that lead to them. Both ask for the ids of all objects on the way.
 */
export function documentWithIds(
  what: "stored" | "holes",
  nodes: readonly FieldNode[],
  type: GraphQLCompositeType,
  types: SelectedTypes,
  fragments: Fragments,
): NestedDocument {
  /** Those of the changed selections, each of which is changed once. */
  const changed = new Map<string, FragmentDefinitionNode>();
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
  const isStored = what === "stored";
  const fieldOf: Transform = (field, parent) => {
    const name = field.name.value;
    if (name.startsWith("__")) return isStored ? field : undefined;
    if (types.isHole(parent, name))
      return isStored ? fieldNode(responseKeyOf(field), "__typename", field.directives) : keepFragments(field);
    const below = types.below(parent, name);
    if (below === undefined) return isStored ? field : undefined;
    return withSelection(field, below);
  };
  /** Returns a field with a changed selection. Undefined if nothing is left of that. */
  const withSelection: Transform = (node, below) => {
    const set = node.selectionSet && selectionsOf(node.selectionSet, below);
    return set && { ...node, selectionSet: selectionOf([...set.selections, ...identityOf(below, types)]) };
  };
  const selectionsOf = (set: SelectionSetNode, parent: GraphQLCompositeType): SelectionSetNode | undefined => {
    const selections = set.selections.flatMap((selection): SelectionNode[] => {
      if (selection.kind === Kind.FIELD) return [fieldOf(selection, parent)].filter((field) => field !== undefined);
      if (selection.kind === Kind.FRAGMENT_SPREAD)
        return fragmentOf(selection.name.value, parent) === undefined ? [] : [selection];
      const selectionSet = selectionsOf(
        selection.selectionSet,
        types.narrowed(parent, selection.typeCondition?.name.value),
      );
      return selectionSet === undefined ? [] : [{ ...selection, selectionSet }];
    });
    return selections.length === 0 ? undefined : selectionOf(selections);
  };
  const fragmentOf = (name: string, parent: GraphQLCompositeType): FragmentDefinitionNode | undefined => {
    const definition = fragments.get(name);
    if (definition === undefined || changed.has(name)) return changed.get(name);
    const narrowed = types.narrowed(parent, definition.typeCondition.name.value);
    const selectionSet = selectionsOf(definition.selectionSet, narrowed);
    if (selectionSet !== undefined) changed.set(name, { ...definition, selectionSet });
    return changed.get(name);
  };
  const own = nodes.map(
    (node) => withSelection(node, type) ?? { ...node, selectionSet: selectionOf(identityOf(type, types)) },
  );
  return nestedDocument(own, new Map([...changed, ...kept]));
}

/** Returns the selections that ask for the ids of objects, and for their types. */
function identityOf(type: GraphQLCompositeType, types: SelectedTypes): readonly SelectionNode[] {
  const identified = types.identified(type);
  const typeName = fieldNode(TYPE, "__typename");
  const [first] = identified;
  if (first === undefined) return [typeName];
  const idsOf = (one: GraphQLObjectType): FieldNode[] =>
    types.idFieldsOf(one).map((name, nth) => fieldNode(idKey(nth), name));
  const isCommon =
    types.isIdentified(type) &&
    types.idFieldsOf(first).every((name) => types.typeOf(type, name) !== undefined) &&
    new Set(identified.map((one) => types.idFieldsOf(one).join())).size === 1;
  if (isCommon) return [typeName, ...idsOf(first)];
  return [
    typeName,
    ...identified.map(
      (one): SelectionNode => ({
        kind: Kind.INLINE_FRAGMENT,
        typeCondition: { kind: Kind.NAMED_TYPE, name: nameNode(one.name) },
        selectionSet: selectionOf(idsOf(one)),
      }),
    ),
  ];
}
