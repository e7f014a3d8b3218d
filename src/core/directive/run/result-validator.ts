import {
  type FieldNode,
  type GraphQLAbstractType,
  GraphQLIncludeDirective,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLScalarType,
  type GraphQLSchema,
  GraphQLSkipDirective,
  getDirectiveValues,
  isAbstractType,
  isEnumType,
  isListType,
  isNonNullType,
  isObjectType,
  isScalarType,
  isSpecifiedScalarType,
  type SelectionNode,
} from "graphql";
import { isPlainObject } from "../../base/built-in.js";
import type { KnownResolvers } from "../../base/known-resolvers.js";
import { getOrMake } from "../../base/multimap.js";
import type { KnownKey } from "../../tier/request/known-key.js";
import type { LoadedMistake, ReadRequest, Validator } from "../../tier/request/request.js";

/**
 * Finds what GraphQL would refuse in the value of a cached field: null for a non-null type, an unknown enum value, what a scalar cannot
 * represent, what is no list for a list, and no object for an object; an object whose type cannot be resolved. Such a value is not stored, and a stored one is loaded again; otherwise every
 * hit would fail until it expires.
 *
 * The check of a type is compiled once. For hits, it looks at all fields, whatever is selected, and calls no function of
 * the schema. After a load, and where that is suspicious, it follows the selection. It stops at fields with a resolver of
 * their own, which may return anything, and at objects with a class. A property that is missing is no mistake, since a
 * server may have a `fieldResolver` that reads another property.
 *
 * After a load, it also resolves the types of objects, in the value and in what readers of the store will get: a function
 * that recognises the source's own objects does not know copies. An unusual schema, executor or value must not fail a read.
 */
export class ResultValidator implements Validator {
  /** Schemas that are derived from one, such as one per role, have types of their own. */
  readonly #checks = new WeakMap<GraphQLOutputType, TypeCheck | undefined>();
  readonly #resolvers: Pick<KnownResolvers, "has">;

  constructor(resolvers: Pick<KnownResolvers, "has">) {
    this.#resolvers = resolvers;
  }

  /** Returns whether a cached value of `type` has no mistake, whatever is selected of it. False: `mistakeIn` decides. */
  isPlausible(value: unknown, type: GraphQLOutputType, { schema }: Pick<Info, "schema">): boolean {
    const check = this.#checkOf(type, schema);
    try {
      return check?.isForHits !== true || check.mistakeIn(value, "") === undefined;
    } catch {
      return true;
    }
  }

  /** The same for a value in memory. It is checked once, not by each hit: nobody can modify it. */
  isKeptPlausible(known: KnownKey, type: GraphQLOutputType, { schema }: Pick<Info, "schema">): boolean {
    const { kept, value } = known;
    const check = this.#checkOf(type, schema);
    const ofHits = check?.isForHits === true ? check : undefined;
    if (kept === undefined || kept.passed === ofHits) return true;
    if (!this.isPlausible(value, type, { schema })) return false;
    kept.passed = ofHits;
    return true;
  }

  #checkOf(type: GraphQLOutputType, schema: GraphQLSchema): TypeCheck | undefined {
    // An executor of its own may pass no type at all.
    if (!this.#checks.has(type)) return orNothing(() => this.#compile(type, schema));
    return this.#checks.get(type);
  }

