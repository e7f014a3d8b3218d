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
import { attempt, isPlainObject } from "../../base/built-in.js";
import type { KnownResolvers } from "../../base/known-resolvers.js";
import { getOrMake } from "../../base/multimap.js";
import type { KnownKey } from "../../tier/request/known-key.js";
import type { LoadedMistake, ReadRequest, Validator } from "../../tier/request/request.js";

/**
 * Finds what GraphQL would refuse in the value of a cached field: null for a non-null type, an
 * unknown enum value, what a scalar cannot represent, what is no list for a list, and no object for
 * an object; an object whose type cannot be resolved. Such a value is not stored, and a stored one
 * is loaded again; otherwise every hit would fail until it expires.
 *
 * The check of a type is compiled once. For hits, it looks at all fields, whatever is selected, and
 * calls no function of the schema. After a load, and where that is suspicious, it follows the
 * selection. It stops at fields with a resolver of their own, which may return anything, and at
 * objects with a class. A property that is missing is no mistake, since a server may have a
 * `fieldResolver` that reads another property.
 *
 * After a load, it also resolves the types of objects, in the value and in what readers of the
 * store will get: a function that recognises the source's own objects does not know copies. An
 * unusual schema, executor or value must not fail a read.
 */
export class ResultValidator implements Validator {
  /** Schemas that are derived from one, such as one per role, have types of their own. */
  readonly #checks = new WeakMap<GraphQLOutputType, Check | undefined>();

  constructor(private readonly resolvers: Pick<KnownResolvers, "has">) {}

  /** False: `mistakeIn` decides. Checked once: nobody can modify a value in memory. */
  isKeptPlausible(known: KnownKey, type: GraphQLOutputType, { schema }: Pick<Info, "schema">): boolean {
    const { kept, value } = known;
    const check = this.#checkOf(type, schema);
    if (kept === undefined || kept.passed === check) return true;
    if (!isPlausible(check, value)) return false;
    kept.passed = check;
    return true;
  }

