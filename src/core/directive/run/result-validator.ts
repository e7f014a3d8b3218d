import {
  type FieldNode,
  type GraphQLAbstractType,
  GraphQLIncludeDirective,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  GraphQLSkipDirective,
  getDirectiveValues,
  isAbstractType,
  isEnumType,
  isListType,
  isNonNullType,
  isObjectType,
  type SelectionNode,
} from "graphql";
import { isPlainObject } from "../../base/built-in.js";
import type { KnownResolvers } from "../../base/known-resolvers.js";
import type { NearValue } from "../../tier/near/near-entries.js";
import type { LoadedMistake, ReadRequest, Validator } from "../../tier/request/request.js";

/**
 * Finds what GraphQL would refuse in the value of a cached field: null for a non-null type, an unknown enum value, an
 * object whose type cannot be resolved. Such a value is not stored, and a stored one is loaded again; otherwise every
 * hit would fail until it expires.
 *
 * A check in two steps keeps hits cheap. The first knows the types only and is compiled once per type; it calls no
 * function of the schema. The second follows the selection; it runs after a load and where the first is suspicious.
 * Both stop at fields with a resolver of their own, which may return anything, and at objects with a class. A
 * property that is missing is no mistake, since a server may have a `fieldResolver` that reads another property.
 *
 * After a load, the second step also resolves the types of objects, in the value and in what readers of the store
 * will get: a function that recognises the source's own objects does not know copies.
 */
export class ResultValidator implements Validator {
  /** The first steps. Schemas that are derived from one, such as one per role, have types of their own. */
  readonly #checks = new WeakMap<GraphQLOutputType, Suspicion | undefined>();
  readonly #resolvers: Pick<KnownResolvers, "has">;

  constructor(resolvers: Pick<KnownResolvers, "has">) {
    this.#resolvers = resolvers;
  }

  /** Returns whether the first step finds nothing in a cached value of `type`. False: `mistakeIn` decides. */
  isPlausible(value: unknown, type: GraphQLOutputType, { schema }: Pick<Info, "schema">): boolean {
    try {
      return this.#checkOf(type, schema)?.(value) !== true;
    } catch {
      // An unusual value must not fail a read.
      return true;
    }
  }

  /** The same for a value of the near cache. It is checked once, not by each hit: nobody may modify it. */
  isNearPlausible(near: NearValue, type: GraphQLOutputType, { schema }: Pick<Info, "schema">): boolean {
    const check = this.#checkOf(type, schema);
    if (near.passed === check) return true;
    if (!this.isPlausible(near.value, type, { schema })) return false;
    near.passed = check;
    return true;
  }

  #checkOf(type: GraphQLOutputType, schema: GraphQLSchema): Suspicion | undefined {
    try {
      if (!this.#checks.has(type))
        this.#checks.set(type, compile(type, { schema, resolvers: this.#resolvers, compiled: new Map() }));
      return this.#checks.get(type);
    } catch {
      // An unusual schema or executor must not fail a read.
      return undefined;
    }
  }

