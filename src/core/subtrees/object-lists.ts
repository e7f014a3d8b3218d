import {
  defaultFieldResolver,
  type FieldNode,
  type GraphQLCompositeType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLScalarType,
  getNullableType,
  isListType,
  isNonNullType,
  isObjectType,
  Kind,
  type SelectionSetNode,
} from "graphql";
import { Deferred } from "../base/deferred.js";
import { infoWith } from "../base/graphql-version.js";
import { getOrMake } from "../base/multimap.js";
import type { AnyField } from "../directive/compile/field-rule.js";
import type { Args } from "../directive/run/cached-field.js";
import { writtenInfo } from "../directive/run/written-nodes.js";
import { responseKeyOf } from "./nested-document.js";
import { type Fragments, otherDirective, type SelectedTypes } from "./selection-plan.js";
import type { ObjectRun, SubtreeField } from "./subtree-field.js";
import { originalsOf } from "./twins.js";

/** The nodes of an operation that return lists of one type under one response key. The executor can merge any of them. */
export interface ListNodes {
  readonly typeName: string;
  readonly responseKey: string;
  readonly nodes: FieldNode[];
  /** The response keys of the fields of the query type that lead to them. Undefined: it can be any. */
  readonly roots: Set<string | undefined>;
  /** A directive that is no condition, at one of them. */
  directive: string | undefined;
  isMixed: boolean;
}

export function findLists(
  operation: SelectionSetNode,
  queryType: GraphQLObjectType,
  types: SelectedTypes,
  isListed: (typeName: string) => boolean,
  fragments: Fragments,
): readonly ListNodes[] {
  const found = new Map<string, ListNodes>();
  const visited = new Set<string>();
  const add = (node: FieldNode, type: GraphQLCompositeType, root: string | undefined): void => {
    const names = new Set(types.fieldsOf(type, node.name.value).map(({ field }) => listedType(field.type)?.name));
    const responseKey = responseKeyOf(node);
    for (const typeName of names) {
      if (typeName === undefined || !isListed(typeName)) continue;
      const list = getOrMake(
        found,
        `${responseKey} ${typeName}`,
        (): ListNodes => ({ typeName, responseKey, nodes: [], roots: new Set(), directive: undefined, isMixed: false }),
      );
      list.nodes.push(node);
      list.roots.add(root);
      list.directive ??= otherDirective(node);
      if (names.size > 1) list.isMixed = true;
    }
  };
  const visit = (
    set: SelectionSetNode,
    type: GraphQLCompositeType,
    root: string | undefined,
    isRoot: boolean,
  ): void => {
    for (const selection of set.selections) {
      if (selection.kind === Kind.FIELD) {
        const below = types.below(type, selection.name.value);
        if (below === undefined || selection.selectionSet === undefined) continue;
        const ownRoot = isRoot ? responseKeyOf(selection) : root;
        add(selection, type, ownRoot);
        visit(selection.selectionSet, below, ownRoot, false);
        continue;
      }
      const isSpread = selection.kind === Kind.FRAGMENT_SPREAD;
      const fragment = isSpread ? fragments.get(selection.name.value) : selection;
      if (fragment === undefined || (isSpread && visited.has(selection.name.value))) continue;
      if (isSpread) visited.add(selection.name.value);
      const narrowed = types.narrowed(type, fragment.typeCondition?.name.value);
      // The fields of a fragment are the same wherever it is spread.
      visit(fragment.selectionSet, narrowed, isSpread ? undefined : root, !isSpread && isRoot);
    }
  };
  visit(operation, queryType, undefined, true);
  return [...found.values()];
}

/** Returns the object type of the list that a type is. Undefined for lists of lists, and for what is no list of objects. */
export function listedType(type: GraphQLOutputType): GraphQLObjectType | undefined {
  const list = getNullableType(type);
  const item = isListType(list) ? getNullableType(list.ofType) : undefined;
  return isObjectType(item) ? item : undefined;
}

export const listFieldsOf = (type: GraphQLObjectType, isListed: (typeName: string) => boolean): string[] =>
  Object.values(type.getFields())
    .filter((field) => isListed(listedType(field.type)?.name ?? ""))
    .map(({ name }) => name);

/** The resolver of the twin of a list: calls that of the list, and reads each object. `leaf`: the type of completed values. */
export function resolveList(
  subtree: SubtreeField,
  leaf: GraphQLScalarType,
  run: ObjectRun,
  [source, args, context, info]: [unknown, Args, unknown, GraphQLResolveInfo],
): unknown {
  const nodes = originalsOf(info);
  const name = (nodes[0] as FieldNode).name.value;
  const field = info.parentType.getFields()[name] as AnyField;
  const isStrict = isNonNullType((getNullableType(field.type) as { readonly ofType: GraphQLOutputType }).ofType);
  const ownInfo = infoWith(writtenInfo(info), { fieldNodes: nodes, fieldName: name, returnType: field.type });
  const read = (object: unknown, nth: number, share: number): unknown => {
    if (object === null || object === undefined || object instanceof Error) return object;
    const path = { prev: info.path, key: nth, typename: undefined };
    return subtree.resolveObject({ object, isStrict, share }, context, infoWith(info, { path, returnType: leaf }), run);
  };
  const readAll = (list: unknown): unknown => {
    if (isAsyncIterable(list)) return readEach(list, read, run);
    if (typeof list !== "object" || list === null || !(Symbol.iterator in list)) return list;
    const all = Array.from(list as Iterable<unknown>);
    const share = 1 / all.length;
    const items = all.map((item, nth) =>
      isThenable(item) ? Promise.resolve(item).then((object) => read(object, nth, share)) : read(item, nth, share),
    );
    for (const item of items) if (item instanceof Promise) run.pending.push(item);
    return items;
  };
  const list: unknown = (field.resolve ?? defaultFieldResolver)(source, args, context, ownInfo);
  if (!isThenable(list)) return readAll(list);
  const items = Promise.resolve(list).then(readAll);
  run.pending.push(items);
  return items;
}

/** What part of a list an object is taken for while nobody knows how many there are. */
const SHARE = 0.05;

/** Where the executor takes lists that come piece by piece. */
async function* readEach(
  list: AsyncIterable<unknown>,
  read: (object: unknown, nth: number, share: number) => unknown,
  run: ObjectRun,
): AsyncGenerator<unknown> {
  let nth = 0;
  const ended = new Deferred<void>();
  run.pending.push(ended.promise);
  try {
    for await (const object of list) yield await read(object, nth++, SHARE);
  } finally {
    ended.resolve();
  }
}

const isAsyncIterable = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.asyncIterator in value;

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === "function";