  #checkOf(type: GraphQLOutputType, schema: GraphQLSchema): Check | undefined {
    if (this.#checks.has(type)) return this.#checks.get(type);
    const check = attempt(() => compile(type, { schema, resolvers: this.resolvers, compiled: new WeakMap() }));
    // An executor of its own may pass no type at all.
    attempt(() => this.#checks.set(type, check));
    return check;
  }

  mistakeIn(value: unknown, { call, context }: Call): string | undefined {
    const info = call as Info;
    if (isPlausible(this.#checkOf(info.returnType, info.schema), value)) return undefined;
    return attempt(() => this.#mistakeIn(value, { info, context, resolved: undefined }));
  }

  mistakeInLoaded(value: unknown, restore: () => unknown, { call, context }: Call): LoadedMistake | undefined {
    return attempt(() => {
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
    return this.#checkOf(returnType, schema)?.(value, `\`${node.name.value}\``, fieldNodes, selected);
  }
}

/** Whether a value has no mistake, whatever is selected of it. A getter that throws is none. */
const isPlausible = (check: Check | undefined, value: unknown): boolean =>
  attempt(() => check?.(value, "")) === undefined;

type Info = Pick<GraphQLResolveInfo, "schema" | "returnType" | "fieldNodes" | "fragments" | "variableValues">;
type Call = Pick<ReadRequest, "call" | "context">;
type PlainObject = Readonly<Record<string, unknown>>;

/** Returns what GraphQL would refuse in a value. Without a walk, for any selection. */
type Check = (value: unknown, place: string, nodes?: readonly FieldNode[], walk?: Walk) => string | undefined;

function changedType(before: readonly string[], after: readonly string[]): string | undefined {
  const index = before.findIndex((name, at) => name !== after[at]);
  return index < 0 ? undefined : `a \`${before[index]}\` that becomes a \`${after[index]}\``;
}

interface Compilation {
  readonly schema: GraphQLSchema;
  readonly resolvers: Pick<KnownResolvers, "has">;
  /** Weak, since schemas that share an abstract type can bring members of their own. */
  readonly compiled: WeakMap<GraphQLOutputType, Check>;
}

interface Walk {
  readonly info: Info;
  readonly context: unknown;
  /** What the schema has resolved types to. Undefined for a stored value: nothing is called. */
  readonly resolved: string[] | undefined;
  readonly selected: Map<readonly FieldNode[], Map<GraphQLObjectType, SelectedFields>>;
}

const anything: Check = () => undefined;

function compile(type: GraphQLOutputType, compilation: Compilation): Check {
  if (isNonNullType(type)) {
    const check = compile(type.ofType, compilation);
    return (value, place, nodes, walk) =>
      value === null || value === undefined ? nullFor(place) : check(value, place, nodes, walk);
  }
  if (isListType(type)) {
    const check = compile(type.ofType, compilation);
    return (value, place, nodes, walk) => {
      if (!Array.isArray(value)) return isAnyList(value) ? undefined : `no list for the list ${place}`;
      if (check === anything) return undefined;
      for (const item of value) {
        const mistake = check(item, place, nodes, walk);
        if (mistake !== undefined) return mistake;
      }
      return undefined;
    };
  }
  if (isScalarType(type)) return compileScalar(type);
  if (isEnumType(type)) {
    const known = new Set<unknown>([null, undefined, ...type.getValues().map(({ value }) => value)]);
    return (value, place, _nodes, walk) => {
      if (!known.has(value)) return `an unknown value of the enum \`${type.name}\` at ${place}`;
      // GraphQL recognises the object itself, which a copy is not.
      if (typeof value === "object" && value !== null) walk?.resolved?.push(type.name);
      return undefined;
    };
  }
  if (!isObjectType(type) && !isAbstractType(type)) return anything;
  const { compiled } = compilation;
  const known = compiled.get(type);
  if (known !== undefined) return known;
  // A type that contains itself calls this until its own check is compiled.
  compiled.set(type, (value, place, nodes, walk) => compiled.get(type)?.(value, place, nodes, walk));
  const check = isObjectType(type) ? compileObject(type, compilation) : compileAbstract(type, compilation);
  compiled.set(type, check);
  return check;
}

const nullFor = (place: string): string => `null for the non-null field ${place}`;

/** Whether fields without a resolver cannot read a property of it, as of a number or a list. */
const isNoObject = (value: unknown): boolean =>
  value !== null &&
  value !== undefined &&
  (Array.isArray(value) || (typeof value !== "object" && typeof value !== "function"));

/** Whether GraphQL may take what is no array for a list: null, an iterable, or a promise. */
const isAnyList = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  typeof value === "function" ||
  (typeof value === "object" && (Symbol.iterator in value || Symbol.asyncIterator in value || isThenable(value)));

/** A scalar of the schema may represent anything. GraphQL's own serialize only the unexpected. */
function compileScalar(type: GraphQLScalarType): Check {
  const isExpected = isSpecifiedScalarType(type) ? EXPECTED[type.name] : undefined;
  if (isExpected === undefined) return anything;
  return (value, place) => {
    if (value === null || value === undefined || isExpected(value)) return undefined;
    if (typeof value === "function" || isThenable(value)) return undefined;
    try {
      type.serialize(value);
      return undefined;
    } catch {
      return `what \`${type.name}\` cannot represent at ${place}`;
    }
  };
}

const isString = (value: unknown): boolean => typeof value === "string";
const EXPECTED: Readonly<Record<string, (value: unknown) => boolean>> = {
  Int: (value) => typeof value === "number" && (value | 0) === value,
  Float: Number.isFinite,
  String: isString,
  ID: isString,
  Boolean: (value) => typeof value === "boolean",
};

function compileObject(type: GraphQLObjectType, compilation: Compilation): Check {
  const fields = Object.values(type.getFields())
    .filter((field) => !compilation.resolvers.has(field))
    .map(({ name, type: returned }) => ({
      name,
      place: `\`${type.name}.${name}\``,
      isNonNull: isNonNullType(returned),
      mistakeIn: compile(returned, compilation),
    }));
  const byName = new Map(fields.map((field) => [field.name, field]));
  const required = fields.find(({ isNonNull }) => isNonNull);
  return (value, _place, nodes, walk) => {
    const isObject = isPlainObject(value);
    if (!isObject && (required === undefined || !isNoObject(value))) return undefined;
    if (!isObject && walk === undefined) return nullFor(required?.place as string);
    const selected = nodes && walk && selectedFields(type, nodes, walk);
    for (const name of selected?.keys() ?? byName.keys()) {
      const field = byName.get(name);
      const member = (Object(value) as PlainObject)[name];
      if (field === undefined) continue;
      if (member === undefined && !isObject && field.isNonNull) return nullFor(field.place);
      if (member === undefined || !isObject) continue;
      const mistake = field.mistakeIn(member, field.place, selected?.get(name), walk);
      if (mistake !== undefined) return mistake;
    }
    return undefined;
  };
}

function compileAbstract(type: GraphQLAbstractType, compilation: Compilation): Check {
  const possible = compilation.schema.getPossibleTypes(type);
  const hasFunctions = type.resolveType != null || possible.some(({ isTypeOf }) => isTypeOf != null);
  return (value, place, nodes, walk) => {
    if (walk === undefined && hasFunctions) return undefined;
    const isObject = isPlainObject(value);
    if (!isObject && (hasFunctions || !isNoObject(value))) return undefined;
    const name = isObject ? (walk === undefined ? value.__typename : typeNameOf(value, type, walk)) : undefined;
    if (name === UNKNOWN) return undefined;
    // A schema can share the compiled type, and have more members of it.
    const schema = walk?.info.schema ?? compilation.schema;
    const member = typeof name === "string" ? schema.getType(name) : undefined;
    return isObjectType(member) && schema.isSubType(type, member)
      ? compile(member, compilation)(value, place, nodes, walk)
      : `an object whose type cannot be resolved to one of \`${type.name}\` at ${place}`;
  };
}

/** Only functions of the schema know the type, which are not called now or answer later. */
const UNKNOWN = Symbol("unknown");

/** Resolvers of types are called only after a load. */
function typeNameOf(value: PlainObject, type: GraphQLAbstractType, walk: Walk): unknown {
  const { info, resolved } = walk;
  const possible = info.schema.getPossibleTypes(type);
  let name: unknown = value.__typename;
  if (type.resolveType == null && (typeof name === "string" || possible.every(({ isTypeOf }) => isTypeOf == null)))
    return name;
  if (resolved === undefined) return UNKNOWN;
  try {
    name = resolvedName(value, type, walk);
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

function resolvedName(value: PlainObject, type: GraphQLAbstractType, { info: given, context }: Walk): unknown {
  const info = given as GraphQLResolveInfo;
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

type SelectedFields = ReadonlyMap<string, readonly FieldNode[]>;

function selectedFields(type: GraphQLObjectType, nodes: readonly FieldNode[], walk: Walk): SelectedFields {
  const byType = getOrMake(walk.selected, nodes, () => new Map());
  return getOrMake(byType, type, () => collectFields(type, nodes, walk));
}

function collectFields(type: GraphQLObjectType, nodes: readonly FieldNode[], walk: Walk): SelectedFields {
  const { schema, fragments, variableValues } = walk.info;
  // A reference has the type of the schema before `applyCached`.
  const served = (schema.getType(type.name) ?? type) as GraphQLObjectType;
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
        condition === served ||
        (isAbstractType(condition) && schema.isSubType(condition, served))
      )
        collect(fragment.selectionSet.selections);
    }
  };
  for (const { selectionSet } of nodes) collect(selectionSet?.selections ?? []);
  return fields;
}