  mistakeIn(value: unknown, { call, context }: Call): string | undefined {
    const info = call as Info;
    try {
      if (this.isPlausible(value, info.returnType, info)) return undefined;
      return mistakeInField(value, { info, context, resolvers: this.#resolvers, resolved: undefined });
    } catch {
      // An unusual schema or executor must not fail a read.
      return undefined;
    }
  }

  mistakeInLoaded(value: unknown, restore: () => unknown, { call, context }: Call): LoadedMistake | undefined {
    const walk = { info: call as Info, context, resolvers: this.#resolvers };
    try {
      const before: string[] = [];
      const what = mistakeInField(value, { ...walk, resolved: before });
      if (what !== undefined) return { what, isRestored: false };
      if (before.length === 0) return undefined;
      const after: string[] = [];
      const lost = mistakeInField(restore(), { ...walk, resolved: after }) ?? changedType(before, after);
      return lost === undefined ? undefined : { what: lost, isRestored: true };
    } catch {
      // As above.
      return undefined;
    }
  }
}

type Info = Pick<GraphQLResolveInfo, "schema" | "returnType" | "fieldNodes" | "fragments" | "variableValues">;
type Call = Pick<ReadRequest, "call" | "context">;
type PlainObject = Readonly<Record<string, unknown>>;

/** Returns whether a value may contain something that GraphQL refuses, for some selection. */
type Suspicion = (value: unknown) => boolean;

function changedType(before: readonly string[], after: readonly string[]): string | undefined {
  const index = before.findIndex((name, at) => name !== after[at]);
  return index < 0 ? undefined : `a \`${before[index]}\` that becomes a \`${after[index]}\``;
}

interface Compilation {
  readonly schema: GraphQLSchema;
  readonly resolvers: Pick<KnownResolvers, "has">;
  readonly compiled: Map<GraphQLOutputType, Suspicion | undefined>;
}

function compile(type: GraphQLOutputType, compilation: Compilation): Suspicion | undefined {
  if (isNonNullType(type)) {
    const inner = compile(type.ofType, compilation);
    return inner === undefined ? isMissing : (value) => isMissing(value) || inner(value);
  }
  if (isListType(type)) {
    const inner = compile(type.ofType, compilation);
    return inner === undefined ? undefined : (value) => Array.isArray(value) && value.some(inner);
  }
  if (isEnumType(type)) {
    const known = new Set<unknown>(type.getValues().map(({ value }) => value));
    return (value) => !isMissing(value) && !known.has(value);
  }
  const { compiled } = compilation;
  if (compiled.has(type)) return compiled.get(type);
  // A type that contains itself calls this until its own check is compiled.
  compiled.set(type, (value) => compiled.get(type)?.(value) ?? false);
  let check: Suspicion | undefined;
  if (isObjectType(type)) check = compileObject(type, compilation);
  else if (isAbstractType(type)) check = compileAbstract(type, compilation);
  compiled.set(type, check);
  return check;
}

function compileObject(type: GraphQLObjectType, compilation: Compilation): Suspicion | undefined {
  const checks = Object.values(type.getFields()).flatMap((field) => {
    const check = compilation.resolvers.has(field) ? undefined : compile(field.type, compilation);
    return check === undefined ? [] : [{ name: field.name, check }];
  });
  if (checks.length === 0) return undefined;
  return (value) =>
    isPlainObject(value) &&
    checks.some(({ name, check }) => {
      const member = value[name];
      return member !== undefined && check(member);
    });
}

function compileAbstract(type: GraphQLAbstractType, compilation: Compilation): Suspicion | undefined {
  const possible = compilation.schema.getPossibleTypes(type);
  if (type.resolveType != null || possible.some(({ isTypeOf }) => isTypeOf != null)) return undefined;
  const checkOf = new Map<unknown, Suspicion | undefined>(possible.map((one) => [one.name, compile(one, compilation)]));
  return (value) => {
    if (!isPlainObject(value)) return false;
    const name = value.__typename;
    return !checkOf.has(name) || checkOf.get(name)?.(value) === true;
  };
}

const isMissing = (value: unknown): boolean => value === null || value === undefined;

interface Walk {
  readonly info: Info;
  readonly context: unknown;
  readonly resolvers: Pick<KnownResolvers, "has">;
  /** What functions of the schema have resolved types to. Undefined for a stored value: none is called. */
  readonly resolved: string[] | undefined;
  readonly selected: Map<readonly FieldNode[], Map<GraphQLObjectType, ReadonlyMap<string, readonly FieldNode[]>>>;
}

function mistakeInField(value: unknown, walk: Omit<Walk, "selected">): string | undefined {
  const { fieldNodes, returnType } = walk.info;
  const [node] = fieldNodes;
  // In a worker there is no query.
  if (node === undefined) return undefined;
  return mistakeIn(value ?? null, returnType, `\`${node.name.value}\``, fieldNodes, { ...walk, selected: new Map() });
}

function mistakeIn(
  value: unknown,
  type: GraphQLOutputType,
  place: string,
  nodes: readonly FieldNode[],
  walk: Walk,
): string | undefined {
  if (isNonNullType(type)) {
    if (isMissing(value)) return `null for the non-null field ${place}`;
    return mistakeIn(value, type.ofType, place, nodes, walk);
  }
  if (isMissing(value)) return undefined;
  if (isListType(type)) {
    if (!Array.isArray(value)) return undefined;
    for (const item of value) {
      const mistake = mistakeIn(item, type.ofType, place, nodes, walk);
      if (mistake !== undefined) return mistake;
    }
    return undefined;
  }
  if (isEnumType(type))
    return type.getValues().some((known) => known.value === value)
      ? undefined
      : `an unknown value of the enum \`${type.name}\` at ${place}`;
  if (!isPlainObject(value)) return undefined;
  if (isObjectType(type)) return mistakeInFields(value, type, nodes, walk);
  if (!isAbstractType(type)) return undefined;
  const actual = typeOf(value, type, walk);
  if (actual === "unresolvable")
    return `an object whose type cannot be resolved to one of \`${type.name}\` at ${place}`;
  return actual === "unknown" ? undefined : mistakeInFields(value, actual, nodes, walk);
}

function mistakeInFields(
  value: PlainObject,
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  walk: Walk,
): string | undefined {
  const fields = type.getFields();
  for (const [name, selected] of selectedFields(type, nodes, walk)) {
    const field = fields[name];
    const member = value[name];
    if (field === undefined || member === undefined || walk.resolvers.has(field)) continue;
    const mistake = mistakeIn(member, field.type, `\`${type.name}.${name}\``, selected, walk);
    if (mistake !== undefined) return mistake;
  }
  return undefined;
}

/** Returns the object type of `value`. Resolvers of types are called only after a load. */
function typeOf(
  value: PlainObject,
  type: GraphQLAbstractType,
  { info, context, resolved }: Walk,
): GraphQLObjectType | "unknown" | "unresolvable" {
  const possible = info.schema.getPossibleTypes(type);
  let name: unknown = value.__typename;
  if (type.resolveType != null || (typeof name !== "string" && possible.some(({ isTypeOf }) => isTypeOf != null))) {
    if (resolved === undefined) return "unknown";
    try {
      name = resolvedName(value, type, context, info as GraphQLResolveInfo);
    } catch {
      return "unresolvable";
    }
    if (isThenable(name)) {
      name.then(undefined, () => undefined);
      return "unknown";
    }
    resolved.push(String(name));
  }
  return possible.find((one) => one.name === name) ?? "unresolvable";
}

function resolvedName(
  value: PlainObject,
  type: GraphQLAbstractType,
  context: unknown,
  info: GraphQLResolveInfo,
): unknown {
  if (type.resolveType != null) return type.resolveType(value, context, info, type);
  for (const one of info.schema.getPossibleTypes(type)) {
    const isOne: unknown = one.isTypeOf?.(value, context, info);
    if (isThenable(isOne)) return isOne;
    if (isOne === true) return one.name;
  }
  return undefined;
}

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === "function";

function selectedFields(
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  walk: Walk,
): ReadonlyMap<string, readonly FieldNode[]> {
  const byType = walk.selected.get(nodes) ?? new Map<GraphQLObjectType, ReadonlyMap<string, readonly FieldNode[]>>();
  walk.selected.set(nodes, byType);
  const known = byType.get(type);
  if (known !== undefined) return known;
  const { schema, fragments, variableValues } = walk.info;
  const fields = new Map<string, FieldNode[]>();
  const visited = new Set<string>();
  const collect = (selections: readonly SelectionNode[]): void => {
    for (const selection of selections) {
      if (getDirectiveValues(GraphQLSkipDirective, selection, variableValues)?.if === true) continue;
      if (getDirectiveValues(GraphQLIncludeDirective, selection, variableValues)?.if === false) continue;
      if (selection.kind === "Field") {
        const name = selection.name.value;
        const same = fields.get(name) ?? [];
        same.push(selection);
        fields.set(name, same);
        continue;
      }
      const isSpread = selection.kind === "FragmentSpread";
      const fragment = isSpread ? fragments[selection.name.value] : selection;
      if (fragment === undefined || (isSpread && visited.has(selection.name.value))) continue;
      if (isSpread) visited.add(selection.name.value);
      const condition = fragment.typeCondition && schema.getType(fragment.typeCondition.name.value);
      if (
        condition === undefined ||
        condition === type ||
        (isAbstractType(condition) && schema.isSubType(condition, type))
      )
        collect(fragment.selectionSet.selections);
    }
  };
  for (const { selectionSet } of nodes) collect(selectionSet?.selections ?? []);
  byType.set(type, fields);
  return fields;
}