  #compile(type: GraphQLOutputType, schema: GraphQLSchema): TypeCheck | undefined {
    const check = orNothing(() => compile(type, { schema, resolvers: this.#resolvers, compiled: new WeakMap() }));
    this.#checks.set(type, check);
    return check;
  }

  mistakeIn(value: unknown, { call, context }: Call): string | undefined {
    const info = call as Info;
    if (this.isPlausible(value, info.returnType, info)) return undefined;
    return orNothing(() => this.#mistakeIn(value, { info, context, resolved: undefined }));
  }

  mistakeInLoaded(value: unknown, restore: () => unknown, { call, context }: Call): LoadedMistake | undefined {
    return orNothing(() => {
      const walk = { info: call as Info, context };
      const before: string[] = [];
      const what = this.#mistakeIn(value, { ...walk, resolved: before });
      if (what !== undefined) return { what, isRestored: false };
      if (before.length === 0) return undefined;
      const after: string[] = [];
      const lost = this.#mistakeIn(restore(), { ...walk, resolved: after }) ?? changedType(before, after);
      return lost === undefined ? undefined : { what: lost, isRestored: true };
    });
  }

  #mistakeIn(value: unknown, walk: Omit<Walk, "selected">): string | undefined {
    const { fieldNodes, returnType, schema } = walk.info;
    const [node] = fieldNodes;
    // In a worker there is no query.
    if (node === undefined) return undefined;
    const selected = { ...walk, selected: new Map() };
    return this.#checkOf(returnType, schema)?.mistakeIn(value, `\`${node.name.value}\``, fieldNodes, selected);
  }
}

function orNothing<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

type Info = Pick<GraphQLResolveInfo, "schema" | "returnType" | "fieldNodes" | "fragments" | "variableValues">;
type Call = Pick<ReadRequest, "call" | "context">;
type PlainObject = Readonly<Record<string, unknown>>;

/** Returns what GraphQL would refuse in a value. Without a walk, for any selection. */
type Check = (value: unknown, place: string, nodes?: readonly FieldNode[], walk?: Walk) => string | undefined;

interface TypeCheck {
  readonly mistakeIn: Check;
  /** Whether a mistake can show without a walk. */
  readonly isForHits: boolean;
}

function changedType(before: readonly string[], after: readonly string[]): string | undefined {
  const index = before.findIndex((name, at) => name !== after[at]);
  return index < 0 ? undefined : `a \`${before[index]}\` that becomes a \`${after[index]}\``;
}

interface Compilation {
  readonly schema: GraphQLSchema;
  readonly resolvers: Pick<KnownResolvers, "has">;
  /** Weak, since schemas that share an abstract type can bring members of their own. */
  readonly compiled: WeakMap<GraphQLOutputType, TypeCheck>;
}

interface Walk {
  readonly info: Info;
  readonly context: unknown;
  /** What functions of the schema have resolved types to. Undefined for a stored value: none is called. */
  readonly resolved: string[] | undefined;
  readonly selected: Map<readonly FieldNode[], Map<GraphQLObjectType, ReadonlyMap<string, readonly FieldNode[]>>>;
}

const ANYTHING: TypeCheck = { mistakeIn: () => undefined, isForHits: false };

function compile(type: GraphQLOutputType, compilation: Compilation): TypeCheck {
  if (isNonNullType(type)) {
    const { mistakeIn } = compile(type.ofType, compilation);
    const check: Check = (value, place, nodes, walk) =>
      value === null || value === undefined ? nullFor(place) : mistakeIn(value, place, nodes, walk);
    return { mistakeIn: check, isForHits: true };
  }
  if (isListType(type)) {
    const { mistakeIn, isForHits } = compile(type.ofType, compilation);
    const check: Check = (value, place, nodes, walk) => {
      if (!Array.isArray(value)) return isAnyList(value) ? undefined : `no list for the list ${place}`;
      if (!isForHits && walk === undefined) return undefined;
      for (const item of value) {
        const mistake = mistakeIn(item, place, nodes, walk);
        if (mistake !== undefined) return mistake;
      }
      return undefined;
    };
    return { mistakeIn: check, isForHits: true };
  }
  if (isScalarType(type)) return compileScalar(type);
  if (isEnumType(type)) {
    const known = new Set<unknown>(type.getValues().map(({ value }) => value));
    const check: Check = (value, place) =>
      value === null || value === undefined || known.has(value)
        ? undefined
        : `an unknown value of the enum \`${type.name}\` at ${place}`;
    return { mistakeIn: check, isForHits: true };
  }
  const { compiled } = compilation;
  const known = compiled.get(type);
  if (known !== undefined) return known;
  if (!isObjectType(type) && !isAbstractType(type)) return ANYTHING;
  // A type that contains itself calls this until its own check is compiled.
  const ofItself: Check = (value, place, nodes, walk) => compiled.get(type)?.mistakeIn(value, place, nodes, walk);
  compiled.set(type, { mistakeIn: ofItself, isForHits: true });
  const check = isObjectType(type) ? compileObject(type, compilation) : compileAbstract(type, compilation);
  compiled.set(type, check);
  return check;
}

const nullFor = (place: string): string => `null for the non-null field ${place}`;

/** Whether a value is one whose properties no field without a resolver can read: a number, for example, or a list. */
const isNoObject = (value: unknown): boolean =>
  value !== null &&
  value !== undefined &&
  (Array.isArray(value) || (typeof value !== "object" && typeof value !== "function"));

/** Whether GraphQL may take a value that is no array for a list: there is none, it can be iterated, or is still awaited. */
const isAnyList = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  typeof value === "function" ||
  (typeof value === "object" && (Symbol.iterator in value || Symbol.asyncIterator in value || isThenable(value)));

/** Scalars of the schema may represent anything. Those of GraphQL are asked only about what they do not expect. */
function compileScalar(type: GraphQLScalarType): TypeCheck {
  const isExpected = isSpecifiedScalarType(type) ? EXPECTED[type.name] : undefined;
  if (isExpected === undefined) return ANYTHING;
  const check: Check = (value, place) => {
    if (value === null || value === undefined || isExpected(value)) return undefined;
    if (typeof value === "function" || isThenable(value)) return undefined;
    try {
      type.serialize(value);
      return undefined;
    } catch {
      return `what \`${type.name}\` cannot represent at ${place}`;
    }
  };
  return { mistakeIn: check, isForHits: true };
}

const isString = (value: unknown): boolean => typeof value === "string";
const EXPECTED: Readonly<Record<string, (value: unknown) => boolean>> = {
  Int: (value) => typeof value === "number" && (value | 0) === value,
  Float: Number.isFinite,
  String: isString,
  ID: isString,
  Boolean: (value) => typeof value === "boolean",
};

function compileObject(type: GraphQLObjectType, compilation: Compilation): TypeCheck {
  const fields = Object.values(type.getFields())
    .filter((field) => !compilation.resolvers.has(field))
    .map(({ name, type: returned }) => ({
      name,
      place: `\`${type.name}.${name}\``,
      isNonNull: isNonNullType(returned),
      ...compile(returned, compilation),
    }));
  const byName = new Map(fields.map((field) => [field.name, field]));
  const ofHits = fields.filter(({ isForHits }) => isForHits);
  const required = fields.find(({ isNonNull }) => isNonNull);
  const check: Check = (value, _place, nodes, walk) => {
    if (!isPlainObject(value)) {
      if (required === undefined || !isNoObject(value)) return undefined;
      if (nodes === undefined || walk === undefined) return nullFor(required.place);
      for (const name of selectedFields(type, nodes, walk).keys()) {
        const field = byName.get(name);
        if (field?.isNonNull && (Object(value) as PlainObject)[name] === undefined) return nullFor(field.place);
      }
      return undefined;
    }
    if (nodes === undefined || walk === undefined) {
      for (const { name, place, mistakeIn } of ofHits) {
        const member = value[name];
        const mistake = member === undefined ? undefined : mistakeIn(member, place);
        if (mistake !== undefined) return mistake;
      }
      return undefined;
    }
    for (const [name, selected] of selectedFields(type, nodes, walk)) {
      const field = byName.get(name);
      const member = value[name];
      const mistake = member === undefined ? undefined : field?.mistakeIn(member, field.place, selected, walk);
      if (mistake !== undefined) return mistake;
    }
    return undefined;
  };
  return { mistakeIn: check, isForHits: ofHits.length > 0 };
}

function compileAbstract(type: GraphQLAbstractType, compilation: Compilation): TypeCheck {
  const possible = compilation.schema.getPossibleTypes(type);
  const hasFunctions = type.resolveType != null || possible.some(({ isTypeOf }) => isTypeOf != null);
  const check: Check = (value, place, nodes, walk) => {
    if (walk === undefined && hasFunctions) return undefined;
    if (!isPlainObject(value) && (hasFunctions || !isNoObject(value))) return undefined;
    const name = !isPlainObject(value)
      ? undefined
      : walk === undefined
        ? value.__typename
        : typeNameOf(value, type, walk);
    if (name === UNKNOWN) return undefined;
    // A schema can share the type with the one that it was compiled for, and have more members of it.
    const schema = walk?.info.schema ?? compilation.schema;
    const member = typeof name === "string" ? schema.getType(name) : undefined;
    return isObjectType(member) && schema.isSubType(type, member)
      ? compile(member, compilation).mistakeIn(value, place, nodes, walk)
      : `an object whose type cannot be resolved to one of \`${type.name}\` at ${place}`;
  };
  return { mistakeIn: check, isForHits: !hasFunctions };
}

/** The type of an object that only functions of the schema know, which are not called now or answer later. */
const UNKNOWN = Symbol("unknown");

/** Returns the name of the object type of `value`, as it is resolved. Resolvers of types are called only after a load. */
function typeNameOf(value: PlainObject, type: GraphQLAbstractType, { info, context, resolved }: Walk): unknown {
  const possible = info.schema.getPossibleTypes(type);
  let name: unknown = value.__typename;
  if (type.resolveType == null && (typeof name === "string" || possible.every(({ isTypeOf }) => isTypeOf == null)))
    return name;
  if (resolved === undefined) return UNKNOWN;
  try {
    name = resolvedName(value, type, context, info as GraphQLResolveInfo);
  } catch {
    return undefined;
  }
  if (isThenable(name)) {
    name.then(undefined, () => undefined);
    return UNKNOWN;
  }
  resolved.push(String(name));
  return name;
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
  const byType = getOrMake(walk.selected, nodes, () => new Map());
  return getOrMake(byType, type, () => collectFields(type, nodes, walk));
}

function collectFields(
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  walk: Walk,
): ReadonlyMap<string, readonly FieldNode[]> {
  const { schema, fragments, variableValues } = walk.info;
  const fields = new Map<string, FieldNode[]>();
  const visited = new Set<string>();
  const collect = (selections: readonly SelectionNode[]): void => {
    for (const selection of selections) {
      if (getDirectiveValues(GraphQLSkipDirective, selection, variableValues)?.if === true) continue;
      if (getDirectiveValues(GraphQLIncludeDirective, selection, variableValues)?.if === false) continue;
      if (selection.kind === "Field") {
        getOrMake(fields, selection.name.value, () => []).push(selection);
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
  return fields;
}
