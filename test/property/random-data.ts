import {
  GraphQLError,
  type GraphQLResolveInfo,
  GraphQLScalarType,
  Kind,
  print,
  type SelectionSetNode,
  valueFromASTUntyped,
} from "graphql";
import { variablesOf } from "../support/graphql-17.js";
import { canonicalText } from "./canonical-text.js";
import { type Draw, drawOfSeed } from "./draw.js";
import type { RandomField, RandomSchema } from "./random-schema.js";

/** A class instance whose name is a getter, so that a copy of its fields is not equivalent. */
export class Thing {
  readonly __typename: string;
  readonly id: string;

  constructor(typename: string, id: string) {
    this.__typename = typename;
    this.id = id;
  }

  get name(): string {
    return `${this.__typename} ${this.id}`;
  }
}

/** The value type that lets a cache store instances of `Thing`. */
export const THING_TYPE = {
  Thing: {
    is: (value: object) => value instanceof Thing,
    encode: ({ __typename, id, ...rest }: Thing) => ({ __typename, id, rest }),
    decode: ({ __typename, id, rest }: { __typename: string; id: string; rest: object }) =>
      Object.assign(new Thing(__typename, id), rest),
  },
};

const IDS = ["0", "1", "2", "3"];

/**
 * Resolvers whose result is a function of coordinate, parent id and arguments: values, null, empty
 * lists, promises, and errors of every kind. Some look ahead: their result also depends on a part of
 * the query.
 */
export function randomResolvers(schema: RandomSchema): Record<string, unknown> {
  const resolvers: Record<string, unknown> = {
    Date: new GraphQLScalarType({
      name: "Date",
      serialize: (value) => (value as Date).toISOString(),
      parseValue: (value) => new Date(String(value)),
    }),
    Big: new GraphQLScalarType({
      name: "Big",
      serialize: (value) => (value as bigint).toString(36),
      parseValue: (value) => BigInt(value as string),
      parseLiteral: (node) => (node.kind === Kind.STRING ? BigInt(node.value) : undefined),
    }),
    Color: { RED: 0, GREEN: "", BLUE: 7 },
    Node: { __resolveType: ({ __typename }: Thing) => __typename },
    Either: { __resolveType: ({ __typename }: Thing) => __typename },
  };
  for (const [type, fields] of Object.entries(schema.objects)) {
    const own: Record<string, unknown> = {};
    for (const field of fields.filter(({ hasResolver }) => hasResolver))
      own[field.name] = (source: Thing | undefined, args: unknown, _: unknown, info: GraphQLResolveInfo) => {
        const draw = drawOfSeed(`${schema.salt} ${type}.${field.name} ${source?.id ?? ""} ${canonicalText(args)}`);
        const look = drawOfSeed(`${schema.salt} look ${type}.${field.name}`).pick(LOOKS);
        return look === undefined ? resultOf(field, schema, draw) : seenBy(look, info, resultOf(field, schema, draw));
      };
    resolvers[type] = own;
  }
  return resolvers;
}

/** Changes an object according to a part of the query. */
type Look = (info: GraphQLResolveInfo, object: Readonly<Record<string, unknown>>) => object;

/** Returns the names that are selected, with arguments, in the way of the libraries that look ahead. */
function selectedNames(info: GraphQLResolveInfo, sets: readonly (SelectionSetNode | undefined)[]): string[] {
  return sets.flatMap((set) =>
    (set?.selections ?? []).flatMap((selection): string[] => {
      const isExcluded = selection.directives?.some(({ name, arguments: [arg] = [] }) => {
        const condition = arg === undefined ? undefined : valueFromASTUntyped(arg.value, variablesOf(info));
        return condition === (name.value === "skip");
      });
      if (isExcluded === true) return [];
      if (selection.kind === Kind.FIELD) return [selection.name.value];
      const fragment = selection.kind === Kind.INLINE_FRAGMENT ? selection : info.fragments[selection.name.value];
      return selectedNames(info, [fragment?.selectionSet]);
    }),
  );
}

const bySelection: Look = (info, object) => {
  const sets = info.fieldNodes.map(({ selectionSet }) => selectionSet);
  const names = ["id", "__typename", ...selectedNames({ ...info }, sets)];
  return Object.fromEntries(Object.entries(object).filter(([name]) => names.includes(name)));
};

/** What resolvers derive from the query; most derive nothing. */
const LOOKS: readonly (Look | undefined)[] = [
  bySelection,
  bySelection,
  (info, object) => ({ ...object, name: `${Object.keys(variablesOf(info)).length} variables` }),
  (info, object) => ({ ...object, name: String(variablesOf(info).v0) }),
  ({ fragments }, object) => ({ ...object, name: `${Object.keys(fragments).length} fragments` }),
  ({ operation }, object) => ({ ...object, name: print(operation.selectionSet) }),
  ({ operation }, object) => ({ ...object, name: operation.name?.value ?? "anonymous" }),
  ...Array.from({ length: 9 }, () => undefined),
];

/** Applies `look` to the objects of a result, before or after an await. */
function seenBy(look: Look, info: GraphQLResolveInfo, result: unknown): unknown {
  if (result instanceof Promise) return result.then((value) => seenBy(look, info, value));
  if (Array.isArray(result)) return result.map((member) => seenBy(look, info, member));
  if (result instanceof Set) return new Set(Array.from(result, (member) => seenBy(look, info, member)));
  const isPlain = typeof result === "object" && result !== null && Object.getPrototypeOf(result) === Object.prototype;
  return isPlain ? look(info, result as Readonly<Record<string, unknown>>) : result;
}

function resultOf(field: RandomField, schema: RandomSchema, draw: Draw): unknown {
  const value = (): unknown => {
    if (draw.chance(8)) throw errorOf(draw, field.name);
    if (draw.chance(3)) return errorOf(draw, field.name);
    return fieldValue(field, schema, draw, 0);
  };
  if (draw.chance(50)) return value();
  return new Promise((resolve) => setImmediate(resolve)).then(value);
}

function errorOf(draw: Draw, name: string): Error {
  const extensions = { code: "NO", at: [draw.int(9), null], deep: { when: "today" } };
  return draw.pick([
    () => new Error(`no ${name}`),
    () => new GraphQLError(`refused ${name}`, { extensions }),
    () => Object.assign(new TypeError(`typed ${name}`), { extensions: { code: "TYPED" } }),
  ])();
}

function fieldValue(field: RandomField, schema: RandomSchema, draw: Draw, depth: number): unknown {
  const list = field.lists[depth];
  const isNullable = list?.isNullable ?? field.isNullable;
  // Occasionally null in a non-null position.
  if (draw.chance(isNullable ? 15 : 2)) return draw.pick([null, undefined]);
  if (list === undefined) return innermostValue(field.typeName, schema, draw);
  const members = Array.from({ length: draw.int(3) }, () => fieldValue(field, schema, draw, depth + 1));
  if (draw.chance(10)) return new Set(members);
  if (draw.chance(5)) return members.map((member) => Promise.resolve(member));
  return draw.chance(4) ? [...members, errorOf(draw, field.name)] : members;
}

function innermostValue(typeName: string, schema: RandomSchema, draw: Draw): unknown {
  switch (typeName) {
    case "Int":
      return draw.pick([0, -1, draw.int(1000)]);
    case "Float":
      return draw.pick([0, -0, 0.5, 1e300]);
    case "Boolean":
      return draw.chance(50);
    case "String":
      return draw.pick(["", "é\ud83d\ude00", `text ${draw.int(99)}`]);
    case "ID":
      return draw.pick([draw.int(99), "x"]);
    case "Color":
      return draw.pick([0, "", 7, "PURPLE"]);
    case "Date":
      return draw.chance(5) ? new Date(Number.NaN) : new Date(draw.int(60_000) * 1e6);
    case "Big":
      return 2n ** BigInt(draw.int(99));
    default:
      return objectOf(draw.pick(schema.members[typeName] ?? [typeName]), draw.pick(IDS), schema);
  }
}

/**
 * Returns an object determined by its type and id, with the properties that its fields without a
 * resolver read. Some properties are functions, as GraphQL allows in parent objects.
 */
function objectOf(typename: string, id: string, schema: RandomSchema): object {
  const draw = drawOfSeed(`${schema.salt} ${typename} ${id}`);
  const object = draw.chance(30)
    ? new Thing(typename, id)
    : { __typename: typename, id, ...(draw.chance(80) ? { name: `N${id}` } : {}) };
  for (const field of schema.objects[typename] ?? []) {
    if (field.hasResolver) continue;
    const property = fieldValue(field, schema, draw, 0);
    Object.assign(object, { [field.name]: draw.chance(1) ? () => property : property });
  }
  return object;
}
